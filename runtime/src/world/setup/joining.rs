//! Joins the job: log memory, events, fabric, engine; for a later life also its checkpoint and
//! recorded events. REC-1, REC-2

use super::checkpoints::{self, Opened};
use super::departed::Collected;
use super::events::Connected;
use super::fabric::{Made, Making};
use super::log_size::{LogSize, SHARED_MESSAGE_BYTES_MIN, log_size};
use super::{Membership, recorded, spill};
use crate::Error;
use crate::protocol::{Engine, EventStores, Waiting};
use crate::world::checkpoint::{Checkpoints, Restored, Rounds, WorldPart};
use crate::world::peers::Peers;
use crate::world::recovering::{Recovering, microseconds};
use refrain_checkpoint::Store;
use refrain_job::choice::{self, FabricChoice};
use refrain_job::config::{JobConfig, LogFullPolicy};
use refrain_job::control::ControlPlane;
use refrain_job::control::message::RecoveryFigures;
use refrain_logging::pessimist::Pessimist;
use refrain_logging::{Member, UnknownProtocol};
use refrain_rank::protocol::Logging;
use refrain_ring::recorded::RecordedEvents;
use refrain_ring::{Arena, Clock, Incarnation, Rank};
use refrain_transport::engine::EngineOptions;
use refrain_transport::fabric::Fabric as _;
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use refrain_transport::recorded::PreviousSends;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// A rank that joins.
pub(super) struct Joining<'a> {
    pub(super) config: &'a JobConfig,
    pub(super) membership: &'a Membership,
    pub(super) began: Instant,
}

/// A rank that has joined.
pub(super) struct Joined {
    pub(super) engine: Engine,
    pub(super) peers: Peers,
    pub(super) checkpoints: Checkpoints,
    pub(super) world: WorldPart,
    pub(super) recovering: Option<Recovering>,
}

/// The state from which a life continues.
struct Found<'a> {
    store: Option<Store>,
    opened: Option<Opened>,
    figures: RecoveryFigures,
    connected: Option<Connected>,
    collecting: recorded::Collecting<'a>,
    records: Option<RecordedEvents>,
    sends: Option<Box<dyn PreviousSends + Send>>,
}

/// The log memory and the fabric.
struct Means {
    arena: Arena,
    size: LogSize,
    made: Made,
}

/// `--kill RANK@clock=N`: kills this process as another process would, without a message or a
/// flush.
fn kill_this_process() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

/// An engine, and the other parts of a checkpoint.
type Begun = (Engine, WorldPart, Option<Restored>);

