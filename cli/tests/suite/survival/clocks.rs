//! One rank, killed at one clock after the other, to the end of the job.

use super::batch::Batch;

/// Kills `victim` at every `step`-th clock until a clock is after the job's end; returns the last
/// clock that was reached.
fn sweep(batch: &mut Batch, ranks: u32, options: &str, workload: &str, step: usize) -> usize {
    for (victim, clock) in (1..).step_by(step).enumerate() {
        let victim = victim as u32 % ranks;
        let options = format!("--kill {victim}@clock={clock} {options}");
        // An outcome that depends on timing changes the end only a little.
        if batch.survives(ranks, &options, workload) == 0 {
            return clock;
        }
    }
    unreachable!("every job ends")
}

/// Named receives only: nothing is recorded, everything is in the logs of other ranks. The last
/// kills are in the last fence.
// REC-1 REC-3 REC-4 REC-5 FENCE-1
#[test]
fn a_token_ring_survives_a_death_at_any_clock() {
    let mut batch = Batch::new("token ring");
    let end = sweep(&mut batch, 2, "", "token-ring --rounds 12", 1);
    assert!(end > 24, "{end}");
    let end = sweep(&mut batch, 3, "", "token-ring --rounds 50 --bytes 40000", 9);
    assert!(end > 100, "{end}");
    batch.finish(24);
}

/// Several pending receives of one rank, from other ranks and from itself.
// REC-1 REC-3 REC-4 REC-5
#[test]
fn a_stencil_survives_a_death_at_any_clock() {
    let mut batch = Batch::new("stencil");
    for (ranks, options) in [(2, ""), (3, "--persistent"), (3, "--dimensions 3")] {
        let workload = format!("stencil --size 12 --iterations 6 --reduce-every 2 {options}");
        sweep(&mut batch, ranks, "", &workload, 5);
    }
    batch.finish(24);
}

/// Every reception is recorded, and receives without a record are undecided until all records are
/// replayed. Receives ask for messages of one rank in another order than it sends them.
// REC-2 REC-4 REC-5
#[test]
fn a_stencil_survives_where_every_reception_is_recorded() {
    let mut batch = Batch::new("stencil, pessimist-classic");
    let options = "--protocol pessimist-classic";
    for persistent in ["", "--persistent"] {
        let workload = format!("stencil --size 12 --iterations 4 --reduce-every 0 {persistent}");
        sweep(&mut batch, 2, options, &workload, 1);
    }
    batch.finish(50);
}

/// The event logger determines the order of the senders.
// REC-2 REC-4 REC-5
#[test]
fn a_master_survives_a_death_at_any_clock() {
    let mut batch = Batch::new("any source");
    for options in ["", "--protocol pessimist-classic", "--gate-output"] {
        for clock in (1..120).step_by(13) {
            let options = format!("--kill 0@clock={clock} {options}");
            let deaths = batch.survives(3, &options, "any-source --tasks 60 --bytes 300");
            assert_eq!(deaths, 1, "{options}");
        }
    }
    batch.finish(30);
}

/// All operations.
// REC-2 REC-4 REC-5
#[test]
fn chaos_survives_a_death_at_any_clock() {
    let mut batch = Batch::new("chaos");
    for (seed, protocol) in [(1, "pessimist"), (2, "pessimist-classic"), (3, "pessimist")] {
        let workload = format!("chaos --operations 400 --bytes-max 30000 --seed {seed}");
        for clock in (3..110).step_by(9) {
            let options = format!("--protocol {protocol} --kill {}@clock={clock}", clock % 3);
            let workload = format!("{workload} --patience 30");
            batch.survives(3, &options, &workload);
        }
    }
    batch.finish(30);
}

/// A single rank: its own messages are sent again.
// REC-1 REC-4
#[test]
fn a_rank_alone_survives() {
    let mut batch = Batch::new("one rank");
    for clock in (1..100).step_by(11) {
        let options = format!("--kill 0@clock={clock}");
        let deaths = batch.survives(1, &options, "chaos --operations 300 --bytes-max 5000");
        assert_eq!(deaths, 1, "{options}");
    }
    batch.finish(9);
}
