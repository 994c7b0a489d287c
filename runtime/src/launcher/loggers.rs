//! The event loggers of a job: processes beside the ranks, started, watched,
//! started again when they are killed, and ended with the job.

use super::{program, spawn};
use crate::Error;
use crate::choice::events::{Loggers, REPLICAS_MAX, SHARDS_MAX, WayChoice, way};
use crate::choice::library::{LIBFABRIC, LIBIBVERBS};
use crate::config::JobConfig;
use crate::leftovers;
use refrain_eventlog::Level;
use refrain_eventlog::client::LoggerAddress;
use refrain_eventlog::remote::VERBS;
use refrain_logging::Member;
use refrain_secure::Secret;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A logger that is killed is started again, but not one that so often in a row
/// did not live …
const QUICK_DEATHS_MAX: u32 = 10;
/// … so long.
const QUICK_DEATH: Duration = Duration::from_secs(1);
/// How long loggers may take to store everything at the end.
const STORE_MAX: Duration = Duration::from_secs(10);

/// What the launcher is to do for the job's events.
#[derive(Clone, Debug)]
pub struct EventLoggerSpec {
    /// `--event-loggers`.
    pub loggers: Loggers,
    /// `--event-replicas`: of each shard that is started.
    pub replicas: u32,
    /// `--event-dir`: where their files go, and stay. `None`: to a folder for
    /// temporary files, and they are removed with the job.
    pub directory: Option<PathBuf>,
    /// The program `refrain`, which is started as `refrain eventlogger`.
    /// `None`: this program, if it is `refrain`; else the one beside it or in
    /// `PATH`.
    pub program: Option<PathBuf>,
}

impl Default for EventLoggerSpec {
    fn default() -> Self {
        Self {
            loggers: Loggers::Started(1),
            replicas: 1,
            directory: None,
            program: None,
        }
    }
}

/// One logger.
#[derive(Debug)]
struct LoggerProcess {
    arguments: Vec<OsString>,
    shard: usize,
    process: Option<(Child, OwnedFd)>,
    started: Instant,
    quick_deaths: u32,
}

/// Where the ranks are that commit to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Here.
    ThisHost,
    /// Elsewhere, too: by TCP.
    OtherHosts,
}

/// The loggers of a job. Dropping it lets them store everything, and ends them.
#[derive(Debug)]
pub(super) struct EventLoggers {
    program: PathBuf,
    loggers: Vec<LoggerProcess>,
    quorum: usize,
    directory: Option<Directory>,
    /// Of each shard those of its replicas; empty: only this host's ranks commit.
    ports: Vec<Vec<u16>>,
    /// Known to them and to the ranks, where they can be reached by TCP.
    secret: Option<Secret>,
}

/// Where their files are.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    is_kept: bool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!(
                "refrain: {} cannot be removed: {error}",
                self.path.display()
            );
        }
    }
}

impl EventLoggers {
    /// None.
    fn none() -> Self {
        Self {
            program: PathBuf::new(),
            loggers: Vec::new(),
            quorum: 0,
            directory: None,
            ports: Vec::new(),
            secret: None,
        }
    }

    /// Starts what the protocol needs, and tells the ranks' settings where it
    /// is.
    pub(super) fn start(
        spec: &EventLoggerSpec,
        config: &mut JobConfig,
        job: u64,
        reach: Reach,
    ) -> Result<Self, Error> {
        let member = config.protocol.parse::<Member>();
        if !member.is_ok_and(Member::logs_events) {
            config.events.shards = Vec::new();
            return Ok(Self::none());
        }
        match &spec.loggers {
            Loggers::Running(shards) => {
                let is_local = |it: &LoggerAddress| matches!(it, LoggerAddress::Unix(_));
                let local = shards.iter().flatten().find(|address| is_local(address));
                if let (Some(local), Reach::OtherHosts) = (local, reach) {
                    return Err(Error::Config(format!(
                        "--event-loggers {local}: ranks on other hosts cannot reach it: let it listen at tcp:HOST:PORT too, and name that"
                    )));
                }
                let texts = |shard: &Vec<LoggerAddress>| {
                    shard.iter().map(LoggerAddress::to_secret_text).collect()
                };
                config.events.shards = shards.iter().map(texts).collect();
                Ok(Self::none())
            }
            Loggers::Started(shards) => Self::start_shards(spec, *shards, config, (job, reach)),
        }
    }

