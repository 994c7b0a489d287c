//! GATE-1

use super::super::gate::Gate;
use super::*;

fn stage() -> Stage<Gate> {
    Stage::new(Gate::new(2))
}

/// A send waits for the events before its call, not for those after it.
// GATE-1
#[test]
fn a_frame_leaves_when_what_came_before_its_call_is_stable() {
    let mut stage = stage();
    let frame = first_frame(0, 0, 24, 24);
    stage.event(0, nothing(5)).unwrap();
    stage.called(0, 6, &isend(0, 0, 24)).unwrap();
    stage.event(0, nothing(7)).unwrap();
    assert_breach(
        stage.posted(0, &frame, &[]),
        "gate",
        "stable up to clock none",
    );
    stage.world.stable = Some(Clock(4));
    assert_breach(
        stage.posted(0, &frame, &[]),
        "gate",
        "stable up to clock 4, and before that there was one at 5",
    );
    stage.world.stable = Some(Clock(5));
    stage.posted(0, &frame, &[]).unwrap();
    // Events of the other rank do not count for this one.
    stage.world.stable = None;
    stage.called(1, 1, &isend(1, 0, 24)).unwrap();
    stage.posted(1, &first_frame(1, 0, 24, 24), &[]).unwrap();
}

/// A frame of a message that no program sent is found.
// GATE-1
#[test]
fn a_frame_of_nobody_is_found() {
    let mut stage = stage();
    let frame = first_frame(0, 0, 24, 24);
    assert_breach(stage.posted(0, &frame, &[]), "gate", "has not sent");
}

/// The answer to a synchronous send waits for its match if the match is an event; otherwise for the
/// events before the message left.
// GATE-1, known trap: a path around the gate
#[test]
fn an_answer_leaves_when_its_match_is_stable() {
    let matched = Control::Matched { ssn: Ssn(0) };
    let frame = RecordHeader {
        flags: RecordHeader::WANT_ACK,
        ..first_frame(0, 0, 24, 24)
    };
    for is_event in [true, false] {
        let mut stage = stage();
        stage.event(1, nothing(2)).unwrap();
        stage.called(0, 1, &synchronous(isend(0, 0, 24))).unwrap();
        stage.posted(0, &frame, &[]).unwrap();
        if is_event {
            stage.event(1, wildcard_match(4, 3, 0)).unwrap();
        }
        let stable = if is_event { 4 } else { 2 };
        stage.world.stable = Some(Clock(stable - 1));
        let early = stage.control(1, matched);
        assert_breach(early, "gate", "message 0 is matched");
        let mut stage = self::stage();
        stage.event(1, nothing(2)).unwrap();
        stage.called(0, 1, &synchronous(isend(0, 0, 24))).unwrap();
        stage.posted(0, &frame, &[]).unwrap();
        if is_event {
            stage.event(1, wildcard_match(4, 3, 0)).unwrap();
        }
        // Events after the match do not count.
        stage.event(1, nothing(9)).unwrap();
        stage.world.stable = Some(Clock(stable));
        stage.control(1, matched).unwrap();
        assert_breach(stage.control(1, matched), "gate", "no answer");
    }
}

/// A clear-to-send waits only if it reveals a wildcard match; horizons never wait.
// GATE-1, GATE-4
#[test]
fn a_clear_to_send_tells_only_of_a_wildcard_match() {
    let clear = Control::ClearToSend { ssn: Ssn(0) };
    let frame = RecordHeader {
        kind: RecordKind::Rendezvous,
        ..first_frame(0, 0, 0, 24)
    };
    for is_event in [true, false] {
        let mut stage = stage();
        stage.event(1, nothing(2)).unwrap();
        stage.control(1, Control::Horizon { ssn: Ssn(0) }).unwrap();
        stage.called(0, 1, &isend(0, 0, 24)).unwrap();
        stage.posted(0, &frame, &[]).unwrap();
        if is_event {
            stage.event(1, wildcard_match(4, 3, 0)).unwrap();
            stage.world.stable = Some(Clock(3));
        }
        let left = stage.control(1, clear);
        assert_eq!(left.is_err(), is_event, "{left:?}");
    }
}

/// Output is an emission and keeps the order of printing.
// GATE-1, known trap: program output
#[test]
fn what_people_see_waits_too() {
    let mut stage = stage();
    stage.called(0, 0, &Call::Print(1)).unwrap();
    stage.event(0, nothing(5)).unwrap();
    stage.called(0, 5, &Call::Print(2)).unwrap();
    stage.see(Happening::Seen(life(0), 1)).unwrap();
    let early = stage.see(Happening::Seen(life(0), 2));
    assert_breach(early, "gate", "is output");
    stage.called(0, 5, &Call::Print(3)).unwrap();
    stage.world.stable = Some(Clock(5));
    let other = stage.see(Happening::Seen(life(0), 4));
    assert_breach(other, "gate", "printed 3, and the output is 4");
    let more = stage.see(Happening::Seen(life(0), 4));
    assert_breach(more, "gate", "did not print 4");
}

/// The next life has its own events.
#[test]
fn a_life_waits_for_its_own_events() {
    let mut stage = stage();
    stage.event(0, nothing(5)).unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    let call = isend(0, 3, 24);
    stage
        .see(Happening::Called(next_life(), Clock(1), &call))
        .unwrap();
    let frame = first_frame(0, 3, 24, 24);
    let posted = |from| Happening::Posted(from, Rank(1), &frame, &[]);
    stage.see(posted(next_life())).unwrap();
    // The fence oracle judges the replaced life.
    stage.see(posted(life(0))).unwrap();
}
