//! Starting a job.

use super::board::Board;
use super::ending::Phase;
use super::limits;
use super::lines;
use super::link::Link;
use super::loggers::EventLoggers;
use super::process::RankProcess;
use super::program;
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
use std::io::{self, ErrorKind, IsTerminal};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn start(mut spec: JobSpec) -> Result<Job, Error> {
    limits::check_ranks(spec.ranks)?;
    choice::check(&spec.config)?;
    check_descriptors(&spec)?;
    let program = program::resolve(&spec.program)?;
    provider::resolve(&mut spec.config)?;
    let files = limits::raise_open_files(spec.ranks)?;
    let allowed = allowed_cores();
    let cores = cores_to_pin(&spec, &allowed);
    spec.config.ranks_on_host = spec.ranks;
    spec.config.cores_on_host = allowed.len().max(1) as u32;
    spec.config.cores = allowed.iter().map(|core| *core as u32).collect();
    let id = job_id();
    choice::spill::resolve(&mut spec.config, id)?;
    let loggers = EventLoggers::start(&spec.event_loggers, &mut spec.config, id)?;
    let mut job = Job {
        ranks: Vec::with_capacity(spec.ranks as usize),
        board: Board::new(spec.ranks as usize),
        id,
        config: spec.config.clone(),
        statistics: Vec::new(),
        out: Sink::new(Stream::Out),
        err: Sink::new(Stream::Err),
        signals: None,
        phase: Phase::Running,
        loggers,
        _spilled: SpilledFiles::of(&spec.config),
        _not_send: PhantomData,
    };
    for rank in 0..spec.ranks {
        // A failure drops the job, which ends the ranks that were started.
        let process = start_rank(
            &spec,
            &program,
            rank,
            cores.get(rank as usize).copied(),
            files,
        )
        .map_err(|error| cannot_start(rank, &program, error))?;
        job.ranks.push(process);
    }
    Ok(job)
}

fn start_rank(
    spec: &JobSpec,
    program: &Path,
    rank: u32,
    core: Option<usize>,
    files: Rlimit,
) -> io::Result<RankProcess> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let descriptors: Vec<(&str, &OwnedFd)> = spec
        .descriptors
        .iter()
        .filter(|(owner, ..)| *owner == rank)
        .map(|(_, name, descriptor)| (name.as_str(), descriptor))
        .collect();
    let child = spawn::spawn(&Start {
        program,
        arguments: &spec.arguments,
        environment: &spec.environment,
        rank,
        size: spec.ranks,
        control: theirs.as_fd(),
        descriptors,
        core,
        files,
        piped: spec.output != Output::Inherited,
        stdin: rank == 0 && !io::stdin().is_terminal(),
    })?;
    let prefix = (spec.output == Output::Prefixed).then(|| lines::prefix(rank, spec.ranks));
    RankProcess::new(child, Link::new(ours), prefix)
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
