//! A task that another launcher has started, as in `srun --mpi=pmi2 ./program`. The library
//! replaces each task by `refrain task PROGRAM …` before the program's first function. Task 0 is
//! then the launcher of the job, the first task of each other host is its agent, and the other
//! tasks wait for the end. Their ranks are processes of Refrain, and are started again as in any
//! other job.
//!
//! Docs: `docs/guide/clusters.md`.

use crate::mpiexec;
use crate::run;
use clap::error::ErrorKind;
use miette::{IntoDiagnostic as _, miette};
use refrain_job::control::host::HostIdentity;
use refrain_job::stderr::report;
use refrain_launch::{AgentStart, HostSlots, HostsSpec, LOCAL_NAME, Program, agent, dismiss_tasks};
use refrain_pmi::{SWITCH, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Options of `refrain run`, separated by blanks.
const OPTIONS: &str = "REFRAIN_OPTIONS";
/// Exit status for wrong options.
const USAGE: u8 = 2;
/// The first fence is that of [`exchange_locations`].
const FENCES_WITH_INVITATION: u32 = 2;
/// Key of the location of a task.
const LOCATION: &str = "refrain-location";
/// Time for the other tasks to end with the launcher.
const END_MAX: Duration = Duration::from_secs(5);

/// Where a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Location {
    name: String,
    /// Differs between hosts of one name.
    identity: String,
    process: i32,
    cores: CpuSet,
}

impl Location {
    fn of_this_process() -> miette::Result<Self> {
        let nodename = || {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        };
        let name = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| nodename());
        let identity = HostIdentity::of_this_process().into_diagnostic()?.encode();
        let identity: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        // Tasks of different containers do not see each other's processes.
        let processes = std::fs::metadata("/proc/self/ns/pid").into_diagnostic()?;
        Ok(Self {
            name: name.replace([' ', '/'], "-"),
            identity: format!("{identity}-{}", processes.ino()),
            process: Pid::as_raw(Some(getpid())),
            cores: sched_getaffinity(None).into_diagnostic()?,
        })
    }

    fn is_host_of(&self, other: &Self) -> bool {
        (&self.name, &self.identity) == (&other.name, &other.identity)
    }

    /// One word: name, identity, process id, and the cores in hexadecimal digits of four, the first ones first.
    fn to_value(&self) -> String {
        let digits = (0..CpuSet::MAX_CPU).step_by(4).map(|first| {
            let bits = (0..4).map(|bit| u32::from(self.cores.is_set(first + bit)) << bit);
            char::from_digit(bits.sum(), 16).unwrap_or('0')
        });
        let digits: String = digits.collect();
        let digits = digits.trim_end_matches('0');
        format!("{}/{}/{}/{digits}", self.name, self.identity, self.process)
    }
}

impl FromStr for Location {
    type Err = miette::Report;

    fn from_str(value: &str) -> miette::Result<Self> {
        let parts: Vec<&str> = value.split('/').collect();
        let wrong =
            || miette!("a task says {value:?} about its host: all tasks need the same refrain");
        let [name, identity, process, digits] = parts[..] else {
            return Err(wrong());
        };
        let mut cores = CpuSet::new();
        for (first, digit) in (0..).step_by(4).zip(digits.chars()) {
            let bits = digit.to_digit(16).unwrap_or(0);
            for bit in (0..4).filter(|bit| bits >> bit & 1 == 1) {
                if first + bit < CpuSet::MAX_CPU {
                    cores.set(first + bit);
                }
            }
        }
        Ok(Self {
            name: name.into(),
            identity: identity.into(),
            process: process.parse().map_err(|_| wrong())?,
            cores,
        })
    }
}

/// The first task of the host of a task.
fn first_of_host(tasks: &[Location], task: usize) -> usize {
    let first = tasks.iter().position(|it| it.is_host_of(&tasks[task]));
    first.unwrap_or(task)
}

