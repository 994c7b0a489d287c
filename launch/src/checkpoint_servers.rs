//! Checkpoint servers on hosts of services: where checkpoints would otherwise be in a temporary folder
//! of the rank's own host, and be lost with it.

use crate::loggers::remote::{Deaths, RemoteService, ServiceHost};
use crate::verdict::End;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_wire::Secret;
use std::ffi::OsString;
use std::net::{IpAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for all servers.
const READY_MAX: Duration = Duration::from_secs(10);
/// Time between two attempts.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The checkpoint servers of a job, one on each host of services. They end with their agents.
#[derive(Debug, Default)]
pub struct CheckpointServers {
    servers: Vec<(RemoteService, Deaths)>,
    /// Number of the first one among the services of the job.
    first: u32,
}

/// Whether the job needs them: ranks may be restarted, and no place was named.
pub fn are_needed(config: &JobConfig) -> bool {
    let recovery = &config.recovery;
    recovery.max_restarts > 0 && recovery.checkpoint_dir.is_none()
}

impl CheckpointServers {
    /// Starts them.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(hosts: &[ServiceHost], first: u32) -> Result<Self, JobError> {
        let failed = |error| JobError::control("making a secret for checkpoint servers", error);
        let secret = Secret::random().map_err(failed)?;
        let mut servers = Vec::new();
        for (number, host) in (first..).zip(hosts) {
            let made = host.ready.ports.last().zip(host.ready.checkpoints.as_ref());
            let (port, folder) = made.ok_or_else(|| {
                JobError::Config(format!(
                    "host {} has no port for a checkpoint server",
                    host.name
                ))
            })?;
            let mut server = RemoteService::new(host, number, *port, &secret);
            let mut arguments: Vec<OsString> = vec!["checkpointd".into()];
            let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
            option("--dir", folder.into());
            option("--listen", format!("tcp:{}", server.listens()).into());
            option("--secret", "-".into());
            server.prepare(arguments, None);
            server.start();
            servers.push((server, Deaths::none()));
        }
        Ok(Self { servers, first })
    }

    /// Waits until all servers accept connections: ranks look for theirs when they start.
    ///
    /// # Errors
    /// [`JobError::Config`], with the server that does not answer.
    pub fn await_ready(&self) -> Result<(), JobError> {
        let give_up_at = Instant::now() + READY_MAX;
        for (server, _) in &self.servers {
            while let Err(error) = TcpStream::connect_timeout(&server.near(), READY_MAX) {
                if Instant::now() >= give_up_at {
                    return Err(JobError::Config(format!(
                        "the checkpoint server on {} does not answer: {error}: see its output",
                        server.on.name
                    )));
                }
                thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// The place for checkpoints of a rank that reaches the launcher at this address; `None`: there
    /// are no servers.
    pub fn place_of(&self, rank: usize, launcher: IpAddr) -> Option<String> {
        let (server, _) = self.servers.get(rank % self.servers.len().max(1))?;
        Some(server.address(launcher))
    }

    /// Handles the end of a server; `None`: the service is none. Returns a line to report; `Err`: the
    /// job cannot continue.
    pub fn ended(
        &mut self,
        service: u32,
        end: End,
        reason: Option<&str>,
    ) -> Option<Result<String, String>> {
        let number = service.checked_sub(self.first)? as usize;
        let (server, deaths) = self.servers.get_mut(number)?;
        let name = &server.on.name;
        let how = reason.map_or_else(|| end.to_string(), str::to_owned);
        if reason.is_none() && matches!(end, End::Killed(_)) && deaths.count() {
            let line = format!("the checkpoint server on {name} {how}: it is restarted");
            deaths.restart();
            server.start();
            return Some(Ok(line));
        }
        Some(Err(format!(
            "the checkpoint server on {name} {how}: see its output, or name a place with --checkpoint-dir"
        )))
    }

    /// A host of services is lost, with its checkpoints.
    ///
    /// # Errors
    /// It had some: ranks could not go on from them.
    pub fn lose_host(&mut self, host: usize) -> Result<(), String> {
        let mut servers = self.servers.iter();
        match servers.any(|(server, _)| server.on.host == host) {
            false => Ok(()),
            true => Err(
                "with a checkpoint server: name a folder that all hosts share, or a server elsewhere, with --checkpoint-dir to go on without one"
                    .into(),
            ),
        }
    }
}
