//! The launcher: starts the ranks of a job, serves their control sockets, forwards their
//! output, restarts killed ranks, and ends the job when one of them fails. On other hosts
//! agents do this for it.
//!
//! One thread and one poll(2) loop. Nothing of a job outlives it: ranks are killed by the
//! kernel when the launcher dies (`PR_SET_PDEATHSIG`), each is the leader of a process group
//! that is killed when the job ends, and sockets have no names. Not covered are a rank's own
//! children if the launcher is killed with SIGKILL, and processes that a rank moves to another
//! group.
//!
//! Ranks read nothing from stdin, except rank 0, which reads the launcher's stdin unless that
//! is a terminal.
//!
//! | file | subject |
//! |---|---|
//! | `program`, `linkage` | finds the program; its dynamic linker and libraries |
//! | `spawn` | fork and exec of one rank |
//! | `same_memory` | addresses and stack guards that are the same in each incarnation |
//! | `clocks` | preloads `librefrain_clocks.so` into ranks |
//! | `start`, `lives` | starts the ranks; state that outlives their processes |
//! | `process`, `child` | one incarnation of a rank: its process, socket and output |
//! | `hosts`, `agent` | ranks on other hosts |
//! | `loggers` | the event loggers of the job |
//! | `fencing` | waits until killed processes have ended |
//! | `restarts` | which ranks are restarted, and when; pure |
//! | `replacement` | fences a dead rank, restarts it, informs the others |
//! | `going_back` | the other members of a dead rank's correlated set |
//! | `recoveries` | reports of recoveries and of differing replays; pure |
//! | `checkpoint_schedule` | which ranks are asked for checkpoints, and when |
//! | `checkpoint_servers` | those on hosts of services |
//! | `sets` | correlated sets |
//! | `job_dir` | the folder of a job that outlives its launcher |
//! | `job_folder`, `checkpoints`, `spill` | folders of a job: of checkpoints, of spilled logs |
//! | `fault_plan`, `faults` | faults on purpose: when, pure; doing it |
//! | `link` | the launcher's end of a control socket |
//! | `key_values` | put, get and fence; pure |
//! | `requests` | messages of ranks, and their answers |
//! | `membership` | which ranks are informed of which others; pure |
//! | `service_process`, `polling` | processes beside the ranks; waits for a descriptor |
//! | `boot_clock` | a clock that also counts while the machine is suspended |
//! | `output`, `printed` | output of a rank; output that an earlier incarnation printed |
//! | `standard_input` | the standard input of each life of rank 0 |
//! | `sink`, `rate_limit` | the launcher's stdout and stderr; limits of its own lines |
//! | `serve`, `ending`, `outcome` | the loop; the end of a job; its outcome |
//! | `glance`, `progress` | the state of a job; the live view |
//! | `monitor` | the state for other programs: a file, metrics |
//! | `verdict` | what the end of a process means; pure |
//! | `leftovers` | files of killed jobs |
//! | `limits`, `signals` | open files, ranks; signals that are forwarded |
//! | `size`, `seconds` | sizes and times in options |
//!
//! Must never know: the API of programs.

pub mod agent;
mod boot_clock;
mod checkpoint_schedule;
mod checkpoint_servers;
mod checkpoints;
mod child;
mod child_ends;
pub mod clocks;
mod ending;
mod error;
mod fault_plan;
mod faults;
mod fencing;
mod glance;
mod going_back;
mod hosts;
mod job_dir;
mod job_folder;
mod key_values;
pub mod leftovers;
mod limits;
mod link;
mod linkage;
mod lives;
mod loggers;
mod monitor;
mod outcome;
mod output;
mod polling;
mod printed;
mod process;
mod program;
mod progress;
mod rate_limit;
mod recoveries;
mod replacement;
mod requests;
mod restarts;
mod same_memory;
pub mod seconds;
mod serve;
mod service_process;
mod sets;
mod signals;
mod sink;
pub mod size;
mod spawn;
mod spill;
mod standard_input;
mod start;
mod verdict;

