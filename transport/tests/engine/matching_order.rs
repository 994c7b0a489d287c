//! MPI's matching order (MPI-4.1, 3.5), for random programs.

use crate::networks::in_both_modes;
use crate::rig::{Receipt, Rig, Sent, Setup, payload};
use crate::seed;
use proptest::prelude::*;
use refrain_ring::Rank;
use refrain_transport::engine::SendTo;
use refrain_transport::fabric::sim::Options;
use refrain_transport::matching::{Envelope, Pattern};

/// The receiver of all messages; it also sends to itself.
const RECEIVER: u32 = 1;
const ROOM_BYTES: usize = 80_000;

#[derive(Clone, Debug)]
enum Operation {
    Send {
        envelope: Envelope,
        /// Its length is this and its number, so that a receive can tell which
        /// message it got.
        bytes: usize,
        synchronous: bool,
    },
    Receive(Pattern),
    Round,
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0..2u32, 0..3u32, 0..2i32).prop_map(|(context, source, tag)| Envelope {
        context,
        source: Rank(source),
        tag,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let bytes = prop_oneof![3 => Just(0), 1 => Just(9_000), 1 => Just(70_000)];
    let send = (envelope(), bytes, any::<bool>());
    let receive = (envelope(), any::<bool>(), any::<bool>());
    prop_oneof![
        4 => send.prop_map(|(envelope, bytes, synchronous)| Operation::Send {
            envelope,
            bytes,
            synchronous,
        }),
        4 => receive.prop_map(|(envelope, source, tag)| Operation::Receive(Pattern {
            context: envelope.context,
            source: source.then_some(envelope.source),
            tag: tag.then_some(envelope.tag),
        })),
        2 => Just(Operation::Round),
    ]
}

struct Message {
    envelope: Envelope,
    bytes: usize,
    synchronous: bool,
    sent: Sent,
}

struct Receive {
    pattern: Pattern,
    receipt: Receipt,
}

/// A program in progress, and the message that each receive got.
struct Run {
    rig: Rig,
    messages: Vec<Message>,
    receives: Vec<Receive>,
}

impl Run {
    fn of(program: &[Operation], setup: Setup, in_turn: bool) -> Self {
        let mut run = Self {
            rig: setup.build(),
            messages: Vec::new(),
            receives: Vec::new(),
        };
        for operation in program {
            run.begin(operation);
            if in_turn {
                run.rig.settle();
            }
        }
        run.rig.settle();
        run
    }

    fn begin(&mut self, operation: &Operation) {
        match operation {
            Operation::Send {
                envelope,
                bytes,
                synchronous,
            } => {
                let number = self.messages.len();
                let bytes = bytes + number;
                let to = SendTo {
                    rank: Rank(RECEIVER),
                    context: envelope.context,
                    tag: envelope.tag,
                    synchronous: *synchronous,
                };
                let from = envelope.source.index();
                let sent = self.rig.send(from, to, &payload(number as u64, bytes));
                self.messages.push(Message {
                    envelope: *envelope,
                    bytes,
                    synchronous: *synchronous,
                    sent,
                });
            }
            Operation::Receive(pattern) => {
                let receipt = self.rig.receive(RECEIVER as usize, *pattern, ROOM_BYTES);
                self.receives.push(Receive {
                    pattern: *pattern,
                    receipt,
                });
            }
            Operation::Round => {
                self.rig.round();
            }
        }
    }

    /// The message of each receive, whose bytes are verified.
    fn results(&self) -> Vec<Option<usize>> {
        self.receives
            .iter()
            .map(|receive| self.result(receive))
            .collect()
    }

    fn result(&self, receive: &Receive) -> Option<usize> {
        let engine = &self.rig.engines[RECEIVER as usize];
        let status = engine.outcome(receive.receipt.id)?.status;
        let of_length = |message: &Message| message.bytes as u64 == status.bytes;
        let number = self.messages.iter().position(of_length);
        let number = number.expect("a message of this length was sent");
        let envelope = self.messages[number].envelope;
        assert_eq!((status.source, status.tag), (envelope.source, envelope.tag));
        let found = receive.receipt.room.read();
        let bytes = status.bytes as usize;
        assert!(found[..bytes] == payload(number as u64, bytes));
        Some(number)
    }

    /// Checks rules that hold in whatever order the network delivers messages of several sources.
    fn check_order(&self) {
        let results = self.results();
        let taker = |number| results.iter().position(|got| *got == Some(number));
        for (at, receive) in self.receives.iter().enumerate() {
            if let Some(number) = results[at] {
                let envelope = self.messages[number].envelope;
                assert!(receive.pattern.accepts(&envelope), "receive {at}");
                assert_eq!(taker(number), Some(at), "message {number} came twice");
            }
            for (number, message) in self.messages.iter().enumerate() {
                if !receive.pattern.accepts(&message.envelope) {
                    continue;
                }
                let taken_later = taker(number).is_none_or(|by| by > at);
                let overtaken = results[at].is_some_and(|got| {
                    got > number && self.messages[got].envelope.source == message.envelope.source
                });
                let passed_over = results[at].is_none() && taken_later;
                assert!(
                    !(taken_later && overtaken),
                    "receive {at} got {:?}, which overtook {number}",
                    results[at]
                );
                assert!(!passed_over, "message {number} passed receive {at} by");
            }
        }
    }

    /// A matched send has ended; a synchronous one has not ended before its match.
    fn check_sends(&self) {
        let results = self.results();
        for (number, message) in self.messages.iter().enumerate() {
            let matched = results.contains(&Some(number));
            let over = self.rig.is_sent(&message.sent);
            assert!(over || !matched, "message {number} is matched");
            let early = over && !matched && message.synchronous;
            assert!(!early, "message {number} is not matched");
        }
    }
}

/// The outcome if each operation has its effect before the next.
fn model(program: &[Operation]) -> Vec<Option<usize>> {
    let mut results: Vec<Option<usize>> = Vec::new();
    let mut posted: Vec<(usize, Pattern)> = Vec::new();
    let mut unexpected: Vec<(usize, Envelope)> = Vec::new();
    let mut messages = 0;
    for operation in program {
        match operation {
            Operation::Send { envelope, .. } => {
                match posted.iter().position(|(_, p)| p.accepts(envelope)) {
                    Some(at) => results[posted.remove(at).0] = Some(messages),
                    None => unexpected.push((messages, *envelope)),
                }
                messages += 1;
            }
            Operation::Receive(pattern) => {
                let at = unexpected.iter().position(|(_, e)| pattern.accepts(e));
                let got = at.map(|at| unexpected.remove(at).0);
                if got.is_none() {
                    posted.push((results.len(), *pattern));
                }
                results.push(got);
            }
            Operation::Round => {}
        }
    }
    results
}

fn setups(seed: u64) -> Vec<Setup> {
    let rough = in_both_modes(&Options::rough(seed));
    let setups = rough.into_iter().flat_map(|network| {
        let reused = Setup::new(network).ranks(3);
        [reused.clone(), reused.keeping(4 << 20)]
    });
    setups.collect()
}

proptest! {
    #![proptest_config(seed::config(24))]

    /// Messages of one sender in one context are matched in the order in which they were sent, and
    /// receives in the order in which they were posted. No message and receive that fit together
    /// stay unmatched.
    #[test]
    fn messages_of_one_sender_do_not_overtake(
        program in prop::collection::vec(operation(), 1..50),
        seed in any::<u64>(),
    ) {
        for setup in setups(seed) {
            let run = Run::of(&program, setup, false);
            run.check_order();
            run.check_sends();
        }
    }

    /// When each operation has its effect before the next, exactly one outcome
    /// is right.
    #[test]
    fn operations_in_turn_match_as_the_model_says(
        program in prop::collection::vec(operation(), 1..40),
        seed in any::<u64>(),
    ) {
        for setup in setups(seed) {
            let run = Run::of(&program, setup, true);
            prop_assert_eq!(run.results(), model(&program));
        }
    }
}
