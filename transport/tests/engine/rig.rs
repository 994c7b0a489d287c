//! A job of engines on one simulated network, driven step by step.

use crate::memory::{Room, receive_buffer, send_buffer};
use crate::recorder::{Recorder, TestProtocol};
use refrain_ring::{Arena, Clock, Incarnation, Rank, Ssn};
use refrain_transport::engine::{
    Engine, EngineError, EngineOptions, Outcome, ReceiveBuffer, RequestId, SendBuffer, SendTo,
    Started,
};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Event, LaneKind, Network, Options, SimFabric};
use refrain_transport::matching::Pattern;
use std::cell::Cell;
use std::rc::Rc;

/// More rounds than any test needs.
const ROUNDS_MAX: usize = 200_000;
/// Number of rounds without movement after which nothing moves any more. At most one post in five
/// is refused by chance.
const QUIET_ROUNDS: usize = 24;
/// The content of rooms before a message is received.
pub const UNTOUCHED: u8 = 0xa5;

/// The properties of a job.
#[derive(Clone, Debug)]
pub struct Setup {
    pub ranks: u32,
    pub network: Options,
    pub keeps_payload: bool,
    pub log_bytes: usize,
    /// The window of the engines; with a kept log it is as long as the log.
    pub window_bytes: u64,
    /// Whether the system gives memory for the logs from the beginning.
    pub has_memory: bool,
    /// The clock with which the engines begin.
    pub clock: Clock,
    /// Makes the fabric of an engine from its endpoint.
    pub over: fn(SimFabric) -> Box<dyn Fabric>,
}

impl Setup {
    /// Two ranks that keep no payload.
    pub fn new(network: Options) -> Self {
        Self {
            ranks: 2,
            keeps_payload: false,
            log_bytes: 8 * network.window_bytes as usize,
            window_bytes: network.window_bytes,
            has_memory: true,
            clock: Clock(0),
            over: |fabric| Box::new(fabric),
            network,
        }
    }

    pub fn ranks(self, ranks: u32) -> Self {
        Self { ranks, ..self }
    }

    /// Keeps payload, in a log of `log_bytes` bytes.
    pub fn keeping(self, log_bytes: usize) -> Self {
        Self {
            keeps_payload: true,
            log_bytes,
            window_bytes: log_bytes as u64,
            ..self
        }
    }

    /// The system gives no memory before [`Rig::give_memory`].
    pub fn without_memory(self) -> Self {
        Self {
            has_memory: false,
            ..self
        }
    }

    /// The engines continue at the clock of earlier lives.
    pub fn after(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The engines get a fabric in front of their endpoint.
    pub fn over(self, over: fn(SimFabric) -> Box<dyn Fabric>) -> Self {
        Self { over, ..self }
    }

    pub fn build(self) -> Rig {
        Rig::new(self)
    }
}

/// A send that was begun.
#[derive(Debug)]
pub struct Sent {
    pub from: usize,
    pub room: Room,
    pub started: Started,
}

/// A receive that was begun.
#[derive(Debug)]
pub struct Receipt {
    pub at: usize,
    pub id: RequestId,
    pub room: Room,
}

pub struct Rig {
    pub engines: Vec<Engine<TestProtocol>>,
    pub network: Network,
    pub protocols: Vec<Recorder>,
    has_memory: Rc<Cell<bool>>,
    /// Dropped after the engines that hold their addresses.
    rooms: Vec<Room>,
}

impl Rig {
    fn new(setup: Setup) -> Self {
        println!("{setup:?}");
        let network = Network::new(setup.network.clone());
        let ranks = || (0..setup.ranks).map(Rank);
        let has_memory = Rc::new(Cell::new(setup.has_memory));
        let (mut fabrics, arenas): (Vec<_>, Vec<_>) = ranks()
            .map(|rank| network.start(rank, Incarnation(0), setup.log_bytes))
            .map(|(fabric, arena)| (fabric, limited(&arena, &has_memory)))
            .unzip();
        let addresses: Vec<_> = fabrics.iter().map(Fabric::address).collect();
        for (rank, fabric) in ranks().zip(&mut fabrics) {
            for peer in ranks().filter(|peer| *peer != rank) {
                let address = &addresses[peer.index()];
                fabric
                    .connect(peer, Incarnation(0), address)
                    .expect("a peer that was started");
            }
        }
        let protocols: Vec<Recorder> = ranks().map(|_| Recorder::default()).collect();
        let engines = ranks().zip(fabrics).zip(arenas).zip(&protocols);
        let engines = engines.map(|(((rank, fabric), arena), recorder)| {
            let options = EngineOptions {
                rank,
                incarnation: Incarnation(0),
                size: setup.ranks,
                window_bytes: setup.window_bytes,
            };
            let protocol = TestProtocol {
                recorder: recorder.clone(),
                keeps_payload: setup.keeps_payload,
            };
            Engine::new(options, arena, (setup.over)(fabric), protocol).with_clock(setup.clock)
        });
        Self {
            engines: engines.collect(),
            network,
            protocols,
            has_memory,
            rooms: Vec::new(),
        }
    }

