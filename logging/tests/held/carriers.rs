//! What messages carry: `causal` without a network.

use crate::batches::Stored;
use refrain_logging::answer_of_carriers;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::{Collected, Gives, Holdings, Row};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Incarnation, Rank};

fn job(ranks: u32) -> Vec<Holdings> {
    let holdings = |rank| {
        let life = (Rank(rank), Incarnation(0));
        Holdings::new(Gives::WithMessages, life, ranks, None)
    };
    (0..ranks).map(holdings).collect()
}

/// What the next message from one rank to another carries; it arrives at once.
fn send(job: &mut [Holdings], from: usize, to: usize) -> Vec<u8> {
    let mut carrier = Vec::new();
    job[from].carry(Rank(to as u32), 4096, &mut carrier);
    if !carrier.is_empty() {
        job[from].carried(Rank(to as u32));
        let taken = job[to].take_carried(Rank(from as u32), &carrier);
        taken.expect("what a rank carries can be read");
    }
    carrier
}

/// All pieces on control lanes arrive.
fn deliver(job: &mut [Holdings]) {
    let mut is_over = false;
    while !is_over {
        is_over = true;
        for from in 0..job.len() {
            let mut piece = [0; 40];
            while let Some((to, bytes)) = job[from].tell(&mut piece) {
                let heard = job[to.index()].hear(Rank(from as u32), &piece[..bytes]);
                heard.expect("what a rank tells can be read");
                is_over = false;
            }
        }
    }
}

fn commit(job: &mut [Holdings], of: usize, first: u64) {
    let batch = Stored {
        incarnation: 0,
        first,
        count: 2,
        clocks: (first * 3 + 1, first * 3 + 2),
        payload: vec![7; 5],
    };
    let sealed = batch.as_batch().sealed(1, Rank(of as u32));
    let header = BatchHeader::peek(&sealed).expect("a batch has a header");
    job[of].commit(&header, &sealed);
}

// CAUSAL-1
#[test]
fn each_receiver_gets_what_is_not_stable_and_gets_it_once() {
    let mut job = job(3);
    commit(&mut job, 0, 0);
    assert!(!send(&mut job, 0, 1).is_empty());
    assert!(send(&mut job, 0, 1).is_empty(), "it was carried to rank 1");
    assert!(!send(&mut job, 0, 2).is_empty(), "and not to rank 2");
    for holder in [1, 2] {
        assert_eq!(job[holder].held_of(Rank(0)).map(Row::count), Some(1));
    }
}

// CAUSAL-2
#[test]
fn a_confirmation_comes_with_the_next_carrier_and_ends_the_carrying() {
    let mut job = job(3);
    commit(&mut job, 0, 0);
    send(&mut job, 0, 1);
    assert_eq!(job[0].stable_end(), EventIndex(0), "it is not confirmed");
    commit(&mut job, 1, 0);
    send(&mut job, 1, 0);
    assert_eq!(job[0].stable_end(), EventIndex(2));
    assert!(send(&mut job, 0, 2).is_empty(), "it is stable");
}

// CAUSAL-2
#[test]
fn a_rank_that_sends_nothing_confirms_when_it_is_idle() {
    let mut job = job(2);
    commit(&mut job, 0, 0);
    send(&mut job, 0, 1);
    deliver(&mut job);
    assert_eq!(job[0].stable_end(), EventIndex(0));
    job[1].idle();
    deliver(&mut job);
    assert_eq!(job[0].stable_end(), EventIndex(2));
}

// CAUSAL-3
#[test]
fn what_something_waits_for_goes_to_the_next_rank() {
    let mut job = job(3);
    commit(&mut job, 1, 0);
    job[1].press();
    deliver(&mut job);
    assert_eq!(job[1].stable_end(), EventIndex(2));
    assert_eq!(job[2].held_of(Rank(1)).map(Row::count), Some(1));
}

// CAUSAL-4
#[test]
fn a_later_life_takes_what_its_earlier_life_carried_and_gives_it_away() {
    let mut job = job(3);
    commit(&mut job, 0, 0);
    let first = send(&mut job, 0, 1);
    commit(&mut job, 0, 2);
    // This one is in the log, and does not arrive.
    let mut lost = Vec::new();
    job[0].carry(Rank(1), 4096, &mut lost);
    for survivor in [1, 2] {
        job[survivor].fenced(Rank(0));
    }
    let answers = [1, 2].map(|rank| (Rank(rank), job[rank as usize].answer(Rank(0))));
    let own = answer_of_carriers([first.as_slice(), &lost]).expect("they are carriers");
    let all = answers
        .iter()
        .map(|(holder, answer)| (*holder, answer.as_slice()));
    let collected = Collected::of(all.chain([(Rank(0), own.as_slice())])).expect("all are whole");
    assert_eq!(collected.end, EventIndex(4));
    job[0] = Holdings::new(
        Gives::WithMessages,
        (Rank(0), Incarnation(1)),
        3,
        Some(collected),
    );
    assert_eq!(
        job[0].stable_end(),
        EventIndex(0),
        "only its log has some of it"
    );
    for survivor in [1, 2] {
        job[survivor].connected(Rank(0));
        job[0].connected(Rank(survivor as u32));
    }
    deliver(&mut job);
    assert_eq!(job[0].stable_end(), EventIndex(4));
}
