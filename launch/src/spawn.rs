//! Starts the process of a rank, or one that serves the job. The numbers of inherited descriptors
//! are the same in each incarnation: they are part of the environment, which is on the program's
//! stack.

#![allow(
    unsafe_code,
    reason = "what a child does between fork and exec (pre_exec) is the programmer's promise"
)]

use crate::error::LaunchError;
use crate::hosts::message::Setup;
use crate::link::Link;
use crate::program::Program;
use crate::same_memory::{self, RandomBytes};
use refrain_job::JobError;
use refrain_job::control::claim::{self, FD_VARIABLE, GREETING_VARIABLE};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, disable_transparent_huge_pages, sched_setaffinity};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// With more ranks on a host, the kernel gives them no huge pages by itself: two of them are four times as
/// much memory as a rank needs that does little (docs/design/many-ranks.md).
const HUGE_PAGES_UP_TO: usize = 256;

/// The part of a job that runs on one host.
#[derive(Debug)]
pub struct HostPart {
    /// The program, the ranks, and their settings.
    pub setup: Setup,
    /// This process reads the ranks' output.
    pub piped: bool,
    /// Descriptors for one rank each, with the variable that gets the number. Kept open if ranks
    /// may be restarted.
    pub descriptors: Vec<(u32, String, OwnedFd)>,
}

/// Starts each incarnation of each rank of this host.
#[derive(Debug)]
pub struct Starter {
    /// The part of the job, with the resolved path of the program.
    pub part: HostPart,
    /// Cores to pin ranks to, in the order of the ranks; empty: no rank is pinned.
    pub cores: Vec<usize>,
    /// The limit of open files that this process was started with.
    pub files: Rlimit,
    /// The end of each rank has a descriptor; else SIGCHLD announces it.
    pub polls_ends: bool,
    /// Reserved numbers for the control socket and the other descriptors of a rank.
    pub numbers: InheritedNumbers,
    /// Addresses are not randomised.
    pub fixed_layout: bool,
    /// The bytes at `AT_RANDOM`, in the order of the ranks; empty: the kernel chooses.
    pub random_bytes: Vec<RandomBytes>,
}

/// Starts a process that serves the job, with `environment` added to this process's: in its own
/// process group, killed with the calling thread; its stdout is discarded.
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

