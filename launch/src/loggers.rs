//! The event loggers that a job starts: processes beside the ranks, watched, restarted when
//! they are killed, and ended with the job.
//!
//! | file | subject |
//! |---|---|
//! | `command` | arguments of each event logger; pure, except that it chooses ports |
//! | `folders` | folders of their files and rings |
//! | `remote`, `on_hosts` | loggers on other hosts |
//! | `spread` | which of these have which loggers when ranks are there, too; pure |

pub mod command;
pub mod folders;
pub mod on_hosts;
pub mod remote;
pub mod spread;

use super::job_folder::JobFolder;
use super::program;
use super::service_process::ServiceProcess;
use super::verdict::End;
use command::Logger;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::logbook::Logbook;
use refrain_job::JobError;
use refrain_job::choice::events::{Loggers, REPLICAS_MAX, SHARDS_MAX};
use refrain_job::choice::verbs;
use refrain_job::config::JobConfig;
use refrain_logging::{EventStore, Member};
use refrain_wire::Secret;
use remote::{Deaths, RemoteService, ServiceHost};
use rustix::process::Signal;
use spread::Spread;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for loggers to store all events at the end of the job.
const STORE_MAX: Duration = Duration::from_secs(10);

/// Event loggers of a job, as configured.
#[derive(Clone, Debug)]
pub struct EventLoggerSpec {
    /// `--event-loggers`. `None`: one if the protocol needs loggers, else none.
    pub loggers: Option<Loggers>,
    /// `--event-replicas`: number of replicas of each shard that is started.
    pub replicas: u32,
    /// `--event-dir`: folder of the loggers' files, which are kept. `None`: a folder for temporary
    /// files; they are removed with the job.
    pub directory: Option<PathBuf>,
    /// `--event-rings`: parent of the folder for the rings that ranks write into; that folder is
    /// removed with the job. `None`: in memory if ranks commit by verbs, else the rings are with
    /// the files.
    pub rings: Option<PathBuf>,
    /// `--spread-loggers`: they are started on the hosts of ranks, those of a shard on other hosts than
    /// its ranks.
    pub spread: bool,
    /// The folder has the loggers' files of an earlier run of the job. JOB-3
    pub continues: bool,
    /// The program `refrain`, which is started as `refrain eventlogger`. `None`: this program, if
    /// it is `refrain`; else `refrain` beside this program or in `PATH`.
    pub program: Option<PathBuf>,
}

impl Default for EventLoggerSpec {
    fn default() -> Self {
        Self {
            loggers: None,
            replicas: 1,
            directory: None,
            rings: None,
            spread: false,
            continues: false,
            program: None,
        }
    }
}

/// Hosts of the ranks that commit to the loggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This host only.
    ThisHost,
    /// Other hosts, too: their ranks commit by TCP.
    OtherHosts,
}

/// The loggers of a job. Dropping it waits until they have stored all events, and ends them.
#[derive(Debug, Default)]
pub(super) struct EventLoggers {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    loggers: Vec<LoggerProcess>,
    quorum: usize,
    directory: Option<JobFolder>,
    rings: Option<JobFolder>,
    /// By shard, the ports of its replicas; empty: only ranks of this host commit.
    ports: Vec<Vec<SocketAddr>>,
    /// Shared secret of loggers and ranks, if the loggers are reachable by TCP.
    secret: Option<Secret>,
    /// By rank, its shard, if loggers are spread over the hosts of ranks. EL-4
    shard_of_rank: Vec<usize>,
}

/// Ranks that one event logger serves.
const RANKS_PER_LOGGER: u32 = refrain_eventlog::server::RANKS_MAX as u32;

