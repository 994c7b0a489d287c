//! Starts a job, or the part of a job that runs on this host.

use super::checkpoint_schedule::Schedule;
use super::checkpoint_servers::{self, CheckpointServers};
use super::checkpoints::CheckpointPlace;
use super::child_ends::ChildEnds;
use super::clocks;
use super::ending::Phase;
use super::faults::Faults;
use super::hosts::Hosts;
use super::hosts::beginning;
use super::hosts::lease::LeaseLength;
use super::hosts::listing::HostsSpec;
use super::hosts::message::{ServicesSetup, Setup};
use super::hosts::tree::Branch;
use super::job_dir::{GoingOn, JobDir, whole_checkpoint};
use super::key_values::KeyValues;
use super::limits;
use super::linkage;
use super::lives::Lives;
use super::loggers::spread::{self, Spread};
use super::loggers::{EventLoggers, Reach, on_hosts};
use super::monitor::Monitor;
use super::output;
use super::printed;
use super::process::RankProcess;
use super::program::Program;
use super::rate_limit::RateLimit;
use super::recoveries::Recoveries;
use super::restarts;
use super::same_memory::{self, RandomBytes};
use super::signals::Signals;
use super::sink::{Sink, Stream};
use super::spawn::{HostPart, InheritedNumbers, Starter};
use super::spill::SpilledFiles;
use super::standard_input::StandardInput;
use super::verdict::OutOfMemory;
use super::{Job, JobSpec, Output, SetsSpec};
use crate::error::LaunchError;
use refrain_job::JobError;
use refrain_job::choice::events::Loggers;
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, FabricChoice, provider};
use refrain_job::control::claim::{FD_VARIABLE, GREETING_VARIABLE};
use refrain_job::introductions::Introductions;
use refrain_job::machine::{available_memory_bytes, unix_ns};
use refrain_job::same_memory::VARIABLE as SAME_MEMORY_VARIABLE;
use refrain_logging::held::Losses;
use refrain_logging::rounds::Rounds;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::OsString;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for the agents to get the first requests to start services.
const SERVICES_MAX: Duration = Duration::from_secs(10);

/// A host that is ready to start its ranks.
#[derive(Debug)]
pub struct Prepared {
    /// Starts the ranks.
    pub starter: Starter,
    /// Removes their spilled files.
    pub spilled: SpilledFiles,
    /// Removes their checkpoints.
    pub checkpoints: CheckpointPlace,
    /// Why addresses differ in each life although `--same-memory` has `addresses`; for people.
    pub differing_addresses: Option<String>,
}

/// Where the ranks of a job are started.
#[derive(Debug)]
pub enum Placement {
    /// The ranks are started by this process.
    Local(Box<Starter>),
    /// The ranks are started by agents.
    Remote(Box<Hosts>),
}

