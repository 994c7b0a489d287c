//! Ranks with programs of chance on real engines.

use super::empty::{receive_buffer, send_buffer};
use super::loggers::{Loggers, Word};
use super::{Chance, Setup};
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::committer::Committer;
use refrain_logging::Member;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_rank::calls::{self, Handle};
use refrain_rank::protocol::Logging;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions, SendTo};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Event as Happened, LaneKind, Network, Options};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::{Event, Protocol};

/// Rounds in which everything that is under way comes to its end.
const ROUNDS_MAX: usize = 20_000;
const LOG_BYTES: usize = 8 << 20;

/// The client: the real core, and simulated ways to loggers.
struct Commitments {
    committer: Committer,
    loggers: Loggers,
    rank: usize,
    replicas: usize,
}

impl Commitments {
    fn new(setup: &Setup, rank: usize, loggers: &Loggers) -> Self {
        let name = Rank(rank as u32);
        let mut all = Self {
            committer: Committer::new(name, Incarnation(0), setup.replicas, setup.quorum),
            loggers: loggers.clone(),
            rank,
            replicas: setup.replicas,
        };
        // A rank begins when a quorum has answered.
        while all.committer.start().is_none() {
            all.poll();
            loggers.step();
        }
        all
    }

    fn send_on(&mut self) {
        for replica in 0..self.replicas {
            while let Some(batch) = self.committer.next_for(replica) {
                self.loggers.commit(replica, self.rank, batch);
                self.committer.sent(replica);
            }
        }
    }
}

impl Commits for Commitments {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.committer.commit(header, batch);
        self.send_on();
    }

    fn stable_end(&self) -> EventIndex {
        self.committer.stable_end()
    }

    fn poll(&mut self) -> EventIndex {
        for replica in 0..self.replicas {
            while let Some(word) = self.loggers.hear(replica, self.rank) {
                match word {
                    Word::Lost => self.committer.lose(replica),
                    Word::Welcome { end, clock } => {
                        let logger = LoggerId(replica as u32);
                        let welcomed = self.committer.welcomed(replica, logger, end, clock);
                        welcomed.expect("loggers tell the truth here");
                    }
                    Word::Stable(ack) => {
                        let taken = self.committer.acknowledged(replica, &ack);
                        taken.expect("loggers tell the truth here");
                    }
                }
            }
            if self.committer.is_lost(replica) {
                let first_kept = self.committer.joins(replica);
                if !self.loggers.hello(replica, self.rank, first_kept) {
                    self.committer.lose(replica);
                }
            }
        }
        self.send_on();
        self.committer.stable_end()
    }

    fn is_instant(&self) -> bool {
        false
    }
}

/// The real protocol, and what the check remembers of a rank's events.
struct Watched {
    inner: Logging<Commitments>,
    /// Planted bug: a protocol that calls everything stable.
    gate_off: bool,
    events: u64,
    /// Of the latest event.
    clock: Clock,
}

impl Protocol for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn keeps_payload(&self) -> bool {
        self.inner.keeps_payload()
    }

    fn event(&mut self, event: Event<'_>) -> bool {
        self.events += 1;
        self.clock = match event {
            Event::Match { at, .. } => at,
            Event::Probe { clock, .. }
            | Event::Completion { clock, .. }
            | Event::Cancelled { clock, .. }
            | Event::Number { clock, .. }
            | Event::Bytes { clock, .. }
            | Event::Nothing { clock } => clock,
        };
        self.inner.event(event)
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        let stable = self.inner.advance(wanted);
        match self.gate_off {
            true => u64::MAX,
            false => stable,
        }
    }

    fn idle(&mut self) {
        self.inner.idle();
    }

    fn operation_ended(&mut self) {
        self.inner.operation_ended();
    }
}

struct RankState {
    engine: Engine<Watched>,
    receives: Vec<Handle>,
    /// By receiver: of each message, the clock of the latest event before it.
    sent_to: Vec<Vec<Clock>>,
    /// By receiver: messages that were seen to leave.
    left: Vec<usize>,
}

pub struct Ranks {
    pub network: Network,
    ranks: Vec<RankState>,
    loggers: Loggers,
    quorum: usize,
    /// Calls after which something waited for its events.
    pub delayed: u32,
}

impl Ranks {
    pub fn new(setup: &Setup, loggers: &Loggers) -> Self {
        let options = Options {
            keeps_trace: true,
            ..match setup.seed % 2 {
                0 => Options::calm(setup.seed),
                _ => Options::rough(setup.seed),
            }
        };
        let network = Network::new(options);
        let names = || (0..setup.ranks).map(Rank);
        let mut started: Vec<_> = names()
            .map(|rank| network.start(rank, Incarnation(0), LOG_BYTES))
            .collect();
        let addresses: Vec<_> = started.iter().map(|(fabric, _)| fabric.address()).collect();
        for (rank, (fabric, _)) in names().zip(&mut started) {
            for peer in names().filter(|peer| *peer != rank) {
                let connected = fabric.connect(peer, Incarnation(0), &addresses[peer.index()]);
                connected.expect("a peer that was started");
            }
        }
        let ranks = names().zip(started).map(|(rank, (fabric, arena))| {
            let identity = Identity {
                job: 7,
                rank,
                incarnation: Incarnation(0),
            };
            let commitments = Commitments::new(setup, rank.index(), loggers);
            let pessimist = Pessimist::new(identity, EventIndex(0), commitments);
            let options = EngineOptions {
                rank,
                incarnation: Incarnation(0),
                size: setup.ranks,
                window_bytes: LOG_BYTES as u64,
            };
            let protocol = Watched {
                inner: Logging::new(Member::Pessimist, Some(pessimist)),
                gate_off: setup.gate_off,
                events: 0,
                clock: Clock(0),
            };
            RankState {
                engine: Engine::new(options, arena, Box::new(fabric), protocol),
                receives: Vec::new(),
                sent_to: vec![Vec::new(); setup.ranks as usize],
                left: vec![0; setup.ranks as usize],
            }
        });
        Self {
            ranks: ranks.collect(),
            network,
            loggers: loggers.clone(),
            quorum: setup.quorum,
            delayed: 0,
        }
    }

