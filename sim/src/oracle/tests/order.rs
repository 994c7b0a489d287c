//! Clocks.

use super::super::order::Order;
use super::*;

fn stage() -> Stage<Order> {
    Stage::new(Order::new(2))
}

/// Operations are counted one by one; those that are none have the clock of the
/// one before; each call is answered.
#[test]
fn operations_are_counted_one_by_one() {
    let mut stage = stage();
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

/// Events never go back, and none is of an operation that is still to come.
// GATE-2
#[test]
fn events_never_go_back() {
    let mut stage = stage();
    stage.called(0, 5, &irecv(None)).unwrap();
    stage.event(0, nothing(5)).unwrap();
    stage.event(0, wildcard_match(5, 5, 0)).unwrap();
    let early = stage.event(0, nothing(4));
    assert_breach(early, "order", "comes after");
    let late = stage.event(0, nothing(6));
    assert_breach(late, "order", "in operation");
}
