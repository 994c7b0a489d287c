//! Single deaths, one by one.

use super::life::{Life, LogMeans};
use crate::memory::{Room, receive_buffer, send_buffer};
use crate::networks;
use crate::recorder::{Recorder, TestProtocol, found};
use crate::rig::{UNTOUCHED, all_from, from, payload, synchronous, to};
use refrain_ring::{CHUNK_BYTES, Clock, Incarnation, Rank, Ssn};
use refrain_transport::engine::{
    Engine, EngineError, EngineOptions, NotBetween, Progress, RequestId, SendTo, Started,
};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::matching::Pattern;

const ROUNDS: usize = 400;
const LONG: usize = 200_000;

/// Two ranks. A later life of either starts without a checkpoint.
pub struct Pair {
    pub(super) network: Network,
    log: LogMeans,
    pub lives: [Option<Life>; 2],
    rooms: Vec<Room>,
}

impl Pair {
    pub fn new(options: Options) -> Self {
        Self::with(
            options,
            LogMeans {
                bytes: 8 << 20,
                has_disk: false,
            },
        )
    }

    pub fn with(options: Options, log: LogMeans) -> Self {
        let network = Network::new(options);
        let [mut zero, mut one] =
            [0, 1].map(|rank| network.start(Rank(rank), Incarnation(0), log.bytes));
        let [at_zero, at_one] = [zero.0.address(), one.0.address()];
        for (end, peer, address) in [(&mut zero.0, 1, at_one), (&mut one.0, 0, at_zero)] {
            let connected = end.connect(Rank(peer), Incarnation(0), &address);
            connected.expect("a peer that was started");
        }
        let life = |rank, end| Some(Life::over(end, log, (Rank(rank), Incarnation(0))));
        Self {
            lives: [life(0, zero), life(1, one)],
            network: network.clone(),
            log,
            rooms: Vec::new(),
        }
    }

    pub fn engine(&mut self, rank: usize) -> &mut Engine<TestProtocol> {
        &mut self.lives[rank].as_mut().expect("it lives").engine
    }

