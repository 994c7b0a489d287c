//! Event loggers on hosts of services, or of ranks: their start, and what follows from their ends.

use super::command::Logger;
use super::remote::{Deaths, RemoteService, ServiceHost};
use super::spread::Spread;
use super::{Body, EventLoggerSpec, EventLoggers, LoggerProcess, check_range, chosen};
use crate::verdict::End;
use refrain_eventlog::logbook::Logbook;
use refrain_job::JobError;
use refrain_job::choice::events::Loggers;
use refrain_job::config::JobConfig;
use refrain_logging::{EventStore, Member};
use refrain_wire::Secret;
use std::net::IpAddr;

/// Number of loggers that are started for a protocol and this number of ranks. Without
/// `--event-loggers` each of these hosts gets a shard, or as many as the ranks need.
///
/// # Errors
/// As the start.
pub fn count_on(
    hosts: u32,
    spec: &mut EventLoggerSpec,
    protocol: &str,
    ranks: u32,
) -> Result<u32, JobError> {
    let member = protocol.parse().unwrap_or(Member::None);
    if spec.loggers.is_none() && member.events() == EventStore::Loggers {
        let least = ranks.div_ceil(super::RANKS_PER_LOGGER);
        spec.loggers = Some(Loggers::Started(hosts.max(least)));
    }
    match chosen(spec, protocol, ranks)? {
        Loggers::Started(0) | Loggers::Running(_) => Ok(0),
        Loggers::Started(shards) => {
            check_range(shards, spec)?;
            if spec.replicas > hosts {
                return Err(JobError::Config(format!(
                    "--service-nodes {hosts}: {} replicas of an event logger need as many nodes, to fail one by one: give more nodes, or a smaller --event-replicas",
                    spec.replicas
                )));
            }
            Ok(shards * spec.replicas)
        }
    }
}

impl EventLoggers {
    /// Starts the loggers on these hosts, as they are to be spread, or in turn; replicas of a shard are on
    /// different ones. EL-1, EL-4
    pub(super) fn start_on(
        (hosts, spread): (&[ServiceHost], Option<&Spread>),
        spec: &EventLoggerSpec,
        shards: u32,
        config: &mut JobConfig,
    ) -> Result<Self, JobError> {
        let secret = Secret::random()
            .map_err(|error| JobError::control("making a secret for event loggers", error))?;
        let mut loggers = Self::default();
        loggers.quorum = config.events.quorum.of(spec.replicas as usize);
        loggers.shard_of_rank = spread.map_or_else(Vec::new, |it| it.shard_of_rank.clone());
        let mut ports: Vec<_> = hosts.iter().map(|host| host.ready.ports.iter()).collect();
        for shard in 0..shards {
            for replica in 0..spec.replicas {
                let at = match spread {
                    None => (shard + replica) as usize % hosts.len(),
                    Some(spread) => {
                        let place = spread.hosts_of_shard[shard as usize][replica as usize];
                        let is_there = |host: &ServiceHost| host.place == place as usize;
                        hosts.iter().position(is_there).ok_or_else(|| {
                            JobError::Config(format!("no agent is on host {place} of the list"))
                        })?
                    }
                };
                let port = ports[at].next().ok_or_else(|| {
                    JobError::Config(format!("host {} has too few ports", hosts[at].name))
                })?;
                let number = shard * spec.replicas + replica;
                loggers.loggers.push(LoggerProcess {
                    shard: shard as usize,
                    body: Body::There(Box::new(RemoteService::new(
                        &hosts[at], number, *port, &secret,
                    ))),
                    deaths: Deaths::none(),
                });
            }
        }
        let events = spec.directory.as_deref();
        let shared = events.filter(|_| config.recovery.job_dir.is_some());
        for number in 0..loggers.loggers.len() {
            let arguments = loggers.arguments_there(number, config)?;
            if let Body::There(service) = &mut loggers.loggers[number].body {
                let folder = service.on.ready.events.join(number.to_string());
                // All hosts share the job's folder. A later run needs these folders as soon as ranks
                // have run, also if this host dies before it has begun them. JOB-4
                if let Some(shared) = shared.filter(|_| !spec.continues) {
                    let begun = Logbook::begin(&shared.join(number.to_string()));
                    begun.map_err(|error| {
                        JobError::Config(format!("event logger {number}: {error}"))
                    })?;
                }
                let is_new = !spec.continues && shared.is_none();
                service.prepare(arguments, Some((folder, is_new)));
            }
            loggers.start_one(number)?;
        }
        let anywhere = hosts.first().map(|host| host.launcher);
        let shards = anywhere.and_then(|launcher| loggers.far_shards(launcher));
        config.events.shards = shards.unwrap_or_default();
        Ok(loggers)
    }

