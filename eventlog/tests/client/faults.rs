//! Single answers that the core must not believe, and how much it keeps.

use crate::batches::{LOGGER, RANK, batch};
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::Fault;
use refrain_eventlog::client::committer::{Committer, KEPT_BYTES_MAX};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};

fn joined(incarnation: u32, replicas: usize, quorum: usize, end: u64, clock: u64) -> Committer {
    let mut committer = Committer::new(RANK, Incarnation(incarnation), replicas, quorum);
    for replica in 0..replicas {
        committer.joins(replica);
        let id = LoggerId(LOGGER.0 + replica as u32);
        let welcomed = committer.welcomed(replica, id, EventIndex(end), Clock(clock));
        welcomed.expect("all alike");
    }
    committer
}

fn commit(committer: &mut Committer, incarnation: u32, clock: u64, payload_bytes: usize) {
    let (header, bytes) = batch(incarnation, committer.end(), 1, clock, payload_bytes);
    committer.commit(&header, &bytes);
}

fn rejoin(committer: &mut Committer, end: u64, clock: u64) -> Result<(), Fault> {
    committer.lose(0);
    committer.joins(0);
    committer.welcomed(0, LOGGER, EventIndex(end), Clock(clock))
}

/// EL-3
#[test]
fn a_single_logger_that_lost_what_was_stable_is_found_out() {
    let mut committer = joined(0, 1, 1, 0, 0);
    commit(&mut committer, 0, 5, 10);
    committer.placed(0);
    assert_eq!(committer.stable_end(), EventIndex(1));
    let lost = Fault::LostEvents {
        end: EventIndex(0),
        first_kept: EventIndex(1),
    };
    assert_eq!(rejoin(&mut committer, 0, 0), Err(lost));
    assert!(committer.is_lost(0));
    assert_eq!(rejoin(&mut committer, 1, 5), Ok(()));
}

#[test]
fn a_logger_with_more_than_was_written_is_found_out() {
    let mut committer = joined(0, 1, 1, 0, 0);
    commit(&mut committer, 0, 5, 10);
    let somebody = Fault::SomebodyElse {
        end: EventIndex(2),
        written: EventIndex(1),
    };
    assert_eq!(rejoin(&mut committer, 2, 6), Err(somebody));
}

#[test]
fn a_row_that_ends_with_another_clock_is_another_row() {
    let mut committer = joined(0, 1, 1, 4, 9);
    commit(&mut committer, 0, 12, 10);
    let wrong = |end, expected, found| Fault::Clock {
        end: EventIndex(end),
        expected: Clock(expected),
        found: Clock(found),
    };
    assert_eq!(rejoin(&mut committer, 5, 13), Err(wrong(5, 12, 13)));
    assert_eq!(rejoin(&mut committer, 4, 8), Err(wrong(4, 9, 8)));
    assert_eq!(rejoin(&mut committer, 4, 9), Ok(()));
}

/// GATE-3
#[test]
fn one_logger_at_two_addresses_does_not_count_twice() {
    let mut committer = Committer::new(RANK, Incarnation(0), 2, 2);
    committer.joins(0);
    committer.joins(1);
    committer
        .welcomed(0, LOGGER, EventIndex(0), Clock(0))
        .expect("the first");
    let twice = committer.welcomed(1, LOGGER, EventIndex(0), Clock(0));
    assert_eq!(twice, Err(Fault::Twice { id: LOGGER.0 }));
    assert_eq!(committer.start(), None);
}

/// GATE-3
#[test]
fn another_logger_at_a_known_address_is_not_believed() {
    let mut committer = joined(0, 1, 1, 0, 0);
    committer.lose(0);
    committer.joins(0);
    let found = LoggerId(LOGGER.0 + 1);
    let other = committer.welcomed(0, found, EventIndex(0), Clock(0));
    assert!(matches!(other, Err(Fault::Logger { .. })), "{other:?}");
}

#[test]
fn a_life_begins_with_the_longest_row_and_those_with_less_do_not_count_yet() {
    let mut committer = Committer::new(RANK, Incarnation(1), 3, 2);
    for (replica, end) in [(0, 4), (1, 7)] {
        committer.joins(replica);
        let id = LoggerId(replica as u32);
        let welcomed = committer.welcomed(replica, id, EventIndex(end), Clock(end));
        welcomed.expect("nothing wrong");
    }
    assert_eq!(committer.start(), Some(EventIndex(7)));
    assert!(committer.is_lost(0) && committer.is_live(1));
    // What the longest has beyond the other is not stable yet: the gate is shut.
    assert_eq!(committer.stable_end(), EventIndex(0));
    assert_eq!(committer.joins(0), EventIndex(7));
    let welcomed = committer.welcomed(0, LoggerId(0), EventIndex(7), Clock(7));
    welcomed.expect("it caught up");
    assert_eq!(committer.stable_end(), EventIndex(7));
}

