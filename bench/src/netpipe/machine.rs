//! What titles say of the machine.

use std::fs;

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
    fn the_processor_has_a_readable_name() {
        let text = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n";
        assert_eq!(
            processor_name(text).as_deref(),
            Some("Intel Xeon Processor")
        );
    }
}