impl Joining<'_> {
    /// Joins the job. A later life first collects the state from which it continues, and then
    /// publishes its address: peers may connect at once.
    pub(super) fn join(&self, mut control: Option<&mut ControlPlane>) -> Result<Joined, Error> {
        choice::check(self.config)?;
        let member = self.config.protocol.parse();
        let member = member.map_err(|error: UnknownProtocol| Error::Config(error.to_string()))?;
        let mut found = self.find(member, control.as_deref_mut())?;
        let mut means = match control.as_deref_mut() {
            Some(control) if control.is_alone() => self.means_alone(member, control, &found)?,
            control => self.means(member, control)?,
        };
        // The log of the earlier life has arrived by now.
        found.sends = match control {
            Some(control) if self.is_later() => found.collecting.sends(control),
            _ => None,
        };
        let peers = means.made.peers;
        let introductions =
            (means.made.met.take()).map(|met| (met, core::mem::take(&mut means.made.connected)));
        let to_connect = core::mem::take(&mut means.made.to_connect);
        let connected = found.connected.take();
        let (events, waiting) =
            connected.map_or_else(Default::default, |it| (it.events, it.waiting));
        let next = found.opened.as_ref().map_or(1, |opened| opened.next);
        let opened = found.opened.take();
        let (engine, world, restored) =
            self.engine(means, introductions, (member, events, waiting), opened)?;
        let records = found.records.as_ref();
        let events_until = records.map_or(Clock(0), RecordedEvents::before);
        let mut engine = self.with_replay(engine, &mut found);
        for (rank, incarnation, address) in to_connect {
            engine.connect(rank, incarnation, &address)?;
        }
        let begins_with = found.figures.checkpoint;
        Ok(Joined {
            recovering: self.is_later().then(|| {
                found.figures.collect_us = microseconds(self.began.elapsed());
                Recovering::new(self.began, found.figures, &engine, events_until)
            }),
            engine,
            peers,
            checkpoints: Checkpoints {
                store: found.store,
                next,
                rounds: Rounds::new(self.members().next().is_some(), begins_with),
                restored,
                ..Checkpoints::default()
            },
            world,
        })
    }

    /// The other members of this rank's correlated set. SET-1
    fn members(&self) -> impl Iterator<Item = Rank> {
        let own = self.membership.rank;
        let set_of_rank = &self.config.recovery.set_of_rank;
        let own_set = set_of_rank.get(own.index());
        let ranks = (0..self.membership.size).map(Rank);
        ranks.filter(move |rank| {
            let is_in_set = own_set.is_some() && set_of_rank.get(rank.index()) == own_set;
            is_in_set && *rank != own
        })
    }

    fn is_later(&self) -> bool {
        self.membership.incarnation > Incarnation(0)
    }

    /// Collects the state from which a life continues: its newest checkpoint and all later events.
    /// REC-1, REC-2
    fn find(
        &self,
        member: Member,
        mut control: Option<&mut ControlPlane>,
    ) -> Result<Found<'_>, Error> {
        let (config, membership) = (self.config, self.membership);
        let store = checkpoints::open(config, membership)?;
        let opened = match &store {
            Some(store) if self.is_later() => {
                let begins_with = control.as_ref().and_then(|it| it.begins_with());
                checkpoints::newest(store, membership, begins_with)?
            }
            _ => None,
        };
        let figures = RecoveryFigures {
            checkpoint: opened.as_ref().map_or(0, |opened| opened.number),
            restore_us: microseconds(self.began.elapsed()),
            ..RecoveryFigures::default()
        };
        let after = opened.as_ref().map(|opened| opened.engine.clock);
        let collecting = recorded::Collecting {
            config,
            membership,
            after,
        };
        let connected = collecting.connect(member, control.as_deref_mut())?;
        let records = match &connected {
            Some(connected) if self.is_later() => Some(collecting.records(connected)?),
            _ => None,
        };
        if let (true, Some(control)) = (self.is_later(), control) {
            let fences = opened.as_ref().map_or(0, |opened| opened.world.fences);
            control.set_fences_passed(fences);
            if opened.is_none() {
                control.tell_beginning(0)?;
            }
        }
        Ok(Found {
            store,
            opened,
            figures,
            connected,
            collecting,
            records,
            sends: None,
        })
    }

    /// Adds recorded events and earlier sends to the engine. REC-4
    fn with_replay(&self, mut engine: Engine, found: &mut Found<'_>) -> Engine {
        if let Some(records) = found.records.take() {
            engine = engine.with_recorded_events(records);
        }
        if let Some(sends) = found.sends.take() {
            engine = engine.with_previous_sends(sends, self.config.recovery.divergence.policy());
        }
        if let Some(clock) = self.config.recovery.kill_at_clock {
            engine = engine.with_halt(Clock(clock), Box::new(kill_this_process));
        }
        engine
    }

    fn memory(&self, member: Member) -> Result<(Shm, Arena, LogSize), Error> {
        let (config, membership) = (self.config, self.membership);
        let size = log_size(config, membership, member)?;
        let (shm, mut arena) = Shm::create(ShmOptions {
            job: membership.job,
            rank: membership.rank,
            incarnation: membership.incarnation,
            size: membership.size,
            log_bytes: size.log_bytes,
            window_bytes: size.window_bytes,
        })?;
        if config.log_prefault {
            arena
                .commit_all()
                .map_err(|error| Error::Config(format!("--log-prefault: {error}")))?;
        }
        Ok((shm, arena, size))
    }

    /// The means of a life whose peers have all passed the last fence: it sends no messages to
    /// them. REC-3. It meets the members of its set, which replay, too. SET-5
    fn means_alone(
        &self,
        member: Member,
        control: &mut ControlPlane,
        found: &Found<'_>,
    ) -> Result<Means, Error> {
        let (config, membership) = (self.config, self.membership);
        let sent_before = found.opened.as_ref().map(|opened| &*opened.engine.next);
        let members: Vec<Rank> = self.members().collect();
        let collected = Collected::of(control, config, membership, sent_before, &members)?;
        let (shm, arena, size) = self.memory(member)?;
        let mut attributes = shm.attributes().clone();
        if !matches!(FabricChoice::parse(&config.fabric)?, FabricChoice::Auto) {
            // The program can ask for the name.
            attributes.name = config.fabric.clone().into();
        }
        let region = arena.region().clone();
        let events_wait = Duration::from_millis(config.events.wait_ms);
        let (departed, to_connect) = collected.fabric(membership, attributes, region, events_wait);
        let made = match members.is_empty() {
            true => Made {
                met: control.met().map(<[Rank]>::to_vec),
                ..Made::alone(departed, to_connect)?
            },
            false => Making {
                config,
                membership,
                control,
                region: arena.region(),
                window_bytes: size.window_bytes,
            }
            .make_with_set(shm, (departed, to_connect), &members)?,
        };
        Ok(Means { arena, size, made })
    }

    fn means(&self, member: Member, control: Option<&mut ControlPlane>) -> Result<Means, Error> {
        let (config, membership) = (self.config, self.membership);
        let (shm, arena, size) = self.memory(member)?;
        let made = match control {
            None => Made::alone(shm, Vec::new())?,
            Some(control) => Making {
                config,
                membership,
                control,
                region: arena.region(),
                window_bytes: size.window_bytes,
            }
            .make(shm)?,
        };
        Ok(Means { arena, size, made })
    }
}

