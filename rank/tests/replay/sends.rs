//! What is sent again is compared with what the life before had sent. REC-8

use crate::job::{JOB, Life, Setting, sends};
use crate::room::Room;
use refrain_logging::Member;
use refrain_logging::image::{LogImage, Selection};
use refrain_rank::calls;
use refrain_rank::past::Sends;
use refrain_ring::{Clock, Incarnation, Rank, Region};
use refrain_transport::engine::{Engine, EngineError, SendTo};

/// Of several fragments; together they are more than is read ahead at once.
const BYTES: usize = 200_000;
const MESSAGES: u64 = 12;

fn setting() -> Setting {
    Setting {
        seed: 1,
        ranks: 3,
        messages: 0,
        member: Member::Pessimist,
    }
}

fn to(rank: u32, tag: i32) -> SendTo {
    SendTo {
        rank: Rank(rank),
        context: 0,
        tag,
        synchronous: false,
    }
}

fn text(message: u64) -> Vec<u8> {
    let bytes = if message.is_multiple_of(2) { BYTES } else { 10 };
    (0..bytes as u64)
        .map(|at| (at * 3 + message) as u8)
        .collect()
}

/// A life that sends to both others, and to itself.
struct Sender {
    life: Life,
    rooms: Vec<Room>,
}

impl Sender {
    fn new(before: Option<Region>) -> Self {
        Self {
            life: setting().live_after(0, 3, &[], before),
            rooms: Vec::new(),
        }
    }

    fn engine(&mut self) -> &mut Engine {
        &mut self.life.engines[0]
    }

    fn send(&mut self, to: SendTo, bytes: &[u8]) -> Result<(), EngineError> {
        let room = Room::holding(bytes);
        let sent = self.engine().start_send(room.to_send(), to).map(|_| ());
        self.rooms.push(room);
        for _ in 0..40 {
            self.life.round().expect("nobody dies");
        }
        sent
    }

    fn send_all(&mut self) {
        for message in 0..MESSAGES {
            for rank in 0..3 {
                self.send(to(rank, 1), &text(message))
                    .expect("it is the same");
            }
        }
    }
}

/// Messages are compared one by one, with both others; those to itself are in no
/// log. Behind the end of the log there is nothing to compare with.
// REC-8
#[test]
fn the_same_is_the_same() {
    let mut first = Sender::new(None);
    first.send_all();
    let mut second = Sender::new(Some(first.life.memory.clone()));
    second.send_all();
    assert_eq!(second.engine().statistics().sends_compared, 2 * MESSAGES);
    second.send(to(1, 7), &[1]).expect("nothing is known of it");
    assert_eq!(second.engine().statistics().sends_compared, 2 * MESSAGES);
}

/// One that differs in anything stops the rank, which says in what.
// REC-8; known trap: times and random numbers in messages
#[test]
fn another_message_is_not_sent() {
    let mut first = Sender::new(None);
    first.send_all();
    let other_byte = {
        let mut bytes = text(2);
        bytes[150_000] ^= 1;
        bytes
    };
    let same = to(2, 1);
    let synchronous = SendTo {
        synchronous: true,
        ..same
    };
    let other_context = SendTo { context: 4, ..same };
    let cases = [
        (same, other_byte, "other bytes, the first of them at 150000"),
        (same, text(2)[1..].to_vec(), "199999 bytes now"),
        (to(2, 3), text(2), "had context 0, tag 1, 200000 bytes"),
        (synchronous, text(2), "200000 bytes, synchronous now"),
        (other_context, text(2), "has context 4"),
    ];
    for (to_other, bytes, what) in cases {
        let mut second = Sender::new(Some(first.life.memory.clone()));
        for message in 0..2 {
            second.send(same, &text(message)).expect("it is the same");
        }
        let error = second.send(to_other, &bytes).expect_err("it differs");
        let EngineError::Diverged { clock, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*clock, Clock(3));
        let error = error.to_string();
        assert!(error.contains("message 2 to rank 2"), "{error}");
        assert!(error.contains(what), "{error}");
    }
}

/// Behind something that no record tells, a rank may send something else.
// REC-5, REC-8
#[test]
fn behind_something_new_nothing_is_compared() {
    let mut first = Sender::new(None);
    first.send_all();
    let mut second = Sender::new(Some(first.life.memory.clone()));
    second.send(to(1, 1), &text(0)).expect("it is the same");
    let clock = second.engine().tick();
    calls::found_nothing(second.engine(), clock);
    second.send(to(1, 1), &text(5)).expect("it may be another");
    assert_eq!(second.engine().statistics().sends_compared, 1);
}

/// A log that is gone, or begins later: what is not there is not compared.
// REC-8
#[test]
fn what_is_gone_is_not_compared() {
    let mut sender = Sender::new(None);
    let nothing = Sends::new(
        LogImage::empty(Selection::default()),
        JOB,
        Rank(0),
        Incarnation(0),
    );
    let engine = sender.life.engines.remove(0);
    let engine = engine.with_past_sends(Box::new(nothing));
    sender.life.engines.insert(0, engine);
    sender.send_all();
    assert_eq!(sender.engine().statistics().sends_compared, 0);
}

/// The messages of a later life's log are found by their numbers, from wherever
/// it is asked.
// REC-8
#[test]
fn messages_are_found_by_their_numbers() {
    use refrain_transport::past::PastSends;
    let mut first = Sender::new(None);
    first.send_all();
    let mut left = sends(first.life.memory.clone());
    let wanted = [0, 1, 5, 6, 11, 12].map(|ssn| left.has(Rank(1), refrain_ring::Ssn(ssn)));
    assert_eq!(wanted, [true, true, true, true, true, false]);
    assert!(!left.has(Rank(0), refrain_ring::Ssn(0)), "to itself");
}