pub use error::LaunchError;
pub use fault_plan::{FaultSpec, FaultSpecError, Kill, KillRandom, Moment, Pause, Target};
pub use hosts::flux;
pub use hosts::invitation::{LOCAL_NAME, dismiss_tasks};
pub use hosts::listing::{
    AgentStart, HostSlots, HostsSpec, NotAHost, Tasks, parse_hosts, read_hostfile, without_spares,
};
pub use hosts::slurm::Allocation;
pub use hosts::tree::FAN_OUT;
pub use limits::{RANKS_MAX, ranks_of_open_files};
pub use loggers::EventLoggerSpec;
pub use monitor::MonitorSpec;
pub use outcome::{CheckpointCounts, DIFFERED, Outcome, STOPPED};
pub use program::Program;
pub use recoveries::Recovery;
pub use restarts::{MAX_RESTARTS_DEFAULT, can_recover};
pub use same_memory::{can_fix_layout, can_set_random_bytes};
pub use sets::{SetsError, SetsSpec};
pub use verdict::Cause;

use checkpoint_schedule::Schedule;
use checkpoint_servers::CheckpointServers;
use checkpoints::CheckpointPlace;
use child_ends::ChildEnds;
use ending::Phase;
use faults::Faults;
use job_dir::JobDir;
use job_dir::whole_checkpoint::WholeCheckpoint;
use key_values::KeyValues;
use lives::Lives;
use loggers::EventLoggers;
use monitor::Monitor;
use printed::SavedPosition;
use process::RankProcess;
use progress::Progress;
use rate_limit::RateLimit;
use recoveries::Recoveries;
use refrain_job::introductions::Introductions;
use refrain_job::{Statistics, config::JobConfig};
use refrain_logging::held::Losses;
use refrain_logging::rounds::Rounds;
use signals::Signals;
use sink::Sink;
use spill::SpilledFiles;
use standard_input::StandardInput;
use start::Placement;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use verdict::OutOfMemory;

/// Handling of the ranks' standard output and error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Prefix each line with its rank. Lines longer than 64 KiB are cut.
    Prefixed,
    /// Pass whole lines on unchanged. Lines longer than 64 KiB may be mixed with output of other
    /// ranks.
    #[default]
    Plain,
    /// Ranks write to the launcher's own stdout and stderr. Output that a rank prints again after
    /// its restart appears twice.
    Inherited,
}

/// Description of a job to start.
#[derive(Debug, Default)]
pub struct JobSpec {
    /// The programs of the ranks, in the order of ranks; together 1 to [`RANKS_MAX`] ranks.
    pub programs: Vec<Program>,
    /// Variables to add to the launcher's own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The settings that are sent to ranks. [`Job::start`] fills in `ranks_on_host`.
    pub config: JobConfig,
    /// Handling of the ranks' output.
    pub output: Output,
    /// Pin rank r to the r-th core that the launcher may run on, if there are
    /// at least as many cores as ranks.
    pub pin: bool,
    /// Extra descriptors for one rank each: (rank, name of the environment variable that gets the
    /// number, descriptor). If ranks may be restarted, the launcher keeps them open for later
    /// lives.
    pub descriptors: Vec<(u32, String, OwnedFd)>,
    /// The event loggers, for protocols that log events.
    pub event_loggers: EventLoggerSpec,
    /// Faults to inject, and when a stopped rank counts as lost.
    pub faults: FaultSpec,
    /// Hosts of the ranks; empty: this host alone.
    pub hosts: HostsSpec,
    /// Outputs of the state of the job for other programs.
    pub monitor: MonitorSpec,
    /// Correlated sets.
    pub sets: SetsSpec,
    /// `--job-dir`: folder from which a later run of the job goes on.
    pub job_dir: Option<PathBuf>,
}

impl JobSpec {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        let ranks = self.programs.iter().map(|program| program.ranks);
        ranks.fold(0, u32::saturating_add)
    }
}

