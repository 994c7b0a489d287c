//! `refrain info`.

use crate::fabrics;
use crate::ports::Ports;
use crate::providers;
use crate::verbs::{self, Environment};
use clap::Args;
use miette::IntoDiagnostic;
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, Choice, Provider, provider};
use refrain_job::config::VerbsConfig;
use refrain_job::machine::default_log_bytes;
use refrain_verbs::{Device, MemoryLock};
use rustix::system::uname;
use std::fmt::Write as _;
use std::fs;
use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// First kernel version with MADV_COLLAPSE, which makes huge pages of shared memory without a
/// system setting.
const COLLAPSE_SINCE: (u32, u32) = (6, 1);

/// Arguments of `refrain info`.
#[derive(Args)]
pub struct Arguments {
    /// List libfabric's providers, with their guarantees.
    #[arg(long)]
    providers: bool,
    /// List RDMA devices: ports, addresses, limits, the chosen port, and obstacles.
    #[arg(long, conflicts_with = "providers")]
    verbs: bool,
    /// Print the rules that choose algorithms of collectives.
    #[arg(long, conflicts_with_all = ["providers", "verbs"])]
    collectives: bool,
    /// File of libfabric [default: $REFRAIN_LIBFABRIC or libfabric.so.1].
    #[arg(long, value_name = "FILE")]
    libfabric: Option<PathBuf>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1].
    #[arg(long, value_name = "FILE")]
    libibverbs: Option<PathBuf>,
}

/// Prints fabrics, limits and settings of this machine.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    if arguments.collectives {
        let table = refrain_collectives::choice::Table::default().to_string();
        stdout().write_all(table.as_bytes()).into_diagnostic()?;
        return Ok(ExitCode::SUCCESS);
    }
    let ports = ports(arguments.libibverbs.clone());
    let text = if arguments.verbs {
        verbs_text(&ports)
    } else {
        fabrics_text(arguments, &ports)
    };
    stdout().write_all(text.as_bytes()).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// The RDMA devices by the library of the option, or of the environment.
pub fn ports(libibverbs: Option<PathBuf>) -> Result<Ports, String> {
    Ports::find(LIBIBVERBS.or_of_environment(libibverbs).as_deref())
}

fn verbs_text(found: &Result<Ports, String>) -> String {
    let inline_bytes = |device: &str| match found {
        Ok(ports) => ports.inline_bytes(device),
        Err(why) => Err(why.clone()),
    };
    let around = Environment {
        file: providers::loaded_file("libibverbs"),
        memory_lock: MemoryLock::of_process(),
        log_bytes: default_log_bytes(1),
        inline_bytes: &inline_bytes,
    };
    let devices = found.as_ref().map(|ports| &*ports.devices);
    verbs::text(devices.map_err(String::as_str), &around)
}

fn fabrics_text(arguments: &Arguments, ports: &Result<Ports, String>) -> String {
    let file = LIBFABRIC.or_of_environment(arguments.libfabric.clone());
    let found = provider::installed(file.as_deref()).map_err(|error| error.to_string());
    let found = found.as_deref().map_err(String::as_str);
    if arguments.providers {
        let version = provider::library_version(file.as_deref());
        return providers::text(found, &version.unwrap_or_default());
    }
    let devices = ports.as_ref().map(|ports| &*ports.devices);
    text(found, devices.map_err(String::as_str))
}

/// Describes the port that would be used, or why there is none.
pub fn port(devices: Result<&[Device], &str>) -> Result<String, String> {
    let wanted = choice::verbs::port(&VerbsConfig::default());
    refrain_verbs::choose(devices?, &wanted)
        .map(|chosen| chosen.to_string())
        .map_err(|error| error.words().to_owned())
}