/// Ends this process [`END_MAX`] after another one of its host, which then does not pass the last
/// fence.
fn end_after(process: i32) {
    let process = Pid::from_raw(process);
    let Some(Ok(ended)) = process.map(|process| pidfd_open(process, PidfdFlags::empty())) else {
        return;
    };
    std::thread::spawn(move || {
        let mut polled = [PollFd::new(&ended, PollFlags::IN)];
        while matches!(poll(&mut polled, None), Err(Errno::INTR)) {}
        std::thread::sleep(END_MAX);
        // The status of the job is that of task 0.
        std::process::exit(0);
    });
}

/// The hosts of the ranks, each with one slot. The launcher's host needs no task.
fn hosts(tasks: &[Location]) -> Vec<HostSlots> {
    let is_near = |task: &Location| task.is_host_of(&tasks[0]);
    if tasks.iter().all(is_near) {
        return Vec::new();
    }
    let is_unique = |task: &Location| {
        let mut same = tasks.iter().filter(|other| other.name == task.name);
        same.all(|other| task.is_host_of(other))
    };
    let host = |task: &Location| HostSlots {
        name: match is_near(task) {
            true => LOCAL_NAME.into(),
            false if is_unique(task) => task.name.clone(),
            false => format!("{}-{}", task.name, task.identity),
        },
        slots: 1,
    };
    tasks.iter().map(host).collect()
}

/// The ranks of this host may use the cores of all its tasks.
fn share_cores(tasks: &[Location], own: usize) {
    let mut cores = CpuSet::new();
    for task in tasks.iter().filter(|task| task.is_host_of(&tasks[own])) {
        for core in (0..CpuSet::MAX_CPU).filter(|core| task.cores.is_set(*core)) {
            cores.set(core);
        }
    }
    // Without that they share the cores of one task.
    let _ = sched_setaffinity(None, &cores);
}