    /// One call of chance into one engine.
    pub fn act(&mut self, rank: usize, chance: &mut Chance) -> Result<(), String> {
        let peers = self.ranks.len() as u64;
        let peer = Rank(((rank as u64 + 1 + chance.below(peers - 1)) % peers) as u32);
        let what = chance.below(8);
        if matches!(what, 4 | 5) {
            self.ranks[rank].engine.tick();
        }
        self.checked(rank, |state| match what {
            0 | 1 => {
                let tag = 1;
                let before = state.engine.protocol().clock;
                state.sent_to[peer.index()].push(before);
                let to = SendTo {
                    rank: peer,
                    context: 0,
                    tag,
                    synchronous: what == 1,
                };
                let posted = calls::post_send(&mut state.engine, send_buffer(), to);
                posted.expect("there is room");
            }
            2 | 3 => {
                let pattern = Pattern {
                    context: 0,
                    source: (what == 3).then_some(peer),
                    tag: None,
                };
                let posted = calls::post_receive(&mut state.engine, receive_buffer(), pattern);
                state.receives.push(posted);
            }
            _ => {
                state.engine.progress().expect("nobody dies but loggers");
            }
        })?;
        // The outcome is noted when what the call let out is out.
        let before = self.posted(rank);
        match what {
            4 => self.ranks[rank].test(),
            5 => self.ranks[rank].probe(),
            _ => {}
        }
        assert_eq!(self.posted(rank), before, "notes post nothing");
        Ok(())
    }

    /// Lets a rank do something. Of each message that left meanwhile everything
    /// that happened before it was sent must be at a quorum of loggers.
    fn checked(&mut self, rank: usize, act: impl FnOnce(&mut RankState)) -> Result<(), String> {
        act(&mut self.ranks[rank]);
        self.delayed += u32::from(self.ranks[rank].engine.awaits_commit());
        for to in 0..self.ranks.len() {
            let posted = self.posted_to(rank, to);
            let state = &mut self.ranks[rank];
            for before in &state.sent_to[to][state.left[to]..posted] {
                let holding = self.loggers.holding(rank, *before);
                if holding < self.quorum {
                    return Err(format!(
                        "a message of rank {rank} left, but {holding} loggers have what happened before it, up to clock {before}"
                    ));
                }
            }
            state.left[to] = posted;
        }
        Ok(())
    }

    /// Messages are of one frame here.
    fn posted_to(&self, from: usize, to: usize) -> usize {
        let is_its = |event: &Happened| match event {
            Happened::Posted(route, LaneKind::Data, _) => {
                (route.from.rank.index(), route.to.rank.index()) == (from, to)
            }
            _ => false,
        };
        let events = self.network.events();
        events.iter().filter(|(_, event)| is_its(event)).count()
    }

    fn posted(&self, rank: usize) -> usize {
        let is_own = |event: &Happened| match event {
            Happened::Posted(route, LaneKind::Data | LaneKind::Control, _) => {
                route.from.rank.index() == rank
            }
            _ => false,
        };
        let events = self.network.events();
        events.iter().filter(|(_, event)| is_own(event)).count()
    }

    pub fn posted_total(&self) -> usize {
        (0..self.ranks.len()).map(|rank| self.posted(rank)).sum()
    }

    pub fn events_total(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.engine.protocol().events)
            .sum()
    }

    /// With all loggers alive everything leaves that waited.
    pub fn finish(&mut self, loggers: &Loggers) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let mut is_over = true;
            for rank in 0..self.ranks.len() {
                self.checked(rank, |state| {
                    state.engine.progress().expect("nobody dies but loggers");
                })?;
                is_over &= !self.ranks[rank].engine.has_unposted();
            }
            if is_over {
                return Ok(());
            }
            self.network.step();
            loggers.step();
        }
        let why: Vec<_> = self
            .ranks
            .iter()
            .map(|rank| rank.engine.awaits_commit())
            .collect();
        Err(format!("something never leaves: gates that wait {why:?}"))
    }
}

impl RankState {
    fn test(&mut self) {
        let clock = self.engine.now();
        match calls::try_any(&mut self.engine, clock, &mut self.receives[..]) {
            Some((at, _)) => {
                self.receives.swap_remove(at);
            }
            None => calls::found_nothing(&mut self.engine, clock),
        }
    }

    fn probe(&mut self) {
        let clock = self.engine.now();
        let anything = Pattern {
            context: 0,
            source: None,
            tag: None,
        };
        if calls::look(&mut self.engine, clock, &anything).is_none() {
            calls::found_nothing(&mut self.engine, clock);
        }
    }
}