fn text(found: Result<&[Provider], &str>, devices: Result<&[Device], &str>) -> String {
    let port = port(devices);
    let port = port.as_deref().map_err(String::as_str);
    let mut text = String::new();
    let kernel = uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<18}{value}");
    };
    line("refrain", env!("CARGO_PKG_VERSION").into());
    line(
        "kernel",
        format!(
            "{} {release} {}",
            kernel.sysname().to_string_lossy(),
            kernel.machine().to_string_lossy()
        ),
    );
    line("cores", cores());
    line(
        "memory",
        memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
    );
    line(
        "memory lock",
        verbs::memory_lock_words(MemoryLock::of_process(), default_log_bytes(1)),
    );
    line("huge pages", huge_pages(&release));
    let layout = refrain_launch::can_fix_layout();
    let random = refrain_launch::can_set_random_bytes();
    line("same addresses", same_addresses(&layout, &random));
    line(
        "--record-clocks",
        match refrain_launch::clocks::library() {
            Ok(library) => format!("by {}", library.display()),
            Err(why) => format!("only World::time and refrain_wtime: {why}"),
        },
    );
    let (auto, why) = fabrics::auto_fabric(port, found);
    line("--fabric auto", format!("{auto}: {why}"));
    let _ = writeln!(text, "\nfabrics");
    for found in fabrics::fabrics(port, found) {
        let state = if found.usable {
            "available"
        } else {
            "not available"
        };
        let _ = writeln!(text, "  {:<10}{state:<15}{}", found.name, found.reason);
    }
    text.push_str(&verbs::summary(devices.unwrap_or_default()));
    for (title, choices) in [
        ("--fabric takes", choice::FABRICS),
        ("--protocol takes", choice::PROTOCOLS),
    ] {
        let _ = writeln!(text, "\n{title}");
        for Choice { name, summary } in choices {
            let _ = writeln!(text, "  {name:<19}{summary}");
        }
    }
    text
}

fn cores() -> String {
    match std::thread::available_parallelism() {
        Ok(cores) => format!("{cores}; ranks are pinned when there is one for each"),
        Err(error) => format!("unknown ({error})"),
    }
}

/// Whether each incarnation of a rank can have the same addresses; and the same stack guards.
pub fn same_addresses(layout: &Result<(), String>, random: &Result<(), String>) -> String {
    match (layout, random) {
        (Ok(()), Ok(())) => "yes, in each incarnation of a rank".into(),
        (Ok(()), Err(why)) => format!("yes, but stack guards differ: {why}"),
        (Err(why), Ok(())) => format!("no: {why}"),
        (Err(why), Err(also)) => format!("no: {why}; {also}"),
    }
}

/// Total and available memory, from the text of `/proc/meminfo`.
fn memory(meminfo: &str) -> String {
    let mebibytes = |name: &str| -> Option<u64> {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
    };
    match (mebibytes("MemTotal"), mebibytes("MemAvailable")) {
        (Some(total), Some(available)) => format!("{total} MiB, {available} MiB of it available"),
        _ => "unknown".into(),
    }
}

fn huge_pages(release: &str) -> String {
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"))
            .unwrap_or_default();
        chosen(&text).unwrap_or("unknown").to_owned()
    };
    let collapse = match version(release) {
        Some(version) if version >= COLLAPSE_SINCE => {
            "MADV_COLLAPSE likely works (kernel 6.1 or later)"
        }
        Some(_) => "no MADV_COLLAPSE (needs kernel 6.1)",
        None => "MADV_COLLAPSE unknown",
    };
    format!(
        "shared memory {}, private memory {}; {collapse}",
        setting("shmem_enabled"),
        setting("enabled")
    )
}

/// The chosen word of a setting: the one in brackets, as in `always [madvise] never`.
fn chosen(setting: &str) -> Option<&str> {
    setting
        .split_once('[')?
        .1
        .split_once(']')
        .map(|(word, _)| word)
}

/// Major and minor number of a kernel release such as `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_read() {
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version("5.15.0"), Some((5, 15)));
        assert_eq!(version("6.18-rc1"), Some((6, 18)));
        assert_eq!(version("strange"), None);
    }

    #[test]
    fn settings_and_memory_are_read() {
        assert_eq!(
            chosen("always within_size [advise] never\n"),
            Some("advise")
        );
        assert_eq!(chosen(""), None);
        let meminfo = "MemTotal:        8000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(memory(meminfo), "7812 MiB, 3906 MiB of it available");
        assert_eq!(memory("MemTotal: x kB"), "unknown");
    }
}
