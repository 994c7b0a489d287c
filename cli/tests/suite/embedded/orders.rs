//! The launcher asks ranks for their status and for checkpoints. The ranks speak the control
//! protocol, and answer as each test specifies.

use super::spec::{restarting, spec};
use refrain_job::config::RecoveryConfig;
use refrain_launch::{Job, Outcome};

/// A job of three ranks under a policy, with a folder for which `$` stands in `steps`, which are
/// separated by blanks.
fn play(policy: &str, steps: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    let steps =
        format!("address first:ask later:begin=0 later:meet later:recovered=1 {steps} last-fence");
    let mut spec = restarting(3, 8, &steps.replace('$', path));
    spec.config.recovery.checkpoint_policy = policy.into();
    spec.config.recovery.checkpoint_every_ms = 5;
    let outcome = Job::start(spec)
        .expect("it starts")
        .wait()
        .expect("it ends");
    assert_eq!(
        (outcome.status, &outcome.failure),
        (0, &None),
        "{outcome:?}"
    );
    outcome
}

/// Number of checkpoint requests to each rank.
fn orders(outcome: &Outcome) -> Vec<u64> {
    let counts = outcome.checkpoints.iter();
    counts.map(|counts| counts.orders).collect()
}

#[test]
fn all_have_their_turn() {
    for policy in ["round-robin", "interval"] {
        let steps = "figures=1,1 heed=3 0:touch=$/0 1:touch=$/1 2:touch=$/2 \
             serve-until=$/0 serve-until=$/1 serve-until=$/2";
        let outcome = play(policy, steps);
        let orders = orders(&outcome);
        assert!(
            orders.iter().all(|orders| *orders >= 3),
            "{policy} {orders:?}"
        );
        let stable = outcome.checkpoints.iter().map(|counts| counts.stable);
        assert!(stable.zip(&orders).all(|(stable, told)| stable <= *told));
        if policy == "round-robin" {
            let most = orders.iter().max();
            assert!(
                orders.iter().all(|it| it + 1 >= *most.unwrap_or(&0)),
                "{orders:?}"
            );
        }
    }
}

/// Rank 2 receives all messages: a checkpoint of another rank would free little. Its status is the
/// first, since a rank whose status is the only one is asked.
#[test]
fn adaptive_asks_the_one_whose_checkpoint_frees_most() {
    for policy in ["adaptive", "ratio"] {
        let outcome = play(
            policy,
            "2:figures=1000000,0 fence 0:figures=10,500000 1:figures=10,500000 \
             2:heed=6 2:touch=$/done serve-until=$/done",
        );
        let orders = orders(&outcome);
        assert!(orders[2] >= 6, "{policy} {orders:?}");
        // A round may come after rank 2 has finished and before the others know: a rank that is
        // asked then does not answer, and no other rank is asked for a second.
        assert!(orders[0] + orders[1] <= 1, "{policy} {orders:?}");
    }
}

#[test]
fn with_none_no_rank_is_asked() {
    let outcome = play("none", "figures=1000000,1 fence unasked fence unasked");
    assert_eq!(outcome.checkpoints, []);
}

/// Rank 0 is asked first, and takes no checkpoint: it does not delay the others. Rank 1 does not
/// support checkpoints, and is not asked.
#[test]
fn a_rank_that_takes_no_checkpoint_does_not_block_the_others() {
    let outcome = play(
        "adaptive",
        "0:deaf 0:figures=1000000000,0 2:figures=1000,1000 2:heed=4 2:touch=$/done \
         serve-until=$/done",
    );
    let orders = orders(&outcome);
    assert!(
        orders[0] >= 1 && orders[1] == 0 && orders[2] >= 4,
        "{orders:?}"
    );
    assert_eq!(outcome.checkpoints[0].stable, 0);
}

/// The rank is killed after the request and before its checkpoint: its next life is asked again.
// REC-6
#[test]
fn a_death_does_not_end_the_orders() {
    for policy in ["round-robin", "adaptive"] {
        let outcome = play(
            policy,
            "figures=1000,1 1:heed=1 1:die=2/$/d 1:heed=2 1:touch=$/done serve-until=$/done",
        );
        assert_eq!(outcome.recoveries.len(), 2, "{policy} {outcome:?}");
        assert!(outcome.checkpoints[1].stable >= 4, "{policy} {outcome:?}");
    }
}

/// With any policy, and also when the rank dies meanwhile.
// LOG-3
#[test]
fn a_full_log_asks_for_the_checkpoint_that_frees_it() {
    let outcome = play(
        "none",
        "0:want=2 2:heed=1 2:touch=$/done serve-until=$/done",
    );
    assert_eq!(orders(&outcome), [0, 0, 1]);
    let outcome = play(
        "none",
        "2:first:deaf fence 0:want=2 2:first:serve-until=$/wanted 2:die=1/$/d 2:heed=1 2:touch=$/done \
         0:touch=$/wanted serve-until=$/done",
    );
    assert_eq!(outcome.recoveries.len(), 1, "{outcome:?}");
    let orders = orders(&outcome);
    assert!(orders[2] >= 1 && orders[..2] == [0, 0], "{orders:?}");
    assert_eq!(outcome.checkpoints[2].stable, 1);
}

/// A policy without restarts is an error before any process starts.
#[test]
fn policies_are_for_jobs_that_recover() {
    let start = |policy: &str, max_restarts| {
        let mut spec = spec(1, "");
        spec.config.recovery = RecoveryConfig {
            max_restarts,
            checkpoint_policy: policy.into(),
            ..RecoveryConfig::default()
        };
        Job::start(spec).err().map(|error| error.to_string())
    };
    let refused = start("adaptive", 0).expect("it is refused");
    assert!(
        refused.contains("--checkpoint-policy adaptive"),
        "{refused}"
    );
    let refused = start("often", 0).expect("it is refused");
    assert!(refused.contains("round-robin, adaptive"), "{refused}");
    assert_eq!(start("none", 0), None);
}
