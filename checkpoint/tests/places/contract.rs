//! The contract of every checkpoint store.

use crate::content::{RANK, check as check_content, fill, sections, write};
use refrain_checkpoint::{CheckpointError, SectionKind, Store};
use refrain_ring::{Incarnation, Rank};
use std::any::Any;

/// A store, and the resources that it needs.
pub struct Subject {
    store: Store,
    _kept: Box<dyn Any>,
}

impl Subject {
    pub fn new(store: Store, kept: impl Any) -> Self {
        Self {
            store,
            _kept: Box::new(kept),
        }
    }
}

/// Runs all checks, each on a new store.
pub fn check(make: &mut dyn FnMut() -> Subject) {
    for check in [
        nothing_is_there_at_first,
        what_is_stable_is_found,
        one_that_is_given_up_is_not,
        two_generations_and_numbers_that_grow,
        an_old_life_is_fenced,
        a_life_that_recovers_ends_others,
        one_at_a_time,
        ranks_do_not_wait_for_each_other,
        sections_have_names,
        all_go_at_the_end,
    ] {
        let subject = make();
        check(&subject.store);
    }
}

fn nothing_is_there_at_first(store: &Store) {
    assert!(store.newest(RANK).unwrap().is_none());
    assert!(store.recover(RANK, Incarnation(0), None).unwrap().is_none());
    assert!(!store.describe().is_empty());
}

fn what_is_stable_is_found(store: &Store) {
    for (number, bytes) in (1..).zip([0, 1000, 3 << 20]) {
        let stable = write(store, 0, number, bytes).unwrap();
        assert!(stable.left.is_empty());
        let mut reading = store.newest(RANK).unwrap().unwrap();
        assert_eq!((reading.number(), reading.bytes()), (number, stable.bytes));
        assert_eq!(reading.next_number(), number + 1);
        check_content(&mut reading, bytes);
    }
}

fn one_that_is_given_up_is_not(store: &Store) {
    write(store, 0, 1, 100).unwrap();
    let mut writing = store.begin(RANK, Incarnation(0), 2).unwrap();
    fill(&mut writing, 2, 4 << 20).unwrap();
    drop(writing);
    assert_eq!(store.newest(RANK).unwrap().unwrap().number(), 1);
    write(store, 0, 2, 100).unwrap();
    assert_eq!(store.newest(RANK).unwrap().unwrap().number(), 2);
}

// GC-1
fn two_generations_and_numbers_that_grow(store: &Store) {
    for number in [1, 2, 3, 1 << 40] {
        write(store, 0, number, 100).unwrap();
        let error = write(store, 0, number, 100).unwrap_err();
        let CheckpointError::NotNext { found, asked, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((found, asked), (number, number));
    }
    assert!(matches!(
        write(store, 0, 0, 100),
        Err(CheckpointError::NotNext { .. })
    ));
}

// FENCE-1
fn an_old_life_is_fenced(store: &Store) {
    write(store, 3, 1, 100).unwrap();
    let error = write(store, 2, 2, 100).unwrap_err();
    let CheckpointError::Fenced { rank, own, found } = error else {
        panic!("{error}");
    };
    assert_eq!((rank, own, found), (RANK, Incarnation(2), Incarnation(3)));
    assert!(store.recover(RANK, Incarnation(2), None).is_err());
    write(store, 3, 2, 100).unwrap();
    write(store, 4, 3, 100).unwrap();
}

// FENCE-1
fn a_life_that_recovers_ends_others(store: &Store) {
    write(store, 0, 1, 100).unwrap();
    let mut old = store.begin(RANK, Incarnation(0), 2).unwrap();
    fill(&mut old, 2, 100).unwrap();
    let found = store.recover(RANK, Incarnation(1), None).unwrap().unwrap();
    assert_eq!(found.number(), 1);
    let error = old.commit().unwrap_err();
    assert!(matches!(error, CheckpointError::GivenUp { .. }), "{error}");
    let error = write(store, 0, 2, 100).unwrap_err();
    assert!(matches!(error, CheckpointError::Fenced { .. }), "{error}");
    write(store, 1, 2, 100).unwrap();
    assert_eq!(store.newest(RANK).unwrap().unwrap().number(), 2);
}

fn one_at_a_time(store: &Store) {
    let mut first = store.begin(RANK, Incarnation(0), 1).unwrap();
    fill(&mut first, 1, 100).unwrap();
    let mut second = store.begin(RANK, Incarnation(0), 1).unwrap();
    let error = first.commit().unwrap_err();
    assert!(matches!(error, CheckpointError::GivenUp { .. }), "{error}");
    fill(&mut second, 1, 100).unwrap();
    second.commit().unwrap();
    check_content(&mut store.newest(RANK).unwrap().unwrap(), 100);
}

/// All checkpoints begin before any ends.
fn ranks_do_not_wait_for_each_other(store: &Store) {
    let ranks: Vec<Rank> = (0..12).map(Rank).collect();
    let begun = ranks
        .iter()
        .map(|rank| store.begin(*rank, Incarnation(0), 1));
    let mut writings: Vec<_> = begun.map(Result::unwrap).collect();
    for (rank, writing) in ranks.iter().zip(&mut writings) {
        fill(writing, u64::from(rank.0) + 100, 2 << 20).unwrap();
    }
    for writing in writings.into_iter().rev() {
        writing.commit().unwrap();
    }
    for rank in ranks {
        let mut reading = store.newest(rank).unwrap().unwrap();
        for (_, _, content) in sections(u64::from(rank.0) + 100, 2 << 20) {
            let mut section = reading.next_section().unwrap().unwrap();
            assert!(section.read_to_end().unwrap() == content, "{rank}");
        }
    }
}

fn sections_have_names(store: &Store) {
    let mut writing = store.begin(RANK, Incarnation(0), 1).unwrap();
    writing.section(SectionKind::Log, 1).unwrap();
    assert!(matches!(
        writing.section(SectionKind::Log, 1),
        Err(CheckpointError::Section(_))
    ));
    writing.section(SectionKind::Memory, 1).unwrap();
    writing.commit().unwrap();
    assert_eq!(store.newest(RANK).unwrap().unwrap().sections().len(), 2);
}

fn all_go_at_the_end(store: &Store) {
    for rank in [0, 7] {
        let mut writing = store.begin(Rank(rank), Incarnation(0), 1).unwrap();
        fill(&mut writing, 1, 10).unwrap();
        writing.commit().unwrap();
    }
    store
        .recover(Rank(7), Incarnation(5), None)
        .unwrap()
        .unwrap();
    store.remove_all().unwrap();
    for rank in [0, 7] {
        assert!(store.newest(Rank(rank)).unwrap().is_none());
        // No file is left that would fence it.
        store
            .begin(Rank(rank), Incarnation(0), 1)
            .map(drop)
            .unwrap();
    }
}