/// Runs this task; `words` are the program and its arguments.
pub fn run(words: &[OsString]) -> miette::Result<ExitCode> {
    let (path, arguments) = words
        .split_first()
        .ok_or_else(|| miette!("no program is given"))?;
    let mut server = match Server::of_environment() {
        Ok(Some(server)) => server,
        Ok(None) => {
            return Err(miette!(
                "refrain task is started by the MPI library in tasks of srun --mpi=pmi2 or --mpi=pmix: use refrain run"
            ));
        }
        // All tasks find the same.
        Err(error) => {
            report(format_args!(
                "{error}: the program runs as jobs of one rank"
            ));
            let error = Command::new(path).args(arguments).env(SWITCH, "off").exec();
            return Err(miette!("{}: {error}", path.display()));
        }
    };
    let tasks = exchange_locations(&mut server)?;
    let own = server.rank() as usize;
    share_cores(&tasks, own);
    let hosts = hosts(&tasks);
    if own == 0 {
        let program = Program {
            path: path.into(),
            arguments: arguments.into(),
            ranks: server.size(),
            ..Program::default()
        };
        return launch(server, hosts, program);
    }
    // Slurm sends the signals of --signal to all tasks; the launcher handles them.
    agent::outlive_signals().into_diagnostic()?;
    if !hosts.is_empty() {
        // The launcher publishes the invitation of the agents.
        server.fence().into_diagnostic()?;
    }
    let first = first_of_host(&tasks, own);
    let limit = match first == own {
        true => {
            // If it fails, the task does not leave, and the launcher ends after its limit.
            agent::run_as_task(&mut server).into_diagnostic()?;
            Some(END_MAX)
        }
        false => {
            end_after(tasks[first].process);
            None
        }
    };
    server.leave(limit, 0).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Where all tasks run, by their numbers.
fn exchange_locations(server: &mut Server) -> miette::Result<Vec<Location>> {
    let own = Location::of_this_process()?.to_value();
    server.put(LOCATION, &own).into_diagnostic()?;
    server.fence().into_diagnostic()?;
    let tasks = 0..server.size();
    tasks
        .map(|task| server.get(task, LOCATION).into_diagnostic()?.parse())
        .collect()
}

/// Runs the job, and ends with the other tasks.
fn launch(server: Server, hosts: Vec<HostSlots>, program: Program) -> miette::Result<ExitCode> {
    let has_agents = !hosts.is_empty();
    let tasks = Arc::new(Mutex::new(server));
    let status = match options(program.ranks) {
        Ok((arguments, lease)) => {
            let spec = HostsSpec {
                start: AgentStart::Tasks(Arc::clone(&tasks)),
                hosts,
                lease,
                fan_out: Some(arguments.placement.fan_out),
                ..HostsSpec::default()
            };
            run::run_on(&arguments, vec![program], spec)
        }
        Err(refusal) => {
            // Fails if standard error is closed.
            let _ = refusal.print();
            Ok(USAGE)
        }
    };
    let server = Arc::into_inner(tasks).ok_or_else(|| miette!("the job still uses its tasks"))?;
    let mut server = server.into_inner().unwrap_or_else(PoisonError::into_inner);
    let dismissed = match has_agents && server.fences() < FENCES_WITH_INVITATION {
        true => dismiss_tasks(&mut server),
        false => Ok(()),
    };
    let left = dismissed.and_then(|()| server.leave(Some(END_MAX), *status.as_ref().unwrap_or(&1)));
    if let Err(error) = left {
        report(error);
    }
    status.map(ExitCode::from)
}

/// Reads the options of a job of this many ranks from `REFRAIN_OPTIONS`, with the lease of its
/// hosts.
fn options(ranks: u32) -> Result<(run::Arguments, Option<Duration>), clap::Error> {
    let words = std::env::var_os(OPTIONS).unwrap_or_default();
    let words = words.to_string_lossy();
    let words: Vec<OsString> = words.split_ascii_whitespace().map(Into::into).collect();
    let arguments = mpiexec::arguments_of_run(ranks, &words)?;
    let placement = &arguments.placement;
    let is_placed = arguments.host.is_some()
        || arguments.hostfile.is_some()
        || placement.spare_nodes > 0
        || placement.service_nodes > 0
        || placement.launcher != run::Launcher::Auto;
    let refused =
        |why: String| clap::Error::raw(ErrorKind::ArgumentConflict, format!("{OPTIONS}: {why}\n"));
    if is_placed {
        return Err(refused(
            "another launcher has placed the tasks: leave out --host, --hostfile, --launcher, --spare-nodes and --service-nodes".into(),
        ));
    }
    let lease = run::lease(&arguments).map_err(|error| refused(error.to_string()))?;
    Ok((arguments, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str, identity: &str, cores: &[usize]) -> Location {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        Location {
            name: name.into(),
            identity: identity.into(),
            process: 7,
            cores: set,
        }
    }

    #[test]
    fn a_task_says_where_it_runs() {
        for cores in [&[][..], &[0], &[3, 4, 7], &[CpuSet::MAX_CPU - 1]] {
            let location = on("n-1.x", "ab01", cores);
            assert_eq!(location.to_value().parse::<Location>().unwrap(), location);
        }
        assert!("n1/ab".parse::<Location>().is_err());
        let location = Location::of_this_process().unwrap();
        assert_eq!(location.to_value().parse::<Location>().unwrap(), location);
        assert!(location.to_value().len() <= refrain_pmi::VALUE_BYTES_MAX);
    }

    #[test]
    fn each_host_has_one_agent_or_the_launcher() {
        let tasks = [("a", "1"), ("b", "2"), ("a", "1"), ("b", "2"), ("b", "3")];
        let tasks = tasks.map(|(name, identity)| on(name, identity, &[0]));
        let firsts: Vec<usize> = (0..tasks.len())
            .map(|task| first_of_host(&tasks, task))
            .collect();
        assert_eq!(firsts, [0, 1, 0, 1, 4]);
        let names: Vec<String> = hosts(&tasks).into_iter().map(|host| host.name).collect();
        assert_eq!(names, [LOCAL_NAME, "b-2", LOCAL_NAME, "b-2", "b-3"]);
        assert_eq!(hosts(&tasks[..1]), [], "one host needs no agent");
        assert_eq!(hosts(&tasks[..2])[1].name, "b");
    }
}
