//! Several deaths in one job.

use super::batch::Batch;

const CHAOS: &str = "chaos --operations 600 --bytes-max 30000 --patience 30";
/// Duration such that the job still runs when a rank is killed after some milliseconds.
const LONG: &str = "chaos --operations 5000 --bytes-max 20000 --patience 30";

/// All ranks at the same clock: only the event logger and the checkpoints are left.
// REC-1 REC-3 REC-6
#[test]
fn all_ranks_die_at_once() {
    let mut batch = Batch::new("all at once");
    for clock in [1, 7, 20, 45, 70] {
        let options = format!("--kill 0@clock={clock},1@clock={clock},2@clock={clock}");
        // A worker that gets few tasks does not reach its clock.
        for (workload, deaths_min) in [
            ("token-ring --rounds 60", 3),
            ("stencil --size 12 --iterations 20", 3),
            ("any-source --tasks 150 --bytes 200", 1),
            (CHAOS, 3),
        ] {
            let deaths = batch.survives(3, &options, workload);
            assert!(deaths >= deaths_min, "{options}: {workload}: {deaths}");
        }
    }
    batch.finish(20);
}

/// The second rank dies, by its clock, while the first one recovers.
// REC-3 REC-6
#[test]
fn two_ranks_die_one_after_the_other() {
    let mut batch = Batch::new("two ranks");
    for (first, second) in [(5, 5), (5, 40), (40, 5), (30, 31), (60, 90), (90, 60)] {
        let options = format!("--kill 1@clock={first},2@clock={second}");
        for workload in [
            "token-ring --rounds 60",
            "any-source --tasks 250 --bytes 100",
            CHAOS,
        ] {
            batch.survives(4, &options, workload);
        }
    }
    // A worker that gets few tasks does not reach its clock.
    batch.finish(12);
}

/// A rank dies again, and others with it, while it recovers: some milliseconds after it was
/// killed.
// REC-6 FENCE-1
#[test]
fn a_rank_dies_again_while_it_comes_back() {
    let mut batch = Batch::new("during recovery");
    for milliseconds in (30..126).step_by(8) {
        let (first, then) = (
            f64::from(milliseconds) / 1e3,
            f64::from(milliseconds + 12) / 1e3,
        );
        let again = then + 0.006;
        for kills in [
            format!("1@{first},1@{then},1@{again}"),
            format!("1@{first},0@{then},1@{again},2@{again}"),
        ] {
            let options = format!("--max-restarts 100 --kill {kills}");
            batch.survives(3, &options, LONG);
        }
    }
    // On a fast machine the job ends before most of them.
    batch.finish(2);
}

/// Kills at random times, often before the victim has caught up.
// REC-6
#[test]
fn ranks_die_again_and_again() {
    let mut batch = Batch::new("again and again");
    for seed in 0..8 {
        let options = format!("--kill-random 0.08,{seed} --max-restarts 1000");
        batch.survives(3, &options, "token-ring --rounds 2000 --bytes 200");
        batch.survives(4, &options, LONG);
    }
    batch.finish(2);
}