    pub fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.network.step();
            self.lives.iter_mut().flatten().for_each(|life| {
                life.progress();
            });
        }
    }

    /// Kills the first life of a rank; its peer fences it.
    pub fn lay_down(&mut self, rank: usize) {
        self.network.kill(Rank(rank as u32));
        self.lives[rank] = None;
        self.engine(1 - rank).fence(Rank(rank as u32));
    }

    /// Begins the next life, and connects the two ranks.
    pub fn raise(&mut self, rank: usize, incarnation: u32) {
        let own = (Rank(rank as u32), Incarnation(incarnation));
        let life = Life::begin(&self.network, self.log, own.0, own.1);
        let address = life.address.clone();
        self.lives[rank] = Some(life);
        let peer = self.lives[1 - rank].as_ref().expect("it lives");
        let (of_peer, at) = (peer.incarnation, peer.address.clone());
        let connected = self.engine(1 - rank).connect(own.0, own.1, &address);
        connected.expect("it was started");
        let connected = self
            .engine(rank)
            .connect(Rank(1 - rank as u32), of_peer, &at);
        connected.expect("it lives");
    }

    /// Events of a rank are logged and not stable from now on.
    pub fn hold_commits(&self, rank: usize) {
        let life = self.lives[rank].as_ref().expect("it lives");
        life.protocol.hold_commits();
    }

    /// Memory that lives as long as the pair.
    pub fn room(&mut self, bytes: &[u8]) -> Room {
        let room = Room::holding(bytes);
        self.rooms.push(room.clone());
        room
    }

    pub fn send(&mut self, rank: usize, to: SendTo, bytes: &[u8]) -> Option<RequestId> {
        let room = Room::holding(bytes);
        self.rooms.push(room.clone());
        let started = self.engine(rank).start_send(send_buffer(&room), to);
        match started.expect("the log can hold it") {
            Started::Done(_) => None,
            Started::Pending(id) => Some(id),
        }
    }

    pub(super) fn receive(
        &mut self,
        rank: usize,
        pattern: Pattern,
        bytes: usize,
    ) -> (RequestId, Room) {
        let room = Room::holding(&vec![UNTOUCHED; bytes]);
        self.rooms.push(room.clone());
        let id = self
            .engine(rank)
            .start_receive(receive_buffer(&room, bytes), pattern);
        (id, room)
    }

    pub fn expect(&mut self, rank: usize, pattern: Pattern, bytes: &[u8]) {
        let (id, room) = self.receive(rank, pattern, bytes.len());
        self.settle();
        self.check(rank, id, &room, bytes);
    }

    fn check(&mut self, rank: usize, id: RequestId, room: &Room, bytes: &[u8]) {
        let outcome = self.engine(rank).outcome(id).expect("it is received");
        assert_eq!(outcome.status.bytes, bytes.len() as u64);
        assert!(room.read() == bytes);
        self.engine(rank).retire(id);
    }

    /// Waits until the first bytes of rank 0's message are at rank 1: in a receive's room, or
    /// unexpected.
    fn until_begun(&mut self, room: Option<&Room>) {
        for _ in 0..ROUNDS {
            let has_begun = match room {
                Some(room) => room.starts_otherwise(UNTOUCHED),
                None => self.engine(1).find(&from(0, 1)).is_some(),
            };
            if has_begun {
                return;
            }
            self.network.step();
            self.lives[0].as_mut().expect("it lives").progress();
            self.engine(1).progress().expect("nobody is lost");
        }
    }

    fn is_complete(&mut self, rank: usize, id: Option<RequestId>) -> bool {
        id.is_none_or(|id| self.engine(rank).outcome(id).is_some())
    }

    fn published(&mut self, rank: usize, from: u64) -> usize {
        let peer = Rank(1 - rank as u32);
        let engine = self.engine(rank);
        let mut reader = engine.read_back(peer, Ssn(from));
        let mut records = 0;
        for _ in 0..ROUNDS {
            let progress = engine.read_on(&mut reader, &mut |_, _| records += 1);
            if progress.expect("it can be read") == Progress::End {
                return records;
            }
            engine.progress().expect("nothing is wrong");
        }
        panic!("the log has no end");
    }
}

/// Messages that have arrived completely stay when their sender is fenced, also those that were
/// left in its log.
// REC-7
#[test]
fn what_has_arrived_stays() {
    for network in networks::all() {
        let is_distant = network.distant_bytes_min.is_some();
        let mut pair = Pair::new(network);
        pair.send(0, to(1, 1), &payload(1, 3000));
        pair.send(0, to(1, 2), &payload(2, LONG));
        pair.settle();
        pair.lay_down(0);
        if !is_distant {
            pair.expect(1, from(0, 1), &payload(1, 3000));
            pair.expect(1, from(0, 2), &payload(2, LONG));
        }
        pair.raise(0, 1);
        pair.settle();
        pair.send(0, to(1, 1), &payload(1, 3000));
        pair.send(0, to(1, 2), &payload(2, LONG));
        pair.send(0, to(1, 3), &payload(3, 10));
        pair.settle();
        if is_distant {
            pair.expect(1, from(0, 1), &payload(1, 3000));
            pair.expect(1, from(0, 2), &payload(2, LONG));
        }
        pair.expect(1, from(0, 3), &payload(3, 10));
        let left = pair.engine(1).find(&all_from(0));
        assert_eq!(left, None, "a duplicate");
    }
}

