//! Whole jobs keep the rules and are reproducible, planted bugs are found, and
//! `docs/design/simulation.md` lists them.
//!
//! Few seeds: `ci/test` runs thousands by `refrain-sim`. GATE-1, GATE-2, GATE-3,
//! GATE-4, EL-3, EL-5, LOG-1, LOG-2, LOG-4, GC-1, FENCE-1, STREAM-1 to STREAM-6, COLL-1, COLL-2, COLL-3

use refrain_ring::Rank;
use refrain_sim::plan::generate::PlanOptions;
use refrain_sim::plan::{FaultKind, FaultPlan, Moment, Plan, Process};
use refrain_sim::planted::{Known, Planted};
use refrain_sim::shrink::shrink;
use refrain_sim::world::{Count, Counts, run};

const SEEDS: u64 = 40;

fn plan(seed: u64) -> Plan {
    Plan::generate(seed, &PlanOptions::default())
}

fn seeds() -> u64 {
    let times = std::env::var("REFRAIN_TEST_SEEDS").ok();
    SEEDS * times.and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// No rule is violated under any faults, and a second run is identical.
#[test]
fn whole_jobs_hold_and_are_the_same_again() {
    let mut counts = Counts::default();
    for seed in 0..seeds() {
        let plan = plan(seed);
        let totals = run(&plan, false).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        counts.merge(&totals.counts);
        assert_eq!(run(&plan, false), Ok(totals), "seed {seed}");
    }
    println!("{} seeds:{counts}", seeds());
    // Otherwise the seeds have tested nothing.
    assert!(counts.of(Count::RankKills) > SEEDS / 4);
    assert!(counts.of(Count::Recollections) > SEEDS / 8);
    assert!(counts.of(Count::Collectives) > SEEDS * 10, "{counts}");
    let kinds = [
        Count::Matches,
        Count::Probes,
        Count::Completions,
        Count::Cancels,
        Count::Numbers,
        Count::Bytes,
        Count::Nothings,
    ];
    assert!(kinds.iter().all(|kind| counts.of(*kind) > 10), "{counts}");
}

/// A rank dies before and after each of its effects: records, messages, operations of its disk.
// REC-3, REC-4, REC-5, REC-6, REC-7
#[test]
fn a_death_at_every_effect() {
    let mut deaths = 0;
    for seed in 0..seeds().div_ceil(16) {
        let options = PlanOptions {
            operations: 20,
            has_faults: false,
            ..PlanOptions::default()
        };
        let calm = Plan::generate(seed, &options);
        for (rank, before) in (0..calm.ranks).flat_map(|rank| [(rank, true), (rank, false)]) {
            for number in (0..).step_by(3) {
                let death = FaultPlan {
                    process: Process::Rank(Rank(rank)),
                    moment: Moment::Effect { number, before },
                    kind: FaultKind::Kill,
                };
                let mut plan = calm.clone();
                plan.faults.push(death);
                let totals = run(&plan, false);
                let totals = totals.unwrap_or_else(|failure| panic!("{plan}: {failure}"));
                if totals.counts.of(Count::RankKills) == 0 {
                    break;
                }
                deaths += 1;
            }
        }
    }
    println!("{deaths} deaths");
    assert!(deaths > 200);
}

/// A bug is found in a plan, and in its shrunk plan.
#[test]
fn a_planted_bug_is_found_and_its_plan_shrinks() {
    let mut broken = plan(0);
    broken.planted = Some(Planted::GateOpen);
    let failure = run(&broken, false).expect_err("the gate is open");
    assert_eq!(failure.breach.oracle, "gate", "{failure}");
    let fails = |plan: &Plan| {
        run(plan, false).is_err_and(|smaller| smaller.breach.oracle == failure.breach.oracle)
    };
    let small = shrink(&broken, fails, 300);
    assert!(fails(&small));
    assert!(small.messages() < broken.messages() / 4, "{small}");
}

/// The document's table of planted bugs equals that of the code.
#[test]
fn the_document_names_every_planted_bug() {
    let document = include_str!("../../docs/design/simulation.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.next()?.parse().ok()?))
    };
    let documented: Vec<(String, u64)> = document.lines().filter_map(row).collect();
    let known = |known: &Known| (known.name.to_owned(), known.seeds);
    let expected: Vec<(String, u64)> = Planted::ALL.iter().map(known).collect();
    assert_eq!(documented, expected);
}
