//! Connects a rank to where its events become stable: event loggers, or other ranks, or both; and collects those
//! of its earlier lives from there.

use super::recorded::{self, Collecting};
use crate::Error;
use crate::protocol::{EventStores, Waiting};
use crate::world::leaving;
use core::time::Duration;
use refrain_eventlog::client::read::{RankEvents, ReadRequest, read_events};
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::control::ControlPlane;
use refrain_job::output_gate::{self, OutputGate};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::held::{AtRanks, Collected, Gives, Holdings};
use refrain_logging::pessimist::Pessimist;
use refrain_logging::{EventStore as Store, Member};
use refrain_ring::{Incarnation, Rank};
use std::os::fd::AsFd;

/// The connection to where events become stable.
pub(super) struct Connected {
    /// `None`: the life makes none that anyone needs.
    pub(super) events: Option<Pessimist<EventStores>>,
    pub(super) waiting: Waiting,
    pub(super) earlier: Earlier,
}

/// The events of earlier lives.
#[derive(Default)]
pub(super) struct Earlier {
    /// At event loggers.
    pub(super) logged: RankEvents,
    /// Those behind, that other ranks held: batches in order.
    pub(super) held: Vec<Vec<u8>>,
}

/// The loggers of a rank, and what they have of its earlier lives. These are fenced.
struct AtLoggers {
    client: Client,
    logged: RankEvents,
}

impl Collecting<'_> {
    /// Connects to where the events of this rank become stable, if its protocol logs events.
    pub(super) fn connect(
        self,
        member: Member,
        control: Option<&mut ControlPlane>,
    ) -> Result<Option<Connected>, Error> {
        match member.events() {
            Store::Nowhere => Ok(None),
            Store::Loggers => self.connect_loggers(control),
            Store::Ranks(gives) => match control {
                Some(control) => self.collect(gives, control).map(Some),
                // Without a launcher no rank is restarted.
                None => Ok(None),
            },
        }
    }

    fn connect_loggers(
        self,
        control: Option<&mut ControlPlane>,
    ) -> Result<Option<Connected>, Error> {
        let Some(AtLoggers { client, logged, .. }) = self.loggers()? else {
            return Ok(None);
        };
        let waiting = match control {
            Some(control) => self.waiting(control)?,
            None => Waiting::new(None),
        };
        let next = client.next();
        let store = EventStores::Loggers(Box::new(client));
        Ok(Some(Connected {
            events: Some(Pessimist::new(self.identity(), next, store)),
            waiting,
            earlier: Earlier {
                logged,
                held: Vec::new(),
            },
        }))
    }

    /// The events of a later life, from the ranks that hold them, and from loggers if there are any. After the
    /// last fence no rank holds anything any more: each has left its own. TICKET-2, CAUSAL-5
    fn collect(self, gives: Gives, control: &mut ControlPlane) -> Result<Connected, Error> {
        let (rank, job) = (self.membership.rank, self.membership.job);
        let waiting = self.waiting(control)?;
        let at_loggers = self.loggers()?;
        let is_alone = control.is_alone();
        let held = match self.is_later() {
            true => Some(self.answers(gives, control)?),
            false => None,
        };
        let logged = |it: &AtLoggers| (it.client.next(), it.client.made_by());
        let logged = at_loggers.as_ref().map(logged).unwrap_or_default();
        let collected = held.map(|held| {
            let answers = held.iter().map(|(holder, bytes)| (*holder, &**bytes));
            Collected::behind(logged, answers).map_err(|error| {
                Error::Config(format!("rank {rank} cannot replay its events: {error}"))
            })
        });
        let collected = collected.transpose()?;
        let (end, _) = logged;
        if let (Some(_), Some(collected)) = (&at_loggers, &collected)
            && collected.floor > end
        {
            return Err(Error::Config(format!(
                "rank {rank} cannot replay: the event loggers have its events up to {end} only, but had those up to {}",
                collected.floor
            )));
        }
        let held = collected.as_ref().map(|it| it.sealed(job, rank));
        let next = collected.as_ref().map_or(EventIndex(0), |it| it.end);
        let (client, logged) = at_loggers.map(|it| (it.client, it.logged)).unzip();
        let events = (!is_alone).then(|| {
            let life = (rank, self.membership.incarnation);
            let how = (gives, self.config.recovery.tolerance());
            let holdings = Holdings::new(how, life, self.membership.size, collected);
            let ranks = match client {
                Some(client) => AtRanks::beside(holdings, client, job),
                None => AtRanks::new(holdings),
            };
            let store = EventStores::Ranks(Box::new(ranks));
            Pessimist::after_unstable(self.identity(), next, store)
        });
        Ok(Connected {
            events,
            waiting,
            earlier: Earlier {
                logged: logged.unwrap_or_default(),
                held: held.unwrap_or_default(),
            },
        })
    }

    /// What ranks hold of this one, by holder.
    fn answers(
        self,
        gives: Gives,
        control: &mut ControlPlane,
    ) -> Result<Vec<(Rank, Vec<u8>)>, Error> {
        let rank = self.membership.rank;
        if control.is_alone() {
            return Ok(vec![(rank, leaving::read_own_events(control)?)]);
        }
        let mut held = control.collect_events()?;
        if gives == Gives::WithMessages {
            held.push((rank, recorded::carried_events(control, self.config)?));
        }
        Ok(held)
    }

    fn is_later(self) -> bool {
        self.membership.incarnation > Incarnation(0)
    }

    fn identity(self) -> Identity {
        Identity {
            job: self.membership.job,
            rank: self.membership.rank,
            incarnation: self.membership.incarnation,
        }
    }

    /// With `--gate-output`, makes the page that tells the launcher which output may pass.
    fn waiting(self, control: &mut ControlPlane) -> Result<Waiting, Error> {
        if !self.config.events.gate_output {
            return Ok(Waiting::new(None));
        }
        let (page, file) = OutputGate::create()
            .map_err(|error| Error::Config(format!("--gate-output: a page of memory: {error}")))?;
        let key = output_gate::key(control.rank().0);
        control.put(&key, &[], Some(file.as_fd()))?;
        Ok(Waiting::new(Some(page)))
    }

    /// Connects to the loggers of this rank's shard, if the job has loggers, and reads its events. A rank that was started
    /// without a launcher is never restarted, and has none. EL-4
    fn loggers(self) -> Result<Option<AtLoggers>, Error> {
        let (config, membership) = (self.config, self.membership);
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
        let logged = match self.is_later() {
            true => self.read(&client, &loggers, quorum)?,
            false => RankEvents::default(),
        };
        Ok(Some(AtLoggers { client, logged }))
    }

    /// Reads the events of earlier lives after the checkpoint. REC-2, EL-5
    fn read(
        self,
        client: &Client,
        loggers: &[ServerAddress],
        quorum: usize,
    ) -> Result<RankEvents, Error> {
        let rank = self.membership.rank;
        let request = ReadRequest {
            job: self.membership.job,
            rank,
            from: EventIndex(0),
            after_clock: self.after,
            until: client.next(),
            follows: Some(client.follows()),
            quorum,
            timeout: Duration::from_millis(self.config.events.wait_ms),
        };
        read_events(loggers, &request).map_err(|error| {
            Error::Config(format!(
                "rank {rank} cannot replay, its events cannot be read: {error}"
            ))
        })
    }
}
