//! Event loggers in simulation: whatever happens to them, to their clients and to the connections
//! between them, a quorum has every acknowledged determinant and returns them in order and without
//! gaps; each planted bug is found.

mod driver;
mod rank;

use driver::{Setup, Totals, run};
use refrain_eventlog::Level;
use refrain_sim::plan::{LoggersPlan, WayPlan};
use refrain_sim::planted::Planted;

/// Configurations of a shard: replicas and quorum.
const SHAPES: [(u32, u32); 5] = [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)];

fn setup(seed: u64) -> Setup {
    let (replicas, quorum) = SHAPES[(seed / 4 % 5) as usize];
    let level = match seed % 2 {
        0 => Level::Placed,
        _ => Level::Durable,
    };
    let way = match seed / 2 % 2 {
        0 => WayPlan::Messages,
        _ => WayPlan::OneSided,
    };
    let plan = LoggersPlan {
        replicas,
        quorum,
        level,
        way,
    };
    Setup {
        seed,
        plan,
        bug: None,
        steps: 3000,
    }
}

/// Planted bugs in event loggers and their clients.
const PLANTED: [Planted; 10] = [
    Planted::AckEarly,
    Planted::LoggerFenceForgotten,
    Planted::AckUnchecked,
    Planted::EventsFreedBeforeStable,
    Planted::OnlyFirstKept,
    Planted::TornAccepted,
    Planted::TrimTooFar,
    Planted::RingsForgotten,
    Planted::TailRead,
    Planted::LoggerSleepsOnWrites,
];

/// Number of seeds; `REFRAIN_LOGGER_SEEDS` overrides it.
fn seeds() -> u64 {
    let more = std::env::var("REFRAIN_LOGGER_SEEDS").ok();
    more.and_then(|seeds| seeds.parse().ok()).unwrap_or(600)
}

/// Loggers and ranks die, before and after any effect; hosts lose power; connections break; writes
/// arrive late, torn, or never.
// GATE-3, EL-1, EL-2, EL-3, EL-5, FENCE-1
#[test]
fn what_was_acknowledged_is_held_and_given_back() {
    let mut sum = Totals::default();
    for seed in 0..seeds() {
        let setup = setup(seed);
        let totals = run(setup).unwrap_or_else(|breach| panic!("{setup:?}: {breach}"));
        sum += totals;
    }
    println!("{} seeds: {sum:?}", seeds());
    // Otherwise the seeds have tested nothing.
    let seeds = seeds();
    assert!(sum.acknowledged > 20 * seeds, "{sum:?}");
    assert!(sum.lives > seeds && sum.logger_deaths > seeds, "{sum:?}");
    assert!(sum.read > 20 * seeds, "{sum:?}");
}

/// A life begins with determinants that a logger lacks, and the logger has a longer tail of a
/// dead life: the logger admits it, with the determinants of the others. No seed
/// below 80,000 shows two loggers with the same tail.
// EL-3, EL-5, FENCE-1
#[test]
fn a_logger_with_a_dead_tail_is_brought_to_the_life_that_goes_on() {
    for seed in [32, 234, 592, 693, 1195] {
        let setup = setup(seed);
        assert_eq!((setup.plan.replicas, setup.plan.quorum), (3, 2));
        let totals = run(setup).unwrap_or_else(|breach| panic!("{setup:?}: {breach}"));
        assert!(totals.lives > 2, "{totals:?}");
    }
}

/// A survey finds the tail of a dead life, and one logger admits the life that continues it.
/// The life dies. The next survey misses that logger and finds a life that begins before the
/// tail: nothing of the tail was stable.
// EL-3, EL-5
#[test]
fn a_life_that_no_quorum_has_admitted_binds_no_later_one() {
    let setup = setup(43_634);
    let totals = run(setup).unwrap_or_else(|breach| panic!("{setup:?}: {breach}"));
    assert!(totals.lives > 2, "{totals:?}");
}

/// A logger lacks an acknowledged determinant and asks a replica whose log ends earlier, because
/// its last batches are still in its ring. The logger keeps what it has, and every determinant of
/// its log can be read.
// EL-1, EL-3, EL-5
#[test]
fn a_log_is_not_cut_to_a_shorter_one_of_the_same_life() {
    let setup = setup(39_146);
    let totals = run(setup).unwrap_or_else(|breach| panic!("{setup:?}: {breach}"));
    assert!(totals.lives > 1, "{totals:?}");
}

/// A seed determines a run, up to the last acknowledgement.
#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let (once, again) = (run(setup(seed)), run(setup(seed)));
        assert_eq!(once, again, "seed {seed}");
    }
}

/// Each planted bug around the real parts is found.
// GATE-3, EL-1, EL-2, EL-3, EL-5, FENCE-1
#[test]
fn every_planted_bug_is_found() {
    for bug in PLANTED {
        let found = (0..500).find_map(|seed| {
            let setup = Setup {
                bug: Some(bug),
                ..setup(seed)
            };
            run(setup).err().map(|breach| (seed, breach))
        });
        let (seed, breach) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: seed {seed}: {breach}");
    }
}
