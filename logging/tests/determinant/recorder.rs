//! The recorder, event by event.

use crate::batches::{a_match, completion, matched, merged, nothing, recorder, take, take_all};
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, COUNT_MAX};
use refrain_logging::determinant::recorder::{Counts, Recorder};
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::{Clock, Rank, Ssn};

fn match_at(recorder: &mut Recorder, at: u64, request: u64) {
    recorder.matched(Clock(at), matched(request, 1, request), false);
}

fn complete(recorder: &mut Recorder, at: u64, requests: &[u64]) {
    let requests: Vec<_> = requests.iter().map(|&request| Clock(request)).collect();
    recorder.completed(Clock(at), &requests);
}

#[test]
fn nothing_happened_nothing_is_taken() {
    let mut recorder = recorder();
    assert!(!recorder.has_pending(true));
    assert_eq!(recorder.take_batch(true, &mut Vec::new()), None);
    assert_eq!(recorder.counts(), Counts::default());
}

#[test]
fn numbers_go_on_from_where_they_are_told() {
    let mut recorder = Recorder::new(crate::batches::IDENTITY, EventIndex(u64::MAX - 3));
    match_at(&mut recorder, u64::MAX - 1, 5);
    match_at(&mut recorder, u64::MAX - 1, 6);
    let (header, _) = take(&mut recorder, false).expect("two");
    assert_eq!(header.first, EventIndex(u64::MAX - 3));
    match_at(&mut recorder, u64::MAX, 7);
    let (header, _) = take(&mut recorder, false).expect("one more");
    assert_eq!(header.first, EventIndex(u64::MAX - 1));
    assert_eq!(recorder.next(), EventIndex(u64::MAX));
}

#[test]
fn a_match_and_its_completion_are_one_record() {
    let mut recorder = recorder();
    match_at(&mut recorder, 5, 3);
    complete(&mut recorder, 6, &[3]);
    assert_eq!(take_all(&mut recorder, false), [merged(6, 3, 1, 3)]);
}

#[test]
fn what_was_taken_is_not_merged() {
    let mut recorder = recorder();
    match_at(&mut recorder, 5, 3);
    assert_eq!(take_all(&mut recorder, false), [a_match(5, 3, 1, 3)]);
    complete(&mut recorder, 6, &[3]);
    assert_eq!(take_all(&mut recorder, false), [completion(6, &[3])]);
}

#[test]
fn a_match_passes_matches_only() {
    let mut recorder = recorder();
    match_at(&mut recorder, 5, 1);
    match_at(&mut recorder, 5, 2);
    match_at(&mut recorder, 5, 3);
    complete(&mut recorder, 6, &[1]);
    complete(&mut recorder, 7, &[3]);
    complete(&mut recorder, 8, &[2]);
    let all = [merged(6, 1, 1, 1), merged(7, 3, 1, 3), merged(8, 2, 1, 2)];
    assert_eq!(take_all(&mut recorder, false), all);

    match_at(&mut recorder, 10, 4);
    complete(&mut recorder, 11, &[8, 9]);
    complete(&mut recorder, 12, &[4]);
    let all = [
        a_match(10, 4, 1, 4),
        completion(11, &[8, 9]),
        completion(12, &[4]),
    ];
    assert_eq!(take_all(&mut recorder, false), all);

    match_at(&mut recorder, 20, 5);
    recorder.probed(Clock(21), Rank(1), Ssn(6), 0, 8);
    complete(&mut recorder, 22, &[5]);
    let all = take_all(&mut recorder, false);
    assert_eq!(
        (all[0].clone(), all[2].clone()),
        (a_match(20, 5, 1, 5), completion(22, &[5]))
    );
}

