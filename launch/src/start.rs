//! Starting a job, or the part of one that runs on this host.

use super::board::Board;
use super::checkpoints::CheckpointPlace;
use super::clocks;
use super::ending::Phase;
use super::faults::Faults;
use super::hosts::message::Setup;
use super::hosts::{self, Hosts};
use super::hushing::Hush;
use super::inherited::InheritedNumbers;
use super::limits;
use super::lines;
use super::link::Link;
use super::lives::Lives;
use super::loggers::{EventLoggers, Reach};
use super::ordering::Schedule;
use super::out_of_memory::OutOfMemory;
use super::output;
use super::process::RankProcess;
use super::program;
use super::recoveries::Recoveries;
use super::restarting;
use super::same_addresses::can_fix_layout;
use super::same_random::{self, RandomBytes};
use super::signals::Signals;
use super::sink::{Sink, Stream};
use super::spawn::{self, Start};
use super::spilled::SpilledFiles;
use super::{Job, JobSpec, Output};
use crate::LaunchError;
use refrain_job::JobError;
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, provider};
use refrain_job::config::JobConfig;
use refrain_job::control::claim::{self, FD_VARIABLE, GREETING_VARIABLE};
use refrain_job::machine::unix_ns;
use refrain_job::same_memory;
use refrain_job::stderr::report;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Rlimit;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What every life of every rank of this host is started with.
#[derive(Debug)]
pub struct Starter {
    job: u64,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// Those of this host.
    ranks: Vec<u32>,
    /// Of the whole job.
    size: u32,
    /// To pin ranks to, in their order.
    cores: Vec<usize>,
    files: Rlimit,
    piped: bool,
    reads_stdin: bool,
    /// Kept open where ranks may be started again.
    descriptors: Vec<(u32, String, OwnedFd)>,
    numbers: InheritedNumbers,
    /// Addresses are not random.
    fixed_layout: bool,
    /// By place, the bytes at each rank's `AT_RANDOM`; empty: the kernel chooses.
    random_bytes: Vec<RandomBytes>,
}

/// What is wanted of one host.
#[derive(Debug)]
pub struct Wanted {
    /// As given.
    pub program: PathBuf,
    /// As given.
    pub arguments: Vec<OsString>,
    /// Added to this process's own.
    pub environment: Vec<(OsString, OsString)>,
    /// The ranks of this host.
    pub ranks: Vec<u32>,
    /// Of the whole job.
    pub size: u32,
    /// Each gets a core, if there are enough.
    pub pin: bool,
    /// Output is read by this process.
    pub piped: bool,
    /// Rank 0 reads this process's standard input.
    pub reads_stdin: bool,
    /// For one rank each.
    pub descriptors: Vec<(u32, String, OwnedFd)>,
}

/// A host that is ready to start its ranks.
#[derive(Debug)]
pub struct Prepared {
    /// Starts them.
    pub starter: Starter,
    /// Removes what they leave.
    pub spilled: SpilledFiles,
    /// As well.
    pub checkpoints: CheckpointPlace,
    /// Why addresses differ from life to life although `--same-memory` has `addresses`; for
    /// people.
    pub differing_addresses: Option<String>,
}

/// Where the ranks of a job are started.
#[derive(Debug)]
pub enum Place {
    /// By this process.
    Here(Starter),
    /// By agents.
    There(Hosts),
}

