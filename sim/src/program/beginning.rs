//! The beginning of a round: sends, some of its receives, probes and tests; and the random choices
//! of a program in a round.

use super::asking::{WILD, named};
use super::rounds::{Asked, Kind, Phase, Program};
use super::script::Sending;
use super::stamp::{Stamp, fold, payload};
use super::{Call, From, TAG_NAMED, TAG_NEVER, TAG_WILD};
use crate::plan::Operation;
use fastrand::Rng;
use refrain_ring::Rank;
use std::rc::Rc;

/// One step of the beginning of a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Send(usize),
    Named(Rank),
    Wild,
    Never,
    Extra,
    Look,
    Collective { index: usize, waits: bool },
    Number { series: u8 },
    Bytes { count: usize },
}

/// In some rounds, inserts steps that ask for the time or for random bytes.
fn insert_given(steps: &mut Vec<Step>, seed: u64) {
    let mut chance = Rng::with_seed(seed);
    if chance.bool() {
        return;
    }
    for _ in 0..chance.u32(1..4) {
        let step = match chance.u32(0..4) {
            0 => Step::Bytes {
                count: chance.usize(1..=256),
            },
            1 => Step::Number {
                series: chance.u8(0..16),
            },
            _ => Step::Number { series: 0 },
        };
        steps.insert(chance.usize(0..=steps.len()), step);
    }
}

impl Program {
    pub(super) fn begin_round(&mut self) {
        let Some(round) = self.script.rounds.get(self.round) else {
            self.phase = Phase::Over;
            return;
        };
        let seed = fold(round.style_seed, u64::from(self.rank.0));
        let sends = round.sends.len();
        self.chance = Rng::with_seed(seed);
        self.style = Style::new(&mut self.chance);
        self.tries_left = self.style.tries;
        self.phase = Phase::Begin;
        let receives = self.receives_to_post();
        let mut steps = self.in_order(sends, &receives);
        let style = self.style;
        let looks = (0..style.looks).map(|_| Step::Look);
        let extras = (0..style.extras).map(|_| Step::Extra);
        let nevers = (0..style.nevers).map(|_| Step::Never);
        for step in looks.chain(extras).chain(nevers) {
            steps.insert(self.chance.usize(0..=steps.len()), step);
        }
        insert_given(&mut steps, fold(seed, 1));
        self.insert_collectives(&mut steps, fold(seed, 2));
        steps.reverse();
        self.steps = steps;
    }

    fn receives_to_post(&mut self) -> Vec<Step> {
        let round = &self.script.rounds[self.round];
        let wild = round.wild_until.saturating_sub(self.wild_begun);
        let mut receives: Vec<Step> = (0..wild).map(|_| Step::Wild).collect();
        for (source, until) in round.named_until.iter().enumerate() {
            let left = until - self.named_begun[source];
            receives.extend((0..left).map(|_| Step::Named(Rank(source as u32))));
        }
        let percent = self.style.posted_percent;
        if percent < 100 {
            receives.retain(|_| self.chance.u32(0..100) < percent);
        }
        self.chance.shuffle(&mut receives);
        receives
    }

    fn in_order(&mut self, sends: usize, receives: &[Step]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(sends + receives.len() + 8);
        let mut receives = receives.iter().copied();
        if self.style.order == Order::Receives {
            steps.extend(receives.by_ref());
        }
        for send in 0..sends {
            while self.style.order == Order::Mixed && self.chance.bool() {
                let Some(receive) = receives.next() else {
                    break;
                };
                steps.push(receive);
            }
            steps.push(Step::Send(send));
        }
        steps.extend(receives);
        steps
    }

    pub(super) fn begin(&mut self, step: Step) -> Option<Call> {
        match step {
            Step::Send(index) => {
                let sending = self.script.rounds[self.round].sends[index];
                Some(self.send(&sending))
            }
            // A matched probe may have taken the due message.
            Step::Named(source) if self.named_left(source.index()) == 0 => None,
            Step::Named(source) => Some(self.post_named(source)),
            // So may the extra receive.
            Step::Wild if self.wild_left() == 0 => None,
            Step::Wild => Some(self.post_wild(Kind::Wild)),
            Step::Extra => Some(self.post_wild(Kind::Extra)),
            Step::Never => {
                self.asked = Asked::Kind(Kind::Never);
                let source = self.chance.bool().then(|| self.some_peer());
                Some(Call::Irecv {
                    from: From {
                        source,
                        tag: Some(TAG_NEVER),
                    },
                    room_bytes: crate::plan::STAMP_BYTES,
                })
            }
            Step::Look => self.look(),
            Step::Collective { index, waits } => self.begin_collective(index, waits),
            Step::Number { series } => {
                self.asked = Asked::Nothing;
                Some(Call::Number { series })
            }
            Step::Bytes { count } => {
                self.asked = Asked::Nothing;
                Some(Call::Bytes { count })
            }
        }
    }