    fn start_shards(
        spec: &EventLoggerSpec,
        shards: u32,
        config: &mut JobConfig,
        (job, reach): (u64, Reach),
    ) -> Result<Self, Error> {
        if !(1..=SHARDS_MAX).contains(&shards) || !(1..=REPLICAS_MAX).contains(&spec.replicas) {
            return Err(Error::Config(format!(
                "--event-loggers {shards}, --event-replicas {}: at least 1 and at most {SHARDS_MAX} and {REPLICAS_MAX}",
                spec.replicas
            )));
        }
        let program = match &spec.program {
            Some(program) => program.clone(),
            None => program::refrain(
                "the event logger that this protocol needs; or name it in EventLoggerSpec::program, or a logger that runs in EventLoggerSpec::loggers",
            )?,
        };
        let directory = make_directory(spec, job)?;
        let id = |shard: u32, replica: u32| shard * spec.replicas + replica;
        let socket = |id: u32| directory.path.join(format!("{id}.sock"));
        let addresses: Vec<Vec<String>> = (0..shards)
            .map(|shard| {
                (0..spec.replicas)
                    .map(|replica| format!("unix:{}", socket(id(shard, replica)).display()))
                    .collect()
            })
            .collect();
        let mut loggers = Self {
            program,
            loggers: Vec::new(),
            quorum: config.events.quorum.of(spec.replicas as usize),
            directory: None,
            ports: match reach {
                Reach::ThisHost => Vec::new(),
                Reach::OtherHosts => free_ports(shards, spec.replicas)?,
            },
            secret: match reach {
                Reach::ThisHost => None,
                Reach::OtherHosts => Some(Secret::random().map_err(|error| Error::Control {
                    attempted: "making a secret for the event loggers".into(),
                    error,
                })?),
            },
        };
        for (shard, replicas) in addresses.iter().enumerate() {
            for (replica, address) in replicas.iter().enumerate() {
                let id = id(shard as u32, replica as u32);
                let folder = directory.path.join(id.to_string());
                let peers = replicas.iter().filter(|peer| *peer != address);
                let port = loggers.ports.get(shard).map(|ports| ports[replica]);
                loggers.loggers.push(LoggerProcess {
                    arguments: arguments(&folder, (address, port), id, peers, config)?,
                    shard,
                    process: None,
                    started: Instant::now(),
                    quick_deaths: 0,
                });
            }
        }
        loggers.directory = Some(directory);
        for index in 0..loggers.loggers.len() {
            loggers.start_one(index)?;
        }
        config.events.shards = addresses;
        Ok(loggers)
    }

    fn start_one(&mut self, index: usize) -> Result<(), Error> {
        let logger = &mut self.loggers[index];
        let (program, secret) = (&self.program, self.secret.as_ref());
        let started = launch(program, &logger.arguments, secret);
        logger.started = Instant::now();
        logger.process = Some(started.map_err(|error| Error::Control {
            attempted: format!(
                "starting event logger {index} ({} eventlogger)",
                self.program.display()
            ),
            error,
        })?);
        Ok(())
    }

    /// Their addresses, for ranks that reach this host at `host`; `None`: those that
    /// all ranks are told.
    pub(super) fn shards_at(&self, host: IpAddr) -> Option<Vec<Vec<String>>> {
        let secret = self.secret.as_ref()?;
        let address = |port: &u16| {
            let address = SocketAddr::new(host, *port).to_string();
            LoggerAddress::Tcp(address).sealed(secret).to_secret_text()
        };
        let shard = |ports: &Vec<u16>| ports.iter().map(address).collect();
        (!self.ports.is_empty()).then(|| self.ports.iter().map(shard).collect())
    }

    /// Readable when one of them has ended, with their numbers.
    pub(super) fn ends(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let of = |(index, logger)| {
            let logger: &LoggerProcess = logger;
            logger
                .process
                .as_ref()
                .map(|(_, pidfd)| (index, pidfd.as_fd()))
        };
        self.loggers.iter().enumerate().filter_map(of)
    }

    /// Process ids, by number; `None` for one that has ended.
    pub(super) fn processes(&self) -> Vec<Option<u32>> {
        let id = |logger: &LoggerProcess| logger.process.as_ref().map(|(child, _)| child.id());
        self.loggers.iter().map(id).collect()
    }