/// Finds the program and everything else that the ranks of this host need, and fills
/// in their settings.
///
/// # Errors
/// When something is missing, or is not as it should be.
pub fn prepare(
    config: &mut JobConfig,
    mut wanted: Wanted,
    job: u64,
) -> Result<Prepared, LaunchError> {
    let ranks = wanted.ranks.len() as u32;
    let restarts = config.recovery.max_restarts > 0;
    let program = program::resolve(&wanted.program)?;
    choice::library::resolve(config)?;
    provider::resolve(config)?;
    choice::verbs::check(config)?;
    let told = choice::verbs::environment(config, wanted.size);
    wanted.environment.extend(told);
    let files = limits::raise_open_files(ranks, restarts)?;
    let allowed = allowed_cores();
    config.ranks_on_host = ranks;
    config.cores_on_host = allowed.len().max(1) as u32;
    config.cores = allowed.iter().map(|core| *core as u32).collect();
    let mut same_addresses = SameAddresses::default();
    if restarts {
        let same_memory = config.recovery.same_memory;
        let told = (same_memory::VARIABLE.into(), same_memory.to_string().into());
        wanted.environment.push(told);
        if same_memory.addresses {
            same_addresses = SameAddresses::prepare(&program, ranks);
        }
        // The same for every life of a rank: one that is started again has to hold
        // what the one before did.
        let default_bytes = || refrain_job::machine::default_log_bytes(ranks);
        config.log_memory_bytes.get_or_insert_with(default_bytes);
    }
    clocks::add(config, &mut wanted, &program)?;
    crate::spill::resolve(config, job)?;
    let checkpoints = CheckpointPlace::prepare(config, job)?;
    let system = |error| JobError::Control {
        attempted: "reserving numbers for the descriptors of ranks".into(),
        error,
    };
    Ok(Prepared {
        starter: Starter {
            job,
            numbers: InheritedNumbers::reserve(1 + descriptors_per_rank(&wanted))
                .map_err(system)?,
            fixed_layout: same_addresses.fixed_layout,
            random_bytes: same_addresses.random_bytes,
            program,
            arguments: wanted.arguments,
            environment: wanted.environment,
            cores: cores_to_pin(wanted.pin, ranks, allowed),
            ranks: wanted.ranks,
            size: wanted.size,
            files,
            piped: wanted.piped,
            reads_stdin: wanted.reads_stdin,
            descriptors: wanted.descriptors,
        },
        spilled: SpilledFiles::of(config, wanted.size as usize),
        checkpoints,
        differing_addresses: same_addresses.differing,
    })
}

/// What ranks are started with so that each life has the same addresses.
#[derive(Debug, Default)]
struct SameAddresses {
    fixed_layout: bool,
    random_bytes: Vec<RandomBytes>,
    /// What the system forbids, for people.
    differing: Option<String>,
}

impl SameAddresses {
    fn prepare(program: &Path, ranks: u32) -> Self {
        let layout = can_fix_layout().map_err(|why| format!("addresses, since {why}"));
        let mut random_bytes = Ok(Vec::new());
        if same_random::can_be_traced(program) {
            let new = || (0..ranks).map(|_| same_random::new_random_bytes());
            random_bytes = same_random::can_set_random_bytes()
                .and_then(|()| {
                    new()
                        .collect::<io::Result<_>>()
                        .map_err(|error| error.to_string())
                })
                .map_err(|why| format!("stack guards, since {why}"));
        }
        let forbidden = [layout.as_ref().err(), random_bytes.as_ref().err()];
        let forbidden: Vec<&str> = forbidden
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        Self {
            differing: (!forbidden.is_empty()).then(|| forbidden.join("; and other ")),
            fixed_layout: layout.is_ok(),
            random_bytes: random_bytes.unwrap_or_default(),
        }
    }
}

/// Descriptors of its own that a rank has at most.
fn descriptors_per_rank(wanted: &Wanted) -> usize {
    let of = |rank: &u32| {
        let own = wanted
            .descriptors
            .iter()
            .filter(|(owner, ..)| owner == rank);
        own.count()
    };
    wanted.ranks.iter().map(of).max().unwrap_or(0)
}

/// Reports that addresses differ although `--same-memory` has `addresses`.
pub fn tell_differing_addresses(host: &str, why: &str) {
    report(format_args!(
        "{host}each incarnation of a rank has other {why}; or leave addresses out of --same-memory"
    ));
}

