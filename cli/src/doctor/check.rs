//! What is well, and what to do otherwise; pure functions of what was found.

use crate::info;
use refrain_job::choice::{Provider, provider};
use refrain_launch::ranks_of_open_files;
use refrain_launch::size::{Size, count};
use refrain_verbs::MemoryLock;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Log memory of a rank below which logs go to the disk early.
const LOG_BYTES_SMALL: u64 = 64 << 20;
/// Free bytes of a folder below which it fills soon.
const DISK_BYTES_SMALL: u64 = 1 << 30;
/// Clocks that a process reads without a system call.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
];

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do.
    Well,
    /// Jobs run, but slower, or not all of them.
    Note,
    /// Jobs cannot run.
    Bad,
}

/// A line of the report.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    subject: &'static str,
    pub verdict: Verdict,
    found: String,
    /// What to do.
    advice: Option<String>,
}

fn well(subject: &'static str, found: impl Into<String>) -> Check {
    Check {
        subject,
        verdict: Verdict::Well,
        found: found.into(),
        advice: None,
    }
}

fn note(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check {
        verdict: Verdict::Note,
        advice: Some(advice.into()),
        ..well(subject, found)
    }
}

fn bad(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check {
        verdict: Verdict::Bad,
        ..note(subject, found, advice)
    }
}

/// The report, and what follows from it.
pub fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let verdict = match check.verdict {
            Verdict::Well => "ok",
            Verdict::Note => "note",
            Verdict::Bad => "BAD",
        };
        let _ = writeln!(text, "{verdict:<5}{:<15}{}", check.subject, check.found);
        if let Some(advice) = &check.advice {
            let _ = writeln!(text, "{:20}to do: {advice}", "");
        }
    }
    let of = |verdict| {
        checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count() as u64
    };
    let _ = match (of(Verdict::Bad), of(Verdict::Note)) {
        (0, 0) => writeln!(text, "\njobs can run here"),
        (0, notes) => writeln!(text, "\njobs can run here; {}", count(notes, "note")),
        (obstacles, _) => writeln!(
            text,
            "\njobs cannot run here: {}",
            count(obstacles, "obstacle")
        ),
    };
    text
}

/// A job of two ranks that was run.
pub fn job(took: Result<Duration, String>) -> Check {
    match took {
        Ok(took) => well(
            "a job",
            format!("2 ranks started and ended in {} ms", took.as_millis()),
        ),
        Err(why) => bad(
            "a job",
            format!("refrain run -n 2 -- true fails: {why}"),
            "see the other lines",
        ),
    }
}

/// Cores that this process may use.
pub fn cores(cores: u32) -> Check {
    match cores {
        1 => note(
            "cores",
            "1: ranks take turns",
            "use a machine, a container or a job of the batch system with a core for each rank",
        ),
        cores => well(
            "cores",
            format!("{cores}; ranks are pinned when there is one for each"),
        ),
    }
}

/// Log memory of each rank, if there is a rank for each core.
pub fn memory(log_bytes: u64, ranks: u32) -> Check {
    let found = format!(
        "log memory of {} for each of {ranks} ranks",
        Size(log_bytes)
    );
    match log_bytes < LOG_BYTES_SMALL {
        true => note(
            "memory",
            found,
            "free memory, raise the limit of the control group, or start fewer ranks on a host",
        ),
        false => well("memory", found),
    }
}

/// Anonymous shared memory, and `/dev/shm`.
pub fn shared_memory(made: io::Result<()>, dev_shm: &io::Result<Disk>) -> Check {
    const SUBJECT: &str = "shared memory";
    match (made, dev_shm) {
        (Err(why), _) => bad(
            SUBJECT,
            format!("memfd_create fails: {why}"),
            "allow memfd_create in the container's seccomp profile",
        ),
        (Ok(()), Ok(disk)) if disk.free_bytes >= DISK_BYTES_SMALL => well(
            SUBJECT,
            format!("memfd; {} free in /dev/shm", Size(disk.free_bytes)),
        ),
        (Ok(()), Ok(disk)) => note(
            SUBJECT,
            format!("memfd; only {} free in /dev/shm", Size(disk.free_bytes)),
            "if --event-way verbs or libfabric's shm is used: refrain clean, or mount /dev/shm with more (docker: --shm-size)",
        ),
        (Ok(()), Err(why)) => note(
            SUBJECT,
            format!("memfd; /dev/shm cannot be used: {why}"),
            "if --event-way verbs or libfabric's shm is used: mount a tmpfs there",
        ),
    }
}

