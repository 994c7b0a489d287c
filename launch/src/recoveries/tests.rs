//! Texts of recoveries.

use super::*;
use signal_hook::consts::{SIGKILL, SIGTERM};

fn after(begin: Instant, microseconds: u64) -> Instant {
    begin + Duration::from_micros(microseconds)
}

#[test]
fn a_recovery_is_one_line_with_its_figures() {
    let begin = Instant::now();
    let mut recoveries = Recoveries::new(4);
    let death = Death {
        incarnation: 0,
        end: End::Killed(SIGKILL),
        cause: Cause::Kill,
        killed: Some(begin),
        noticed: after(begin, 300),
    };
    let superseded = recoveries.started(3, death, after(begin, 4400));
    assert_eq!((superseded, recoveries.ended().len()), (None, 0));
    recoveries.joined(3, after(begin, 5400));
    let figures = RecoveryFigures {
        checkpoint: 12,
        restore_us: 700,
        collect_us: 6000,
        replay_us: 22_000,
        events: 1204,
        messages: 1,
        suppressed: 14,
        compared: 13,
        ..RecoveryFigures::default()
    };
    let line = recoveries
        .finished(3, figures.clone(), after(begin, 41_300))
        .unwrap();
    assert_eq!(
        line,
        "rank 3 was killed by SIGKILL (incarnation 0, by --kill); incarnation 1 continues after 41 ms: \
         noticed 0.3 ms, started 4.1 ms, checkpoint 12 read in 0.7 ms, events and peers 6.0 ms, \
         replay 22 ms: 1204 events, 1 message, 14 sends suppressed, 13 compared"
    );
    assert_eq!(recoveries.finished(3, figures, begin), None, "told once");
    let all = recoveries.take_all();
    assert_eq!(
        (all.len(), all[0].joined_us, all[0].total_us),
        (1, Some(1000), Some(41_000))
    );
}

// SET-5
#[test]
fn a_rank_that_had_ended_was_not_killed() {
    let now = Instant::now();
    let mut recoveries = Recoveries::new(1);
    let death = Death {
        incarnation: 0,
        end: End::Exited(0),
        cause: Cause::WithItsSet,
        killed: Some(now),
        noticed: now,
    };
    recoveries.started(0, death, now);
    assert_eq!(
        recoveries.take_all()[0].to_string(),
        "rank 0 had ended and is started again (incarnation 0, to go back with its set); \
         no later incarnation continued"
    );
}

// REC-6
#[test]
fn a_death_in_between_ends_the_one_and_begins_another() {
    let now = Instant::now();
    let mut recoveries = Recoveries::new(1);
    let mut die = |incarnation, signal| {
        let death = Death {
            incarnation,
            end: End::Killed(signal),
            cause: Cause::Unknown,
            killed: None,
            noticed: now,
        };
        recoveries.started(0, death, now)
    };
    assert_eq!(die(0, SIGKILL), None);
    assert_eq!(
        die(1, SIGTERM).unwrap(),
        "rank 0 was killed by SIGKILL (incarnation 0); incarnation 1 was killed by SIGTERM before it continued"
    );
    assert_eq!(recoveries.ended().len(), 1);
    let all = recoveries.take_all();
    assert_eq!(
        (all.len(), all[1].signal, all[1].total_us),
        (2, SIGTERM, None)
    );
}