/// A message that has arrived in part starts again, for its match or at its place among the
/// unexpected ones. No byte counts twice, also if its sender dies again.
// REC-7
#[test]
fn a_message_that_is_half_there_comes_again() {
    for network in networks::all() {
        for is_matched in [true, false] {
            let mut pair = Pair::new(network.clone());
            let early = is_matched.then(|| pair.receive(1, from(0, 1), LONG));
            pair.send(0, to(1, 1), &payload(1, LONG));
            for incarnation in 1..4 {
                pair.until_begun(early.as_ref().map(|(_, room)| room));
                if let Some((id, _)) = &early
                    && pair.is_complete(1, Some(*id))
                {
                    break;
                }
                pair.lay_down(0);
                pair.raise(0, incarnation);
                pair.send(0, to(1, 1), &payload(1, LONG));
            }
            pair.settle();
            let (id, room) = early.unwrap_or_else(|| pair.receive(1, from(0, 1), LONG));
            pair.settle();
            pair.check(1, id, &room, &payload(1, LONG));
            assert_eq!(pair.engine(1).find(&all_from(0)), None, "it came twice");
        }
    }
}

/// A synchronous send is complete when its message is matched, and not before,
/// whichever of the two dies in between.
// REC-3
#[test]
fn synchronous_sends_end_when_they_are_matched() {
    for network in networks::all() {
        for dies in [0, 1] {
            for bytes in [8, LONG] {
                let mut pair = Pair::new(network.clone());
                let data = payload(1, bytes);
                let mut sent = pair.send(0, synchronous(1, 1), &data);
                pair.settle();
                assert!(!pair.is_complete(0, sent), "nobody has matched it");
                pair.lay_down(dies);
                pair.raise(dies, 1);
                if dies == 0 {
                    sent = pair.send(0, synchronous(1, 1), &data);
                }
                pair.settle();
                assert!(!pair.is_complete(0, sent), "nobody has matched it");
                pair.expect(1, from(0, 1), &data);
                assert!(pair.is_complete(0, sent), "it is matched");
                // The answer is for this life only.
                pair.lay_down(0);
                pair.raise(0, 2);
                let again = pair.send(0, synchronous(1, 1), &data);
                pair.settle();
                assert!(pair.is_complete(0, again), "it is matched");
            }
        }
    }
}

/// Frames that wait for the gate are not published for a peer that is down either: a reader of the
/// log sees nothing that is not stable.
// GATE-1
// REC-3
#[test]
fn the_gate_holds_what_nobody_is_there_to_get() {
    for network in networks::all() {
        let mut pair = Pair::new(network);
        let recorder = pair.lives[0].as_ref().expect("it lives").protocol.clone();
        recorder.hold_commits();
        pair.send(0, to(1, 1), &[1; 8]);
        let clock = pair.engine(0).tick();
        pair.engine(0).note_probe(clock, &found(Rank(1)), Ssn(0));
        pair.lay_down(1);
        pair.send(0, to(1, 1), &[2; 8]);
        pair.settle();
        assert_eq!(pair.published(0, 0), 1);
        pair.raise(1, 1);
        pair.send(0, to(1, 1), &[3; 8]);
        pair.settle();
        assert_eq!(pair.published(0, 0), 1);
        pair.expect(1, from(0, 1), &[1; 8]);
        assert_eq!(
            pair.engine(1).find(&all_from(0)),
            None,
            "it passed the gate"
        );
        recorder.commit();
        pair.settle();
        pair.expect(1, from(0, 1), &[2; 8]);
        pair.expect(1, from(0, 1), &[3; 8]);
    }
}

/// A sender continues in a log that is shorter than its messages to a peer that is down; the peer
/// then gets them from disk.
// LOG-2
// LOG-3
// REC-3
#[test]
fn a_peer_that_is_down_holds_no_memory() {
    const MESSAGES: u64 = 40;
    for network in networks::all() {
        let log = LogMeans {
            bytes: 2 << 20,
            has_disk: true,
        };
        let mut pair = Pair::with(network, log);
        pair.settle();
        pair.lay_down(1);
        let sends: Vec<_> = (0..MESSAGES)
            .map(|message| pair.send(0, to(1, 1), &payload(message, LONG)))
            .collect();
        pair.settle();
        assert!(sends.into_iter().all(|sent| pair.is_complete(0, sent)));
        pair.raise(1, 1);
        for message in 0..MESSAGES {
            pair.expect(1, from(0, 1), &payload(message, LONG));
        }
        assert!(pair.engine(0).is_live(Rank(1)));
    }
}