    /// Kills one, if it runs.
    pub(super) fn kill(&self, index: usize) {
        if let Some((_, pidfd)) = &self.loggers[index].process {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }

    /// One has ended: starts it again if it was killed; what is left of its
    /// files and rings has all that it acknowledged (EL-3). `Err`: the job
    /// cannot go on.
    pub(super) fn ended(&mut self, index: usize) -> Result<(), String> {
        let logger = &mut self.loggers[index];
        let Some((mut child, _)) = logger.process.take() else {
            return Ok(());
        };
        let status = child.wait().map_err(|error| error.to_string())?;
        let how = describe(status);
        logger.quick_deaths = match logger.started.elapsed() < QUICK_DEATH {
            true => logger.quick_deaths + 1,
            false => 0,
        };
        if status.signal().is_some() && logger.quick_deaths < QUICK_DEATHS_MAX {
            eprintln!("refrain: event logger {index} {how}: it is started again");
            return self.start_one(index).map_err(|error| error.to_string());
        }
        let shard = logger.shard;
        let left = |logger: &&LoggerProcess| logger.shard == shard && logger.process.is_some();
        let left = self.loggers.iter().filter(left).count();
        if left >= self.quorum {
            eprintln!(
                "refrain: event logger {index} {how}: the job goes on with {left} of its shard"
            );
            return Ok(());
        }
        Err(format!(
            "event logger {index} {how}: its own output should say why. \
             Without {} of its shard no event becomes stable",
            self.quorum
        ))
    }
}

impl Drop for EventLoggers {
    fn drop(&mut self) {
        let living = || {
            self.loggers
                .iter()
                .filter_map(|logger| logger.process.as_ref())
        };
        for (_, pidfd) in living() {
            let _ = pidfd_send_signal(pidfd, Signal::TERM);
            // A stopped one would not see it.
            let _ = pidfd_send_signal(pidfd, Signal::CONT);
        }
        let give_up_at = Instant::now() + STORE_MAX;
        for (_, pidfd) in living() {
            let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
            let _ = rustix::io::retry_on_intr(|| {
                let left = give_up_at.saturating_duration_since(Instant::now());
                poll(&mut polled, Timespec::try_from(left).ok().as_ref())
            });
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
        for logger in &mut self.loggers {
            if let Some((child, _)) = &mut logger.process {
                let _ = child.wait();
            }
        }
    }
}

/// Starts a logger; a secret goes over its standard input.
fn launch(
    program: &Path,
    arguments: &[OsString],
    secret: Option<&Secret>,
) -> io::Result<(Child, OwnedFd)> {
    let stdin = secret.map_or_else(Stdio::null, |_| Stdio::piped());
    let mut child = spawn::spawn_service(program, arguments, stdin)?;
    let mut prepare = || {
        if let (Some(mut stdin), Some(secret)) = (child.stdin.take(), secret) {
            // Fits a pipe. One that has ended already is noticed by its end.
            let _ = writeln!(stdin, "{}", secret.to_text());
        }
        pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
    };
    match prepare() {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error.into())
        }
    }
}

fn arguments<'a>(
    folder: &Path,
    (address, port): (&str, Option<u16>),
    id: u32,
    peers: impl Iterator<Item = &'a String>,
    config: &JobConfig,
) -> Result<Vec<OsString>, Error> {
    let level = Level::ALL
        .iter()
        .find(|(_, level)| *level == config.events.level);
    let mut arguments: Vec<OsString> = vec![
        "eventlogger".into(),
        folder.into(),
        "--listen".into(),
        address.into(),
        "--logger".into(),
        id.to_string().into(),
        "--level".into(),
        level.map_or("placed", |(name, _)| name).into(),
    ];
    if let Some(port) = port {
        let address = format!("tcp:0.0.0.0:{port}").into();
        arguments.extend(["--listen".into(), address, "--secret".into(), "-".into()]);
    }
    for peer in peers {
        arguments.extend(["--peer".into(), peer.into()]);
    }
    if let WayChoice::Provider(provider) = way(&config.events.way)? {
        let (library, file) = match provider == VERBS {
            true => (LIBIBVERBS, &config.verbs.library),
            false => (LIBFABRIC, &config.libfabric),
        };
        arguments.extend(["--provider".into(), provider.into()]);
        if let Some(file) = file {
            arguments.extend([library.option.into(), file.into()]);
        }
    }
    Ok(arguments)
}

/// Ports that nobody listens at now. A logger that is started again listens where it
/// did, so the launcher chooses; should somebody else take one meanwhile, the logger
/// says so and the job ends.
fn free_ports(shards: u32, replicas: u32) -> Result<Vec<Vec<u16>>, Error> {
    let mut held = Vec::new();
    let mut choose = || -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        // Held until all are chosen, so that no two are the same.
        held.push(listener);
        Ok(port)
    };
    let mut shard = || (0..replicas).map(|_| choose()).collect();
    let ports = (0..shards).map(|_| shard()).collect::<io::Result<_>>();
    ports.map_err(|error| Error::Control {
        attempted: "choosing ports for event loggers".into(),
        error,
    })
}

fn make_directory(spec: &EventLoggerSpec, job: u64) -> Result<Directory, Error> {
    let directory = match &spec.directory {
        Some(path) => Directory {
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            is_kept: true,
        },
        None => {
            let launcher = leftovers::file_prefix(std::process::id()).ok_or_else(|| {
                Error::Config("/proc is needed to name the event loggers' files, mount it".into())
            })?;
            let name = format!("{launcher}{job:016x}{}", leftovers::EVENTS_SUFFIX);
            Directory {
                path: std::env::temp_dir().join(name),
                is_kept: false,
            }
        }
    };
    // The folder for temporary files is not Refrain's to make.
    let made = fs::DirBuilder::new()
        .recursive(directory.is_kept)
        .mode(0o700)
        .create(&directory.path);
    made.map_err(|error| {
        Error::Config(format!(
            "the event loggers' folder {} cannot be made: {error}: name one with --event-dir",
            directory.path.display()
        ))
    })?;
    Ok(directory)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", super::verdict::signal_name(signal)),
        (None, None) => "ended".into(),
    }
}