/// The loggers that a protocol uses: those that are named, else as many as the ranks need if it cannot
/// do without.
fn chosen(spec: &EventLoggerSpec, protocol: &str, ranks: u32) -> Result<Loggers, JobError> {
    let least = ranks.div_ceil(RANKS_PER_LOGGER);
    // Ranks tell of a name that is unknown.
    let member = protocol.parse().unwrap_or(Member::None);
    let wrong = |why: &str| {
        Err(JobError::Config(format!(
            "--event-loggers: {protocol} {why}"
        )))
    };
    match (&spec.loggers, member.events()) {
        (_, EventStore::Nowhere) => Ok(Loggers::Started(0)),
        (None, EventStore::Loggers) => Ok(Loggers::Started(least)),
        (None, EventStore::Ranks(_)) => Ok(Loggers::Started(0)),
        (Some(Loggers::Started(0)), EventStore::Loggers) => wrong(&format!(
            "needs at least one event logger: use 1 to {SHARDS_MAX}; causal and ticket need none"
        )),
        (Some(Loggers::Started(few @ 1..)), _) if *few < least => wrong(&format!(
            "with {ranks} ranks needs at least {least} event loggers, {RANKS_PER_LOGGER} ranks each: {few} are too few"
        )),
        (Some(loggers), _) if member.takes_loggers() => Ok(loggers.clone()),
        (Some(Loggers::Started(0)), _) => Ok(Loggers::Started(0)),
        (Some(_), _) => {
            wrong("uses none: ranks keep its events. Leave the option out, or use causal")
        }
    }
}

fn check_range(shards: u32, spec: &EventLoggerSpec) -> Result<(), JobError> {
    if (1..=SHARDS_MAX).contains(&shards) && (1..=REPLICAS_MAX).contains(&spec.replicas) {
        return Ok(());
    }
    Err(JobError::Config(format!(
        "--event-loggers {shards}, --event-replicas {}: the ranges are 1 to {SHARDS_MAX} and 1 to {REPLICAS_MAX}",
        spec.replicas
    )))
}

impl EventLoggers {
    /// Starts the loggers that the protocol needs, and writes their addresses into the ranks'
    /// settings.
    pub(super) fn start(
        spec: &EventLoggerSpec,
        config: &mut JobConfig,
        (job, ranks): (u64, u32),
        (reach, services, spread): (Reach, &[ServiceHost], Option<&Spread>),
    ) -> Result<Self, JobError> {
        match &chosen(spec, &config.protocol, ranks)? {
            Loggers::Running(_) if spec.replicas > 1 => Err(JobError::Argument(format!(
                "--event-replicas {} has no effect on running event loggers: name the replicas in --event-loggers, as tcp:HOST:PORT+tcp:HOST:PORT",
                spec.replicas
            ))),
            Loggers::Started(0) => {
                config.events.shards = Vec::new();
                Ok(Self::default())
            }
            Loggers::Running(shards) => {
                let is_local = |it: &ServerAddress| matches!(it, ServerAddress::Unix(_));
                let local = shards.iter().flatten().find(|address| is_local(address));
                if let (Some(local), Reach::OtherHosts) = (local, reach) {
                    return Err(JobError::Config(format!(
                        "--event-loggers {local}: ranks on other hosts cannot reach this address: start the logger with --listen tcp:HOST:PORT and name that"
                    )));
                }
                let texts = |shard: &Vec<ServerAddress>| {
                    shard.iter().map(ServerAddress::to_secret_text).collect()
                };
                config.events.shards = shards.iter().map(texts).collect();
                Ok(Self::default())
            }
            Loggers::Started(shards) if !services.is_empty() => {
                Self::start_on((services, spread), spec, *shards, config)
            }
            Loggers::Started(shards) => {
                Self::start_shards(spec, *shards, config, (job, ranks, reach))
            }
        }
    }

    fn start_shards(
        spec: &EventLoggerSpec,
        shards: u32,
        config: &mut JobConfig,
        (job, ranks, reach): (u64, u32, Reach),
    ) -> Result<Self, JobError> {
        check_range(shards, spec)?;
        let program = match &spec.program {
            Some(program) => program.clone(),
            None => program::refrain(
                "the event logger that this protocol needs; or name it in EventLoggerSpec::program, or a logger that runs in EventLoggerSpec::loggers",
            )?,
        };
        let directory = folders::of_files(spec.directory.as_deref(), job)?;
        let rings = folders::of_rings(spec.rings.as_deref(), config, job)?;
        let mut loggers = Self::default();
        loggers.program = program;
        let for_verbs = verbs::environment(config, ranks);
        loggers.environment = for_verbs.into_iter().collect();
        loggers.quorum = config.events.quorum.of(spec.replicas as usize);
        if reach == Reach::OtherHosts {
            loggers.ports = command::free_ports(shards, spec.replicas)?;
            let secret = Secret::random();
            let failed = |error| JobError::control("making a secret for event loggers", error);
            loggers.secret = Some(secret.map_err(failed)?);
        }
        let folders = (&directory, rings.as_ref());
        let addresses = (0..shards)
            .map(|shard| loggers.add_shard(shard, spec, folders, config))
            .collect::<Result<_, _>>()?;
        config.events.shards = addresses;
        loggers.rings = rings;
        loggers.directory = Some(directory);
        for index in 0..loggers.loggers.len() {
            loggers.start_one(index)?;
        }
        Ok(loggers)
    }

