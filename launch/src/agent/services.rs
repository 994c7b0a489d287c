//! A host with services: its agent starts event loggers, and checkpoint servers if it has no ranks, as its
//! children.

use crate::hosts::message::{FromAgent, ServicesReady, ServicesSetup};
use crate::job_folder::JobFolder;
use crate::leftovers;
use crate::loggers::command::free_ports;
use crate::loggers::folders::{self, EARLIER_OF_AGENT_MAX};
use crate::program;
use crate::service_process::ServiceProcess;
use crate::verdict::End;
use refrain_eventlog::logbook::Logbook;
use refrain_job::JobError;
use refrain_job::choice::verbs;
use refrain_job::config::JobConfig;
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for services to store all that they have at the end of the job.
const STORE_MAX: Duration = Duration::from_secs(4);

/// The services of this host. Dropping it ends them in order, and then removes their folders.
#[derive(Debug)]
pub(super) struct Services {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    processes: Vec<(u32, ServiceProcess)>,
    /// Loggers that start when those of an earlier run have ended. JOB-1
    waiting: Vec<Waiting>,
    ready: ServicesReady,
    _folders: Vec<JobFolder>,
}

/// A logger that is to be started.
#[derive(Debug)]
struct Waiting {
    number: u32,
    folder: PathBuf,
    arguments: Vec<OsString>,
    secret: String,
    give_up_at: Instant,
}

impl Services {
    /// Makes the folders, and chooses ports; `has_ranks`: there is no checkpoint server.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn prepare(
        asked: &ServicesSetup,
        config: &mut JobConfig,
        (job, ranks): (u64, u32),
        has_ranks: bool,
    ) -> Result<Self, JobError> {
        let events = folders::of_files(asked.events.as_deref(), job)?;
        let rings = folders::of_rings(asked.rings.as_deref(), config, job)?;
        let (parent, suffix) = (std::env::temp_dir(), leftovers::CHECKPOINTS_SUFFIX);
        let names = ("checkpoints", "--checkpoint-dir");
        let checkpoints = match has_ranks {
            // That folder is theirs.
            true => None,
            false => Some(JobFolder::temporary(&parent, job, suffix, names)?),
        };
        let ports = free_ports(1, asked.ports)?;
        let ready = ServicesReady {
            ports: ports.into_iter().flatten().collect(),
            events: events.path.clone(),
            rings: rings.as_ref().map(|it| it.path.clone()),
            // The folder itself has a lock of its own.
            checkpoints: checkpoints.as_ref().map(|it| it.path.join("server")),
        };
        let folders = [Some(events), rings, checkpoints];
        Ok(Self {
            program: program::refrain("services of the job")?,
            environment: verbs::environment(config, ranks).into_iter().collect(),
            processes: Vec::new(),
            waiting: Vec::new(),
            ready,
            _folders: folders.into_iter().flatten().collect(),
        })
    }

    /// What the launcher has to know.
    pub(super) fn ready(&self) -> ServicesReady {
        self.ready.clone()
    }

    /// Starts a service; with the folder of a logger, and whether that is new. If it is not, the logger
    /// waits for that of an earlier run. EL-3
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) fn start(
        &mut self,
        number: u32,
        folder: Option<(PathBuf, bool)>,
        arguments: Vec<OsString>,
        secret: String,
    ) -> Result<(), String> {
        match folder {
            Some((folder, true)) => Logbook::begin(&folder).map_err(|error| error.to_string())?,
            Some((folder, false)) => {
                self.waiting.push(Waiting {
                    number,
                    folder,
                    arguments,
                    secret,
                    give_up_at: Instant::now() + EARLIER_OF_AGENT_MAX,
                });
                return Ok(());
            }
            None => {}
        }
        self.start_now(number, &arguments, &secret)
    }

    /// Starts the loggers whose folders are free. Returns those that cannot be started.
    pub(super) fn start_waiting(&mut self) -> Vec<FromAgent> {
        let mut failed = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let stays = || folders::earlier_logger_stays(&waiting.folder, EARLIER_OF_AGENT_MAX);
            let started = match folders::earlier_logger_runs(&waiting.folder) {
                Ok(true) if Instant::now() < waiting.give_up_at => {
                    self.waiting.push(waiting);
                    continue;
                }
                Ok(true) => Err(stays().to_string()),
                Ok(false) => self.start_now(waiting.number, &waiting.arguments, &waiting.secret),
                Err(error) => Err(error.to_string()),
            };
            if let Err(reason) = started {
                failed.push(cannot_start(waiting.number, reason));
            }
        }
        failed
    }

    /// When [`start_waiting`](Self::start_waiting) has to be called again.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(folders::LOOK_AGAIN)
    }

    fn start_now(
        &mut self,
        number: u32,
        arguments: &[OsString],
        secret: &str,
    ) -> Result<(), String> {
        let secret = format!("{secret}\n");
        let started =
            ServiceProcess::start(&self.program, arguments, &self.environment, Some(&secret));
        let mut process = started.map_err(|error| format!("cannot be started: {error}"))?;
        process.close_stdin();
        self.processes.retain(|(other, _)| *other != number);
        self.processes.push((number, process));
        Ok(())
    }

    /// Sends a signal to a service, if it runs.
    pub(super) fn signal(&self, number: u32, signal: Signal) {
        let of = self.processes.iter().find(|(other, _)| *other == number);
        if let Some((_, process)) = of {
            process.signal(signal);
        }
    }

    /// Readable when a service has ended.
    pub(super) fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().map(|(_, it)| it.end_descriptor())
    }

    /// The services that have ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<FromAgent> {
        let mut ended = Vec::new();
        self.processes.retain_mut(|(number, process)| {
            let Some(status) = process.status() else {
                return true;
            };
            ended.push(FromAgent::ServiceEnded {
                number: *number,
                end: End::from(status),
                reason: None,
            });
            false
        });
        ended
    }
}

/// What the launcher hears of a service that cannot be started.
pub(super) fn cannot_start(number: u32, reason: String) -> FromAgent {
    FromAgent::ServiceEnded {
        number,
        end: End::Exited(1),
        reason: Some(reason),
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for (_, process) in &self.processes {
            process.signal(Signal::TERM);
            // A stopped process handles SIGTERM only after SIGCONT.
            process.signal(Signal::CONT);
        }
        let give_up_at = Instant::now() + STORE_MAX;
        for (_, process) in &mut self.processes {
            process.end(give_up_at);
        }
    }
}
