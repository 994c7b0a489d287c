use super::{Patience, Step};
use core::time::Duration;

#[test]
fn errors_are_tried_again_ever_more_slowly_until_the_peer_is_lost() {
    let at = Duration::from_millis;
    let mut patience = Patience::new(at(500), None);
    patience.failed(at(0));
    patience.failed(at(1));
    assert!(patience.holds_back() && patience.is_troubled());
    assert_eq!(patience.step(at(9), true), Step::Nothing);
    assert_eq!(patience.step(at(10), true), Step::Resend);
    assert!(!patience.holds_back(), "it is tried again");
    patience.failed(at(11));
    assert_eq!(patience.step(at(30), true), Step::Nothing);
    assert_eq!(patience.step(at(31), true), Step::Resend);
    patience.failed(at(31));
    assert_eq!(patience.step(at(500), true), Step::Lost(at(500)));
    patience.heard(false);
    assert!(!patience.is_troubled(), "it is back");
    assert!(matches!(
        patience.step(at(501), true),
        Step::Nothing | Step::Ask
    ));
}

#[test]
fn silence_counts_only_while_something_is_unanswered_and_if_told_so() {
    let at = Duration::from_secs;
    let mut patience = Patience::new(at(1), Some(at(60)));
    for second in 0..100 {
        assert_eq!(patience.step(at(second), false), Step::Nothing);
    }
    let mut asks = 0;
    for second in 100..160 {
        asks += u32::from(patience.step(at(second), true) == Step::Ask);
    }
    assert!((5..12).contains(&asks), "{asks} asks in a minute");
    assert_eq!(patience.step(at(160), true), Step::Silent(at(60)));
    patience.heard(false);
    assert_eq!(patience.step(at(161), true), Step::Nothing);
    let mut for_ever = Patience::new(at(1), None);
    for second in 0..1000 {
        let step = for_ever.step(at(second), true);
        assert!(matches!(step, Step::Nothing | Step::Ask), "{step:?}");
    }
}

/// A peer that computes is not given up for an error that is over. A rank that has computed itself
/// tries again before it gives a peer up.
#[test]
fn an_error_that_is_over_loses_no_peer() {
    let at = Duration::from_millis;
    let mut patience = Patience::new(at(30_000), None);
    patience.failed(at(0));
    patience.succeeded();
    assert!(patience.is_troubled(), "that was sent before the error");
    assert_eq!(patience.step(at(10), true), Step::Resend);
    patience.succeeded();
    for second in 1..100 {
        let step = patience.step(at(second * 1000), true);
        assert!(matches!(step, Step::Nothing | Step::Ask), "{step:?}");
    }
    let mut late = Patience::new(at(30_000), None);
    late.failed(at(0));
    assert_eq!(late.step(at(40_000), true), Step::Resend);
    assert!(!matches!(late.step(at(40_001), true), Step::Lost(_)));
    late.failed(at(40_002));
    assert_eq!(late.step(at(40_010), true), Step::Lost(at(40_010)));
}

/// A peer that sends but has not got this rank's last frame is asked all the same.
#[test]
fn a_lost_tail_is_found_while_the_peer_keeps_talking() {
    let at = Duration::from_millis;
    let mut patience = Patience::new(at(1000), None);
    let asked = (0..100).any(|step| {
        patience.heard(false);
        patience.step(at(step * 10), true) == Step::Ask
    });
    assert!(asked);
}

/// A peer that is held back is not asked, however long the question is due: a rank that sleeps
/// until the next step does sleep.
#[test]
fn the_next_step_lies_ahead_while_a_peer_is_held_back() {
    let at = Duration::from_millis;
    let mut patience = Patience::new(at(30_000), None);
    assert_eq!(patience.step(at(0), true), Step::Nothing);
    let ask_at = patience.next_step_at().unwrap();
    // Errors until the retry after the question is due.
    let mut now = at(1);
    patience.failed(now);
    while now <= ask_at {
        now = patience.next_step_at().unwrap();
        assert_eq!(patience.step(now, true), Step::Resend);
        now += at(1);
        patience.failed(now);
    }
    assert!(patience.holds_back());
    assert_eq!(patience.step(now, true), Step::Nothing);
    let next = patience.next_step_at();
    assert!(next > Some(now), "{next:?} is not after {now:?}");
    // The peer is asked as soon as it is not held back any more.
    patience.heard(false);
    assert_eq!(patience.next_step_at(), Some(ask_at));
    assert_eq!(patience.step(now, true), Step::Ask);
}