impl Joining<'_> {
    /// Makes the engine, in its initial state or that of the checkpoint.
    fn engine(
        &self,
        means: Means,
        introductions: Option<(Vec<Rank>, Vec<Rank>)>,
        (member, events, waiting): (Member, Option<Pessimist<EventStores>>, Waiting),
        opened: Option<Opened>,
    ) -> Result<Begun, Error> {
        let membership = self.membership;
        let options = EngineOptions {
            rank: membership.rank,
            incarnation: membership.incarnation,
            size: membership.size,
            window_bytes: means.size.window_bytes,
        };
        let budget_bytes = means.arena.budget_bytes();
        let protocol = Logging::new(member, events, waiting);
        let fabric = means.made.fabric;
        let mut engine = Engine::new(options, means.arena, fabric, protocol)
            .with_shared_payload(means.size.shared_bytes, SHARED_MESSAGE_BYTES_MIN);
        if let Some((met, connected)) = introductions {
            engine = engine.with_introductions(&met, &connected);
        }
        if self.config.collectives.whole.is_some() {
            engine.keep_results();
        }
        if self.config.log_full == LogFullPolicy::Unprotected {
            engine.limit_keeping();
        }
        if let Some(disk) = spill::disk(self.config, membership, member, budget_bytes)? {
            engine = engine.with_spill(disk);
        }
        engine = engine.with_set(self.members().collect());
        let Some(mut opened) = opened else {
            let world = WorldPart::at_the_beginning(membership.rank, membership.size);
            return Ok((engine, world, None));
        };
        let beginning = core::mem::take(&mut opened.engine);
        let next = beginning.next.clone();
        let mut engine = engine.with_beginning(beginning);
        let (world, restored) = opened.load(
            &mut engine,
            membership,
            &next,
            Duration::from_millis(self.config.log_full_wait_ms),
        )?;
        // The checkpoint is stable; the life that took it may have died before it published the
        // horizon. GC-1
        engine.publish_horizon();
        Ok((engine, world, Some(restored)))
    }
}