/// A horizon that was sent to a dead life is sent to the next life.
// LOG-4
// REC-3
#[test]
fn a_horizon_is_told_again() {
    for network in networks::all() {
        let mut pair = Pair::new(network);
        for message in 0..3 {
            pair.send(0, to(1, 1), &payload(message, 10));
            pair.expect(1, from(0, 1), &payload(message, 10));
        }
        pair.lay_down(0);
        pair.engine(1).publish_horizon();
        pair.raise(0, 1);
        pair.settle();
        assert_eq!(pair.engine(0).log_horizon(Rank(1)), Ssn(3));
    }
}

/// A later life whose peer has all that it sends holds no memory for it, also if it
/// never sends anything new.
// REC-4, LOG-3
#[test]
fn what_was_suppressed_holds_no_memory() {
    for network in networks::all() {
        let mut pair = Pair::new(network);
        for message in 0..5 {
            pair.send(0, to(1, 1), &payload(message, LONG));
            pair.expect(1, from(0, 1), &payload(message, LONG));
        }
        pair.lay_down(0);
        pair.raise(0, 1);
        for message in 0..5 {
            pair.send(0, to(1, 1), &payload(message, LONG));
            pair.settle();
        }
        let (before, _) = pair.engine(0).log_bytes();
        pair.engine(1).publish_horizon();
        pair.settle();
        let (used, _) = pair.engine(0).log_bytes();
        let chunk = CHUNK_BYTES as u64;
        assert!(before > chunk && used <= chunk, "{before} {used}");
        pair.send(0, to(1, 1), &payload(5, LONG));
        pair.expect(1, from(0, 1), &payload(5, LONG));
    }
}

/// A peer that starts before the messages that its horizon freed is an error that says so.
// LOG-4
#[test]
fn what_was_freed_is_not_sent_again() {
    let mut pair = Pair::new(networks::calm());
    pair.send(0, to(1, 1), &payload(1, 10));
    pair.expect(1, from(0, 1), &payload(1, 10));
    pair.engine(1).publish_horizon();
    pair.settle();
    pair.lay_down(1);
    pair.raise(1, 1);
    let error = (0..ROUNDS).find_map(|_| {
        pair.network.step();
        pair.lives[1].as_mut().expect("it lives").progress();
        pair.engine(0).progress().err()
    });
    let expected = |error: &EngineError| {
        let EngineError::Freed { ssn, kept_from, .. } = error else {
            return false;
        };
        (*ssn, *kept_from) == (Ssn(0), Ssn(1))
    };
    assert!(error.as_ref().is_some_and(expected), "{error:?}");
}

/// A rank that sends another message than before is detected where the difference is seen.
// REC-8
#[test]
fn a_message_that_comes_again_is_the_same() {
    let mut options = networks::calm();
    options.attributes.reads_in_place = false;
    for (tag, bytes) in [(2, LONG), (1, LONG - 1)] {
        let mut pair = Pair::new(options.clone());
        pair.send(0, to(1, 1), &payload(1, LONG));
        pair.network.step();
        pair.engine(1).progress().expect("nobody is lost");
        assert!(pair.engine(1).find(&from(0, 1)).is_some());
        pair.lay_down(0);
        pair.raise(0, 1);
        pair.send(0, to(1, tag), &payload(1, bytes));
        let error = (0..ROUNDS).find_map(|_| {
            pair.network.step();
            pair.lives[0].as_mut().expect("it lives").progress();
            pair.engine(1).progress().err()
        });
        let is_expected = matches!(error, Some(EngineError::Differs { ssn: Ssn(0), .. }));
        assert!(is_expected, "{error:?}");
    }
}