/// Finds the program and all other files that the ranks of this host need, and fills in the ranks'
/// settings.
///
/// # Errors
/// A file is missing, or a setting is invalid.
pub fn prepare(mut part: HostPart, polls_all_ends: bool) -> Result<Prepared, LaunchError> {
    let setup = &mut part.setup;
    let (config, job, size) = (&mut *setup.config, setup.job, setup.size);
    let ranks = setup.ranks.len() as u32;
    let restarts = config.recovery.max_restarts > 0;
    for program in &mut setup.programs {
        program.find()?;
        linkage::check(program, &setup.environment, size)?;
    }
    choice::library::resolve(config)?;
    provider::resolve(config)?;
    choice::verbs::check(config)?;
    let chosen = FabricChoice::parse(&config.fabric);
    let is_near = matches!(chosen, Ok(FabricChoice::Auto | FabricChoice::Shm));
    if !is_near {
        config.collectives.host_of_rank.clear();
    }
    let for_verbs = choice::verbs::environment(config, size);
    setup.environment.extend(for_verbs);
    let open_files = limits::OpenFiles {
        ranks,
        restarts,
        clocks: config.recovery.record_clocks,
        agents: setup.branch.map_or(0, Branch::children),
    };
    let (files, polls_ends) = limits::raise_open_files(open_files, polls_all_ends)?;
    let allowed = allowed_cores();
    config.ranks_on_host = ranks;
    config.cores_on_host = allowed.len().max(1) as u32;
    config.cores = allowed.iter().map(|core| *core as u32).collect();
    if let Some(bytes) = config
        .log_memory_bytes
        .filter(|_| !config.log_memory_is_default)
    {
        check_log_memory(bytes, ranks)?;
    }
    let mut same_addresses = SameAddresses::default();
    if restarts {
        let same_memory = config.recovery.same_memory;
        let variable = (SAME_MEMORY_VARIABLE.into(), same_memory.to_string().into());
        setup.environment.push(variable);
        if same_memory.addresses {
            same_addresses = SameAddresses::prepare(&setup.programs, ranks);
        }
        // The same in each incarnation: a later one has to hold the log of an earlier one.
        if config.log_memory_bytes.is_none() {
            config.log_memory_is_default = true;
            config.log_memory_bytes = Some(refrain_job::machine::default_log_bytes(ranks));
        }
    }
    clocks::add(&mut part)?;
    let config = &mut *part.setup.config;
    crate::spill::resolve(config, job)?;
    let checkpoints = CheckpointPlace::prepare(config, job)?;
    let spilled = SpilledFiles::of(config, size as usize);
    let numbers = InheritedNumbers::reserve(1 + descriptors_per_rank(&part));
    Ok(Prepared {
        starter: Starter {
            numbers: numbers.map_err(|error| {
                JobError::control("reserving numbers for the descriptors of ranks", error)
            })?,
            fixed_layout: same_addresses.fixed_layout,
            random_bytes: same_addresses.random_bytes,
            // Ranks pinned to the same core could not be moved apart, so ranks are pinned only if
            // there are enough cores.
            cores: match part.setup.pin && allowed.len() >= ranks as usize {
                true => allowed,
                false => Vec::new(),
            },
            part,
            files,
            polls_ends,
        },
        spilled,
        checkpoints,
        differing_addresses: same_addresses.differing,
    })
}

/// Starts the ranks; removes their files.
type HostParts = (Placement, SpilledFiles, CheckpointPlace);

/// Settings of a rank's start that give each life the same addresses.
#[derive(Debug, Default)]
struct SameAddresses {
    fixed_layout: bool,
    random_bytes: Vec<RandomBytes>,
    /// Why the system does not allow all of them, for people.
    differing: Option<String>,
}

