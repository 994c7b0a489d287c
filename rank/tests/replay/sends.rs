//! Messages that a later life sends again are compared with those of the earlier life. REC-8

use crate::job::{JOB, Life, LoggedEngine};
use crate::room::Room;
use refrain_logging::Member;
use refrain_logging::image::{LogImage, Selection};
use refrain_rank::calls;
use refrain_rank::previous_logs::PreviousLogs;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::divergence::DivergencePolicy;
use refrain_transport::engine::{EngineError, SendTo};

/// Bytes of several fragments; together the messages exceed the read-ahead.
const BYTES: usize = 200_000;
const MESSAGES: u64 = 12;

const POLICIES: [DivergencePolicy; 3] = [
    DivergencePolicy::Stop,
    DivergencePolicy::Warn,
    DivergencePolicy::Auto,
];

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

/// A life that sends to both peers and to itself.
struct Sender {
    life: Life,
    rooms: Vec<Room>,
}

impl Sender {
    fn first() -> Self {
        Self::new(0)
    }

    fn new(number: u32) -> Self {
        Self {
            life: Life::new(Member::Pessimist, number, &[]),
            rooms: Vec::new(),
        }
    }

    /// A life without records, and with these messages for comparison.
    fn comparing(past: PreviousLogs, policy: DivergencePolicy) -> Self {
        let mut sender = Self::new(2);
        let engine = sender.life.engines.remove(0);
        let engine = engine.with_previous_sends(Box::new(past), policy);
        sender.life.engines.insert(0, engine);
        sender
    }

    fn after(first: &Self, policy: DivergencePolicy) -> Self {
        Self::comparing(first.life.logs.sends(), policy)
    }

    fn compared(&mut self) -> u64 {
        self.engine().comparison().messages
    }

