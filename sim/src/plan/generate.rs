//! From a seed to a plan.

use super::messages::{Lengths, rounds};
use super::{Plan, ProtocolPlan, faults, shape};
use crate::planted::Planted;
use fastrand::Rng;

/// What is wanted of plans; the seed decides about the rest.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// How many ranks: 2 to [`Wishes::RANKS_MAX`].
    pub ranks: Option<u32>,
    /// Which protocol.
    pub protocol: Option<ProtocolPlan>,
    /// Operations of each rank, roughly.
    pub operations: u32,
    /// A bug to plant.
    pub planted: Option<Planted>,
    /// Whether anything goes wrong at all.
    pub has_faults: bool,
}

impl Wishes {
    /// Ranks of a plan, at most.
    pub const RANKS_MAX: u32 = 16;
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            ranks: None,
            protocol: None,
            operations: 200,
            planted: None,
            has_faults: true,
        }
    }
}

/// Ranks of seeds that have no wish: mostly four.
const RANKS: [u32; 8] = [2, 3, 3, 4, 4, 4, 5, 6];

impl Plan {
    /// The plan of a seed.
    pub fn generate(seed: u64, wishes: &Wishes) -> Self {
        // Each subject has its own chance: a wish changes nothing else.
        let chance = |subject: u64| Rng::with_seed(seed ^ subject << 56);
        let mut rng = chance(1);
        let drawn = RANKS[rng.usize(0..RANKS.len())];
        let ranks = wishes.ranks.unwrap_or(drawn).clamp(2, Wishes::RANKS_MAX);
        let drawn = match rng.u32(0..4) {
            0 => ProtocolPlan::PessimistClassic,
            _ => ProtocolPlan::Pessimist,
        };
        let lengths = Lengths::new(&mut rng);
        let rounds = rounds(&mut chance(2), ranks, wishes.operations, lengths);
        let first_clock = match rng.u32(0..4) {
            0 => (1 << 32) - rng.u64(0..400),
            1 => u64::MAX - (1 << 40) + rng.u64(0..400),
            _ => 0,
        };
        let mut plan = Self {
            seed,
            ranks,
            protocol: wishes.protocol.unwrap_or(drawn),
            rounds,
            scripts: Vec::new(),
            loggers: shape::loggers(&mut chance(3)),
            network: shape::network(&mut chance(4)),
            log: super::LogPlan {
                memory_bytes: 0,
                disk_bytes: 0,
            },
            first_clock,
            faults: Vec::new(),
            planted: wishes.planted,
        };
        plan.log = shape::log(&plan, lengths);
        if wishes.has_faults {
            plan.faults = faults::faults(&mut chance(5), &plan, wishes.operations);
            if plan.loses_events() {
                // REC-9 compares what peers have, not what people have seen.
                plan.rounds
                    .iter_mut()
                    .for_each(|round| round.prints.clear());
            }
        }
        plan
    }
}