/// Connecting the same life again, or an earlier one, is ignored: messages continue to arrive.
// REC-6
#[test]
fn a_life_is_connected_once() {
    for network in networks::all() {
        let mut pair = Pair::new(network);
        let first = pair.lives[1].as_ref().expect("it lives").address.clone();
        pair.lay_down(1);
        assert_eq!(pair.engine(0).connected(Rank(1)), None);
        pair.raise(1, 2);
        let second = pair.lives[1].as_ref().expect("it lives").address.clone();
        pair.send(0, to(1, 1), &payload(1, LONG));
        for (incarnation, address) in [(0, &first), (2, &second), (1, &second)] {
            let ignored = pair
                .engine(0)
                .connect(Rank(1), Incarnation(incarnation), address);
            ignored.expect("it is ignored");
        }
        assert_eq!(pair.engine(0).connected(Rank(1)), Some(Incarnation(2)));
        pair.expect(1, from(0, 1), &payload(1, LONG));
    }
}

/// Without a log no messages can be sent to a later life.
#[test]
fn a_protocol_that_keeps_nothing_says_so() {
    let network = Network::new(networks::calm());
    let (mut fabric, arena) = network.start(Rank(0), Incarnation(0), 1 << 20);
    let (first, _) = network.start(Rank(1), Incarnation(0), 1 << 20);
    let connected = fabric.connect(Rank(1), Incarnation(0), &first.address());
    connected.expect("it was started");
    let options = EngineOptions {
        rank: Rank(0),
        incarnation: Incarnation(0),
        size: 2,
        window_bytes: 1 << 20,
    };
    let protocol = TestProtocol {
        recorder: Recorder::default(),
        keeps_payload: false,
    };
    let mut engine = Engine::new(options, arena, Box::new(fabric), protocol);
    let (next, _) = network.start(Rank(1), Incarnation(1), 1 << 20);
    let refused = engine.connect(Rank(1), Incarnation(1), &next.address());
    assert!(matches!(
        refused,
        Err(EngineError::NothingKept { peer: Rank(1), .. })
    ));
}

/// A later life that keeps no messages any more meets a peer for the first time: nothing is missing,
/// and what it sends until the peer is connected is kept.
// LOG-7 REC-3
#[test]
fn a_peer_is_met_when_messages_are_no_longer_kept() {
    for options in networks::all() {
        let log = LogMeans {
            bytes: 8 << 20,
            has_disk: false,
        };
        let network = Network::new(options);
        let life = |rank, incarnation| {
            let life = Life::begin(&network, log, Rank(rank), Incarnation(incarnation));
            let mut engine = life.engine.with_introductions(&[], &[]);
            engine.limit_keeping();
            Some(Life { engine, ..life })
        };
        let mut pair = Pair {
            lives: [life(0, 1), life(1, 0)],
            network: network.clone(),
            log,
            rooms: Vec::new(),
        };
        assert!(pair.engine(0).stop_keeping());
        pair.send(0, to(1, 1), &[1; 10]);
        assert_eq!(pair.engine(0).next_wanted_peer(), Some(Rank(1)));
        let addresses = [0, 1].map(|rank| pair.lives[rank].as_ref().unwrap().address.clone());
        let connected = (pair.engine(0)).connect(Rank(1), Incarnation(0), &addresses[1]);
        connected.expect("no life of the peer has got anything");
        // Sent before the peer says what it misses.
        for message in 2..40 {
            pair.send(0, to(1, 1), &[message; 100_000]);
            pair.settle();
        }
        let connected = (pair.engine(1)).connect(Rank(0), Incarnation(1), &addresses[0]);
        connected.expect("it lives");
        pair.expect(1, from(0, 1), &[1; 10]);
        for message in 2..40 {
            pair.expect(1, from(0, 1), &[message; 100_000]);
        }
        pair.send(1, to(0, 2), &[7; 10]);
        pair.expect(0, from(1, 2), &[7; 10]);
        assert!(pair.engine(0).is_live(Rank(1)));
    }
}

