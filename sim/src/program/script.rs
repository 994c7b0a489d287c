//! What one rank sends and receives, round by round.

use crate::collective::{Part, Shape};
use crate::plan::{Operation, Plan};
use refrain_ring::Rank;
use std::sync::Arc;

/// The tag of messages that are received from a named source.
pub const TAG_NAMED: i32 = 1;
/// The tag of messages that are received from any source.
pub const TAG_WILD: i32 = 2;
/// A tag that no message has.
pub const TAG_NEVER: i32 = 3;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub to: Rank,
    pub is_named: bool,
    pub bytes: usize,
    pub is_synchronous: bool,
    /// Its number among the messages of the pair.
    pub number: u64,
}

/// A message to receive, as its sender sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub is_named: bool,
    pub bytes: usize,
}

/// A collective in which the rank takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// Its number in the plan.
    pub id: u32,
    pub group: usize,
    pub shape: Shape,
    pub makes: Option<usize>,
}

/// A group of the plan.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub ranks: Arc<[Rank]>,
    /// The place of this rank, if it is a member.
    pub me: Option<u32>,
}

impl Members {
    fn of(ranks: &[Rank], rank: Rank) -> Self {
        let me = ranks.iter().position(|member| *member == rank);
        Self {
            ranks: ranks.into(),
            me: me.map(|me| me as u32),
        }
    }

    /// What this rank does in a collective of the group.
    pub fn part(&self, shape: Shape) -> Option<Part> {
        let size = self.ranks.len() as u32;
        self.me.map(|me| Part { shape, size, me })
    }
}

/// By round: the collectives of the groups of which a rank is a member. There are none of a group
/// of which the plan does not say how it is made.
fn joined(plan: &Plan, groups: &[Members]) -> Vec<Vec<Joined>> {
    let (mut made, mut ids) = (vec![0], 0..);
    let mut rounds = Vec::with_capacity(plan.rounds.len());
    for round in &plan.rounds {
        let all = round.collectives.iter().zip(ids.by_ref());
        let all: Vec<_> = all.filter(|(it, _)| made.contains(&it.group)).collect();
        made.extend(all.iter().filter_map(|(it, _)| it.makes));
        let its = all.iter().filter(|(it, _)| groups[it.group].me.is_some());
        let joined = its.map(|(it, id)| Joined {
            id: *id,
            group: it.group,
            shape: it.shape,
            makes: it.makes,
        });
        rounds.push(joined.collect());
    }
    rounds
}

/// A round of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub sends: Vec<Sending>,
    pub collectives: Vec<Joined>,
    /// Number of messages from any source, in this round and all before.
    pub wild_until: u64,
    /// By source: number of named messages, in this round and all before.
    pub named_until: Vec<u32>,
    pub style_seed: u64,
    pub takes_checkpoint: bool,
    pub prints: bool,
}

/// Everything that a rank sends and receives.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub rounds: Vec<Round>,
    pub groups: Vec<Members>,
    /// By source: all messages to this rank.
    pub expected: Vec<Vec<Expected>>,
    /// By source: the numbers (in the pair) of the named messages.
    pub named: Vec<Vec<u32>>,
    /// Buffer size for any message that is received from any source, in bytes.
    pub wild_room: usize,
    /// Whether all messages are received from any source: then the tag may be left open.
    pub is_all_wild: bool,
    /// The operations of an explored job's script; their sends are those of the first round.
    pub operations: Vec<Operation>,
}

/// Length of a message of two records in an explored job, in bytes.
const LONG_BYTES: usize = 72;

impl Script {
    pub fn new(plan: &Plan, rank: Rank) -> Self {
        let ranks = plan.ranks as usize;
        let mut script = Self {
            rounds: Vec::with_capacity(plan.rounds.len()),
            groups: plan.groups.iter().map(|of| Members::of(of, rank)).collect(),
            expected: vec![Vec::new(); ranks],
            named: vec![Vec::new(); ranks],
            wild_room: crate::plan::STAMP_BYTES,
            is_all_wild: plan.is_all_wild() && !plan.is_explored(),
            operations: plan.scripts.get(rank.index()).cloned().unwrap_or_default(),
        };
        if plan.is_explored() {
            script.write_down(plan, rank);
        }
        let mut sent = vec![0; ranks];
        let mut wild_until = 0;
        let collectives = joined(plan, &script.groups);
        for (planned, collectives) in plan.rounds.iter().zip(collectives) {
            let mut round = Round {
                collectives,
                style_seed: planned.style_seed,
                takes_checkpoint: planned.checkpoints.contains(&rank),
                prints: planned.prints.contains(&rank),
                ..Round::default()
            };
            for message in &planned.messages {
                let bytes = (message.bytes as usize).max(crate::plan::STAMP_BYTES);
                if message.from == rank {
                    let number = &mut sent[message.to.index()];
                    round.sends.push(Sending {
                        to: message.to,
                        is_named: message.is_named,
                        bytes,
                        // Otherwise the job could deadlock (see `Program`).
                        is_synchronous: message.is_synchronous && message.is_named,
                        number: *number,
                    });
                    *number += 1;
                }
                if message.to == rank {
                    script.expect(message.from, message.is_named, bytes);
                    wild_until += u64::from(!message.is_named);
                }
            }
            round.wild_until = wild_until;
            round.named_until = script.named.iter().map(|of| of.len() as u32).collect();
            script.rounds.push(round);
        }
        script
    }

    /// Fills in a script of an explored job. A rank that receives from any source receives all its
    /// messages that way.
    fn write_down(&mut self, plan: &Plan, rank: Rank) {
        let is_named = |to: usize| !plan.scripts[to].contains(&Operation::Any);
        let mut round = Round::default();
        let mut sent = vec![0; plan.scripts.len()];
        for (from, operations) in (0..).map(Rank).zip(&plan.scripts) {
            for operation in operations {
                let (to, bytes) = match *operation {
                    Operation::Send(to) | Operation::SendMatched(to) => {
                        (to, crate::plan::STAMP_BYTES)
                    }
                    Operation::SendLong(to) => (to, LONG_BYTES),
                    Operation::Any | Operation::From(_) | Operation::Checkpoint => continue,
                };
                if to == rank.index() {
                    self.expect(from, is_named(to), bytes);
                }
                if from == rank {
                    round.sends.push(Sending {
                        to: Rank(to as u32),
                        is_named: is_named(to),
                        bytes,
                        is_synchronous: matches!(operation, Operation::SendMatched(_)),
                        number: sent[to],
                    });
                    sent[to] += 1;
                }
            }
        }
        round.named_until = self.named.iter().map(|of| of.len() as u32).collect();
        self.rounds.push(round);
    }

    fn expect(&mut self, from: Rank, is_named: bool, bytes: usize) {
        let expected = &mut self.expected[from.index()];
        if is_named {
            self.named[from.index()].push(expected.len() as u32);
        } else {
            self.wild_room = self.wild_room.max(bytes);
        }
        expected.push(Expected { is_named, bytes });
    }

    /// Length in bytes of the named message with this index from a source.
    pub fn named_bytes(&self, source: Rank, index: u32) -> usize {
        let number = self.named[source.index()].get(index as usize);
        number.map_or(crate::plan::STAMP_BYTES, |number| {
            self.expected[source.index()][*number as usize].bytes
        })
    }
}
