//! Connects a rank to where its events become stable: event loggers, or other ranks.

use super::{Membership, recorded};
use crate::Error;
use crate::event_store::EventStore;
use crate::protocol::Waiting;
use crate::world::leaving;
use core::time::Duration;
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::config::JobConfig;
use refrain_job::control::ControlPlane;
use refrain_job::output_gate::{self, OutputGate};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::held::{Collected, Gives, Holdings};
use refrain_logging::pessimist::Pessimist;
use refrain_logging::{EventStore as Store, Member};
use refrain_ring::Incarnation;
use std::os::fd::AsFd;

/// The connection to where events become stable.
pub(super) struct Connected {
    /// `None`: the life makes none that anyone needs.
    pub(super) events: Option<Pessimist<EventStore>>,
    pub(super) waiting: Waiting,
    pub(super) earlier: Earlier,
}

/// The events of earlier lives.
pub(super) enum Earlier {
    /// At event loggers.
    AtLoggers {
        loggers: Vec<ServerAddress>,
        quorum: usize,
        /// One past the last determinant.
        next: EventIndex,
        /// The life that wrote the last determinant.
        follows: Incarnation,
    },
    /// Collected from other ranks: batches in order.
    Collected(Vec<Vec<u8>>),
}

/// Connects to where the events of this rank become stable, if its protocol logs events.
pub(super) fn connect(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
    control: Option<&mut ControlPlane>,
) -> Result<Option<Connected>, Error> {
    match member.events() {
        Store::Nowhere => Ok(None),
        Store::Loggers => connect_loggers(config, membership, control),
        Store::Ranks(gives) => match control {
            Some(control) => collect(config, membership, gives, control).map(Some),
            // Without a launcher no rank is restarted.
            None => Ok(None),
        },
    }
}

/// The events of a later life, from the ranks that hold them. After the last fence no rank holds
/// anything any more: each has left its own. TICKET-2
fn collect(
    config: &JobConfig,
    membership: &Membership,
    gives: Gives,
    control: &mut ControlPlane,
) -> Result<Connected, Error> {
    let (rank, job) = (membership.rank, membership.job);
    let waiting = Waiting::new(open_output(config, control)?);
    if control.is_alone() {
        let batches = leaving::read_own_events(control)?;
        return Ok(Connected {
            events: None,
            waiting,
            earlier: Earlier::Collected(batches),
        });
    }
    let mut collected = None;
    if membership.incarnation > Incarnation(0) {
        let mut held = control.collect_events()?;
        if gives == Gives::WithMessages {
            held.push((rank, recorded::carried_events(control, config)?));
        }
        let answers = held.iter().map(|(holder, bytes)| (*holder, &**bytes));
        let of = Collected::of(answers).map_err(|error| {
            Error::Config(format!("rank {rank} cannot replay its events: {error}"))
        })?;
        collected = Some(of);
    }
    let batches = collected.as_ref().map(|it| it.sealed(job, rank));
    let next = collected.as_ref().map_or(EventIndex(0), |it| it.end);
    let life = (rank, membership.incarnation);
    let how = (gives, config.recovery.tolerance());
    let holdings = Holdings::new(how, life, membership.size, collected);
    let store = EventStore::Ranks(Box::new(holdings));
    Ok(Connected {
        events: Some(Pessimist::after_unstable(identity(membership), next, store)),
        waiting,
        earlier: Earlier::Collected(batches.unwrap_or_default()),
    })
}

fn identity(membership: &Membership) -> Identity {
    Identity {
        job: membership.job,
        rank: membership.rank,
        incarnation: membership.incarnation,
    }
}

/// With `--gate-output`, the page for it.
fn open_output(
    config: &JobConfig,
    control: &mut ControlPlane,
) -> Result<Option<OutputGate>, Error> {
    match config.events.gate_output {
        true => output_gate(control).map(Some),
        false => Ok(None),
    }
}

/// Connects to the loggers of this rank's shard, if the job has loggers. A rank that was started
/// without a launcher is never restarted, and has none. EL-4
fn connect_loggers(
    config: &JobConfig,
    membership: &Membership,
    control: Option<&mut ControlPlane>,
) -> Result<Option<Connected>, Error> {
    let settings = &config.events;
    let shards = settings.shards.len();
    if shards == 0 {
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
    let (next, follows) = (client.next(), client.follows());
    let output = match control {
        Some(control) => open_output(config, control)?,
        None => None,
    };
    let store = EventStore::Loggers(Box::new(client));
    Ok(Some(Connected {
        events: Some(Pessimist::new(identity(membership), next, store)),
        waiting: Waiting::new(output),
        earlier: Earlier::AtLoggers {
            loggers,
            quorum,
            next,
            follows,
        },
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
