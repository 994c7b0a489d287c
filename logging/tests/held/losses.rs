//! What the launcher knows of deaths: answers, and ranks that are gone. TICKET-2, TICKET-4

use refrain_logging::held::{Answers, Losses, Tolerance};
use refrain_ring::{Incarnation, Rank};

/// What a rank holds of a dead one, for these tests.
fn held(holder: u32) -> Vec<u8> {
    vec![holder as u8; 3]
}

/// The losses of a job that has begun, with steps by number.
struct Launcher(Losses);

impl Launcher {
    fn new(gone_max: usize) -> Self {
        let mut losses = Losses::new(Some(Tolerance::new(gone_max, &[])));
        losses.begin();
        Self(losses)
    }

    fn died(&mut self, rank: u32, life: u32, survivors: &[u32]) -> Result<(), Vec<u32>> {
        let survivors = survivors.iter().map(|of| Rank(*of));
        let gone = self.0.died(Rank(rank), Incarnation(life), survivors);
        gone.map_err(|gone| gone.iter().map(|rank| rank.0).collect())
    }

    fn answered(&mut self, holder: u32, rank: u32, life: u32) {
        let of = (Rank(rank), Incarnation(life));
        self.0.held(Rank(holder), of, &held(holder), true);
    }

    fn restored(&mut self, holder: u32, rank: u32, life: u32) {
        let of = (Rank(rank), Incarnation(life));
        self.0.restored(Rank(holder), of);
    }

    /// The next life of a rank has joined.
    fn joined(&mut self, rank: u32, life: u32) {
        self.0.joined(Rank(rank));
        self.restored(rank, rank, life);
    }

    fn asked(&mut self, rank: u32) {
        self.0.asked(Rank(rank));
    }

    /// The next answers: the rank, and the holders, each of which must have given what it holds.
    fn next_answers(&mut self) -> Option<(u32, Vec<u32>)> {
        let Answers { rank, held: all } = self.0.next_answers()?;
        let holders = all.iter().map(|(holder, bytes)| {
            assert_eq!(bytes, &held(holder.0), "of rank {holder}");
            holder.0
        });
        Some((rank.0, holders.collect()))
    }

    /// A death that these survivors answer and make good, and a next life that begins.
    fn replaced(&mut self, rank: u32, life: u32, survivors: &[u32]) {
        self.died(rank, life, survivors).expect("it is stood");
        self.asked(rank);
        for survivor in survivors {
            self.answered(*survivor, rank, life);
            self.restored(*survivor, rank, life);
        }
        assert_eq!(self.next_answers(), Some((rank, survivors.to_vec())));
        self.joined(rank, life);
    }
}

/// All orders of these numbers.
fn orders(numbers: &[u32]) -> Vec<Vec<u32>> {
    if numbers.is_empty() {
        return vec![vec![]];
    }
    let begun = numbers.iter().flat_map(|first| {
        let rest: Vec<_> = numbers.iter().filter(|it| *it != first).copied().collect();
        let rests = orders(&rest).into_iter();
        rests.map(|rest| [&[*first], &rest[..]].concat())
    });
    begun.collect()
}

/// 0 stands for the next life that asks.
// TICKET-2
#[test]
fn a_next_life_has_the_answers_of_all_survivors_in_any_order() {
    for order in orders(&[0, 1, 2, 3]) {
        let mut launcher = Launcher::new(1);
        launcher.died(0, 0, &[1, 2, 3]).unwrap();
        for step in &order {
            assert_eq!(launcher.next_answers(), None, "{order:?}");
            match step {
                0 => launcher.asked(0),
                holder => launcher.answered(*holder, 0, 0),
            }
        }
        assert_eq!(launcher.next_answers(), Some((0, vec![1, 2, 3])));
        assert_eq!(launcher.next_answers(), None, "they are given once");
    }
}

// TICKET-2
#[test]
fn an_answer_comes_in_parts() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    let of = (Rank(0), Incarnation(0));
    for (holder, part, is_last) in [
        (1, &[1][..], false),
        (2, &[2, 2, 2], true),
        (1, &[1], false),
        (1, &[1], true),
    ] {
        assert_eq!(launcher.next_answers(), None);
        launcher.0.held(Rank(holder), of, part, is_last);
    }
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
}

#[test]
fn an_answer_behind_the_last_part_is_ignored() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.answered(1, 0, 0);
    launcher.answered(1, 0, 0);
    launcher.answered(3, 0, 0);
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
}

