//! What the sweep wants to know of the machine it runs on.

use std::fs;

/// Memory that could be taken without swapping, in bytes. `None` where the
/// kernel does not say.
pub fn available_memory_bytes() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// One line for titles: processor, cores, host.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| processor_name(&text))
        .unwrap_or_else(|| std::env::consts::ARCH.into());
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{processor}, {cores} cores, {host}")
}

fn processor_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1;
    Some(name.replace("(R)", "").replace("(TM)", "").trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24683520 kB\nMemFree: 1 kB\nMemAvailable:   24355840 kB\n";
        assert_eq!(parse_available(text), Some(24_355_840 * 1024));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
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
