//! Memory and clock of the machine.

use refrain_ring::CHUNK_BYTES;
use std::fs;
use std::time::SystemTime;

/// Default log memory of a rank, if the machine has enough memory.
const LOG_BYTES_DEFAULT: u64 = 512 << 20;
/// Default log memory of a rank, at least: memory is taken by chunks as they are used, and of many ranks
/// each sends to few others.
const LOG_BYTES_DEFAULT_MIN: u64 = 16 * CHUNK_BYTES as u64;
/// Minimum log memory of a rank: two chunks per channel.
pub const LOG_BYTES_MIN: u64 = 4 * CHUNK_BYTES as u64;

/// Default log memory of one rank: a share of the memory that is available now.
pub fn default_log_bytes(ranks_on_host: u32) -> u64 {
    let ranks = u64::from(ranks_on_host.max(1));
    let share = available_memory_bytes().map_or(LOG_BYTES_DEFAULT, |bytes| bytes / 2 / ranks);
    LOG_BYTES_DEFAULT.min(share).max(LOG_BYTES_DEFAULT_MIN)
}

/// The time of this host, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// Memory that can be used without displacing other processes: the lesser of what the kernel
/// reports as available and what is left in this process's memory group. `None` if neither can be
/// read.
pub fn available_memory_bytes() -> Option<u64> {
    let kernel = fs::read_to_string("/proc/meminfo")
        .ok()
        .as_deref()
        .and_then(mem_available_bytes);
    let group = group_left_bytes();
    kernel.into_iter().chain(group).min()
}

fn mem_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes left in a control group of version 2; the file has "max" if there is no limit.
fn group_left_bytes() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |file: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{path}/{file}"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text =
            "MemTotal:       24563136 kB\nMemFree:        1 kB\nMemAvailable:   20971520 kB\n";
        assert_eq!(mem_available_bytes(text), Some(20_971_520 * 1024));
        assert_eq!(mem_available_bytes("MemTotal: 5 kB\n"), None);
        assert_eq!(mem_available_bytes("MemAvailable: many kB\n"), None);
    }
}