/// An empty answer is an answer.
#[test]
fn a_survivor_that_holds_nothing_answers_too() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1]).unwrap();
    launcher.asked(0);
    assert_eq!(launcher.0.next_answers(), None);
    launcher
        .0
        .held(Rank(1), (Rank(0), Incarnation(0)), &[], true);
    let answers = Answers {
        rank: Rank(0),
        held: vec![(Rank(1), vec![])],
    };
    assert_eq!(launcher.0.next_answers(), Some(answers));
}

// TICKET-2
#[test]
fn a_survivor_that_dies_before_it_answered_is_not_awaited() {
    let mut launcher = Launcher::new(2);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), None);
    launcher.died(1, 0, &[2]).unwrap();
    launcher.answered(1, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![2])));
}

/// What it held is in the answer, though it died since. From then on only the next life holds that.
// TICKET-2 TICKET-4
#[test]
fn a_survivor_that_dies_behind_its_answer_has_answered() {
    let mut launcher = Launcher::new(2);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.answered(1, 0, 0);
    launcher.died(1, 0, &[2]).unwrap();
    launcher.asked(0);
    launcher.answered(2, 0, 0);
    let answers = Answers {
        rank: Rank(0),
        held: vec![(Rank(0), held(1)), (Rank(2), held(2))],
    };
    assert_eq!(launcher.0.next_answers(), Some(answers));
}

/// The first part alone could not be read.
#[test]
fn a_part_of_an_answer_is_dropped_with_its_holder() {
    let mut launcher = Launcher::new(2);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher
        .0
        .held(Rank(1), (Rank(0), Incarnation(0)), &[1], false);
    launcher.died(1, 0, &[2]).unwrap();
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![2])));
}

/// The first life of rank 0 left something, its second died before it had asked.
// TICKET-2
#[test]
fn a_late_answer_about_an_older_life_is_ignored() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.answered(1, 0, 0);
    launcher.died(0, 1, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.answered(2, 0, 0);
    launcher.answered(1, 0, 1);
    assert_eq!(
        launcher.next_answers(),
        None,
        "rank 2 spoke of another life"
    );
    launcher.answered(2, 0, 1);
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
}

// TICKET-4
#[test]
fn more_ranks_gone_than_allowed_are_named() {
    let mut launcher = Launcher::new(1);
    launcher.died(2, 0, &[0, 1, 3]).unwrap();
    assert_eq!(launcher.died(0, 0, &[1, 3]), Err(vec![0, 2]));
    let mut launcher = Launcher::new(2);
    launcher.died(2, 0, &[0, 1, 3]).unwrap();
    launcher.died(0, 0, &[1, 3]).unwrap();
    assert_eq!(launcher.died(1, 0, &[3]), Err(vec![0, 1, 2]));
}

// TICKET-4
#[test]
fn a_rank_that_dies_twice_in_a_row_counts_once() {
    let mut launcher = Launcher::new(1);
    for life in 0..4 {
        launcher.died(0, life, &[1, 2]).unwrap();
    }
    launcher.asked(0);
    for survivor in [1, 2] {
        launcher.answered(survivor, 0, 3);
        launcher.restored(survivor, 0, 2);
    }
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
    let mut of_older_life = Launcher(launcher.0.clone());
    assert_eq!(of_older_life.died(1, 0, &[0, 2]), Err(vec![0, 1]));
    launcher.joined(0, 3);
    launcher.restored(1, 0, 3);
    launcher.restored(2, 0, 3);
    launcher.died(1, 0, &[0, 2]).unwrap();
}

// TICKET-4
#[test]
fn a_rank_is_gone_until_all_survivors_have_made_its_loss_good() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.answered(1, 0, 0);
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
    launcher.joined(0, 0);
    launcher.restored(1, 0, 0);
    let mut too_early = Launcher(launcher.0.clone());
    assert_eq!(too_early.died(1, 0, &[0, 2]), Err(vec![0, 1]));
    launcher.restored(2, 0, 0);
    launcher.died(1, 0, &[0, 2]).unwrap();
}

/// The launcher has the only copy of what the survivors held, if one of them dies.
// TICKET-4
#[test]
fn a_rank_is_gone_until_its_next_life_has_its_events() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    for survivor in [1, 2] {
        launcher.answered(survivor, 0, 0);
        launcher.restored(survivor, 0, 0);
    }
    let mut not_asked = Launcher(launcher.0.clone());
    assert_eq!(not_asked.died(1, 0, &[0, 2]), Err(vec![0, 1]));
    launcher.asked(0);
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
    launcher.joined(0, 0);
    launcher.died(1, 0, &[0, 2]).unwrap();
}

