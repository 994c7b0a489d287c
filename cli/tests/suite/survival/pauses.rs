//! Ranks that are stopped: a short stop is no death, a long one is.

use super::batch::Batch;

const RING: &str = "token-ring --rounds 10000";

#[test]
fn a_short_stop_is_no_death() {
    let mut batch = Batch::new("short stops");
    for at in ["0", "0.03", "0.06"] {
        let options = format!("--pause 1@{at}:0.1 --suspect-ranks-after 600");
        assert_eq!(batch.survives(3, &options, RING), 0, "{options}");
    }
    batch.finish(0);
}

/// Stopped when it already sends and receives. It is killed before its next life begins: it sends
/// nothing after the time at which it would have continued.
// FENCE-1 REC-1
#[test]
fn a_long_stop_is_a_death() {
    let mut batch = Batch::new("long stops");
    for at in ["0", "0.03", "0.06", "0.09"] {
        let options = format!("--pause 1@{at}:1000 --suspect-ranks-after 0.2");
        batch.survives(3, &options, RING);
    }
    batch.finish(2);
}

/// Other ranks die while one is stopped, and it meets their next lives when it continues.
// REC-3 REC-6
#[test]
fn ranks_die_while_one_is_stopped() {
    let mut batch = Batch::new("stops and deaths");
    for at in ["0.02", "0.05"] {
        let options = format!("--pause 1@{at}:0.3 --kill 0@clock=300,2@clock=350");
        assert_eq!(batch.survives(3, &options, RING), 2, "{options}");
    }
    batch.finish(2);
}