/// With 3 replicas of which 1 makes a commit stable, any 2 may lack it.
#[test]
fn a_life_begins_when_one_of_every_quorum_has_answered() {
    for (replicas, quorum, needed) in [
        (1, 1, 1),
        (2, 1, 2),
        (2, 2, 2),
        (3, 1, 3),
        (3, 2, 2),
        (3, 3, 3),
    ] {
        let committer = Committer::new(RANK, Incarnation(1), replicas, quorum);
        assert_eq!(committer.answers_needed(), needed, "{quorum} of {replicas}");
    }
}

#[test]
fn leftovers_of_a_dead_life_are_written_over_or_refused() {
    let mut committer = Committer::new(RANK, Incarnation(1), 3, 2);
    for replica in [0, 1] {
        committer.joins(replica);
        let id = LoggerId(replica as u32);
        let welcomed = committer.welcomed(replica, id, EventIndex(4), Clock(4));
        welcomed.expect("nothing wrong");
    }
    commit(&mut committer, 1, 6, 10);
    let mut third = |end: u64| {
        committer.joins(2);
        let welcomed = committer.welcomed(2, LoggerId(2), EventIndex(end), Clock(end));
        let confirmed = committer.confirmed(2);
        committer.lose(2);
        (welcomed, confirmed)
    };
    // It has number 4, 5 and 6 of the dead life: 4 is written again.
    let (welcomed, confirmed) = third(7);
    assert_eq!((welcomed, confirmed), (Ok(()), EventIndex(4)));
    for replica in [0, 1] {
        committer.placed(replica);
    }
    assert_eq!(committer.first_kept(), EventIndex(5));
    // It was live in this life by now, so it is known what it has.
    committer.joins(2);
    let welcomed = committer.welcomed(2, LoggerId(2), EventIndex(5), Clock(6));
    assert_eq!(welcomed, Ok(()));
}

#[test]
fn leftovers_that_cannot_be_written_over_any_more_are_refused() {
    let mut committer = Committer::new(RANK, Incarnation(1), 3, 2);
    for replica in [0, 1] {
        committer.joins(replica);
        let id = LoggerId(replica as u32);
        let welcomed = committer.welcomed(replica, id, EventIndex(4), Clock(4));
        welcomed.expect("nothing wrong");
    }
    commit(&mut committer, 1, 6, 10);
    committer.placed(0);
    committer.placed(1);
    committer.joins(2);
    let dead = Fault::DeadLife {
        start: EventIndex(4),
        end: EventIndex(5),
    };
    let welcomed = committer.welcomed(2, LoggerId(2), EventIndex(5), Clock(5));
    assert_eq!(welcomed, Err(dead));
    assert!(committer.is_lost(2));
}

/// EL-3: what is not stable is kept, however much; for those that lag behind a
/// quorum there is a bound.
#[test]
fn the_slow_are_lost_rather_than_kept_for_without_bound() {
    let mut committer = joined(0, 3, 2, 0, 0);
    let payload_bytes = 4000;
    let batches = 2 * KEPT_BYTES_MAX / payload_bytes;
    for clock in 0..batches as u64 {
        commit(&mut committer, 0, clock, payload_bytes);
        committer.placed(0);
    }
    assert!(committer.kept_bytes() > KEPT_BYTES_MAX, "nothing is stable");
    assert!((0..3).all(|replica| committer.is_live(replica)));
    for _ in 0..batches {
        committer.placed(1);
    }
    assert_eq!(committer.stable_end(), committer.end());
    assert!(committer.is_lost(2), "too slow");
    assert_eq!(committer.kept_bytes(), 0);
    assert_eq!(committer.joins(2), committer.end());
}

#[test]
fn what_the_ring_says_counts_when_number_and_clock_fit_together() {
    let mut committer = joined(0, 1, 1, 0, 0);
    for clock in [3, 8] {
        commit(&mut committer, 0, clock, 10);
        committer.sent(0);
    }
    // The clock is of the second already: it was read while the server wrote.
    assert_eq!(committer.ring_says(0, EventIndex(1), Clock(8)), Ok(()));
    assert_eq!(committer.stable_end(), EventIndex(0));
    assert_eq!(committer.ring_says(0, EventIndex(1), Clock(3)), Ok(()));
    assert_eq!(committer.stable_end(), EventIndex(1));
    let nonsense = committer.ring_says(0, EventIndex(2), Clock(9));
    assert!(matches!(nonsense, Err(Fault::Clock { .. })), "{nonsense:?}");
    assert!(committer.is_lost(0));
    assert_eq!(committer.stable_end(), EventIndex(1));
}

/// A logger that lost its disk comes back with nothing while a third needs to be
/// sent everything: what was stable stays so.
#[test]
fn what_was_stable_stays_stable_when_a_logger_comes_back_with_less() {
    let mut committer = joined(0, 3, 2, 0, 0);
    commit(&mut committer, 0, 5, 10);
    committer.placed(0);
    committer.placed(1);
    assert_eq!(rejoin(&mut committer, 0, 0), Ok(()));
    assert_eq!(committer.confirmed(0), EventIndex(0));
    assert_eq!(committer.stable_end(), EventIndex(1));
    assert!(committer.next_for(0).is_some());
}