/// A next life that waits for all other ranks does not answer: that of another dead rank, which
/// waits for its answer, would wait for ever.
// TICKET-2 TICKET-4
#[test]
fn a_rank_is_gone_until_its_next_life_has_joined() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    for survivor in [1, 2] {
        launcher.answered(survivor, 0, 0);
        launcher.restored(survivor, 0, 0);
    }
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
    assert!(launcher.0.is_any_gone());
    let mut too_early = Launcher(launcher.0.clone());
    assert_eq!(too_early.died(1, 0, &[0, 2]), Err(vec![0, 1]));
    launcher.joined(0, 0);
    assert!(!launcher.0.is_any_gone());
    launcher.died(1, 0, &[0, 2]).unwrap();
}

/// A survivor that has died itself cannot make good what it lost: it counts as it died.
// TICKET-4
#[test]
fn a_survivor_that_dies_first_leaves_a_loss_that_counts() {
    let mut launcher = Launcher::new(1);
    launcher.died(0, 0, &[1]).unwrap();
    launcher.asked(0);
    launcher.answered(1, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![1])));
    assert_eq!(launcher.died(1, 0, &[0]), Err(vec![0, 1]));
}

/// Neither next life waits for the answer of the other.
#[test]
fn a_rank_that_collects_is_not_awaited() {
    let mut launcher = Launcher::new(2);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.died(1, 0, &[0, 2]).unwrap();
    launcher.asked(1);
    launcher.answered(2, 1, 0);
    assert_eq!(launcher.next_answers(), Some((1, vec![2])));
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![2])));
}

/// It waits for the next life of the rank that died, holds nothing, and would not answer.
// TICKET-2
#[test]
fn a_rank_that_joins_is_not_awaited() {
    let mut launcher = Launcher::new(2);
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.asked(0);
    launcher.answered(1, 0, 0);
    launcher.answered(2, 0, 0);
    assert_eq!(launcher.next_answers(), Some((0, vec![1, 2])));
    let mut has_joined = Launcher(launcher.0.clone());
    has_joined.0.joined(Rank(0));
    for (mut launcher, is_awaited) in [(launcher, false), (has_joined, true)] {
        launcher.died(1, 0, &[0, 2]).unwrap();
        launcher.asked(1);
        launcher.answered(2, 1, 0);
        assert_eq!(launcher.next_answers().is_none(), is_awaited);
    }
}

/// Rank 1 held events of rank 0, which has died, too. That loss is good only when the next life of rank 0
/// has as many holders again: it cannot make it good before.
// TICKET-4
#[test]
fn a_loss_of_a_dead_rank_is_left_to_its_next_life() {
    for first in [0, 1] {
        let mut launcher = Launcher::new(2);
        launcher.died(first, 0, &[1 - first, 2, 3]).unwrap();
        launcher.died(1 - first, 0, &[2, 3]).unwrap();
        for rank in [0, 1] {
            launcher.asked(rank);
            for survivor in [2, 3] {
                launcher.answered(survivor, rank, 0);
                launcher.restored(survivor, rank, 0);
            }
            assert_eq!(launcher.next_answers(), Some((rank, vec![2, 3])));
        }
        launcher.joined(1, 0);
        let mut too_early = Launcher(launcher.0.clone());
        too_early.died(2, 0, &[1, 3]).unwrap_err();
        launcher.joined(0, 0);
        launcher.died(2, 0, &[0, 1, 3]).unwrap();
        launcher.died(3, 0, &[0, 1]).unwrap();
    }
}

#[test]
fn one_death_after_another_is_stood() {
    let mut launcher = Launcher::new(1);
    for life in 0..3 {
        launcher.replaced(0, life, &[1, 2]);
        launcher.replaced(1, life, &[0, 2]);
        launcher.replaced(2, life, &[0, 1]);
    }
}

#[test]
fn before_all_ranks_have_joined_nothing_is_awaited() {
    let mut launcher = Launcher(Losses::new(Some(Tolerance::default())));
    launcher.died(0, 0, &[1, 2]).unwrap();
    launcher.died(1, 0, &[0, 2]).unwrap();
    for rank in [0, 1] {
        launcher.asked(rank);
        assert_eq!(launcher.next_answers(), Some((rank, vec![])));
    }
    launcher.0.begin();
    launcher.replaced(0, 1, &[1, 2]);
}

#[test]
fn with_loggers_any_number_of_ranks_may_die() {
    let mut launcher = Launcher(Losses::new(None));
    launcher.0.begin();
    for rank in 0..3 {
        launcher.died(rank, 0, &[3]).unwrap();
    }
    assert_eq!(launcher.next_answers(), None);
}