    fn arguments_there(
        &self,
        number: usize,
        config: &JobConfig,
    ) -> Result<Vec<std::ffi::OsString>, JobError> {
        let of = &self.loggers[number];
        let Body::There(service) = &of.body else {
            return Ok(Vec::new());
        };
        let others = self.loggers.iter().enumerate();
        let others = others.filter(|(other, it)| *other != number && it.shard == of.shard);
        let peers = others.filter_map(|(_, it)| match &it.body {
            Body::There(peer) => Some(peer.plain_address(service.on.launcher).to_string()),
            Body::Here { .. } => None,
        });
        let peers: Vec<String> = peers.collect();
        let (ready, own) = (&service.on.ready, number.to_string());
        let rings = ready.rings.as_ref().map(|rings| rings.join(&own));
        Logger {
            id: number as u32,
            folder: &ready.events.join(&own),
            rings: rings.as_deref(),
            address: None,
            port: Some(service.listens()),
            peers: peers.iter().map(String::as_str).collect(),
        }
        .arguments(config)
    }

    /// The addresses of loggers on hosts of services, for ranks that reach the launcher at this
    /// address; `None`: there are none.
    pub(super) fn far_shards(&self, launcher: IpAddr) -> Option<Vec<Vec<String>>> {
        let mut shards: Vec<Vec<String>> = Vec::new();
        for logger in &self.loggers {
            let Body::There(service) = &logger.body else {
                return None;
            };
            if shards.len() <= logger.shard {
                shards.push(Vec::new());
            }
            shards[logger.shard].push(service.address(launcher));
        }
        (!shards.is_empty()).then_some(shards)
    }

    /// Handles the end of a logger that an agent reports; `None`: the service is no logger. `reason`:
    /// why it could not be started. As [`ended`](Self::ended).
    pub(crate) fn ended_there(
        &mut self,
        number: usize,
        end: End,
        reason: Option<&str>,
    ) -> Option<Result<Option<String>, String>> {
        let Body::There(service) = &mut self.loggers.get_mut(number)?.body else {
            return None;
        };
        service.runs = false;
        let name = service.on.name.clone();
        Some(match reason {
            Some(reason) => self.go_on_without(number, &format!("on {name} {reason}"), "see there"),
            None => self.judge(number, end),
        })
    }

    /// A host of services is lost. Returns lines to report; `Err`: the job cannot continue.
    pub(crate) fn lose_host(&mut self, host: usize) -> Result<Vec<String>, String> {
        let mut lost = Vec::new();
        for (number, logger) in self.loggers.iter_mut().enumerate() {
            if let Body::There(service) = &mut logger.body
                && service.on.host == host
                && std::mem::take(&mut service.runs)
            {
                lost.push(number);
            }
        }
        let mut lines = Vec::new();
        for number in lost {
            let advice = match self.shard_of_rank.is_empty() {
                true => {
                    "give the job --service-nodes 2 or more with --event-replicas 3 to go on without one"
                }
                false => {
                    "give the job --event-replicas 3, and at least 4 hosts, to go on without one"
                }
            };
            lines.extend(self.go_on_without(number, "is lost with its host", advice)?);
        }
        Ok(lines)
    }
}