pub fn start(mut spec: JobSpec, forward_signals: bool) -> Result<Job, LaunchError> {
    limits::check_ranks(spec.ranks)?;
    choice::check(&spec.config)?;
    restarting::check(&spec.config)?;
    check_descriptors(&spec)?;
    let schedule = Schedule::new(&spec.config.recovery, spec.ranks)?;
    // Before the first file and process: a launcher that a signal ends leaves both.
    let mut signals = forward_signals.then(Signals::install).transpose()?;
    let id = job_id();
    spec.config.began_unix_ns = unix_ns();
    let (place, spilled, checkpoints) = match spec.hosts.hosts.is_empty() {
        true => start_here(&mut spec, id)?,
        false => {
            let place = Place::There(start_agents(&mut spec, id, signals.as_mut())?);
            let spilled = SpilledFiles::none(spec.ranks as usize);
            (place, spilled, CheckpointPlace::default())
        }
    };
    let reach = match place {
        Place::Here(_) => Reach::ThisHost,
        Place::There(_) => Reach::OtherHosts,
    };
    let job = (id, spec.ranks);
    let loggers = EventLoggers::start(&spec.event_loggers, &mut spec.config, job, reach)?;
    let faults = Faults::new(spec.faults, spec.ranks, loggers.processes().len())?;
    let max_restarts = spec.config.recovery.max_restarts;
    let lives = |rank| Lives::new(max_restarts, faults.kill_at_clock(rank));
    let mut job = Job {
        ranks: Vec::with_capacity(spec.ranks as usize),
        lives: (0..spec.ranks).map(lives).collect(),
        recoveries: Recoveries::new(spec.ranks as usize),
        hushes: vec![Hush::new(Instant::now()); spec.ranks as usize],
        faults,
        out_of_memory: OutOfMemory::new(),
        schedule,
        progress: None,
        board: Board::new(spec.ranks as usize),
        past_last_fence: false,
        place,
        id,
        config: spec.config,
        statistics: Vec::new(),
        out: Sink::new(Stream::Out),
        err: Sink::new(Stream::Err),
        signals,
        phase: Phase::Running,
        late: None,
        loggers,
        spilled,
        _checkpoints: checkpoints,
        _not_send: PhantomData,
    };
    for rank in 0..spec.ranks {
        let outputs = outputs(spec.output, rank, spec.ranks, max_restarts > 0);
        // A failure drops the job, which ends the ranks that were started.
        let process = job.start_life(rank, 0, outputs);
        let process = process.map_err(|error| job.cannot_start(rank, error))?;
        job.ranks.push(process);
    }
    if let Place::Here(starter) = &mut job.place
        && max_restarts == 0
    {
        // Whoever waits for their end must not wait for the launcher's.
        starter.descriptors.clear();
    }
    job.begin_faults();
    // Those of the time before; no descriptor tells of them any more.
    job.take_signals();
    Ok(job)
}

fn outputs(output: Output, rank: u32, ranks: u32, restarts: bool) -> Vec<output::Output> {
    match output {
        Output::Inherited => Vec::new(),
        Output::Plain => output::Output::both(None, restarts),
        Output::Prefixed => output::Output::both(Some(lines::prefix(rank, ranks)), restarts),
    }
}

fn start_here(
    spec: &mut JobSpec,
    id: u64,
) -> Result<(Place, SpilledFiles, CheckpointPlace), LaunchError> {
    let wanted = Wanted {
        program: std::mem::take(&mut spec.program),
        arguments: std::mem::take(&mut spec.arguments),
        environment: std::mem::take(&mut spec.environment),
        ranks: (0..spec.ranks).collect(),
        size: spec.ranks,
        pin: spec.pin,
        piped: spec.output != Output::Inherited,
        reads_stdin: true,
        descriptors: std::mem::take(&mut spec.descriptors),
    };
    let prepared = prepare(&mut spec.config, wanted, id)?;
    if let Some(why) = &prepared.differing_addresses {
        tell_differing_addresses("", why);
    }
    let place = Place::Here(prepared.starter);
    Ok((place, prepared.spilled, prepared.checkpoints))
}

/// How the variables begin that ranks of other hosts get: Refrain's, libfabric's and
/// libibverbs'.
const PASSED_ON: [&[u8]; 4] = [b"REFRAIN_", b"FI_", b"IBV_", b"RDMAV_"];

fn start_agents(
    spec: &mut JobSpec,
    id: u64,
    signals: Option<&mut Signals>,
) -> Result<Hosts, LaunchError> {
    hosts::check(spec)?;
    limits::raise_open_files_of_hosts(spec.hosts.hosts.len())?;
    LIBFABRIC.fill_in(&mut spec.config.libfabric);
    LIBIBVERBS.fill_in(&mut spec.config.verbs.library);
    let of_this_job = |name: &OsString| {
        let name = name.as_encoded_bytes();
        let control = [FD_VARIABLE, GREETING_VARIABLE].map(str::as_bytes);
        PASSED_ON.iter().any(|prefix| name.starts_with(prefix)) && !control.contains(&name)
    };
    let passed_on = std::env::vars_os().filter(|(name, _)| of_this_job(name));
    let setup = Setup {
        job: id,
        size: spec.ranks,
        ranks: Vec::new(),
        program: std::mem::take(&mut spec.program),
        arguments: std::mem::take(&mut spec.arguments),
        environment: passed_on
            .chain(std::mem::take(&mut spec.environment))
            .collect(),
        folder: std::env::current_dir().ok(),
        pin: spec.pin,
        config: Box::new(spec.config.clone()),
    };
    let hosts = hosts::gather(&spec.hosts, &setup, signals)?;
    spec.config.fabric = hosts.fabric()?;
    Ok(hosts)
}

