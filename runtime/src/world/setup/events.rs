//! Connects a rank to its event loggers.

use super::Membership;
use crate::Error;
use crate::protocol::Waiting;
use core::time::Duration;
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::config::JobConfig;
use refrain_job::control::ControlPlane;
use refrain_job::output_gate::{self, OutputGate};
use refrain_logging::Member;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::pessimist::Pessimist;
use refrain_ring::Incarnation;
use std::os::fd::AsFd;

/// The connection to the loggers, and the end of the per-rank event log.
pub(super) struct Connected {
    pub(super) events: Pessimist<Client>,
    pub(super) waiting: Waiting,
    pub(super) loggers: Vec<ServerAddress>,
    pub(super) quorum: usize,
    /// One past the last determinant of earlier lives.
    pub(super) next: EventIndex,
    /// The life that wrote the last determinant.
    pub(super) follows: Incarnation,
}

/// Connects to the loggers of this rank's shard, if the protocol logs events and the job has
/// loggers. A rank that was started without a launcher is never restarted, and has none. EL-4
pub(super) fn connect(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
    control: Option<&mut ControlPlane>,
) -> Result<Option<Connected>, Error> {
    let settings = &config.events;
    let shards = settings.shards.len();
    if !member.logs_events() || shards == 0 {
        return Ok(None);
    }
    let loggers = settings.shards[membership.rank.index() % shards]
        .iter()
        .map(|text| text.parse())
        .collect::<Result<Vec<ServerAddress>, _>>()
        .map_err(|error| Error::Config(error.to_string()))?;
    let (way, provider) = match commit_path(&settings.way)? {
        CommitPathChoice::Auto => (None, None),
        CommitPathChoice::Fixed(way) => (Some(way), None),
        CommitPathChoice::Provider(provider) => (Some(CommitPath::Libfabric), Some(provider)),
    };
    let quorum = settings.quorum.of(loggers.len());
    let client = Client::connect(ClientOptions {
        job: membership.job,
        rank: membership.rank,
        incarnation: membership.incarnation,
        loggers: loggers.clone(),
        quorum,
        level: settings.level,
        way,
        connect_wait: Duration::from_millis(settings.wait_ms),
        libfabric: config.libfabric.clone(),
        libibverbs: config.verbs.library.clone(),
        provider,
        verbs_port: refrain_job::choice::verbs::port(&config.verbs),
    })
    .map_err(|error| Error::Config(error.to_string()))?;
    let identity = Identity {
        job: membership.job,
        rank: membership.rank,
        incarnation: membership.incarnation,
    };
    let (next, follows) = (client.next(), client.follows());
    let output = match control.filter(|_| settings.gate_output) {
        Some(control) => Some(output_gate(control)?),
        None => None,
    };
    Ok(Some(Connected {
        events: Pessimist::new(identity, next, client),
        waiting: Waiting::new(output),
        loggers,
        quorum,
        next,
        follows,
    }))
}

/// Makes the page that tells the launcher which output may pass.
fn output_gate(control: &mut ControlPlane) -> Result<OutputGate, Error> {
    let (page, file) = OutputGate::create()
        .map_err(|error| Error::Config(format!("--gate-output: a page of memory: {error}")))?;
    let key = output_gate::key(control.rank().0);
    control.put(&key, &[], Some(file.as_fd()))?;
    Ok(page)
}
