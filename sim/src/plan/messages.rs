//! The rounds of a plan.

use super::{MessagePlan, RoundPlan};
use crate::program::STAMP_BYTES;
use fastrand::Rng;
use refrain_ring::Rank;

/// Calls that a message costs its sender and its receiver together, in tenths.
const CALLS_PER_MESSAGE_TENTHS: u32 = 40;
/// The longest message.
const BYTES_MAX: u32 = 100 << 10;

/// What lengths a plan prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lengths {
    /// Some bytes; sometimes some KiB, rarely more.
    Short,
    /// Often so long that logs are spilled.
    Long,
}

impl Lengths {
    pub fn new(rng: &mut Rng) -> Self {
        if rng.u32(0..12) == 0 {
            Self::Long
        } else {
            Self::Short
        }
    }

    fn draw(self, rng: &mut Rng) -> u32 {
        let least = STAMP_BYTES as u32;
        match (self, rng.u32(0..400)) {
            (Self::Short, 0) => rng.u32(10 << 10..=BYTES_MAX),
            (Self::Short, 1..20) => rng.u32(1 << 10..=9 << 10),
            (Self::Long, 0..280) => rng.u32(20 << 10..=BYTES_MAX),
            (_, 20..40) => least,
            _ => rng.u32(least..=200),
        }
    }
}

/// Who sends to whom in a round.
#[derive(Clone, Copy)]
enum Pattern {
    Random,
    /// All to one.
    Gather,
    /// One to all.
    Scatter,
    /// Each to the next.
    Ring,
    /// One channel only.
    Burst,
}

/// Rounds with about so many calls of each rank.
pub(super) fn rounds(
    rng: &mut Rng,
    ranks: u32,
    operations: u32,
    lengths: Lengths,
) -> Vec<RoundPlan> {
    // Then receives may leave the tag open, too.
    let is_all_wild = rng.u32(0..8) == 0;
    let mut left = (ranks * operations * 10 / CALLS_PER_MESSAGE_TENTHS).max(1);
    let per_rank_max = rng.u32(2..=8);
    let (checkpoints_in_100, prints_in_100) = ([0, 10, 25][rng.usize(0..3)], rng.u32(0..40));
    let mut rounds = Vec::new();
    while left > 0 {
        let count = rng.u32(1..=ranks * per_rank_max).min(left);
        left -= count;
        let some = |rng: &mut Rng, percent: u32| {
            let ranks = (0..ranks).map(Rank);
            ranks.filter(|_| rng.u32(0..100) < percent).collect()
        };
        rounds.push(RoundPlan {
            messages: messages(rng, ranks, count, (lengths, is_all_wild)),
            style_seed: rng.u64(..),
            checkpoints: some(rng, checkpoints_in_100),
            prints: some(rng, prints_in_100),
        });
    }
    rounds
}

fn messages(
    rng: &mut Rng,
    ranks: u32,
    count: u32,
    (lengths, is_all_wild): (Lengths, bool),
) -> Vec<MessagePlan> {
    let pattern = match rng.u32(0..12) {
        0 => Pattern::Gather,
        1 => Pattern::Scatter,
        2 => Pattern::Ring,
        3 => Pattern::Burst,
        _ => Pattern::Random,
    };
    let wild_in_100 = [10, 40, 70, 100][rng.usize(0..4)];
    let one = rng.u32(0..ranks);
    let next = |rank: u32, by: u32| (rank + by) % ranks;
    let other = |rng: &mut Rng, rank: u32| next(rank, rng.u32(1..ranks));
    (0..count)
        .map(|index| {
            let (from, to) = match pattern {
                Pattern::Random => {
                    let from = rng.u32(0..ranks);
                    match rng.u32(0..24) {
                        0 if !is_all_wild => (from, from),
                        _ => (from, other(rng, from)),
                    }
                }
                Pattern::Gather => (other(rng, one), one),
                Pattern::Scatter => (one, other(rng, one)),
                Pattern::Ring => (index % ranks, next(index, 1)),
                Pattern::Burst => (one, next(one, 1)),
            };
            let is_drawn = rng.u32(0..100) >= wild_in_100;
            let is_named = from == to || is_drawn && !is_all_wild;
            MessagePlan {
                from: Rank(from),
                to: Rank(to),
                is_named,
                bytes: lengths.draw(rng),
                is_synchronous: is_named && rng.u32(0..8) == 0,
            }
        })
        .collect()
}
