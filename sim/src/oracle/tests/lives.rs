//! FENCE-1; the end of a job; the order of clocks.

use super::super::channel::Channels;
use super::super::fence::Fence;
use super::super::order::Order;
use super::*;

/// Both programs have ended; rank 0 has sent two messages.
fn ended_stage() -> Stage<Channels> {
    let mut stage = Stage::new(Channels::new(2));
    for number in [0, 1] {
        stage.called(0, 1, &isend(0, number, 24)).unwrap();
    }
    for rank in [0, 1] {
        stage.called(rank, 1, &Call::Finish).unwrap();
    }
    stage
}

/// A program that has ended has received every message once.
#[test]
fn a_rank_that_ended_has_all_that_was_sent_to_it() {
    let mut stage = ended_stage();
    let got = |number| received(number, 0, payload(0, number.into(), 24));
    stage.answered(1, 1, &got(0)).unwrap();
    let lacks = stage.at_end();
    assert_breach(lacks, "channel", "message 1 of 0 was never delivered to 1");
    stage.answered(1, 1, &got(1)).unwrap();
    stage.at_end().unwrap();
    let twice = stage.answered(1, 1, &got(1));
    assert_breach(twice, "channel", "message 1, which it had already");
}

/// All programs end, in their present lives.
#[test]
fn programs_end() {
    let mut stage = Stage::new(Channels::new(2));
    stage.called(1, 1, &Call::Finish).unwrap();
    assert_breach(stage.at_end(), "channel", "the program of 0 never ends");
    stage.called(0, 1, &Call::Finish).unwrap();
    stage.at_end().unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    assert_breach(stage.at_end(), "channel", "the program of 0 never ends");
}

fn fence_stage() -> Stage<Fence> {
    Stage::new(Fence::new(2))
}

/// Frames of the old life are taken until the next life has begun and the receiver knows of it.
// FENCE-1, known trap: late one-sided writes of a dead incarnation
#[test]
fn a_life_is_not_heard_after_its_receiver_knows_of_the_next() {
    let mut stage = fence_stage();
    let heard = |from, to| Happening::Heard { from, to };
    stage.see(heard(life(0), life(1))).unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    stage.see(heard(life(0), life(1))).unwrap();
    stage.world.told = Incarnation(1);
    stage.see(heard(next_life(), life(1))).unwrap();
    let late = stage.see(heard(life(0), life(1)));
    assert_breach(late, "fence", "knows of incarnation 1");
}

/// A replaced life outputs nothing; the frames that it takes are harmless.
// FENCE-1
#[test]
fn a_life_that_was_replaced_shows_nothing() {
    let mut stage = fence_stage();
    stage.see(Happening::Seen(life(0), 1)).unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    stage.world.told = Incarnation(1);
    let heard = Happening::Heard {
        from: life(0),
        to: life(0),
    };
    stage.see(heard).unwrap();
    let seen = stage.see(Happening::Seen(life(0), 1));
    assert_breach(seen, "fence", "though it was replaced");
    stage.see(Happening::Seen(next_life(), 1)).unwrap();
}

/// No life begins twice or out of order; a life that died early need not have been observed.
// REC-6
#[test]
fn no_incarnation_comes_twice() {
    let mut stage = fence_stage();
    let again = stage.see(Happening::Began(life(0)));
    assert_breach(again, "fence", "begins after");
    let third = Life {
        incarnation: Incarnation(2),
        ..life(0)
    };
    stage.see(Happening::Began(third)).unwrap();
    let second = stage.see(Happening::Began(next_life()));
    assert_breach(second, "fence", "begins after");
}

fn order_stage() -> Stage<Order> {
    Stage::new(Order::new(2))
}

/// Operations are counted one by one; calls that are no operations have the clock of the operation
/// before; each call is answered.
#[test]
fn operations_are_counted_one_by_one() {
    let mut stage = order_stage();
    stage.answered(0, 10, &Answer::Begin).unwrap();
    stage.called(0, 11, &irecv(None)).unwrap();
    stage.answered(0, 11, &posted(0)).unwrap();
    stage.called(0, 11, &Call::Print(1)).unwrap();
    stage.answered(0, 11, &Answer::Done).unwrap();
    stage.called(0, 12, &irecv(None)).unwrap();
    let twice = stage.called(0, 13, &irecv(None));
    assert_breach(twice, "order", "before it was answered");
    stage.answered(0, 12, &posted(1)).unwrap();
    let again = stage.answered(0, 12, &posted(1));
    assert_breach(again, "order", "is answered at 12");
    let skipped = stage.called(0, 14, &irecv(None));
    assert_breach(skipped, "order", "at 14 after 12");
}

/// Clocks of events never decrease, and no event belongs to a later operation.
// GATE-2
#[test]
fn events_never_go_back() {
    let mut stage = order_stage();
    stage.called(0, 5, &irecv(None)).unwrap();
    stage.event(0, nothing(5)).unwrap();
    stage.event(0, wildcard_match(5, 5, 0)).unwrap();
    let early = stage.event(0, nothing(4));
    assert_breach(early, "order", "comes after");
    let late = stage.event(0, nothing(6));
    assert_breach(late, "order", "in operation");
}