/// The hard limit of open files.
pub fn open_files(limit: Option<u64>, cores: u32) -> Check {
    const SUBJECT: &str = "open files";
    let Some(limit) = limit else {
        return well(SUBJECT, "no limit");
    };
    let ranks = ranks_of_open_files(limit);
    let found = format!(
        "{limit}: up to {} on this host",
        count(ranks.into(), "rank")
    );
    let advice = "raise the hard limit (ulimit -Hn, /etc/security/limits.conf)";
    match ranks {
        0 => bad(SUBJECT, found, advice),
        ranks if ranks < cores => note(SUBJECT, found, advice),
        _ => well(SUBJECT, found),
    }
}

/// The limit of a process's addresses.
pub fn address_space(limit: Option<u64>) -> Check {
    match limit {
        None => well("address space", "no limit"),
        Some(bytes) => note(
            "address space",
            format!("{} a process", Size(bytes)),
            "ulimit -v unlimited: each rank maps its log and those of its peers",
        ),
    }
}

/// The limit of locked memory, which counts where there is an RDMA device.
pub fn memory_lock(lock: MemoryLock, log_bytes: u64, has_devices: bool) -> Check {
    const SUBJECT: &str = "locked memory";
    match lock {
        MemoryLock::Unlimited => well(SUBJECT, "no limit"),
        MemoryLock::Bytes(bytes) if has_devices && !lock.allows(log_bytes) => note(
            SUBJECT,
            format!(
                "{} a process; a device locks the log, {}",
                Size(bytes),
                Size(log_bytes)
            ),
            "ulimit -l unlimited, or /etc/security/limits.conf with memlock; or a smaller --log-memory",
        ),
        MemoryLock::Bytes(bytes) => well(
            SUBJECT,
            format!("{} a process; only RDMA devices need it", Size(bytes)),
        ),
    }
}

/// A folder that can be written.
pub struct Disk {
    pub free_bytes: u64,
    /// It is on tmpfs.
    pub is_memory: bool,
}

/// A folder for logs and checkpoints.
pub fn folder(path: &Path, disk: &io::Result<Disk>) -> Check {
    const SUBJECT: &str = "folder";
    const OTHER: &str = "name another folder by --spill-dir and --checkpoint-dir (or TMPDIR)";
    let path = path.display();
    match disk {
        Err(why) => note(SUBJECT, format!("{path} cannot be written: {why}"), OTHER),
        Ok(disk) => {
            let free = format!("{path}: {} free", Size(disk.free_bytes));
            if disk.is_memory {
                note(
                    SUBJECT,
                    free + ", in memory (tmpfs): logs beyond memory take memory",
                    OTHER,
                )
            } else if disk.free_bytes < DISK_BYTES_SMALL {
                note(SUBJECT, free, format!("free space, or {OTHER}"))
            } else {
                well(SUBJECT, free + ", on a disk")
            }
        }
    }
}

/// Whether the kernel gives a ring.
pub fn io_uring(made: io::Result<()>) -> Check {
    match made {
        Ok(()) => well("io_uring", "writes the log"),
        Err(why) => note(
            "io_uring",
            format!("not available ({why}): a thread writes the log"),
            "allow it (sysctl kernel.io_uring_disabled, the container's seccomp profile), if logs go to disk",
        ),
    }
}

/// The addresses and the stack guards of each incarnation.
pub fn same_addresses(layout: Result<(), String>, random: Result<(), String>) -> Check {
    let found = info::same_addresses(&layout, &random);
    match layout.and(random) {
        Ok(()) => well("addresses", found),
        Err(_) => note(
            "addresses",
            found,
            "allow both, if programs send addresses or memory that they never wrote",
        ),
    }
}