    /// Adds the loggers of a shard and returns their addresses. The loggers are not started yet.
    fn add_shard(
        &mut self,
        shard: u32,
        spec: &EventLoggerSpec,
        (directory, rings): (&JobFolder, Option<&JobFolder>),
        config: &JobConfig,
    ) -> Result<Vec<String>, JobError> {
        let ids = shard * spec.replicas..(shard + 1) * spec.replicas;
        let socket = |id| directory.path.join(format!("{id}.sock"));
        let address = |id| format!("unix:{}", socket(id).display());
        let addresses: Vec<String> = ids.clone().map(address).collect();
        let shard = shard as usize;
        for (replica, id) in ids.enumerate() {
            let own = |folder: &JobFolder| folder.path.join(id.to_string());
            let (folder, rings) = (own(directory), rings.map(own));
            // Done before the first start, since each start has --continue. EL-3
            match spec.continues {
                true => folders::await_earlier_logger(&folder)?,
                false => Logbook::begin(&folder)
                    .map_err(|error| JobError::Config(format!("event logger {id}: {error}")))?,
            }
            let mut peers: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let logger = Logger {
                id,
                folder: &folder,
                rings: rings.as_deref(),
                address: Some(peers.remove(replica)),
                port: self.ports.get(shard).map(|ports| ports[replica]),
                peers,
            };
            self.loggers.push(LoggerProcess {
                shard,
                body: Body::Here {
                    arguments: logger.arguments(config)?,
                    process: None,
                },
                deaths: Deaths::none(),
            });
        }
        Ok(addresses)
    }

    fn start_one(&mut self, index: usize) -> Result<(), JobError> {
        let secret = self.secret.as_ref().map(|secret| secret.to_text() + "\n");
        let (program, environment) = (&self.program, &self.environment);
        let logger = &mut self.loggers[index];
        logger.deaths.restart();
        match &mut logger.body {
            Body::Here { arguments, process } => {
                let started =
                    ServiceProcess::start(program, arguments, environment, secret.as_deref());
                let mut started = started.map_err(|error| {
                    let program = program.display();
                    let attempted =
                        format!("starting event logger {index} ({program} eventlogger)");
                    JobError::control(attempted, error)
                })?;
                started.close_stdin();
                *process = Some(started);
            }
            Body::There(service) => service.start(),
        }
        Ok(())
    }

    /// The addresses of the loggers for a rank that reaches this host at `host`; `None`: they are the
    /// same for all ranks.
    pub(super) fn shards_at(&self, rank: usize, host: IpAddr) -> Option<Vec<Vec<String>>> {
        if let Some(mut shards) = self.far_shards(host) {
            return Some(match self.shard_of_rank.get(rank) {
                // A rank takes the shard of its number modulo the number of those that it knows. EL-4
                Some(own) => vec![shards.swap_remove(*own)],
                None => shards,
            });
        }
        let secret = self.secret.as_ref()?;
        let address = |port: &SocketAddr| {
            let address = SocketAddr::new(host, port.port()).to_string();
            ServerAddress::Tcp(address).sealed(secret).to_secret_text()
        };
        let shard = |ports: &Vec<SocketAddr>| ports.iter().map(address).collect();
        (!self.ports.is_empty()).then(|| self.ports.iter().map(shard).collect())
    }

