//! Deaths before, during and after checkpoints.

use super::batch::{Batch, seeds};

/// The victim begins with its newest complete checkpoint: none, the first, the one that was just
/// taken, or the one before it. Messages sent to it after the checkpoint are sent again, although
/// the senders freed the earlier ones.
// REC-1 REC-3 GC-1 LOG-5
#[test]
fn ranks_go_on_from_their_checkpoints() {
    let mut batch = Batch::new("checkpoints");
    for (workload, clocks) in [
        ("token-ring --rounds 50 --checkpoint-every 8", 1..100),
        (
            "stencil --size 12 --iterations 16 --checkpoint-every 5",
            1..100,
        ),
        (
            "stencil --size 12 --iterations 16 --checkpoint-every 1 --persistent",
            1..100,
        ),
    ] {
        for clock in clocks.step_by(5) {
            let options = format!("--kill {}@clock={clock}", clock % 3);
            let deaths = batch.survives(3, &options, workload);
            assert_eq!(deaths, 1, "{options} {workload}");
        }
    }
    batch.finish(60);
}

/// Two ranks at once, both with checkpoints: each needs the messages that the other sent before
/// its own checkpoint.
// LOG-5 REC-3 REC-6
#[test]
fn several_ranks_go_on_from_their_checkpoints() {
    let mut batch = Batch::new("several checkpoints");
    for protocol in ["pessimist", "pessimist-classic"] {
        for workload in [
            "token-ring --rounds 50 --checkpoint-every 7",
            "any-source --tasks 90 --bytes 2000 --checkpoint-every 3",
            "stencil --size 12 --iterations 16 --checkpoint-every 3",
        ] {
            for (clock, other) in [(31, 31), (40, 60), (55, 34), (62, 62)] {
                let options = format!(
                    "--protocol {protocol} --kill 0@clock={clock},1@clock={other},2@clock={clock}"
                );
                batch.survives(3, &options, workload);
            }
        }
    }
    batch.finish(24);
}

/// Killed while a checkpoint is written, or before.
// GC-1 REC-6
#[test]
fn a_checkpoint_that_is_half_written_is_none() {
    let mut batch = Batch::new("checkpoints and random kills");
    for seed in seeds(6) {
        let options = format!("--kill-random 0.1,{seed} --max-restarts 1000");
        batch.survives(3, &options, "token-ring --rounds 150 --checkpoint-every 1");
    }
    batch.finish(3);
}