/// What records clocks, and the kernel's source of time.
pub fn clocks(library: Result<PathBuf, String>, source: Option<&str>) -> Check {
    let named = source.map_or_else(String::new, |source| format!("; clock {source}"));
    match (library, source) {
        (Err(why), _) => note(
            "clocks",
            format!("not recorded: {why}"),
            "install the library beside refrain (refrain install), if programs send times or process ids",
        ),
        (Ok(_), Some(source)) if !FAST_CLOCKS.contains(&source) => note(
            "clocks",
            format!("recorded{named}: each reading is a system call"),
            "boot with clocksource=tsc if the processor's is stable",
        ),
        (Ok(_), _) => well("clocks", format!("recorded{named}")),
    }
}

/// The compiler behind `mpicc`.
pub fn compiler(name: &str, found: Option<&Path>) -> Check {
    match found {
        Some(path) => well("C compiler", path.display().to_string()),
        None => note(
            "C compiler",
            format!("there is no {name} in PATH"),
            "to compile MPI programs: install one (Debian: gcc), or name it in MPICC_CC",
        ),
    }
}

/// The library of MPI programs.
pub enum Library {
    Missing,
    /// Why it cannot be loaded.
    Broken(PathBuf, String),
    /// Built by cargo; there is no `mpicc` beside `refrain`.
    Built(PathBuf),
    Installed(PathBuf),
}

/// The library of MPI programs.
pub fn library(library: &Library) -> Check {
    const SUBJECT: &str = "MPI library";
    match library {
        Library::Installed(file) => well(SUBJECT, format!("{} loads", file.display())),
        Library::Built(file) => note(
            SUBJECT,
            format!("{} loads, but is not installed", file.display()),
            "for MPI programs: refrain install --prefix DIR",
        ),
        Library::Missing => note(
            SUBJECT,
            "there is no libmpi_abi.so.1 with this refrain",
            "for MPI programs: cargo build --release -p refrain-mpi, then refrain install --prefix DIR",
        ),
        Library::Broken(file, why) => note(
            SUBJECT,
            format!("{} cannot be loaded: {why}", file.display()),
            "for MPI programs: install a Refrain that was built for this system",
        ),
    }
}

/// The `mpiexec` that a shell takes; `own` is this program.
pub fn mpiexec(first: Option<&Path>, own: &Path) -> Check {
    const SUBJECT: &str = "mpiexec";
    let what_to_do = || match own.with_file_name("mpiexec").is_file() {
        true => format!(
            "export PATH={}:$PATH",
            own.parent().unwrap_or(Path::new("/")).display()
        ),
        false => {
            "start MPI programs by refrain mpiexec, or install Refrain and put its bin into PATH"
                .into()
        }
    };
    let Some(first) = first else {
        return note(SUBJECT, "there is none in PATH", what_to_do());
    };
    // `mpiexec` is a link to `refrain`, or a script beside it.
    let is_own = first
        .canonicalize()
        .is_ok_and(|file| file.parent() == own.parent());
    match is_own {
        true => well(SUBJECT, first.display().to_string()),
        false => note(
            SUBJECT,
            format!(
                "{} comes first in PATH, and is not this Refrain's",
                first.display()
            ),
            what_to_do(),
        ),
    }
}

/// libfabric, for several hosts.
pub fn libfabric(found: Result<&[Provider], &str>, version: &str) -> Check {
    const SUBJECT: &str = "libfabric";
    match found.map(provider::best) {
        Ok(Some(best)) => well(
            SUBJECT,
            format!("{version}; takes {} between hosts", best.provider.name),
        ),
        Ok(None) => note(
            SUBJECT,
            format!("{version}; no provider can be used between hosts"),
            "for jobs on several hosts: see refrain info --providers",
        ),
        Err(why) => note(SUBJECT, why, "only for jobs on several hosts"),
    }
}

/// RDMA devices, for several hosts. `port` is the one that would be used.
pub fn verbs(port: Result<&str, &str>, has_devices: bool) -> Check {
    match port {
        Ok(port) => well("RDMA", port),
        Err(why) if has_devices => note("RDMA", why, "see refrain info --verbs"),
        // The reason is a paragraph.
        Err(_) => well(
            "RDMA",
            "none; only for jobs on several hosts (refrain info --verbs)",
        ),
    }
}

#[cfg(test)]
mod tests;
