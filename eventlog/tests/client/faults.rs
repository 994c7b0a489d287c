//! Wrong answers that the core must reject, and limits of the batches that it keeps.

use crate::batches::{LOGGER, RANK, batch};
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::Fault;
use refrain_eventlog::client::committer::{Committer, KEPT_BYTES_MAX, LogEnd};
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

fn answer(committer: &mut Committer, replica: usize, life: u32, end: u64) {
    committer.joins(replica);
    let id = LoggerId(LOGGER.0 + replica as u32);
    let said = LogEnd {
        life: Incarnation(life),
        end: EventIndex(end),
        clock: Clock(end),
        writer: Incarnation(0),
        made_by: Incarnation(0),
    };
    let answered = committer.answered(replica, id, said);
    answered.expect("nothing wrong");
}

#[test]
fn a_life_begins_with_the_longest_row_and_the_others_do_not_count_yet() {
    let mut committer = Committer::new(RANK, Incarnation(1), 3, 2);
    answer(&mut committer, 0, 0, 4);
    answer(&mut committer, 1, 0, 7);
    assert_eq!(committer.start(), Some(EventIndex(7)));
    // All have to compare with each other, and to join.
    assert!(committer.is_lost(0) && committer.is_lost(1));
    for replica in [0, 1] {
        // What the longest has beyond the other is not stable yet.
        assert_eq!(committer.stable_end(), EventIndex(0));
        assert_eq!(committer.joins(replica), EventIndex(7));
        let id = LoggerId(LOGGER.0 + replica as u32);
        let welcomed = committer.welcomed(replica, id, EventIndex(7), Clock(7));
        welcomed.expect("it caught up");
    }
    assert_eq!(committer.stable_end(), EventIndex(7));
}

/// What a dead life wrote where the life after it went on is longer, and wrong.
#[test]
fn the_row_of_a_later_life_goes_before_a_longer_one() {
    let mut committer = Committer::new(RANK, Incarnation(2), 3, 2);
    answer(&mut committer, 0, 0, 15);
    answer(&mut committer, 1, 1, 12);
    assert_eq!(committer.start(), Some(EventIndex(12)));
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
