//! No effect that another rank's program can see leaves a rank before a quorum
//! of its event loggers has everything that happened before (GATE-1), whatever
//! loggers do: delay, die, come back, come back with nothing.
//!
//! The real engine, recorder, pessimist, committer and acceptor, over a simulated
//! network and simulated loggers. The check knows nothing of the gate: for each
//! message that leaves it counts how many loggers hold what happened before it was
//! sent.

mod empty;
mod loggers;
mod ranks;

use loggers::{Fault, Loggers};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use ranks::Ranks;

/// What one run is like.
#[derive(Clone, Copy, Debug)]
struct Setup {
    seed: u64,
    ranks: u32,
    replicas: usize,
    quorum: usize,
    steps: u32,
    /// Planted bug: the protocol calls everything stable.
    gate_off: bool,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    posted: usize,
    events: u64,
    faults: u32,
    delayed: u32,
}

/// Chance; the same for the same seed.
struct Chance(TestRng);

impl Chance {
    fn new(seed: u64) -> Self {
        let bytes: Vec<u8> = [seed, 1, 2, 3]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// Runs a job of chance; `Err`: what left too early.
fn run(setup: Setup) -> Result<Totals, String> {
    let mut chance = Chance::new(setup.seed);
    let loggers = Loggers::new(setup.ranks, setup.replicas, setup.seed ^ 0x5eed);
    let mut ranks = Ranks::new(&setup, &loggers);
    let mut totals = Totals::default();
    for _ in 0..setup.steps {
        if chance.one_in(40) {
            let replica = chance.below(setup.replicas as u64) as usize;
            let fault = match chance.below(3) {
                0 => Fault::Kill,
                1 => Fault::KillAndForget,
                _ => Fault::Restart,
            };
            totals.faults += u32::from(loggers.fault(replica, fault, setup.quorum));
        }
        let rank = chance.below(setup.ranks.into()) as usize;
        ranks.act(rank, &mut chance)?;
        if chance.one_in(2) {
            ranks.network.step();
            loggers.step();
        }
    }
    loggers.heal();
    ranks.finish(&loggers)?;
    totals.posted = ranks.posted_total();
    totals.events = ranks.events_total();
    totals.delayed = ranks.delayed;
    Ok(totals)
}

/// Every seed, shape and fault: nothing leaves too early, and everything leaves
/// when loggers are back. GATE-1, GATE-2, GATE-4, EL-3
#[test]
fn nothing_leaves_before_its_events_are_stable() {
    let mut sum = Totals::default();
    for seed in 0..seeds() {
        let replicas = 1 + (seed % 3) as usize;
        let setup = Setup {
            seed,
            ranks: 2 + (seed % 3) as u32,
            replicas,
            quorum: if seed % 2 == 0 {
                replicas / 2 + 1
            } else {
                replicas
            },
            steps: 400,
            gate_off: false,
        };
        let totals = run(setup).unwrap_or_else(|early| panic!("{setup:?}: {early}"));
        sum.posted += totals.posted;
        sum.events += totals.events;
        sum.faults += totals.faults;
        sum.delayed += totals.delayed;
    }
    println!("{} seeds: {sum:?}", seeds());
    // Else there was nothing to find.
    assert!(sum.events > 10 * seeds() && sum.posted > 0, "{sum:?}");
    assert!(
        sum.faults as u64 > seeds() && sum.delayed as u64 > seeds(),
        "{sum:?}"
    );
}

/// The check sees a gate that does not hold.
#[test]
fn a_gate_that_does_not_hold_is_found() {
    let found = (0..20).any(|seed| {
        let setup = Setup {
            seed,
            ranks: 3,
            replicas: 3,
            quorum: 2,
            steps: 400,
            gate_off: true,
        };
        run(setup).is_err()
    });
    assert!(found);
}

/// How many; more by `REFRAIN_GATE_SEEDS`.
fn seeds() -> u64 {
    let more = std::env::var("REFRAIN_GATE_SEEDS").ok();
    more.and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}