/// A running job. Dropping it kills all its ranks and waits for their end.
///
/// Stays on the thread that started it: the kernel kills ranks when that
/// *thread* ends.
pub struct Job {
    ranks: Vec<RankProcess>,
    /// Present if ranks have no descriptors for their ends.
    child_ends: Option<ChildEnds>,
    /// By rank.
    lives: Vec<Lives>,
    recoveries: Recoveries,
    /// By rank.
    rate_limits: Vec<RateLimit>,
    faults: Faults,
    out_of_memory: OutOfMemory,
    schedule: Schedule,
    /// `--status-file`, `--metrics`.
    monitor: Option<Monitor>,
    /// `--progress`.
    progress: Option<Progress>,
    key_values: KeyValues,
    introductions: Introductions,
    /// Pairs of ranks that have asked for their introduction in this turn, the lower rank first.
    unmet: Vec<(u32, u32)>,
    losses: Losses,
    rounds: Rounds,
    /// All ranks have passed the last fence: their logs no longer grow, and a restarted rank
    /// connects to no peer.
    past_last_fence: bool,
    /// The first rank whose log was full, and that keeps no messages any more: no rank is
    /// restarted. LOG-7
    unprotected_since: Option<usize>,
    /// Dropped after the ranks: the agents end the remaining processes of their ranks.
    placement: Placement,
    id: u64,
    config: JobConfig,
    /// Statistics by rank; `None`: the rank has not reported them.
    statistics: Vec<Option<Statistics>>,
    out: Sink,
    err: Sink,
    signals: Option<Signals>,
    phase: Phase,
    /// The outcome of a job that otherwise ends well: a rank was killed after it had left.
    late: Option<Outcome>,
    /// Dropped after the ranks, which commit to the loggers.
    loggers: EventLoggers,
    checkpoint_servers: CheckpointServers,
    /// Dropped after the ranks, which read it.
    standard_input: StandardInput,
    /// Dropped after the ranks.
    spilled: SpilledFiles,
    /// Dropped after the ranks.
    _checkpoints: CheckpointPlace,
    /// When the launcher itself got the first signal that asks for checkpoints of all ranks.
    signalled_at: Option<Instant>,
    /// The run stops when the ranks have checkpoints.
    whole_checkpoint: Option<WholeCheckpoint>,
    /// The run was stopped for a later one to go on.
    has_stopped: bool,
    /// Ranks that wait for the answer to a mark of their output, until the output before it is written;
    /// with the checkpoints.
    marked: Vec<(usize, u64)>,
    /// The output of ended ranks, for a later run.
    ended_output: Vec<Vec<SavedPosition>>,
    /// Dropped after all that writes there.
    job_dir: Option<JobDir>,
    _not_send: PhantomData<*const ()>,
}

impl Job {
    /// Starts all ranks.
    ///
    /// # Errors
    /// [`LaunchError::Program`] for a program that cannot be started,
    /// [`JobError::Argument`](refrain_job::JobError::Argument) and
    /// [`JobError::Config`](refrain_job::JobError::Config) for settings outside their limits,
    /// [`JobError::Control`](refrain_job::JobError::Control) if a system call fails. No process is
    /// left running then.
    pub fn start(spec: JobSpec) -> Result<Self, LaunchError> {
        start::start(spec, false)
    }

    /// As [`Job::start`], and passes signals to this process on to the ranks, from before the
    /// first process and file of the job is created: a signal that arrives while ranks are being
    /// started is passed on as soon as the job is served, and no process or file is left behind.
    /// SIGINT, SIGTERM, SIGHUP and SIGQUIT (unless this process was started with them ignored)
    /// also end the job: ranks that have not ended after 3 s, or at the second signal, are killed.
    /// SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on, and SIGTSTP then stops this process.
    /// With [`JobSpec::job_dir`], SIGUSR1 and SIGTERM stop the job at checkpoints of all ranks.
    ///
    /// Installs signal handlers for the whole process: for programs that only run a job.
    ///
    /// # Errors
    /// As [`Job::start`].
    pub fn start_forwarding_signals(spec: JobSpec) -> Result<Self, LaunchError> {
        start::start(spec, true)
    }

    /// Process ids of the current lives, by rank. Each is also the id of its process group. Empty
    /// when the job is over.
    pub fn processes(&self) -> Vec<u32> {
        self.ranks.iter().map(RankProcess::id).collect()
    }

    /// Process ids of the event loggers that this launcher has started, in their
    /// order; `None` for one that has ended.
    pub fn event_loggers(&self) -> Vec<Option<u32>> {
        self.loggers.processes()
    }

    /// Serves the job until it ends.
    ///
    /// # Errors
    /// The launcher itself cannot continue.
    pub fn wait(mut self) -> Result<Outcome, LaunchError> {
        loop {
            if let Some(outcome) = self.serve(Duration::MAX)? {
                return Ok(outcome);
            }
        }
    }

    /// Serves the job (control messages, output, ends of ranks) for at most `timeout`. `Some` when
    /// the job is over: all its processes have ended and their output is written.
    ///
    /// Between calls, requests of ranks wait.
    ///
    /// # Errors
    /// The launcher itself cannot continue.
    pub fn serve(&mut self, timeout: Duration) -> Result<Option<Outcome>, LaunchError> {
        Ok(serve::serve(self, timeout)?)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // All are killed before the first is waited for.
        self.ranks.iter().for_each(RankProcess::kill_group);
    }
}