/// A batch that ended between a match and one that it passed would contain the
/// later match without the earlier one.
#[test]
fn a_match_passes_others_only_within_a_batch() {
    for others in [10, 2000] {
        let mut recorder = recorder();
        match_at(&mut recorder, 5, 1);
        (0..others).for_each(|n| match_at(&mut recorder, 5, 10 + n));
        complete(&mut recorder, 6, &[1]);
        let all = take_all(&mut recorder, false);
        let is_merged = others == 10;
        assert_eq!(all[0] == a_match(5, 1, 1, 1), !is_merged);
        let last = if is_merged {
            merged(6, 1, 1, 1)
        } else {
            completion(6, &[1])
        };
        assert_eq!(all.last(), Some(&last));
    }
    // More bytes than fit into a batch with all other determinants.
    for given in [1, 30] {
        let mut recorder = recorder();
        (0..given).for_each(|_| recorder.bytes(Clock(5), &[9; 250]));
        match_at(&mut recorder, 6, 1);
        match_at(&mut recorder, 6, 2);
        complete(&mut recorder, 7, &[1]);
        let all = take_all(&mut recorder, false);
        let is_merged = all.last() == Some(&merged(7, 1, 1, 1));
        assert_eq!(is_merged, given == 1);
    }
    let mut recorder = recorder();
    (0..3).for_each(|n| complete(&mut recorder, 5, &[n; 250]));
    match_at(&mut recorder, 6, 1);
    match_at(&mut recorder, 6, 2);
    complete(&mut recorder, 7, &[2]);
    complete(&mut recorder, 8, &[1]);
    let all = take_all(&mut recorder, false);
    assert_eq!(
        all[3..],
        [a_match(6, 1, 1, 1), merged(7, 2, 1, 2), completion(8, &[1])]
    );
}

#[test]
fn the_whole_set_is_kept_in_its_order() {
    let mut recorder = recorder();
    match_at(&mut recorder, 5, 1);
    match_at(&mut recorder, 5, 2);
    complete(&mut recorder, 6, &[2, 1]);
    let all = [
        a_match(5, 1, 1, 1),
        a_match(5, 2, 1, 2),
        completion(6, &[2, 1]),
    ];
    assert_eq!(take_all(&mut recorder, false), all);
}

#[test]
fn a_large_set_continues() {
    for count in [255, 256, 257, 512, 600, 3000u64] {
        let mut recorder = recorder();
        let set: Vec<u64> = (0..count).rev().collect();
        complete(&mut recorder, 10_000, &set);
        let parts = take_all(&mut recorder, false);
        let expected = count.div_ceil(Determinant::REQUESTS_MAX as u64);
        assert_eq!(parts.len() as u64, expected);
        let mut whole = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            let Determinant::Completion {
                at,
                requests,
                continues,
            } = part
            else {
                panic!("{part:?} is no part of a set");
            };
            assert_eq!((*at, *continues), (Clock(10_000), place + 1 < parts.len()));
            whole.extend(requests.iter().map(|request| request.0));
        }
        assert_eq!(whole, set);
    }
}

#[test]
fn a_run_is_one_record_when_an_emission_waits() {
    let mut recorder = recorder();
    for at in [3, 4, 7] {
        recorder.nothing(Clock(at));
    }
    assert!(!recorder.has_pending(false) && recorder.has_pending(true));
    assert_eq!(take_all(&mut recorder, false), []);
    assert_eq!(take_all(&mut recorder, true), [nothing(3, 7, 3)]);
    recorder.completed(Clock(8), &[]);
    assert_eq!(
        take_all(&mut recorder, true),
        [nothing(8, 8, 1)],
        "a new run"
    );
    assert_eq!(recorder.counts().nothing_found, 4);
    assert_eq!(recorder.counts().nothing, 2);
}

#[test]
fn a_success_drops_the_run() {
    let mut recorder = recorder();
    recorder.nothing(Clock(3));
    recorder.probed(Clock(4), Rank(1), Ssn(0), 0, 8);
    assert_eq!(take_all(&mut recorder, true).len(), 1);
    recorder.nothing(Clock(5));
    complete(&mut recorder, 6, &[1]);
    assert_eq!(take_all(&mut recorder, true), [completion(6, &[1])]);
    recorder.nothing(Clock(7));
    match_at(&mut recorder, 8, 2);
    complete(&mut recorder, 8, &[2]);
    assert_eq!(take_all(&mut recorder, true), [merged(8, 2, 1, 2)]);
    assert_eq!(recorder.counts().nothing, 0);
    assert_eq!(recorder.counts().nothing_found, 3);
}