impl Job {
    /// Starts a life of a rank; on another host that it was is told later.
    pub(super) fn start_life(
        &self,
        rank: u32,
        incarnation: u32,
        outputs: Vec<output::Output>,
    ) -> io::Result<RankProcess> {
        match &self.place {
            Place::Here(starter) => {
                let (child, link) = starter.start(rank, incarnation)?;
                RankProcess::new(child, link, outputs)
            }
            Place::There(hosts) => {
                let started = hosts.start(rank, incarnation, outputs);
                started.map_err(io::Error::other)
            }
        }
    }

    fn cannot_start(&self, rank: u32, error: io::Error) -> LaunchError {
        match &self.place {
            Place::Here(starter) => starter.cannot_start(rank, error),
            Place::There(_) => JobError::Control {
                attempted: format!("starting rank {rank}"),
                error,
            }
            .into(),
        }
    }
}

impl Starter {
    /// Starts a life of a rank.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(&self, rank: u32, incarnation: u32) -> io::Result<(Child, Link)> {
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
        let greeting = claim::greeting(self.job, rank);
        claim::greet(ours.as_fd(), &greeting)?;
        let place = self.ranks.iter().position(|other| *other == rank);
        let child = spawn::spawn(&Start {
            program: &self.program,
            arguments: &self.arguments,
            environment: &self.environment,
            rank,
            size: self.size,
            control: theirs.as_fd(),
            greeting: &greeting,
            numbers: &self.numbers,
            descriptors,
            core: place.and_then(|place| self.cores.get(place).copied()),
            files: self.files,
            piped: self.piped,
            // What a life has read is gone for the next.
            stdin: self.reads_stdin && rank == 0 && incarnation == 0 && !io::stdin().is_terminal(),
            fixed_layout: self.fixed_layout,
            random_bytes: place.and_then(|place| self.random_bytes.get(place).copied()),
        })?;
        Ok((child, Link::new(ours)))
    }

    /// The ranks share their cores with others: none is pinned from now on.
    pub fn unpin(&mut self) {
        self.cores.clear();
    }

    /// Why it could not.
    pub fn cannot_start(&self, rank: u32, error: io::Error) -> LaunchError {
        cannot_start(rank, &self.program, error)
    }
}

fn cannot_start(rank: u32, program: &Path, error: io::Error) -> LaunchError {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => LaunchError::Program {
            reason: format!(
                "{program} cannot be started: its interpreter (first line of a script) or loader is missing"
            ),
            found: true,
        },
        ErrorKind::PermissionDenied => LaunchError::Program {
            reason: format!(
                "{program} cannot be executed ({error}): check its permissions and those of its folders"
            ),
            found: true,
        },
        _ => JobError::Control {
            attempted: format!(
                "starting rank {rank} of {program} (check ulimit -u, ulimit -n and the container's limits)"
            ),
            error,
        }
        .into(),
    }
}

/// Extra descriptors are for ranks that exist, and closed to all others.
fn check_descriptors(spec: &JobSpec) -> Result<(), JobError> {
    for (rank, name, descriptor) in &spec.descriptors {
        if *rank >= spec.ranks {
            return Err(JobError::Argument(format!(
                "{name} is for rank {rank}, which does not exist: the job has {} ranks",
                spec.ranks
            )));
        }
        fcntl_setfd(descriptor, FdFlags::CLOEXEC).map_err(|error| JobError::Control {
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
fn cores_to_pin(pin: bool, ranks: u32, allowed: Vec<usize>) -> Vec<usize> {
    if pin && allowed.len() >= ranks as usize {
        allowed
    } else {
        Vec::new()
    }
}

/// Differs between all jobs that a host runs at once.
fn job_id() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(std::process::id()) << 32 | u64::from(since.subsec_nanos() ^ since.as_secs() as u32)
}