    pub fn give_memory(&self) {
        self.has_memory.set(true);
    }

    /// The system gives no more memory before [`Rig::give_memory`].
    pub fn end_memory(&self) {
        self.has_memory.set(false);
    }
}

/// The same arena in a system that may have no memory.
fn limited(arena: &Arena, has_memory: &Rc<Cell<bool>>) -> Arena {
    let has_memory = Rc::clone(has_memory);
    let commit = move |_, _| match has_memory.get() {
        true => Ok(()),
        false => Err(std::io::ErrorKind::OutOfMemory.into()),
    };
    Arena::new(arena.region().clone(), 0, Box::new(commit))
}

/// Beginning operations.
impl Rig {
    /// Memory that lives as long as the rig.
    pub fn room(&mut self, bytes: &[u8]) -> Room {
        let room = Room::holding(bytes);
        self.rooms.push(room.clone());
        room
    }

    pub fn send(&mut self, from: usize, to: SendTo, bytes: &[u8]) -> Sent {
        let room = self.room(bytes);
        let buffer = send_buffer(&room);
        let started = self.start_send(from, buffer, to);
        Sent {
            from,
            room,
            started,
        }
    }

    pub fn start_send(&mut self, from: usize, buffer: SendBuffer, to: SendTo) -> Started {
        self.engines[from]
            .start_send(buffer, to)
            .expect("the log can hold the message")
    }

    pub fn receive(&mut self, at: usize, pattern: Pattern, bytes: usize) -> Receipt {
        let room = self.room(&vec![UNTOUCHED; bytes]);
        let buffer = receive_buffer(&room, bytes);
        self.receive_into(at, pattern, room, buffer)
    }

    pub fn receive_into(
        &mut self,
        at: usize,
        pattern: Pattern,
        room: Room,
        buffer: ReceiveBuffer,
    ) -> Receipt {
        let id = self.engines[at].start_receive(buffer, pattern);
        Receipt { at, id, room }
    }
}

/// Ending operations.
impl Rig {
    pub fn is_sent(&self, sent: &Sent) -> bool {
        match sent.started {
            Started::Done(_) => true,
            Started::Pending(id) => self.engines[sent.from].outcome(id).is_some(),
        }
    }

    /// Waits for a send and forgets it.
    pub fn finish_send(&mut self, sent: &Sent) -> Outcome {
        match sent.started {
            Started::Done(outcome) => outcome,
            Started::Pending(id) => self.finish(sent.from, id),
        }
    }

    pub fn is_received(&self, receipt: &Receipt) -> bool {
        self.engines[receipt.at].outcome(receipt.id).is_some()
    }

    /// Waits for a receive, forgets it, and reads its room.
    pub fn finish_receive(&mut self, receipt: &Receipt) -> (Outcome, Vec<u8>) {
        let outcome = self.finish(receipt.at, receipt.id);
        (outcome, receipt.room.read())
    }

    fn finish(&mut self, at: usize, id: RequestId) -> Outcome {
        self.until("a request ends", |rig| {
            rig.engines[at].outcome(id).is_some()
        });
        let outcome = self.engines[at].outcome(id).expect("just seen");
        self.engines[at].retire(id);
        outcome
    }

    /// Receives the next message that suits, and checks its bytes.
    pub fn expect(&mut self, at: usize, pattern: Pattern, bytes: &[u8]) -> Outcome {
        let receipt = self.receive(at, pattern, bytes.len());
        let (outcome, found) = self.finish_receive(&receipt);
        assert_eq!(outcome.status.bytes, bytes.len() as u64);
        assert!(found == bytes, "the message is not what was sent");
        outcome
    }

    /// Checks that no request and no unsent frame is left.
    pub fn end(&mut self) {
        self.settle();
        for (rank, engine) in self.engines.iter_mut().enumerate() {
            assert_eq!(engine.request_count(), 0, "requests of rank {rank}");
            assert!(!engine.has_unsent(), "rank {rank} has something unsent");
        }
    }
}

/// Driving.
impl Rig {
    /// Advances time to the next moment, and lets every rank make progress. Returns true while
    /// anything moves.
    pub fn round(&mut self) -> bool {
        let mut moving = self.network.step();
        for rank in 0..self.engines.len() {
            moving |= self.progress(rank);
        }
        moving
    }

    pub fn progress(&mut self, rank: usize) -> bool {
        self.engines[rank]
            .progress()
            .unwrap_or_else(|error| panic!("rank {rank}: {error}\n{}", self.dump()))
    }

    /// Drives until nothing moves any more.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            quiet = if self.round() { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
        panic!("the job does not come to rest\n{}", self.dump());
    }