/// What was given says of operations before it that they found nothing.
#[test]
fn what_is_given_drops_the_run_and_lets_no_match_pass() {
    let number = |at| Determinant::Number {
        at: Clock(at),
        series: 0,
        value: 7,
    };
    let mut recorder = recorder();
    recorder.nothing(Clock(3));
    match_at(&mut recorder, 4, 1);
    recorder.number(Clock(5), 0, 7);
    let expected = [a_match(4, 1, 1, 1), number(5)];
    assert_eq!(take_all(&mut recorder, false), expected);
    match_at(&mut recorder, 6, 2);
    recorder.number(Clock(7), 0, 7);
    complete(&mut recorder, 8, &[2]);
    let expected = [a_match(6, 2, 1, 2), number(7), completion(8, &[2])];
    assert_eq!(take_all(&mut recorder, false), expected);
    recorder.nothing(Clock(9));
    recorder.bytes(Clock(10), &[1, 2]);
    let bytes = Determinant::Bytes {
        at: Clock(10),
        bytes: vec![1, 2],
    };
    assert_eq!(take_all(&mut recorder, true), [bytes]);
    assert_eq!(recorder.counts().nothing, 0);
}

/// A match is not what a test found: the run stands, before it.
#[test]
fn a_match_drops_no_run_and_does_not_overtake_it() {
    let mut recorder = recorder();
    match_at(&mut recorder, 2, 1);
    recorder.nothing(Clock(3));
    match_at(&mut recorder, 4, 2);
    assert_eq!(take_all(&mut recorder, false), [a_match(2, 1, 1, 1)]);
    assert_eq!(
        take_all(&mut recorder, true),
        [nothing(3, 3, 1), a_match(4, 2, 1, 2)]
    );
    recorder.nothing(Clock(5));
    match_at(&mut recorder, 6, 3);
    recorder.nothing(Clock(7));
    assert_eq!(take_all(&mut recorder, false), [a_match(6, 3, 1, 3)]);
    assert_eq!(take_all(&mut recorder, true), [nothing(5, 7, 2)]);
}

#[test]
fn matches_do_not_wait_for_a_run_for_ever() {
    let mut recorder = recorder();
    recorder.nothing(Clock(1));
    (0..63).for_each(|n| match_at(&mut recorder, 2 + n, 2 + n));
    assert!(!recorder.has_pending(false));
    match_at(&mut recorder, 70, 70);
    let all = take_all(&mut recorder, false);
    assert_eq!((all.len(), &all[0]), (65, &nothing(1, 1, 1)));
}

#[test]
fn batches_are_full_and_go_on() {
    let mut recorder = recorder();
    (0..3000).for_each(|n| match_at(&mut recorder, n, n));
    let counts: Vec<_> = core::iter::from_fn(|| take(&mut recorder, false))
        .map(|(header, _)| header.count)
        .collect();
    assert_eq!(counts, [COUNT_MAX, COUNT_MAX, 3000 - 2 * COUNT_MAX]);

    let far: Vec<u64> = (0..200)
        .map(|n| if n % 2 == 0 { 1 << 60 } else { 0 })
        .collect();
    (0..20).for_each(|n| complete(&mut recorder, 4000 + n, &far));
    let mut sets = 0;
    while let Some((header, row)) = take(&mut recorder, false) {
        assert!(header.batch_bytes() <= BATCH_BYTES_MAX);
        assert!(row.len() == 2 || sets + row.len() == 20);
        sets += row.len();
    }
    assert_eq!(sets, 20);
}

#[test]
fn counts_say_what_was_recorded() {
    let mut recorder = recorder();
    recorder.matched(Clock(1), matched(1, 2, 0), true);
    match_at(&mut recorder, 2, 2);
    complete(&mut recorder, 3, &[2]);
    recorder.probed(Clock(4), Rank(1), Ssn(0), 0, 8);
    complete(&mut recorder, 5, &[7; 300]);
    recorder.cancelled(Clock(5), Clock(4));
    recorder.nothing(Clock(6));
    recorder.nothing(Clock(7));
    recorder.number(Clock(8), 3, -5);
    recorder.bytes(Clock(9), b"abc");
    recorder.nothing(Clock(10));
    let mut batch = Vec::new();
    let header = recorder.take_batch(true, &mut batch).expect("much");
    let counts = Counts {
        matches: 1,
        merged: 1,
        probes: 1,
        completions: 2,
        cancelled: 1,
        given: 2,
        nothing: 1,
        nothing_found: 3,
        named: 1,
        payload_bytes: header.payload_bytes.into(),
        batch_bytes: batch.len() as u64,
        batches: [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    };
    assert_eq!(recorder.counts(), counts);
    assert_eq!(header.count, 9);
}