/// Makes the kernel kill this process when the launcher's thread ends.
fn die_with(launcher: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The launcher may have died before the line above took effect.
    if getppid() != Some(launcher) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

impl Starter {
    /// Starts an incarnation of a rank: in its own process group, killed with the calling thread,
    /// with only its own descriptors, which have reserved numbers, and this standard input; `None`:
    /// an empty one.
    ///
    /// Environment and arguments have the same bytes in each incarnation: data that differs is
    /// passed otherwise.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(&self, rank: u32, input: Option<BorrowedFd<'_>>) -> io::Result<(Child, Link)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let greeting = claim::greeting(self.part.setup.job, rank);
        claim::greet(ours.as_fd(), &greeting)?;
        let command = |stops| {
            let mut command = self.command(rank, theirs.as_fd(), stops)?;
            let input = input.map(|input| input.try_clone_to_owned()).transpose()?;
            command
                .env(GREETING_VARIABLE, &greeting)
                .stdin(input.map_or_else(Stdio::null, Stdio::from));
            io::Result::Ok(command)
        };
        // A child that cannot be traced, although the trial could, is started without tracing.
        if let Some(bytes) = self.of_rank(&self.random_bytes, rank)
            && let Ok(child) = command(true)?.spawn()
        {
            // On an error the rank was killed, or runs with other bytes: both are handled.
            let _ = same_memory::set_random_bytes(Pid::from_child(&child), bytes);
            return Ok((child, Link::new(ours)));
        }
        Ok((command(false)?.spawn()?, Link::new(ours)))
    }

    fn program(&self, rank: u32) -> io::Result<(usize, &Program)> {
        Program::of_rank(&self.part.setup.programs, rank)
            .ok_or_else(|| io::Error::other(format!("no program is given for rank {rank}")))
    }

    fn of_rank<T: Copy>(&self, values: &[T], rank: u32) -> Option<T> {
        let mut ranks = self.part.setup.ranks.iter();
        let place = ranks.position(|other| *other == rank)?;
        values.get(place).copied()
    }

    /// `stops`: the program stops before its first instruction.
    fn command(&self, rank: u32, control: BorrowedFd<'_>, stops: bool) -> io::Result<Command> {
        let setup = &self.part.setup;
        let own = self.part.descriptors.iter();
        let own = own.filter(|(owner, ..)| *owner == rank);
        let own = own.map(|(_, name, descriptor)| (name.as_str(), descriptor.as_raw_fd()));
        let all: Vec<(&str, RawFd)> = std::iter::once((FD_VARIABLE, control.as_raw_fd()))
            .chain(own)
            .collect();
        let numbers: Vec<RawFd> = self.numbers.numbers().take(all.len()).collect();
        if numbers.len() < all.len() {
            return Err(io::Error::other(
                "too few numbers are reserved for the rank's descriptors",
            ));
        }
        let texts = numbers.iter().map(ToString::to_string);
        let stdio = || match self.part.piped {
            true => Stdio::piped(),
            false => Stdio::inherit(),
        };
        let (number, program) = self.program(rank)?;
        let environment = program.environment.iter().chain(&setup.environment);
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .envs(environment.map(|(name, value)| (name, value)))
            .env("REFRAIN_RANK", rank.to_string())
            .env("REFRAIN_SIZE", setup.size.to_string())
            .env("REFRAIN_PROGRAM", number.to_string())
            .envs(all.iter().map(|(name, _)| *name).zip(texts))
            .stdout(stdio())
            .stderr(stdio())
            .process_group(0);
        let inherited: Vec<(RawFd, RawFd)> =
            all.iter().map(|(_, source)| *source).zip(numbers).collect();
        let cores = self.of_rank(&self.cores, rank).map(|core| {
            let mut cores = CpuSet::new();
            cores.set(core);
            cores
        });
        let (launcher, files, fixed_layout) = (getpid(), self.files, self.fixed_layout);
        let has_many = self.part.setup.ranks.len() > HUGE_PAGES_UP_TO;
        let prepare = move || {
            die_with(launcher)?;
            for (source, number) in &inherited {
                // SAFETY: the source is a descriptor that the caller borrows, and the number
                // one that it keeps in use for this: the child's table is a copy.
                if unsafe { libc::dup2(*source, *number) } == -1 {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(cores) = &cores {
                sched_setaffinity(None, cores)?;
            }
            setrlimit(Resource::Nofile, files)?;
            if fixed_layout {
                // The trial succeeded. If this call fails, the rank runs with random addresses.
                let _ = same_memory::fix_layout();
            }
            if has_many {
                // Only a matter of memory. Kernels before 3.15 do not know it.
                let _ = disable_transparent_huge_pages(true);
            }
            match stops {
                true => same_memory::stop_behind_exec(),
                false => Ok(()),
            }
        };
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        // SAFETY: between fork and exec only system calls are made (rustix issues
        // them directly, without libc's locks); nothing is allocated or freed, and
        // what is read was made before the fork.
        unsafe { command.pre_exec(prepare) };
        Ok(command)
    }

    /// The error for a [start](Self::start) that failed.
    pub fn cannot_start(&self, rank: u32, error: io::Error) -> LaunchError {
        let program = match self.program(rank) {
            Ok((_, program)) => program.path.display().to_string(),
            Err(error) => error.to_string(),
        };
        let reason = match error.kind() {
            ErrorKind::NotFound => format!(
                "{program} cannot be started: its interpreter (first line of a script) or loader is missing"
            ),
            ErrorKind::PermissionDenied => format!(
                "{program} cannot be executed ({error}): check its permissions and those of its folders"
            ),
            _ => {
                let attempted = format!(
                    "starting rank {rank} of {program} (check ulimit -u, ulimit -n and the container's limits)"
                );
                return JobError::control(attempted, error).into();
            }
        };
        LaunchError::Program {
            reason,
            found: true,
        }
    }
}

/// Lowest number, if the limit of open files allows it: scripts use some lower ones by number.
const NUMBER_MIN: RawFd = 100;
/// Lower numbers are standard input, output and error.
const NUMBER_LEAST: RawFd = 3;

/// Numbers of descriptors that this process keeps in use, so that a child between fork and exec
/// uses them for nothing else.
#[derive(Debug)]
pub struct InheritedNumbers(Vec<OwnedFd>);

impl InheritedNumbers {
    /// Reserves `count` numbers.
    ///
    /// # Errors
    /// Of the system.
    pub fn reserve(count: usize) -> io::Result<Self> {
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let reserve = |_| match fcntl_dupfd_cloexec(&null, NUMBER_MIN) {
            Err(Errno::INVAL | Errno::MFILE) => fcntl_dupfd_cloexec(&null, NUMBER_LEAST),
            reserved => reserved,
        };
        let reserved = (0..count).map(reserve).collect::<Result<_, _>>()?;
        Ok(Self(reserved))
    }

    /// One number for the control socket, then those for other descriptors.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(AsRawFd::as_raw_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_in_use() {
        let reserved = InheritedNumbers::reserve(3).unwrap();
        let mut numbers: Vec<RawFd> = reserved.numbers().collect();
        let more = InheritedNumbers::reserve(2).unwrap();
        numbers.extend(more.numbers());
        assert!(numbers.iter().all(|number| *number >= NUMBER_MIN));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 5);
    }
}