    /// A descriptor for each logger on this host, readable when the logger has ended; with the
    /// logger's number.
    pub(super) fn ends(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let loggers = self.loggers.iter().enumerate();
        loggers.filter_map(|(index, logger)| {
            let process = logger.body.process()?;
            Some((index, process.end_descriptor()))
        })
    }

    /// Process ids, by number of the logger; `None` for a logger that has ended, or is on another
    /// host.
    pub(super) fn processes(&self) -> Vec<Option<u32>> {
        let bodies = self.loggers.iter().map(|logger| logger.body.process());
        bodies
            .map(|process| process.map(ServiceProcess::id))
            .collect()
    }

    /// Kills a logger, if it runs.
    pub(super) fn kill(&self, index: usize) {
        match &self.loggers[index].body {
            Body::Here { process, .. } => {
                if let Some(process) = process {
                    process.signal(Signal::KILL);
                }
            }
            Body::There(service) => service.signal(Signal::KILL),
        }
    }

    /// Handles the end of a logger on this host. Returns a line to report; `Err`: the job cannot
    /// continue.
    pub(super) fn ended(&mut self, index: usize) -> Result<Option<String>, String> {
        let Body::Here { process, .. } = &mut self.loggers[index].body else {
            return Ok(None);
        };
        let status = process.as_mut().and_then(ServiceProcess::status);
        let Some(end) = status.map(End::from) else {
            return Ok(None);
        };
        *process = None;
        self.judge(index, end)
    }

    /// Restarts a logger that was killed. Its files and rings have all that it acknowledged (EL-3).
    fn judge(&mut self, index: usize, end: End) -> Result<Option<String>, String> {
        let may_restart = self.loggers[index].deaths.count();
        if matches!(end, End::Killed(_)) && may_restart {
            let line = format!("event logger {index} {end}: it is restarted");
            let started = self.start_one(index).map_err(|error| error.to_string());
            return started.map(|()| Some(line));
        }
        self.go_on_without(index, &end.to_string(), "see its output")
    }

    /// A logger is not restarted: the job continues if its shard has a quorum. `how` it ended, and what
    /// to do otherwise, for people.
    fn go_on_without(
        &self,
        index: usize,
        how: &str,
        advice: &str,
    ) -> Result<Option<String>, String> {
        let shard = self.loggers[index].shard;
        let left = |logger: &&LoggerProcess| logger.shard == shard && logger.body.runs();
        let left = self.loggers.iter().filter(left).count();
        if left >= self.quorum {
            return Ok(Some(format!(
                "event logger {index} {how}: the job continues with {left} of its shard"
            )));
        }
        Err(format!(
            "event logger {index} {how}: {advice}. \
             Without {} of its shard no event becomes stable",
            self.quorum
        ))
    }
}

impl Drop for EventLoggers {
    fn drop(&mut self) {
        let bodies = self.loggers.iter_mut().map(|logger| &mut logger.body);
        let mut processes: Vec<_> = bodies.filter_map(Body::take_process).collect();
        for process in &processes {
            process.signal(Signal::TERM);
            // A stopped process handles SIGTERM only after SIGCONT.
            process.signal(Signal::CONT);
        }
        let give_up_at = Instant::now() + STORE_MAX;
        for process in &mut processes {
            process.end(give_up_at);
        }
    }
}

/// An event logger.
#[derive(Debug)]
struct LoggerProcess {
    shard: usize,
    body: Body,
    deaths: Deaths,
}

/// Where it runs.
#[derive(Debug)]
enum Body {
    Here {
        arguments: Vec<OsString>,
        /// `None`: the logger does not run.
        process: Option<ServiceProcess>,
    },
    /// An agent starts and ends it.
    There(Box<RemoteService>),
}

impl Body {
    fn process(&self) -> Option<&ServiceProcess> {
        match self {
            Self::Here { process, .. } => process.as_ref(),
            Self::There(_) => None,
        }
    }

    fn take_process(&mut self) -> Option<ServiceProcess> {
        match self {
            Self::Here { process, .. } => process.take(),
            Self::There(_) => None,
        }
    }

    fn runs(&self) -> bool {
        match self {
            Self::Here { process, .. } => process.is_some(),
            Self::There(service) => service.runs,
        }
    }
}