/// A log that a peer needs is kept; once messages are not kept any more, no later life of a peer
/// can be connected.
// LOG-7
#[test]
fn messages_are_kept_while_a_peer_needs_them() {
    for network in networks::all() {
        let mut pair = Pair::new(network);
        pair.lives
            .iter_mut()
            .flatten()
            .for_each(|it| it.engine.limit_keeping());
        pair.send(0, to(1, 1), &[1; 10]);
        pair.expect(1, from(0, 1), &[1; 10]);
        pair.lay_down(1);
        assert!(!pair.engine(0).stop_keeping());
        pair.raise(1, 1);
        assert!(!pair.engine(0).stop_keeping(), "it has not caught up");
        pair.expect(1, from(0, 1), &[1; 10]);
        assert!(pair.engine(0).stop_keeping());
        pair.lay_down(1);
        let next = Life::begin(&pair.network, pair.log, Rank(1), Incarnation(2));
        let refused = pair
            .engine(0)
            .connect(Rank(1), Incarnation(2), &next.address);
        let refused = refused.expect_err("nothing is kept");
        assert!(
            refused.to_string().contains("keeps no messages since"),
            "{refused}"
        );
    }
}

/// A checkpoint is taken only when no receive is open, no message taken by a probe, and no send
/// partly in the log.
// LOG-5
#[test]
fn a_state_is_between_operations() {
    let mut pair = Pair::new(networks::calm());
    let before = pair.engine(1).now();
    let (open, room) = pair.receive(1, from(0, 1), 10);
    let posted_at = Clock(before.0 + 1);
    assert_eq!(
        pair.engine(1).state(),
        Err(NotBetween::OpenReceive { posted_at })
    );
    pair.send(0, to(1, 1), &payload(1, 10));
    pair.settle();
    pair.check(1, open, &room, &payload(1, 10));
    assert!(pair.engine(1).state().is_ok());
    for message in 1..3 {
        pair.send(0, to(1, 2), &payload(message, 10));
    }
    pair.settle();
    let state = pair.engine(1).state().expect("nothing is open");
    assert_eq!(state.delivered[0].first_missing(), Ssn(1));
    assert_eq!(state.delivered[0].except, [Ssn(1), Ssn(2)]);
    let taken = pair.engine(1).take_matched(&from(0, 2));
    assert!(taken.is_some());
    let expected = NotBetween::TakenMessage {
        source_rank: Rank(0),
        ssn: Ssn(1),
    };
    assert_eq!(pair.engine(1).state(), Err(expected));
    assert!(!expected.ends_by_progress());
    pair.send(0, to(1, 3), &payload(9, 4 << 20));
    let packing = pair.engine(0).state();
    assert_eq!(packing, Err(NotBetween::Packing { to: Rank(1) }));
}

/// Messages of a rank to itself are restored from its checkpoint, in their order.
// LOG-5
#[test]
fn messages_to_oneself_are_part_of_the_state() {
    let mut pair = Pair::new(networks::calm());
    for message in 0..3 {
        pair.send(1, to(1, 4), &payload(message, 20));
    }
    let (first, room) = pair.receive(1, from(1, 4), 20);
    pair.check(1, first, &room, &payload(0, 20));
    let state = pair.engine(1).state().expect("nothing is open");
    assert_eq!(state.undelivered.len(), 2);
    let network = Network::new(networks::calm());
    let mut later = Life::begin(&network, pair.log, Rank(1), Incarnation(1));
    later.engine = later.engine.with_beginning(state.clone());
    assert_eq!(later.engine.state(), Ok(state));
    pair.lives[1] = Some(later);
    for message in 1..3 {
        let (id, room) = pair.receive(1, from(1, 4), 20);
        pair.check(1, id, &room, &payload(message, 20));
    }
}
