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
    let mut board = Board::new(3);
    assert_eq!(value(board.get(0, "a")), None);
    assert_eq!(value(board.get(2, "b")), None);
    assert_eq!(
        board.put("a", entry(b"1")),
        [0],
        "only who asked for this key"
    );
    assert_eq!(board.waiting(0), None);
    assert_eq!(value(board.get(1, "a")), Some(b"1".to_vec()));
    assert_eq!(
        board.put("a", entry(b"2")),
        [0usize; 0],
        "nobody is served twice"
    );
    assert_eq!(
        value(board.get(1, "a")),
        Some(b"2".to_vec()),
        "the later value holds"
    );
    assert_eq!(board.put("b", entry(b"")), [2]);
}

#[test]
fn a_fence_opens_for_the_last_rank_and_only_then() {
    let mut board = Board::new(3);
    for generation in 0..3 {
        assert_eq!(
            board.fence(1, generation, false, |_| true),
            Ok(Fencing::Waits)
        );
        assert_eq!(
            board.fence(0, generation, false, |_| true),
            Ok(Fencing::Waits)
        );
        assert!(
            board.fence(0, generation, false, |_| true).is_err(),
            "a rank counts once"
        );
        let leaving = Vec::new();
        assert_eq!(
            board.fence(2, generation, false, |_| true),
            Ok(Fencing::Opens { leaving })
        );
        assert!((0..3).all(|rank| board.waiting(rank).is_none()));
    }
}

#[test]
fn a_rank_that_counts_fences_differently_is_refused() {
    let mut board = Board::new(2);
    assert!(board.fence(0, 1, false, |_| true).is_err());
    assert_eq!(
        board.fence(0, 0, false, |_| true),
        Ok(Fencing::Waits),
        "the refused call left nothing behind"
    );
}

// REC-6
#[test]
fn a_later_life_passes_the_fences_of_the_earlier_and_waits_in_its_own() {
    let mut board = Board::new(2);
    for generation in 0..2 {
        board.fence(0, generation, false, |_| true).unwrap();
        board.fence(1, generation, false, |_| true).unwrap();
    }
    board.fence(0, 2, false, |_| true).unwrap();
    board.forget(0, &["address/0".to_owned()]);
    for generation in 0..2 {
        assert_eq!(
            board.fence(0, generation, false, |_| true),
            Ok(Fencing::HasPassed)
        );
    }
    assert_eq!(
        board.fence(1, 2, false, |_| true),
        Ok(Fencing::Waits),
        "0 is dead"
    );
    let leaving = Vec::new();
    assert_eq!(
        board.fence(0, 2, false, |_| true),
        Ok(Fencing::Opens { leaving })
    );
}

#[test]
fn the_last_fence_names_those_who_leave() {
    let mut board = Board::new(3);
    board.fence(2, 0, true, |_| true).unwrap();
    board.fence(0, 0, false, |_| true).unwrap();
    let leaving = vec![1, 2];
    assert_eq!(
        board.fence(1, 0, true, |_| true),
        Ok(Fencing::Opens { leaving })
    );
}

#[test]
fn what_a_dead_life_has_put_is_gone_until_the_next_puts_it() {
    let mut board = Board::new(2);
    board.put("address/0", entry(b"old"));
    board.put("other", entry(b"kept"));
    board.forget(0, &["address/0".to_owned()]);
    assert_eq!(value(board.get(1, "address/0")), None);
    assert_eq!(board.put("address/0", entry(b"new")), [1]);
    assert_eq!(value(board.get(1, "other")), Some(b"kept".to_vec()));
}

#[test]
fn a_fence_that_an_ended_rank_misses_is_stuck() {
    let mut board = Board::new(3);
    board.fence(1, 0, false, |_| true).unwrap();
    assert_eq!(board.stuck(|_| false), None);
    assert_eq!(
        board.stuck(|rank| rank == 2),
        Some(Stuck {
            waiter: 1,
            gone: Some(2)
        })
    );
    assert_eq!(
        board.stuck(|rank| rank == 1),
        None,
        "the ended one waits for nothing"
    );
}

#[test]
fn a_get_is_stuck_only_when_nobody_is_left_to_put() {
    let mut board = Board::new(3);
    board.get(0, "k").unwrap();
    assert_eq!(board.stuck(|rank| rank == 1), None, "rank 2 may put it");
    board.get(2, "l").unwrap();
    assert_eq!(
        board.stuck(|rank| rank == 1),
        Some(Stuck {
            waiter: 0,
            gone: Some(1)
        })
    );
    board.get(1, "m").unwrap();
    assert_eq!(
        board.stuck(|_| false),
        Some(Stuck {
            waiter: 0,
            gone: None
        })
    );
}

/// A fence that a dead rank had reached opens for its next life only. REC-6
#[test]
fn a_fence_does_not_open_while_one_that_waits_is_dead() {
    let mut board = Board::new(2);
    assert_eq!(board.fence(0, 0, true, |_| true), Ok(Fencing::Waits));
    assert_eq!(
        board.fence(1, 0, true, |rank| rank != 0),
        Ok(Fencing::Waits)
    );
    board.forget(0, &[]);
    let opens = Fencing::Opens {
        leaving: vec![0, 1],
    };
    assert_eq!(board.fence(0, 0, true, |_| true), Ok(opens));
}
