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
use refrain_launch::{HostSlots, HostsSpec, LOCAL_NAME, Program, agent, dismiss};
use refrain_pmi::{PmiError, SWITCH, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Options of `refrain run`, separated by blanks.
const OPTIONS: &str = "REFRAIN_OPTIONS";
/// Exit status for wrong options.
const USAGE: u8 = 2;
/// The first fence is that of [`meet`].
const FENCES_WITH_INVITATION: u32 = 2;
const HERE: &str = "refrain-here";
/// Time for the other tasks to end with the launcher.
const END_MAX: Duration = Duration::from_secs(5);

/// Where a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Here {
    name: String,
    /// Differs between hosts of one name.
    identity: String,
    process: i32,
    cores: CpuSet,
}

impl Here {
    fn of_this_process() -> miette::Result<Self> {
        let nodename = || {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        };
        let name = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| nodename());
        let identity = HostIdentity::of_this_process().into_diagnostic()?.encode();
        Ok(Self {
            name: name.replace([' ', '/'], "-"),
            identity: identity.iter().map(|byte| format!("{byte:02x}")).collect(),
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

impl FromStr for Here {
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

/// What a task does in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Launcher,
    /// Starts the ranks of its host.
    Agent,
    /// This task of its host starts its rank.
    WaitsFor(usize),
}

fn role(tasks: &[Here], own: usize) -> Role {
    match tasks.iter().position(|task| task.is_host_of(&tasks[own])) {
        Some(first) if first != own => Role::WaitsFor(first),
        _ if own == 0 => Role::Launcher,
        _ => Role::Agent,
    }
}

/// Ends this process some time after another one of its host: a server does not say that a task
/// will not come to a fence.
fn end_with(process: i32) {
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
fn hosts(tasks: &[Here]) -> Vec<HostSlots> {
    let is_near = |task: &Here| task.is_host_of(&tasks[0]);
    if tasks.iter().all(is_near) {
        return Vec::new();
    }
    let is_unique = |task: &Here| {
        let mut same = tasks.iter().filter(|other| other.name == task.name);
        same.all(|other| task.is_host_of(other))
    };
    let host = |task: &Here| HostSlots {
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
fn share_cores(tasks: &[Here], own: usize) {
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
    let met = Server::of_environment().and_then(|server| match server {
        None => Ok(None),
        Some(mut server) => meet(&mut server).map(|tasks| Some((server, tasks))),
    });
    match met {
        Ok(Some((server, tasks))) => {
            let program = Program {
                path: path.into(),
                arguments: arguments.into(),
                ranks: server.size(),
                ..Program::default()
            };
            act(server, &tasks, program)
        }
        Ok(None) => Err(miette!(
            "refrain task is started by the MPI library in tasks of srun --mpi=pmi2 or --mpi=pmix: use refrain run"
        )),
        Err(error) => {
            report(format_args!(
                "{error}: the program runs as jobs of one rank"
            ));
            let error = Command::new(path).args(arguments).env(SWITCH, "off").exec();
            Err(miette!("{}: {error}", path.display()))
        }
    }
}

/// Where all tasks run, by their numbers.
fn meet(server: &mut Server) -> Result<Vec<Here>, PmiError> {
    let wrong = |error: miette::Report| PmiError::Unusable {
        interface: "tasks",
        why: error.to_string(),
    };
    let here = Here::of_this_process().map_err(wrong)?;
    server.put(HERE, &here.to_value())?;
    server.fence()?;
    let tasks = 0..server.size();
    tasks
        .map(|task| server.get(task, HERE)?.parse().map_err(wrong))
        .collect()
}

fn act(mut server: Server, tasks: &[Here], program: Program) -> miette::Result<ExitCode> {
    let own = server.rank() as usize;
    share_cores(tasks, own);
    let hosts = hosts(tasks);
    let role = role(tasks, own);
    if role == Role::Launcher {
        return launch(server, hosts, program);
    }
    if !hosts.is_empty() {
        // The invitation of the agents.
        server.fence().into_diagnostic()?;
    }
    match role {
        // If it fails, it comes to no fence.
        Role::Agent => agent::run_as_task(&mut server).into_diagnostic()?,
        Role::WaitsFor(first) => end_with(tasks[first].process),
        Role::Launcher => {}
    }
    let limit = match role {
        Role::WaitsFor(_) => Duration::MAX,
        _ => END_MAX,
    };
    server.leave(limit, 0).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the job, and takes leave with the other tasks.
fn launch(server: Server, hosts: Vec<HostSlots>, program: Program) -> miette::Result<ExitCode> {
    let has_agents = !hosts.is_empty();
    let tasks = Arc::new(Mutex::new(server));
    let status = match options(program.ranks) {
        Ok((arguments, lease)) => {
            let spec = HostsSpec {
                tasks: has_agents.then(|| Arc::clone(&tasks)),
                hosts,
                lease,
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
        true => dismiss(&mut server),
        false => Ok(()),
    };
    let left = dismissed.and_then(|()| server.leave(END_MAX, *status.as_ref().unwrap_or(&1)));
    if let Err(error) = left {
        report(error);
    }
    status.map(ExitCode::from)
}

/// The options of the environment, for so many ranks.
fn options(ranks: u32) -> Result<(run::Arguments, Option<Duration>), clap::Error> {
    let words = std::env::var_os(OPTIONS).unwrap_or_default();
    let words = words.to_string_lossy();
    let words: Vec<OsString> = words.split_ascii_whitespace().map(Into::into).collect();
    let arguments = mpiexec::arguments_of_run(ranks, &words)?;
    let placement = &arguments.placement;
    let is_placed = arguments.host.is_some()
        || arguments.hostfile.is_some()
        || placement.spare_nodes > 0
        || placement.launcher != run::Launcher::Auto;
    let refused =
        |why: String| clap::Error::raw(ErrorKind::ArgumentConflict, format!("{OPTIONS}: {why}\n"));
    if is_placed {
        return Err(refused(
            "another launcher has placed the tasks: leave out --host, --hostfile, --launcher and --spare-nodes".into(),
        ));
    }
    let lease = run::lease(&arguments).map_err(|error| refused(error.to_string()))?;
    Ok((arguments, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str, identity: &str, cores: &[usize]) -> Here {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        Here {
            name: name.into(),
            identity: identity.into(),
            process: 7,
            cores: set,
        }
    }

    #[test]
    fn a_task_says_where_it_runs() {
        for cores in [&[][..], &[0], &[3, 4, 7], &[CpuSet::MAX_CPU - 1]] {
            let here = on("n-1.x", "ab01", cores);
            assert_eq!(here.to_value().parse::<Here>().unwrap(), here);
        }
        assert!("n1/ab".parse::<Here>().is_err());
        let here = Here::of_this_process().unwrap();
        assert_eq!(here.to_value().parse::<Here>().unwrap(), here);
        assert!(here.to_value().len() <= refrain_pmi::VALUE_BYTES_MAX);
    }

    #[test]
    fn each_host_has_one_agent_or_the_launcher() {
        let tasks = [("a", "1"), ("b", "2"), ("a", "1"), ("b", "2"), ("b", "3")];
        let tasks = tasks.map(|(name, identity)| on(name, identity, &[0]));
        let roles: Vec<Role> = (0..tasks.len()).map(|own| role(&tasks, own)).collect();
        let expected = [
            Role::Launcher,
            Role::Agent,
            Role::WaitsFor(0),
            Role::WaitsFor(1),
            Role::Agent,
        ];
        assert_eq!(roles, expected);
        let names: Vec<String> = hosts(&tasks).into_iter().map(|host| host.name).collect();
        assert_eq!(names, [LOCAL_NAME, "b-2", LOCAL_NAME, "b-2", "b-3"]);
        assert_eq!(hosts(&tasks[..1]), [], "one host needs no agent");
        assert_eq!(hosts(&tasks[..2])[1].name, "b");
    }
}
