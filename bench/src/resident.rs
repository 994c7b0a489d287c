//! The memory that this process has.

use std::fs;

/// Resident memory of this process; `None` where the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status_bytes(&status, "VmRSS:")
}

/// A row of `/proc/PROCESS/status`, in bytes.
pub(crate) fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let status = "VmHWM:\t    900 kB\nVmRSS:\t    812 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(812 * 1024));
        assert_eq!(status_bytes("VmRSS: 1\n", "VmRSS:"), None);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
