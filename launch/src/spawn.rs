//! Starting one rank's process.

#![allow(
    unsafe_code,
    reason = "what a child does between fork and exec (pre_exec) is the programmer's promise"
)]

use super::inherited::InheritedNumbers;
use super::same_addresses;
use super::same_random::{self, RandomBytes};
use refrain_job::control::claim::{FD_VARIABLE, GREETING_VARIABLE};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What one rank is started with.
pub struct Start<'a> {
    /// Resolved.
    pub program: &'a Path,
    /// As given.
    pub arguments: &'a [OsString],
    /// Added to the launcher's own environment.
    pub environment: &'a [(OsString, OsString)],
    /// Which rank.
    pub rank: u32,
    /// Of how many.
    pub size: u32,
    /// The rank's end of its control socket.
    pub control: BorrowedFd<'a>,
    /// What the launcher has put into it.
    pub greeting: &'a str,
    /// Numbers for the control socket and for each of the other descriptors.
    pub numbers: &'a InheritedNumbers,
    /// More descriptors for this rank alone, with the variables that name them.
    pub descriptors: Vec<(&'a str, &'a OwnedFd)>,
    /// The core to run on.
    pub core: Option<usize>,
    /// The limit of open files that the launcher was started with.
    pub files: Rlimit,
    /// Standard output and error go through pipes.
    pub piped: bool,
    /// This rank reads the launcher's standard input.
    pub stdin: bool,
    /// Addresses are not random.
    pub fixed_layout: bool,
    /// What is behind `AT_RANDOM`, if that is not the kernel's choice.
    pub random_bytes: Option<RandomBytes>,
}

/// Starts a process that serves the job, with `environment` added to this process's,
/// and reads `stdin`: in a process group of its own, killed with the thread that calls this; its standard output goes
/// nowhere.
///
/// # Errors
/// Of the system.
pub fn spawn_service(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    stdin: Stdio,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::null())
        .process_group(0);
    let launcher = getpid();
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || die_with(launcher)) };
    command.spawn()
}

/// The kernel kills this process when the launcher's thread ends.
fn die_with(launcher: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The launcher may have died before the line above took effect.
    if getppid() != Some(launcher) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

/// Starts the rank: in a process group of its own, killed with the thread that
/// calls this, with no descriptor but its own, which have their numbers.
///
/// Environment and arguments have the same bytes in each life of a rank: what differs is
/// passed otherwise.
///
/// # Errors
/// Of the system.
pub fn spawn(start: &Start<'_>) -> io::Result<Child> {
    // A child that cannot be traced, although the trial could, is started without.
    if let Some(bytes) = start.random_bytes
        && let Ok(child) = command(start, true)?.spawn()
    {
        // On an error the rank was killed, or runs with other bytes: both are handled.
        let _ = same_random::set_random_bytes(Pid::from_child(&child), bytes);
        return Ok(child);
    }
    command(start, false)?.spawn()
}

/// What [`spawn`] starts; `stops`: the program stops before its first instruction.
fn command(start: &Start<'_>, stops: bool) -> io::Result<Command> {
    let sources: Vec<RawFd> = std::iter::once(start.control.as_raw_fd())
        .chain(start.descriptors.iter().map(|(_, fd)| fd.as_raw_fd()))
        .collect();
    let inherited: Vec<(RawFd, RawFd)> = sources.into_iter().zip(start.numbers.numbers()).collect();
    let names = std::iter::once(FD_VARIABLE).chain(start.descriptors.iter().map(|(name, _)| *name));
    let numbers = inherited.iter().map(|(_, number)| number.to_string());
    if inherited.len() != 1 + start.descriptors.len() {
        return Err(io::Error::other(
            "too few numbers are reserved for the rank's descriptors",
        ));
    }
    let mut command = Command::new(start.program);
    let stdio = || {
        if start.piped {
            Stdio::piped()
        } else {
            Stdio::inherit()
        }
    };
    command
        .args(start.arguments)
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .env("REFRAIN_RANK", start.rank.to_string())
        .env("REFRAIN_SIZE", start.size.to_string())
        .env(GREETING_VARIABLE, start.greeting)
        .envs(names.zip(numbers))
        .stdin(if start.stdin {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .stdout(stdio())
        .stderr(stdio())
        .process_group(0);
    let cores = start.core.map(|core| {
        let mut cores = CpuSet::new();
        cores.set(core);
        cores
    });
    let (launcher, files, fixed_layout) = (getpid(), start.files, start.fixed_layout);
    let prepare = move || {
        die_with(launcher)?;
        for (source, number) in &inherited {
            // SAFETY: the source is a descriptor that the caller of `spawn` borrows, and
            // the number one that it keeps in use for this: the child's table is a copy.
            if unsafe { libc::dup2(*source, *number) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(cores) = &cores {
            sched_setaffinity(None, cores)?;
        }
        setrlimit(Resource::Nofile, files)?;
        if fixed_layout {
            // It was tried before. If it fails now, the rank runs with random addresses.
            let _ = same_addresses::fix_layout();
        }
        match stops {
            true => same_random::stop_behind_exec(),
            false => Ok(()),
        }
    };
    // SAFETY: between fork and exec only system calls are made (rustix issues
    // them directly, without libc's locks); nothing is allocated or freed, and
    // what is read was made before the fork.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}
