//! The limit of memory that a process may lock; registered memory is locked.

use rustix::process::{Resource, getrlimit};
use std::fs;

/// The number of the capability `CAP_IPC_LOCK`.
const CAP_IPC_LOCK: u32 = 14;

/// The limit of memory that this process may lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLock {
    /// No limit is set, or the process has `CAP_IPC_LOCK`.
    Unlimited,
    /// Limit in bytes for all registrations of a process together (`ulimit -l`).
    Bytes(u64),
}

impl MemoryLock {
    /// The present limit of this process.
    pub fn of_process() -> Self {
        let limit = getrlimit(Resource::Memlock).current;
        let is_privileged = is_privileged(
            &fs::read_to_string("/proc/self/status").unwrap_or_default(),
            &fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
        );
        match limit {
            Some(bytes) if !is_privileged => Self::Bytes(bytes),
            _ => Self::Unlimited,
        }
    }

    /// Whether `bytes` bytes can be locked, if no other memory is locked.
    pub fn allows(self, bytes: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Bytes(limit) => bytes <= limit,
        }
    }
}

/// Whether the kernel ignores the limit: the process has the capability for the whole system, not
/// only for a user namespace.
fn is_privileged(status: &str, uid_map: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let of_system = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    of_system && effective & (1 << CAP_IPC_LOCK) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_does_not_count_for_the_privileged() {
        let with = "Name:\tx\nCapEff:\t000001ffffffffff\n";
        let without = "Name:\tx\nCapEff:\t000001ffffffbfff\n";
        let system = "         0          0 4294967295\n";
        let namespace = "         0       1000          1\n";
        assert!(is_privileged(with, system));
        assert!(!is_privileged(without, system));
        assert!(!is_privileged(with, namespace));
        assert!(!is_privileged("", ""));
    }

    #[test]
    fn a_limit_allows_what_is_not_above_it() {
        assert!(MemoryLock::Bytes(8).allows(8) && !MemoryLock::Bytes(8).allows(9));
        assert!(MemoryLock::Unlimited.allows(u64::MAX));
    }
}
