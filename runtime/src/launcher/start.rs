//! Starting a job.

use super::board::Board;
use super::checkpoints::CheckpointPlace;
use super::ending::Phase;
use super::faults::Faults;
use super::limits;
use super::lines;
use super::link::Link;
use super::lives::Lives;
use super::loggers::EventLoggers;
use super::ordering::Schedule;
use super::output;
use super::process::RankProcess;
use super::program;
use super::recoveries::Recoveries;
use super::restarting;
use super::signals::Signals;
use super::sink::{Sink, Stream};
use super::spawn::{self, Start};
use super::spilled::SpilledFiles;
use super::{Job, JobSpec, Output};
use crate::Error;
use crate::choice::{self, provider};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Rlimit;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What every life of every rank is started with.
#[derive(Debug)]
pub struct Starter {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    size: u32,
    /// To pin ranks to, in their order.
    cores: Vec<usize>,
    files: Rlimit,
    piped: bool,
    /// Kept open where ranks may be started again.
    descriptors: Vec<(u32, String, OwnedFd)>,
}

pub fn start(mut spec: JobSpec, forward_signals: bool) -> Result<Job, Error> {
    limits::check_ranks(spec.ranks)?;
    choice::check(&spec.config)?;
    restarting::check(&spec.config)?;
    check_descriptors(&spec)?;
    let program = program::resolve(&spec.program)?;
    provider::resolve(&mut spec.config)?;
    choice::verbs::check(&spec.config)?;
    let told = choice::verbs::environment(&spec.config, spec.ranks);
    spec.environment.extend(told);
    let files = limits::raise_open_files(spec.ranks, spec.config.recovery.max_restarts > 0)?;
    let allowed = allowed_cores();
    let cores = cores_to_pin(&spec, &allowed).to_vec();
    spec.config.ranks_on_host = spec.ranks;
    spec.config.cores_on_host = allowed.len().max(1) as u32;
    spec.config.cores = allowed.iter().map(|core| *core as u32).collect();
    if spec.config.recovery.max_restarts > 0 {
        // The same for every life of a rank: one that is started again has to hold
        // what the one before did.
        let default_bytes = || crate::world::default_log_bytes(spec.ranks);
        spec.config
            .log_memory_bytes
            .get_or_insert_with(default_bytes);
    }
    let schedule = Schedule::new(&spec.config.recovery, spec.ranks)?;
    // Before the first file and process: a launcher that a signal ends leaves both.
    let signals = forward_signals.then(Signals::install).transpose()?;
    let id = job_id();
    choice::spill::resolve(&mut spec.config, id)?;
    let checkpoints = CheckpointPlace::prepare(&mut spec.config, id)?;
    let loggers = EventLoggers::start(&spec.event_loggers, &mut spec.config, id)?;
    let faults = Faults::new(spec.faults, spec.ranks, loggers.processes().len())?;
    let max_restarts = spec.config.recovery.max_restarts;
    let lives = |rank| Lives::new(max_restarts, faults.kill_at_clock(rank));
    let mut job = Job {
        ranks: Vec::with_capacity(spec.ranks as usize),
        lives: (0..spec.ranks).map(lives).collect(),
        recoveries: Recoveries::new(spec.ranks as usize),
        faults,
        schedule,
        progress: None,
        starter: Starter {
            program,
            arguments: spec.arguments,
            environment: spec.environment,
            size: spec.ranks,
            cores,
            files,
            piped: spec.output != Output::Inherited,
            descriptors: spec.descriptors,
        },
        board: Board::new(spec.ranks as usize),
        id,
        config: spec.config.clone(),
        statistics: Vec::new(),
        out: Sink::new(Stream::Out),
        err: Sink::new(Stream::Err),
        signals,
        phase: Phase::Running,
        late: None,
        loggers,
        spilled: SpilledFiles::of(&spec.config, spec.ranks as usize),
        _checkpoints: checkpoints,
        _not_send: PhantomData,
    };
    for rank in 0..spec.ranks {
        let outputs = match spec.output {
            Output::Inherited => Vec::new(),
            Output::Plain => output::Output::both(None, max_restarts > 0),
            Output::Prefixed => {
                let prefix = lines::prefix(rank, spec.ranks);
                output::Output::both(Some(prefix), max_restarts > 0)
            }
        };
        // A failure drops the job, which ends the ranks that were started.
        let process = job.starter.start(rank, 0, outputs);
        let process = process.map_err(|error| cannot_start(rank, &job.starter.program, error))?;
        job.ranks.push(process);
    }
    if max_restarts == 0 {
        // Whoever waits for their end must not wait for the launcher's.
        job.starter.descriptors.clear();
    }
    job.begin_faults();
    Ok(job)
}

impl Starter {
    /// Starts a life of a rank.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(
        &self,
        rank: u32,
        incarnation: u32,
        outputs: Vec<output::Output>,
    ) -> io::Result<RankProcess> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let descriptors: Vec<(&str, &OwnedFd)> = self
            .descriptors
            .iter()
            .filter(|(owner, ..)| *owner == rank)
            .map(|(_, name, descriptor)| (name.as_str(), descriptor))
            .collect();
        let child = spawn::spawn(&Start {
            program: &self.program,
            arguments: &self.arguments,
            environment: &self.environment,
            rank,
            size: self.size,
            control: theirs.as_fd(),
            descriptors,
            core: self.cores.get(rank as usize).copied(),
            files: self.files,
            piped: self.piped,
            // What a life has read is gone for the next.
            stdin: rank == 0 && incarnation == 0 && !io::stdin().is_terminal(),
        })?;
        RankProcess::new(child, Link::new(ours), outputs)
    }
}

fn cannot_start(rank: u32, program: &Path, error: io::Error) -> Error {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => Error::Program {
            reason: format!(
                "{program} cannot be started: its interpreter (the first line of a script) or its loader is missing"
            ),
            found: true,
        },
        ErrorKind::PermissionDenied => Error::Program {
            reason: format!(
                "{program} may not be executed ({error}): look at its permissions and those of its folders"
            ),
            found: true,
        },
        _ => Error::Control {
            attempted: format!(
                "starting rank {rank} of {program} (limits: ulimit -u, ulimit -n, and the container's)"
            ),
            error,
        },
    }
}

/// Extra descriptors are for ranks that exist, and closed to all others.
fn check_descriptors(spec: &JobSpec) -> Result<(), Error> {
    for (rank, name, descriptor) in &spec.descriptors {
        if *rank >= spec.ranks {
            return Err(Error::Argument(format!(
                "{name} is for rank {rank}, but the job has {} ranks",
                spec.ranks
            )));
        }
        fcntl_setfd(descriptor, FdFlags::CLOEXEC).map_err(|error| Error::Control {
            attempted: format!("preparing {name} for rank {rank}"),
            error: error.into(),
        })?;
    }
    Ok(())
}

/// The cores that this process, and so its ranks, may use.
fn allowed_cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

/// The cores that ranks are pinned to, in their order; none if there are fewer
/// than ranks: pinned ranks that share a core could not be moved apart.
fn cores_to_pin<'a>(spec: &JobSpec, allowed: &'a [usize]) -> &'a [usize] {
    if spec.pin && allowed.len() >= spec.ranks as usize {
        allowed
    } else {
        &[]
    }
}

/// Differs between all jobs that a host runs at once.
fn job_id() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(std::process::id()) << 32 | u64::from(since.subsec_nanos() ^ since.as_secs() as u32)
}
