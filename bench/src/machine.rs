//! The machine that runs the measurement, and its processes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Whether a pipe becomes readable or ends, or the process of a pidfd ends, within `time`.
pub fn readable(descriptor: impl AsFd, time: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(time).unwrap_or_default();
    match poll(
        &mut [PollFd::new(&descriptor, PollFlags::IN)],
        Some(&timeout),
    ) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One line for titles: processor, cores, host.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| processor_name(&text))
        .unwrap_or_else(|| std::env::consts::ARCH.into());
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{processor}, {cores} cores, {host}")
}

fn processor_name(cpuinfo: &str) -> Option<String> {
    let mut lines = cpuinfo.lines();
    let line = lines.find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1;
    Some(name.replace("(R)", "").replace("(TM)", "").trim().into())
}

/// Resident memory of a process, given by its id or `self`; `None` if the process is gone.
pub fn resident_bytes(process: impl std::fmt::Display) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status_bytes(&status, "VmRSS:")
}

/// A row of `/proc/PROCESS/status`, in bytes.
fn status_bytes(status: &str, name: &str) -> Option<u64> {
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
        assert!(resident_bytes("self").is_some_and(|bytes| bytes > 100_000));
    }

    #[test]
    fn the_processor_has_a_readable_name() {
        let text = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n";
        assert_eq!(
            processor_name(text).as_deref(),
            Some("Intel Xeon Processor")
        );
    }
}