impl SameAddresses {
    fn prepare(programs: &[Program], ranks: u32) -> Self {
        let layout = same_memory::can_fix_layout().map_err(|why| format!("addresses, since {why}"));
        let mut random_bytes = Ok(Vec::new());
        if (programs.iter()).all(|program| same_memory::can_be_traced(&program.path)) {
            let new = || (0..ranks).map(|_| same_memory::new_random_bytes());
            random_bytes = same_memory::can_set_random_bytes()
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

/// Maximum number of a rank's own descriptors.
fn descriptors_per_rank(part: &HostPart) -> usize {
    let owners = || part.descriptors.iter().map(|(owner, ..)| owner);
    let of = |rank| owners().filter(|owner| *owner == rank).count();
    owners().map(of).max().unwrap_or(0)
}

pub fn start(mut spec: JobSpec, forward_signals: bool) -> Result<Job, LaunchError> {
    limits::check_ranks(spec.ranks())?;
    choice::check(&spec.config)?;
    restarts::check(&spec.config)?;
    check_descriptors(&spec)?;
    spec.config.recovery.set_of_rank = set_of_rank(&spec)?;
    let losses = Losses::new(restarts::tolerance(&spec.config, spec.ranks())?);
    let rounds = Rounds::new(&spec.config.recovery.set_of_rank);
    let schedule = Schedule::new(&spec.config.recovery, spec.ranks())?;
    // Before the first file and process, since a launcher that a signal ends leaves both behind.
    let mut signals = forward_signals.then(Signals::install).transpose()?;
    let service_ports = check_services(&mut spec)?;
    let new_job = job_id();
    let mut job_dir = JobDir::open(&mut spec, new_job)?;
    let spread = spread(&spec)?;
    let service_ports = service_ports + spread.as_ref().map_or(0, Spread::loggers_on_host);
    let id = job_dir.as_ref().map_or(new_job, JobDir::job);
    let now = unix_ns();
    spec.config.began_unix_ns = (job_dir.as_mut()).map_or(now, |dir| dir.began_unix_ns(now));
    let (mut placement, spilled, checkpoints) = match spec.hosts.hosts.is_empty() {
        true => start_here(&mut spec, id)?,
        false => {
            let started = start_agents(&mut spec, (id, service_ports), signals.as_mut());
            started.map_err(|error| match job_dir {
                Some(_) => whole_checkpoint::interrupted(error),
                None => error,
            })?
        }
    };
    let reach = match placement {
        Placement::Local(_) => Reach::ThisHost,
        Placement::Remote(_) => Reach::OtherHosts,
    };
    let ranks = spec.ranks();
    let job = (id, ranks);
    let services = match &placement {
        Placement::Local(_) => Vec::new(),
        Placement::Remote(hosts) => hosts.services(),
    };
    let config = &mut spec.config;
    let place = (reach, &*services, spread.as_ref());
    let loggers = EventLoggers::start(&spec.event_loggers, config, job, place)?;
    let number = loggers.processes().len() as u32;
    let checkpoint_servers = match checkpoint_servers::are_needed(config) && spread.is_none() {
        true => CheckpointServers::start(&services, number)?,
        false => CheckpointServers::default(),
    };
    if let Placement::Remote(hosts) = &mut placement
        && !services.is_empty()
    {
        // An agent that is lost now is noticed when the job is served.
        let _ = hosts.flush_until(Instant::now() + SERVICES_MAX);
        checkpoint_servers.await_ready()?;
    }
    let faults = Faults::new(spec.faults, ranks, loggers.processes().len())?;
    let max_restarts = spec.config.recovery.max_restarts;
    let introductions = match &mut job_dir {
        Some(dir) if !spec.config.introduces_all() => dir.open_introductions(ranks)?,
        _ => Introductions::new(ranks as usize, spec.config.introduces_all()),
    };
    let going_on = (job_dir.as_mut()).map(|dir| dir.begin_run(&spec.config));
    let GoingOn { incarnation, run } = going_on.transpose()?.unwrap_or_default();
    let lives = |rank| {
        let lives = Lives::new(max_restarts, faults.kill_at_clock(rank));
        match incarnation {
            0 => lives,
            _ => lives.of_later_run(incarnation),
        }
    };
    let child_ends = match &placement {
        Placement::Local(starter) if !starter.polls_ends => Some(ChildEnds::watch()?),
        _ => None,
    };
    let mut job = Job {
        ranks: Vec::with_capacity(ranks as usize),
        child_ends,
        lives: (0..ranks).map(lives).collect(),
        recoveries: Recoveries::new(ranks as usize),
        rate_limits: vec![RateLimit::new(Instant::now()); ranks as usize],
        faults,
        out_of_memory: OutOfMemory::new(),
        schedule,
        monitor: Monitor::open(&spec.monitor)?,
        progress: None,
        key_values: KeyValues::new(ranks as usize),
        introductions,
        unmet: Vec::new(),
        losses,
        rounds,
        past_last_fence: false,
        unprotected_since: None,
        standard_input: StandardInput::of_launcher(max_restarts > 0, reach),
        placement,
        id,
        config: spec.config,
        statistics: Vec::new(),
        out: Sink::new(Stream::Out),
        err: Sink::new(Stream::Err),
        signals,
        phase: Phase::Running,
        late: None,
        loggers,
        checkpoint_servers,
        spilled,
        _checkpoints: checkpoints,
        signalled_at: None,
        whole_checkpoint: None,
        has_stopped: false,
        marked: Vec::new(),
        ended_output: Vec::new(),
        job_dir,
        _not_send: PhantomData,
    };
    for rank in 0..ranks {
        let mut outputs = outputs(spec.output, rank, ranks, max_restarts > 0);
        if let (1.., Some(dir)) = (incarnation, &job.job_dir) {
            let mut saved = dir.saved_output(rank as usize).into_iter();
            outputs.iter_mut().for_each(|it| it.go_on(saved.next()));
        }
        // A failure drops the job, which ends the ranks that were started.
        let process = job.start_life(rank, incarnation, outputs);
        let process = process.map_err(|error| job.cannot_start(rank, error))?;
        job.ranks.push(process);
    }
    if let Placement::Local(starter) = &mut job.placement
        && max_restarts == 0
    {
        // A reader that waits for all copies of such a descriptor to be closed must not wait for
        // the launcher's copy.
        starter.part.descriptors.clear();
    }
    if incarnation > 0 {
        let dir = job
            .job_dir
            .as_ref()
            .map(|dir| dir.path().display().to_string());
        let dir = dir.unwrap_or_default();
        job.say(Some(format!(
            "--job-dir {dir}: the job goes on in its run {run}, with incarnation {incarnation} of its ranks"
        )));
    }
    job.begin_faults();
    // Signals that were caught before; no descriptor reports them any more.
    job.take_signals();
    Ok(job)
}

fn outputs(output: Output, rank: u32, ranks: u32, restarts: bool) -> Vec<output::Output> {
    match output {
        Output::Inherited => Vec::new(),
        Output::Plain => output::Output::both(None, restarts),
        Output::Prefixed => output::Output::both(Some(printed::prefix(rank, ranks)), restarts),
    }
}

fn setup(spec: &mut JobSpec, id: u64) -> Setup {
    Setup {
        job: id,
        size: spec.ranks(),
        ranks: Vec::new(),
        programs: spec.programs.clone(),
        environment: std::mem::take(&mut spec.environment),
        folder: None,
        pin: spec.pin,
        services: None,
        lease: None,
        branch: None,
        config: Box::new(spec.config.clone()),
    }
}

/// By rank, the number of its correlated set. SET-1
fn set_of_rank(spec: &JobSpec) -> Result<Vec<u32>, JobError> {
    if spec.sets == SetsSpec::None {
        return Ok(Vec::new());
    }
    let wrong = |error: String| JobError::Config(format!("--sets: {error}"));
    let host_of_rank = match spec.hosts.hosts.is_empty() {
        true => vec![0; spec.ranks() as usize],
        false => (spec.hosts.place(spec.ranks())).map_err(|error| wrong(error.to_string()))?,
    };
    let sets = spec.sets.set_of_rank(&host_of_rank);
    let sets = sets.map_err(|error| wrong(error.to_string()))?;
    restarts::check_sets(&spec.config, &sets)?;
    Ok(sets)
}

/// The hosts of the ranks, unless an earlier run of the job has begun on others. COLL-1
fn fill_in_hosts(spec: &mut JobSpec, host_of_rank: Vec<u32>) {
    let known = &mut spec.config.collectives.host_of_rank;
    if known.is_empty() {
        *known = host_of_rank;
    }
}

fn start_here(spec: &mut JobSpec, id: u64) -> Result<HostParts, LaunchError> {
    fill_in_hosts(spec, vec![0; spec.ranks() as usize]);
    let part = HostPart {
        setup: Setup {
            ranks: (0..spec.ranks()).collect(),
            ..setup(spec, id)
        },
        piped: spec.output != Output::Inherited,
        descriptors: std::mem::take(&mut spec.descriptors),
    };
    let mut prepared = prepare(part, false)?;
    if let Some(why) = &prepared.differing_addresses {
        same_memory::report_differing_addresses("", why);
    }
    spec.config = std::mem::take(&mut *prepared.starter.part.setup.config);
    let placement = Placement::Local(Box::new(prepared.starter));
    Ok((placement, prepared.spilled, prepared.checkpoints))
}

/// Prefixes of the environment variables that ranks of other hosts get: of Refrain, libfabric and
/// libibverbs.
const PASSED_ON: [&[u8]; 4] = [b"REFRAIN_", b"FI_", b"IBV_", b"RDMAV_"];

fn start_agents(
    spec: &mut JobSpec,
    (id, service_ports): (u64, u32),
    signals: Option<&mut Signals>,
) -> Result<HostParts, LaunchError> {
    check_for_hosts(spec)?;
    limits::raise_open_files_of_hosts(spec.hosts.hosts.len())?;
    LIBFABRIC.fill_in(&mut spec.config.libfabric);
    LIBIBVERBS.fill_in(&mut spec.config.verbs.library);
    let of_this_job = |name: &OsString| {
        let name = name.as_encoded_bytes();
        let control = [FD_VARIABLE, GREETING_VARIABLE].map(str::as_bytes);
        PASSED_ON.iter().any(|prefix| name.starts_with(prefix)) && !control.contains(&name)
    };
    let passed_on = std::env::vars_os().filter(|(name, _)| of_this_job(name));
    let placed = hosts_of_ranks(spec)?;
    fill_in_hosts(spec, placed);
    let mut setup = setup(spec, id);
    setup.environment.splice(..0, passed_on);
    setup.folder = std::env::current_dir().ok();
    if service_ports > 0 {
        setup.services = Some(ServicesSetup {
            ports: service_ports,
            events: spec.event_loggers.directory.clone(),
            rings: spec.event_loggers.rings.clone(),
        });
    }
    if spec.config.recovery.max_restarts > 0 {
        let length = spec.hosts.lease.unwrap_or(HostsSpec::LEASE);
        setup.lease = Some(LeaseLength(length));
    }
    let hosts = beginning::gather(&spec.hosts, setup, signals)?;
    spec.config.fabric = hosts.fabric()?;
    let spilled = SpilledFiles::none(spec.ranks() as usize);
    Ok((
        Placement::Remote(Box::new(hosts)),
        spilled,
        CheckpointPlace::default(),
    ))
}

/// Checks `--service-nodes`, and returns the number of ports that each of these hosts needs.
fn check_services(spec: &mut JobSpec) -> Result<u32, JobError> {
    let hosts = spec.hosts.services as u32;
    let protocol = spec.config.protocol.clone();
    let ranks = spec.ranks();
    if spec.event_loggers.spread {
        if hosts > 0 {
            return Err(JobError::Config(format!(
                "--spread-loggers cannot be combined with --service-nodes {hosts}, which have the event loggers: leave one of them out"
            )));
        }
        let on = hosts_of_ranks(spec)?;
        spread::choose_shards(&mut spec.event_loggers, &protocol, &on)?;
    }
    if hosts == 0 {
        return Ok(0);
    }
    let loggers = on_hosts::count_on(hosts, &mut spec.event_loggers, &protocol, ranks)?;
    if loggers == 0 && !checkpoint_servers::are_needed(&spec.config) {
        return Err(JobError::Config(format!(
            "--service-nodes {hosts} has no effect: with --protocol {protocol} and these options the job starts no event loggers and no checkpoint servers"
        )));
    }
    Ok(loggers.div_ceil(hosts) + 1)
}

/// By rank, its host at the start; all on the first one without a list of hosts.
fn hosts_of_ranks(spec: &JobSpec) -> Result<Vec<u32>, JobError> {
    if spec.hosts.hosts.is_empty() {
        return Ok(vec![0; spec.ranks() as usize]);
    }
    let placed = spec.hosts.place(spec.ranks());
    let placed = placed.map_err(|error| JobError::Config(error.to_string()))?;
    Ok(placed.into_iter().map(|host| host as u32).collect())
}

/// Where event loggers are, if they are spread over the hosts of ranks.
fn spread(spec: &JobSpec) -> Result<Option<Spread>, JobError> {
    let loggers = &spec.event_loggers;
    let Some(Loggers::Started(shards)) = loggers.loggers.as_ref().filter(|_| loggers.spread) else {
        return Ok(None);
    };
    let on = hosts_of_ranks(spec)?;
    let begun_on = &spec.config.collectives.host_of_rank;
    let begun_on = if begun_on.is_empty() { &on } else { begun_on };
    spread::spread(begun_on, &on, (*shards, loggers.replicas)).map(Some)
}

/// Refuses settings that jobs over several hosts do not support yet, or that have no effect there.
fn check_for_hosts(spec: &JobSpec) -> Result<(), JobError> {
    let config = &spec.config;
    let refused = [
        (config.events.gate_output, "--gate-output"),
        (spec.faults.suspect_after.is_some(), "--suspect-ranks-after"),
        (
            !spec.descriptors.is_empty(),
            "a job with descriptors of its own",
        ),
        (config.fabric == "shm", "--fabric shm"),
        (config.events.way == "shm", "--event-way shm"),
        (
            spec.output == Output::Inherited,
            "output that is not passed on by the launcher",
        ),
    ];
    let spares = spec.hosts.spares;
    if spares > 0 && config.recovery.max_restarts == 0 {
        return Err(JobError::Config(format!(
            "--spare-nodes {spares} has no effect without restarts: choose a logging --protocol and --max-restarts above 0"
        )));
    }
    match refused.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(JobError::Config(format!(
            "{what} cannot be combined with --host and --hostfile: use one host, or leave it out"
        ))),
        None => Ok(()),
    }
}

impl Job {
    /// Starts a life of a rank; an agent reports the start later.
    pub(super) fn start_life(
        &mut self,
        rank: u32,
        incarnation: u32,
        outputs: Vec<output::Output>,
    ) -> io::Result<RankProcess> {
        match &self.placement {
            Placement::Local(starter) => {
                let input = match rank {
                    0 => self.standard_input.of_next_life()?,
                    _ => None,
                };
                let (child, link) = starter.start(rank, input)?;
                RankProcess::new(child, starter.polls_ends, link, outputs)
            }
            Placement::Remote(hosts) => {
                let started = hosts.start(rank, incarnation, outputs);
                if rank == 0 && started.is_ok() {
                    let agent = hosts.agent_of(rank).clone();
                    self.standard_input
                        .begin_far_life(agent, (rank, incarnation))?;
                }
                started.map_err(io::Error::other)
            }
        }
    }

    fn cannot_start(&self, rank: u32, error: io::Error) -> LaunchError {
        match &self.placement {
            Placement::Local(starter) => starter.cannot_start(rank, error),
            Placement::Remote(_) => {
                JobError::control(format!("starting rank {rank}"), error).into()
            }
        }
    }
}

/// Extra descriptors must be for ranks that exist; all other processes must not inherit them.
fn check_descriptors(spec: &JobSpec) -> Result<(), JobError> {
    for (rank, name, descriptor) in &spec.descriptors {
        if *rank >= spec.ranks() {
            return Err(JobError::Argument(format!(
                "{name} is for rank {rank}, which does not exist: the job has {} ranks",
                spec.ranks()
            )));
        }
        fcntl_setfd(descriptor, FdFlags::CLOEXEC).map_err(|error| {
            JobError::control(format!("preparing {name} for rank {rank}"), error)
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

/// Checks that the named log memory is there. Ranks do not: what is available changes while they
/// start.
fn check_log_memory(bytes: u64, ranks: u32) -> Result<(), JobError> {
    let available = available_memory_bytes().unwrap_or(u64::MAX);
    if bytes.saturating_mul(ranks.into()) <= available {
        return Ok(());
    }
    Err(JobError::Config(format!(
        "--log-memory: {ranks} ranks × {bytes} bytes are more than the {available} bytes of memory that are available: lower it"
    )))
}

/// A number that differs between all jobs that run on a host at the same time.
fn job_id() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(std::process::id()) << 32 | u64::from(since.subsec_nanos() ^ since.as_secs() as u32)
}
