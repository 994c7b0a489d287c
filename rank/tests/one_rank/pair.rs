//! Two ranks; the events of the second one are observed.

use crate::empty::{receive_buffer, send_buffer};
use refrain_logging::Member;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_rank::calls::{self, Handle};
use refrain_rank::protocol::{Advance, Logging, Watch};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions, SendTo};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::{Event, Protocol};

const LOG_BYTES: usize = 1 << 20;
/// Rounds in which all messages arrive.
const ROUNDS: usize = 200;

/// Makes committed events stable, unless it is held.
#[derive(Debug, Default)]
pub struct Ledger {
    committed: EventIndex,
    stable: EventIndex,
    prepared: Option<Vec<u8>>,
    /// Number of commits that had been prepared.
    pub foreseen: u32,
    /// No more events become stable.
    pub is_held: bool,
    pub trims: Vec<Clock>,
    pub leaves: u32,
}

/// Output that waits for events.
#[derive(Debug, Default)]
pub struct Output {
    /// Number of events that must become stable.
    pub wanted: u64,
    /// Number of events that were reported as stable.
    pub told_stable: u64,
}

impl Watch for Output {
    fn wanted(&self) -> u64 {
        self.wanted
    }

    fn advanced(&mut self, advance: Advance) {
        self.told_stable = advance.stable;
    }
}

impl Commits for Ledger {
    fn commit(&mut self, header: &BatchHeader, _batch: &[u8]) {
        assert_eq!(header.first, self.committed, "without gaps");
        self.committed = header.end();
        self.prepared = None;
        self.poll();
    }

    fn prepare(&mut self, _header: &BatchHeader, batch: &[u8]) {
        self.prepared = Some(batch.to_vec());
    }

    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(self.prepared.as_deref(), Some(batch), "the very one");
        self.foreseen += 1;
        self.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        self.stable
    }

    fn poll(&mut self) -> EventIndex {
        if !self.is_held {
            self.stable = self.committed;
        }
        self.stable
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn trim(&mut self, before: Clock) {
        self.trims.push(before);
    }

    fn leave(&mut self) -> bool {
        self.leaves += 1;
        self.leaves > 1
    }

    fn explain(&self) -> Option<String> {
        self.is_held.then(|| "held by the test".into())
    }
}

/// An observed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    Match(Clock),
    Probe(Clock),
    Completion(Clock, Vec<Clock>),
    Cancelled(Clock, Clock),
    Number(Clock, u8, i64),
    Bytes(Clock, Vec<u8>),
    Nothing(Clock),
}

/// The real protocol, and the events that it receives.
#[derive(Debug)]
pub struct Watched {
    inner: Logging<Ledger, Output>,
    seen: Vec<Saw>,
}

impl Protocol for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn keeps_payload(&self) -> bool {
        self.inner.keeps_payload()
    }

    fn event(&mut self, event: Event<'_>) -> bool {
        self.seen.push(match &event {
            Event::Match { request, .. } => Saw::Match(*request),
            Event::Probe { clock, .. } => Saw::Probe(*clock),
            Event::Completion { clock, requests } => Saw::Completion(*clock, requests.to_vec()),
            Event::Cancelled { clock, request } => Saw::Cancelled(*clock, *request),
            Event::Number {
                clock,
                series,
                value,
            } => Saw::Number(*clock, *series, *value),
            Event::Bytes { clock, bytes } => Saw::Bytes(*clock, bytes.to_vec()),
            Event::Nothing { clock } => Saw::Nothing(*clock),
        });
        self.inner.event(event)
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        self.inner.advance(wanted)
    }

    fn commits_early(&self) -> bool {
        self.inner.commits_early()
    }

    fn operation_ended(&mut self) {
        self.inner.operation_ended();
    }

    fn idle(&mut self) {
        self.inner.idle();
    }

    fn checkpoint_published(&mut self, clock: Clock) {
        self.inner.checkpoint_published(clock);
    }

    fn leave(&mut self) -> bool {
        self.inner.leave()
    }

    fn explain(&self) -> Option<String> {
        self.inner.explain()
    }
}

pub struct Pair {
    network: Network,
    pub peer: Engine<Watched>,
    pub rank: Engine<Watched>,
}

impl Pair {
    pub fn new() -> Self {
        let network = Network::new(Options::calm(1));
        let mut started = [0, 1].map(|rank| network.start(Rank(rank), Incarnation(0), LOG_BYTES));
        let addresses = [0, 1].map(|rank: usize| started[rank].0.address());
        for rank in [0, 1] {
            let other = 1 - rank;
            started[rank]
                .0
                .connect(Rank(other as u32), Incarnation(0), &addresses[other])
                .expect("a peer that was started");
        }
        let identity = Identity {
            job: 1,
            rank: Rank(1),
            incarnation: Incarnation(0),
        };
        let pessimist = Pessimist::new(identity, EventIndex(0), Ledger::default());
        let mut protocols = vec![None, Some(pessimist)];
        let [peer, rank] = started.map(|(fabric, arena)| {
            let rank = Rank(2 - protocols.len() as u32);
            let options = EngineOptions {
                rank,
                incarnation: Incarnation(0),
                size: 2,
                window_bytes: LOG_BYTES as u64,
            };
            let protocol = Watched {
                inner: Logging::new(Member::Pessimist, protocols.remove(0), Output::default()),
                seen: Vec::new(),
            };
            Engine::new(options, arena, Box::new(fabric), protocol)
        });
        Self {
            network,
            peer,
            rank,
        }
    }

    /// The peer sends a message without bytes to the rank.
    pub fn send(&mut self, tag: i32) {
        let sent = calls::post_send(&mut self.peer, send_buffer(), to(1, tag));
        assert!(sent.expect("there is room").outcome(&self.peer).is_some());
    }

    /// The rank begins a receive of the peer's message.
    pub fn receive(&mut self, tag: i32) -> Handle {
        calls::post_receive(&mut self.rank, receive_buffer(), from(tag))
    }

    /// Waits until all messages in flight have arrived.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.network.step();
            self.peer.progress().expect("nobody dies");
            self.rank.progress().expect("nobody dies");
        }
    }

    /// The events since the last call.
    pub fn seen(&mut self) -> Vec<Saw> {
        std::mem::take(&mut self.rank.protocol_mut().seen)
    }

    /// The events of the rank.
    pub fn events(&self) -> &Pessimist<Ledger> {
        self.rank
            .protocol()
            .inner
            .events()
            .expect("they are logged")
    }

    /// Number of events so far, and number of the first of them that are known to be stable.
    pub fn progress(&self) -> (u64, u64) {
        (self.events().recorded(), self.events().stable())
    }

    /// The output of the rank.
    pub fn output(&mut self) -> &mut Output {
        self.rank.protocol_mut().inner.watch_mut()
    }

    /// The place where the events of the rank become stable.
    pub fn ledger(&mut self) -> &mut Ledger {
        let events = self.rank.protocol_mut().inner.events_mut();
        events.expect("they are logged").commits_mut()
    }
}

pub fn to(rank: u32, tag: i32) -> SendTo {
    SendTo {
        rank: Rank(rank),
        context: 0,
        tag,
        synchronous: false,
    }
}

pub fn from(tag: i32) -> Pattern {
    Pattern {
        context: 0,
        source: Some(Rank(0)),
        tag: Some(tag),
    }
}
