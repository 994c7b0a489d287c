//! `refrain doctor`: whether jobs can run on this machine, and what to do where something is missing.

mod check;

use crate::info;
use check::{Check, Disk, Library, Verdict};
use clap::Args;
use miette::IntoDiagnostic as _;
use refrain_job::choice::library::LIBFABRIC;
use refrain_job::choice::provider;
use refrain_job::machine::default_log_bytes;
use refrain_launch::{can_fix_layout, can_set_random_bytes, clocks};
use refrain_storage::{Directory, Io};
use refrain_verbs::MemoryLock;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, statvfs};
use rustix::process::{Resource, getrlimit};
use std::env;
use std::fs;
use std::io::{self, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Arguments of `refrain doctor`.
#[derive(Args)]
pub struct Arguments {
    /// Folders that logs and checkpoints are to be written to [default: the folder for temporary
    /// files].
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// File of libfabric [default: $REFRAIN_LIBFABRIC or libfabric.so.1].
    #[arg(long, value_name = "FILE")]
    libfabric: Option<PathBuf>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1].
    #[arg(long, value_name = "FILE")]
    libibverbs: Option<PathBuf>,
}

/// Prints what was checked. Exit status 1: jobs cannot run.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let checks = checks(arguments)?;
    stdout()
        .write_all(check::text(&checks).as_bytes())
        .into_diagnostic()?;
    Ok(
        match checks.iter().any(|check| check.verdict == Verdict::Bad) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        },
    )
}

fn checks(arguments: &Arguments) -> miette::Result<Vec<Check>> {
    let own = env::current_exe().into_diagnostic()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let ports = info::ports(arguments.libibverbs.clone());
    let has_devices = ports.as_ref().is_ok_and(|ports| !ports.devices.is_empty());
    let port = info::port(
        ports
            .as_ref()
            .map(|ports| &*ports.devices)
            .map_err(|why| &**why),
    );
    let mut checks = vec![
        check::job(run_a_job(&own)),
        check::cores(cores),
        check::memory(default_log_bytes(cores), cores),
        check::shared_memory(make_shared_memory(), &disk(Path::new("/dev/shm"))),
        check::open_files(getrlimit(Resource::Nofile).maximum, cores),
        check::address_space(getrlimit(Resource::As).current),
        check::memory_lock(
            MemoryLock::of_process(),
            default_log_bytes(cores),
            has_devices,
        ),
    ];
    let mut folders = arguments.folders.clone();
    if folders.is_empty() {
        folders.push(env::temp_dir());
    }
    checks.extend(
        folders
            .iter()
            .map(|folder| check::folder(folder, &disk(folder))),
    );
    checks.push(check::io_uring(make_io_uring(&folders[0])));
    checks.push(check::same_addresses(
        can_fix_layout(),
        can_set_random_bytes(),
    ));
    checks.push(check::clocks(clocks::library(), clock_source().as_deref()));
    checks.push(check::compiler(
        &compiler_name(),
        in_path(&compiler_name()).as_deref(),
    ));
    checks.push(check::library(&library(&own)));
    checks.push(check::mpiexec(in_path("mpiexec").as_deref(), &own));
    let file = LIBFABRIC.or_of_environment(arguments.libfabric.clone());
    let providers = provider::installed(file.as_deref()).map_err(|error| error.to_string());
    let version = provider::library_version(file.as_deref()).unwrap_or_default();
    checks.push(check::libfabric(
        providers.as_deref().map_err(|why| &**why),
        &version,
    ));
    checks.push(check::verbs(
        port.as_deref().map_err(|why| &**why),
        has_devices,
    ));
    Ok(checks)
}

/// Runs a job of two ranks that do nothing; returns the time that it took.
fn run_a_job(own: &Path) -> Result<Duration, String> {
    let began = Instant::now();
    let mut job = Command::new(own);
    job.args(["run", "-n", "2", "--no-pin", "--", "true"]);
    let ended = job
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(began.elapsed()),
        false => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
    }
}

fn make_shared_memory() -> io::Result<()> {
    let file = memfd_create(
        "refrain-doctor",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    ftruncate(&file, 1 << 20)?;
    fs::File::from(file).write_all(b"written")
}

/// Writes a file without a name into the folder.
fn disk(folder: &Path) -> io::Result<Disk> {
    let directory = Directory::open(folder)?.past_the_page_cache()?;
    let statistics = statvfs(folder)?;
    Ok(Disk {
        free_bytes: statistics.f_bavail.saturating_mul(statistics.f_frsize),
        is_memory: directory.is_memory(),
    })
}

fn make_io_uring(folder: &Path) -> io::Result<()> {
    Directory::open(folder)?
        .engine::<Vec<u8>>(Io::Uring, 1)
        .map(drop)
}

fn clock_source() -> Option<String> {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// The program of `mpicc`.
fn compiler_name() -> String {
    let given = env::var("MPICC_CC").unwrap_or_default();
    given.split_whitespace().next().unwrap_or("cc").to_owned()
}

/// The first program of this name in the folders of `PATH`.
fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let mut files = env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Loads the MPI library into a process of its own.
fn library(own: &Path) -> Library {
    let beside = ["libmpi_abi.so", "../lib/libmpi_abi.so.1"].map(|name| own.with_file_name(name));
    let Some(file) = beside.iter().find_map(|file| file.canonicalize().ok()) else {
        return Library::Missing;
    };
    let loaded = Command::new("true").env("LD_PRELOAD", &file).output();
    let said = loaded.map(|ended| String::from_utf8_lossy(&ended.stderr).trim().to_owned());
    let is_installed = own.with_file_name("mpicc").is_file();
    match said.unwrap_or_else(|error| error.to_string()) {
        why if !why.is_empty() => Library::Broken(file, why),
        _ if is_installed => Library::Installed(file),
        _ => Library::Built(file),
    }
}