    /// The next call of a script.
    pub(super) fn operate(&mut self) -> Call {
        self.asked = Asked::Nothing;
        if let Some(open) = self.open.first() {
            return Call::Wait(open.number);
        }
        let is_send = |it: &&Operation| {
            use Operation::{Send, SendLong, SendMatched};
            matches!(it, Send(_) | SendLong(_) | SendMatched(_))
        };
        let script = Rc::clone(&self.script);
        let Some(operation) = script.operations.get(self.place) else {
            return Call::Finish;
        };
        let sent = script.operations[..self.place].iter().filter(is_send);
        self.place += 1;
        match *operation {
            Operation::Send(_) | Operation::SendLong(_) | Operation::SendMatched(_) => {
                self.send(&script.rounds[0].sends[sent.count()])
            }
            Operation::Any => {
                self.asked = Asked::Kind(self.next_wild());
                Call::Recv {
                    from: WILD,
                    room_bytes: script.wild_room,
                }
            }
            Operation::From(source) => {
                let source = Rank(source as u32);
                let kind = self.next_named(source);
                self.asked = Asked::Kind(kind);
                let index = self.named_begun[source.index()] - 1;
                Call::Recv {
                    from: named(source),
                    room_bytes: script.named_bytes(source, index),
                }
            }
            Operation::Checkpoint => Call::Checkpoint,
        }
    }

    fn send(&mut self, sending: &Sending) -> Call {
        let synchronous = sending.is_synchronous;
        self.asked = Asked::Kind(Kind::Send { synchronous });
        let stamp = Stamp {
            source: self.rank,
            destination: sending.to,
            number: sending.number,
            state: self.state,
        };
        Call::Isend {
            to: sending.to,
            tag: if sending.is_named {
                TAG_NAMED
            } else {
                TAG_WILD
            },
            payload: payload(&stamp, sending.bytes),
            synchronous,
        }
    }
}

/// The order of sends and receives at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Receives,
    Sends,
    Mixed,
}

/// The random choices of a program for one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub order: Order,
    /// Percentage of receives that begin before the program waits for anything.
    pub posted_percent: u32,
    /// Percentage of the other receives that begin with a probe for their message.
    pub probed_percent: u32,
    /// Number of probes and tests between sends and receives.
    pub looks: u32,
    /// Maximum number of tests and probes that may find nothing.
    pub tries: u32,
    /// Percentage of sends that are tested right after their calls, when the log decides whether
    /// they are complete.
    pub tested_percent: u32,
    /// Number of receives that are cancelled.
    pub extras: u32,
    /// Number of receives for which no message ever arrives.
    pub nevers: u32,
    /// Whether sends may stay open until the next round.
    pub carries: bool,
    /// Whether all waits of the round are of one kind.
    pub is_monotone: bool,
}

impl Style {
    pub fn new(chance: &mut Rng) -> Self {
        let order = match chance.u32(0..4) {
            0 => Order::Receives,
            1 => Order::Sends,
            _ => Order::Mixed,
        };
        let is_busy = chance.u32(0..3) == 0;
        Self {
            order,
            posted_percent: [0, 50, 80, 100][chance.usize(0..4)],
            probed_percent: [0, 30, 60][chance.usize(0..3)],
            looks: if is_busy { chance.u32(0..5) } else { 0 },
            tries: if is_busy { 12 } else { chance.u32(0..5) },
            tested_percent: [0, 20, 60][chance.usize(0..3)],
            extras: u32::from(chance.u32(0..6) == 0),
            nevers: u32::from(chance.u32(0..6) == 0),
            carries: chance.u32(0..4) == 0,
            is_monotone: chance.bool(),
        }
    }
}