    fn engine(&mut self) -> &mut LoggedEngine {
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

/// Messages are compared one by one, for both peers; messages to itself are in no log. After the
/// end of the log nothing is compared.
// REC-8
#[test]
fn the_same_is_the_same() {
    let mut first = Sender::first();
    first.send_all();
    let mut second = Sender::after(&first, DivergencePolicy::Stop);
    assert!(second.engine().is_comparing());
    second.send_all();
    assert_eq!(second.compared(), 2 * MESSAGES);
    assert!(!second.engine().is_comparing());
    second.send(to(1, 7), &[1]).expect("nothing is known of it");
    assert_eq!(second.compared(), 2 * MESSAGES);
}

fn with_other_byte(message: u64, at: usize) -> Vec<u8> {
    let mut bytes = text(message);
    bytes[at] ^= 1;
    bytes
}

/// Another tag, length, context or flag stops the rank with any policy.
// REC-8
#[test]
fn another_message_is_not_sent() {
    let mut first = Sender::first();
    first.send_all();
    let same = to(2, 1);
    let synchronous = SendTo {
        synchronous: true,
        ..same
    };
    let other_context = SendTo { context: 4, ..same };
    let cases = [
        (same, text(2)[1..].to_vec(), "199999 bytes now"),
        (to(2, 3), text(2), "had context 0, tag 1, 200000 bytes"),
        (synchronous, text(2), "200000 bytes, synchronous now"),
        (other_context, text(2), "has context 4"),
    ];
    for policy in POLICIES {
        for (to_other, bytes, what) in &cases {
            let mut second = Sender::after(&first, policy);
            for message in 0..2 {
                second.send(same, &text(message)).expect("it is the same");
            }
            let error = second.send(*to_other, bytes).expect_err("it differs");
            let EngineError::Diverged { clock, .. } = &error else {
                panic!("{policy:?}: {error}");
            };
            assert_eq!(*clock, Clock(3));
            let error = error.to_string();
            assert!(error.contains("message 2 to rank 2"), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }
}

/// With `stop`, differing bytes stop the rank.
// REC-8; known trap: times and random numbers in messages
#[test]
fn other_bytes_stop_a_rank_that_is_to_stop() {
    let mut first = Sender::first();
    first.send_all();
    let mut second = Sender::after(&first, DivergencePolicy::Stop);
    for message in 0..2 {
        second.send(to(2, 1), &text(message)).expect("the same");
    }
    let error = second.send(to(2, 1), &with_other_byte(2, 150_000));
    let error = error.expect_err("it differs");
    assert!(
        matches!(error, EngineError::OtherBytes { clock, .. } if clock == Clock(3)),
        "{error}"
    );
    let error = error.to_string();
    for words in [
        "operation 3 is not what this rank did in its earlier life",
        "message 2 to rank 2 (context 0, tag 1, 200000 bytes) has other bytes at 150000",
        "--divergence",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

/// With other policies the rank continues and sends the bytes of the earlier life: its log must
/// contain them for later lives of its peers and of this rank. It also continues to compare.
// REC-8
#[test]
fn a_rank_that_goes_on_sends_what_the_life_before_sent() {
    let mut first = Sender::first();
    first.send_all();
    for policy in [DivergencePolicy::Warn, DivergencePolicy::Auto] {
        let mut second = Sender::after(&first, policy);
        for message in 0..MESSAGES {
            let bytes = match message {
                2 => with_other_byte(2, 150_000),
                // Of another, in one record: 10 bytes, all other.
                5 => text(7),
                _ => text(message),
            };
            second.send(to(2, 1), &bytes).expect("it goes on");
        }
        let comparison = second.engine().comparison();
        let counted = (comparison.messages, comparison.differing_messages);
        assert_eq!((counted, comparison.differing_bytes), ((12, 2), 11));
        let first_difference = comparison.first.as_ref().expect("there is one");
        assert_eq!(first_difference.clock, Clock(3));
        assert_eq!(first_difference.ranges, [(150_000, 150_001)]);

        let mut third = Sender::after(&second, DivergencePolicy::Stop);
        for message in 0..MESSAGES {
            let sent = third.send(to(2, 1), &text(message));
            sent.expect("the second life has the bytes of the first");
        }
        assert_eq!(third.compared(), MESSAGES);
    }
}

/// Most bytes of long messages differ: `auto` stops before the next send, `warn` does not.
// REC-8
#[test]
fn another_history_is_stopped() {
    let mut first = Sender::first();
    first.send_all();
    let mut second = Sender::after(&first, DivergencePolicy::Auto);
    second.send(to(2, 1), &text(0)).expect("the same");
    second.send(to(2, 1), &text(3)).expect("10 bytes are few");
    let error = second.send(to(2, 1), &text(4)).expect_err("it differs");
    assert!(matches!(error, EngineError::OtherHistory { .. }), "{error}");
    let error = error.to_string();
    for words in [
        "operation 3 is not what this rank did",
        "1 of 2 messages of 64 bytes or more differ",
        "in 200000 bytes",
        "at operation 2, message 1 to rank 2",
        "--divergence warn",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let mut third = Sender::after(&first, DivergencePolicy::Warn);
    for message in 0..MESSAGES {
        third
            .send(to(2, 1), &text(message + 2))
            .expect("it goes on");
    }
    assert_eq!(third.engine().comparison().differing_messages, MESSAGES);
}

/// Messages that passed the gate depend on recorded events only. After an event without a record
/// nothing is left to compare; if something is left, records are lost.
// GATE-1, REC-8, REC-9
#[test]
fn nothing_is_compared_behind_something_new() {
    let mut first = Sender::first();
    first.send(to(1, 1), &text(0)).expect("it is new");
    let mut more = Sender::first();
    more.send_all();
    for (before, lost) in [(first, false), (more, true)] {
        let mut second = Sender::after(&before, DivergencePolicy::Auto);
        second.send(to(1, 1), &text(0)).expect("it is the same");
        let clock = second.engine().tick();
        calls::found_nothing(second.engine(), clock);
        let sent = second.send(to(1, 1), &text(3));
        assert!(!second.engine().is_comparing() || lost);
        assert_eq!(second.compared(), 1);
        match sent {
            Ok(()) => assert!(!lost),
            Err(EngineError::RecordMissing { clock: at, .. }) => assert!(lost && at == clock),
            Err(error) => panic!("{error}"),
        }
    }
}

/// If a log is gone or begins later, the missing messages are not compared.
// REC-8
#[test]
fn what_is_gone_is_not_compared() {
    let mut nothing = PreviousLogs::new(JOB, Rank(0));
    nothing.add_life(LogImage::empty(Selection::default()), Incarnation(0));
    let mut sender = Sender::comparing(nothing, DivergencePolicy::Stop);
    sender.send_all();
    assert_eq!(sender.compared(), 0);
}

/// A life that died in its replay has sent a part again, and new messages: both logs count, the log
/// of the first life before the other.
// REC-6, REC-8
#[test]
fn two_lives_are_compared_with() {
    let mut first = Sender::first();
    first.send_all();
    let mut second = Sender::new(1);
    second.send(to(1, 1), &text(0)).expect("it is new");
    second.send(to(2, 1), &text(0)).expect("it is new");
    second
        .send(to(2, 1), &text(3))
        .expect("another than before");
    for message in 2..=MESSAGES {
        second.send(to(2, 1), &text(message)).expect("it is new");
    }
    let mut both = first.life.logs.sends();
    both.add_life(second.life.logs.image(), Incarnation(1));
    let mut third = Sender::comparing(both, DivergencePolicy::Stop);
    third.send_all();
    assert_eq!(third.compared(), 2 * MESSAGES);
    assert!(third.engine().is_comparing());
    third
        .send(to(2, 1), &text(MESSAGES))
        .expect("as the second");
    assert_eq!(third.compared(), 2 * MESSAGES + 1);
    assert!(!third.engine().is_comparing());
}

/// The messages of a later life's log are found by their SSNs, from any SSN on.
// REC-8
#[test]
fn messages_are_found_by_their_numbers() {
    use refrain_transport::recorded::PreviousSends;
    let mut first = Sender::first();
    first.send_all();
    let mut left = first.life.logs.sends();
    let wanted = [0, 1, 5, 6, 11, 12].map(|ssn| left.has(Rank(1), refrain_ring::Ssn(ssn)));
    assert_eq!(wanted, [true, true, true, true, true, false]);
    assert!(!left.has(Rank(0), refrain_ring::Ssn(0)), "to itself");
}
