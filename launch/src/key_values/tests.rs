//! Ranks that put, get, wait and die.

use super::*;

fn entry(value: &[u8]) -> Entry {
    Entry {
        value: value.to_vec(),
        memory: None,
    }
}

fn value(found: Result<Option<&Entry>, String>) -> Option<Vec<u8>> {
    found.unwrap().map(|entry| entry.value.clone())
}

#[test]
fn a_get_is_served_at_once_or_by_the_put_that_it_waits_for() {
    let mut values = KeyValues::new(3);
    assert_eq!(value(values.get(0, "a")), None);
    assert_eq!(value(values.get(2, "b")), None);
    assert_eq!(
        values.put("a", entry(b"1")),
        [0],
        "only ranks that asked for this key"
    );
    assert_eq!(values.waiting(0), None);
    assert_eq!(value(values.get(1, "a")), Some(b"1".to_vec()));
    assert_eq!(
        values.put("a", entry(b"2")),
        [0usize; 0],
        "no rank is served twice"
    );
    assert_eq!(
        value(values.get(1, "a")),
        Some(b"2".to_vec()),
        "the later value holds"
    );
    assert_eq!(values.put("b", entry(b"")), [2]);
}

#[test]
fn a_fence_opens_for_the_last_rank_and_only_then() {
    let mut values = KeyValues::new(3);
    for generation in 0..3 {
        assert_eq!(
            values.fence(1, generation, false, |_| true),
            Ok(Fencing::Waits)
        );
        assert_eq!(
            values.fence(0, generation, false, |_| true),
            Ok(Fencing::Waits)
        );
        assert!(
            values.fence(0, generation, false, |_| true).is_err(),
            "a rank counts once"
        );
        let leaving = Vec::new();
        assert_eq!(
            values.fence(2, generation, false, |_| true),
            Ok(Fencing::Opens { leaving })
        );
        assert!((0..3).all(|rank| values.waiting(rank).is_none()));
    }
}

#[test]
fn a_rank_that_counts_fences_differently_is_refused() {
    let mut values = KeyValues::new(2);
    assert!(values.fence(0, 1, false, |_| true).is_err());
    assert_eq!(
        values.fence(0, 0, false, |_| true),
        Ok(Fencing::Waits),
        "the refused call changed nothing"
    );
}

// REC-6
#[test]
fn a_later_life_passes_the_fences_of_the_earlier_and_waits_in_its_own() {
    let mut values = KeyValues::new(2);
    for generation in 0..2 {
        values.fence(0, generation, false, |_| true).unwrap();
        values.fence(1, generation, false, |_| true).unwrap();
    }
    values.fence(0, 2, false, |_| true).unwrap();
    values.forget(0, &["address/0".to_owned()], true);
    for generation in 0..2 {
        assert_eq!(
            values.fence(0, generation, false, |_| true),
            Ok(Fencing::HasPassed)
        );
    }
    assert_eq!(
        values.fence(1, 2, false, |_| true),
        Ok(Fencing::Waits),
        "0 is dead"
    );
    let leaving = Vec::new();
    assert_eq!(
        values.fence(0, 2, false, |_| true),
        Ok(Fencing::Opens { leaving })
    );
}

#[test]
fn the_last_fence_names_the_ranks_that_leave() {
    let mut values = KeyValues::new(3);
    values.fence(2, 0, true, |_| true).unwrap();
    values.fence(0, 0, false, |_| true).unwrap();
    let leaving = vec![1, 2];
    assert_eq!(
        values.fence(1, 0, true, |_| true),
        Ok(Fencing::Opens { leaving })
    );
}

#[test]
fn what_a_dead_life_has_put_is_gone_until_the_next_puts_it() {
    let mut values = KeyValues::new(2);
    values.put("address/0", entry(b"old"));
    values.put("other", entry(b"kept"));
    values.forget(0, &["address/0".to_owned()], true);
    assert_eq!(value(values.get(1, "address/0")), None);
    assert_eq!(values.put("address/0", entry(b"new")), [1]);
    assert_eq!(value(values.get(1, "other")), Some(b"kept".to_vec()));
}

#[test]
fn a_fence_that_an_ended_rank_misses_is_stuck() {
    let mut values = KeyValues::new(3);
    values.fence(1, 0, false, |_| true).unwrap();
    assert_eq!(values.stalled(|_| false), None);
    assert_eq!(
        values.stalled(|rank| rank == 2),
        Some(StalledWait {
            waiter: 1,
            gone: Some(2)
        })
    );
    assert_eq!(
        values.stalled(|rank| rank == 1),
        None,
        "the ended one waits for nothing"
    );
}

#[test]
fn a_get_is_stuck_only_when_no_rank_is_left_to_put() {
    let mut values = KeyValues::new(3);
    values.get(0, "k").unwrap();
    assert_eq!(
        values.stalled(|rank| rank == 1),
        None,
        "rank 2 may put the key"
    );
    values.get(2, "l").unwrap();
    assert_eq!(
        values.stalled(|rank| rank == 1),
        Some(StalledWait {
            waiter: 0,
            gone: Some(1)
        })
    );
    values.get(1, "m").unwrap();
    assert_eq!(
        values.stalled(|_| false),
        Some(StalledWait {
            waiter: 0,
            gone: None
        })
    );
}

/// A fence that a dead rank had reached opens only for its next life. REC-6
#[test]
fn a_fence_does_not_open_while_one_that_waits_is_dead() {
    let mut values = KeyValues::new(2);
    assert_eq!(values.fence(0, 0, true, |_| true), Ok(Fencing::Waits));
    assert_eq!(
        values.fence(1, 0, true, |rank| rank != 0),
        Ok(Fencing::Waits)
    );
    values.forget(0, &[], true);
    let opens = Fencing::Opens {
        leaving: vec![0, 1],
    };
    assert_eq!(values.fence(0, 0, true, |_| true), Ok(opens));
}

#[test]
fn hosts_are_told_when_all_are_known() {
    let mut values = KeyValues::new(3);
    assert_eq!(values.host(0, b"a".to_vec()), Ok(vec![]));
    assert_eq!(values.waiting(0), Some(&Waiting::Hosts));
    values.host(0, b"a".to_vec()).expect_err("it waits");
    assert_eq!(values.host(2, b"b".to_vec()), Ok(vec![]));
    values.forget(2, &[], true);
    assert_eq!(values.host(1, b"a".to_vec()), Ok(vec![]), "2 may move");
    assert_eq!(values.host(2, b"c".to_vec()), Ok(vec![0, 1, 2]));
    assert_eq!(values.hosts(), [b"a", b"a", b"c"]);
    values.forget(1, &[], false);
    values.forget(2, &[], false);
    assert_eq!(values.host(2, b"c".to_vec()), Ok(vec![2]), "1 stays");
}

/// In a later run of a job ranks go on behind different numbers of fences.
// JOB-3
#[test]
fn a_fence_that_a_checkpoint_lies_behind_is_passed_by_all() {
    let mut values = KeyValues::new(3);
    assert_eq!(values.have_passed(0), []);
    assert_eq!(values.fence(0, 0, false, |_| true), Ok(Fencing::Waits));
    assert_eq!(values.have_passed(2), [(0, 0)]);
    assert_eq!(values.fence(0, 1, false, |_| true), Ok(Fencing::HasPassed));
    assert_eq!(values.fence(1, 2, false, |_| true), Ok(Fencing::Waits));
    assert_eq!(values.have_passed(1), []);
    assert!(values.fence(2, 3, false, |_| true).is_err());
}