    /// Drives some ranks only, until nothing arrives there any more.
    pub fn settle_only(&mut self, ranks: &[usize]) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            let mut moving = self.network.step();
            for rank in ranks {
                moving |= self.progress(*rank);
            }
            quiet = if moving { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
        panic!("ranks {ranks:?} do not come to rest\n{}", self.dump());
    }

    /// Drives until a condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            if holds(self) {
                return;
            }
            quiet = if self.round() { 0 } else { quiet + 1 };
            assert!(
                quiet < 10 * QUIET_ROUNDS,
                "nothing moves and it is not so that {what}\n{}",
                self.dump()
            );
        }
        panic!("it never is so that {what}\n{}", self.dump());
    }

    /// Drives until the first bytes are in a receive's room.
    pub fn until_touched(&mut self, receipt: &Receipt) {
        self.until("some has arrived", |_| {
            receipt.room.starts_otherwise(UNTOUCHED)
        });
    }

    /// Drives until a message without a receive has begun to arrive.
    pub fn until_found(&mut self, at: usize, pattern: Pattern) {
        self.until("a message is there", |rig| {
            rig.engines[at].find(&pattern).is_some()
        });
    }

    /// Drives until a rank's progress fails.
    pub fn until_error(&mut self, rank: usize) -> EngineError {
        for _ in 0..ROUNDS_MAX {
            self.network.step();
            for other in (0..self.engines.len()).filter(|other| *other != rank) {
                self.progress(other);
            }
            if let Err(error) = self.engines[rank].progress() {
                return error;
            }
        }
        panic!("rank {rank} sees no error\n{}", self.dump());
    }

    fn dump(&self) -> String {
        let ranks = self.engines.iter().enumerate().map(|(rank, engine)| {
            format!(
                "rank {rank}: {} requests, unsent {}, stall {:?}, log {:?}, {:?}, events {:?}\n",
                engine.request_count(),
                engine.has_unposted(),
                engine.stall(),
                engine.log_bytes(),
                engine.statistics(),
                self.protocols[rank].events(),
            )
        });
        let events = self.network.events();
        let last = &events[events.len().saturating_sub(20)..];
        format!(
            "{}last in the network: {last:#?}",
            ranks.collect::<String>()
        )
    }
}

/// Observing.
impl Rig {
    /// Number of frames of one lane that have left a rank so far.
    pub fn posted(&self, from: usize, of: LaneKind) -> usize {
        let events = self.network.events();
        let posted = events.iter().filter(|(_, event)| match event {
            Event::Posted(route, lane, _) => route.from.rank.index() == from && *lane == of,
            _ => false,
        });
        posted.count()
    }

    /// Whether the log of a rank was released anywhere by a receiver.
    pub fn has_released(&self, from: usize) -> bool {
        let events = self.network.events();
        events.iter().any(|(_, event)| match event {
            Event::Released(route, _) => route.from.rank.index() == from,
            _ => false,
        })
    }

    /// Number of distant frames that have landed at any rank so far.
    pub fn landed(&self) -> usize {
        let events = self.network.events();
        let landed = |event: &Event| matches!(event, Event::Landed(..));
        events.iter().filter(|(_, event)| landed(event)).count()
    }

    /// Number of data frames that were handed to a rank so far.
    pub fn handed(&self, at: usize) -> usize {
        let events = self.network.events();
        let handed = |event: &Event| match event {
            Event::Handed(route, LaneKind::Data) => route.to.rank.index() == at,
            _ => false,
        };
        events.iter().filter(|(_, event)| handed(event)).count()
    }

    /// The tag and number of the first message that waits at a rank.
    pub fn first_waiting(&self, at: usize, pattern: Pattern) -> Option<(i32, Ssn)> {
        let (status, ssn) = self.engines[at].find(&pattern)?;
        Some((status.tag, ssn))
    }
}

/// A standard send in context 0.
pub fn to(rank: u32, tag: i32) -> SendTo {
    SendTo {
        rank: Rank(rank),
        context: 0,
        tag,
        synchronous: false,
    }
}

/// A synchronous send in context 0.
pub fn synchronous(rank: u32, tag: i32) -> SendTo {
    SendTo {
        synchronous: true,
        ..to(rank, tag)
    }
}

pub fn from(rank: u32, tag: i32) -> Pattern {
    Pattern {
        context: 0,
        source: Some(Rank(rank)),
        tag: Some(tag),
    }
}

pub fn from_any(tag: i32) -> Pattern {
    Pattern {
        context: 0,
        source: None,
        tag: Some(tag),
    }
}

/// Any tag of one source.
pub fn all_from(rank: u32) -> Pattern {
    Pattern {
        context: 0,
        source: Some(Rank(rank)),
        tag: None,
    }
}

/// Bytes that show in which message they belong, and where.
pub fn payload(message: u64, bytes: usize) -> Vec<u8> {
    let word = |index: u64| {
        let mixed = (message << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).to_le_bytes()
    };
    let words = bytes.div_ceil(8) as u64;
    let mut all: Vec<u8> = (0..words).flat_map(word).collect();
    all.truncate(bytes);
    all
}
