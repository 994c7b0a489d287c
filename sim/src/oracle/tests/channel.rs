//! Frames and messages.

use super::super::channel::Channels;
use super::*;

/// Rank 0 has sent `messages` of 100 bytes.
fn stage(messages: u64) -> Stage<Channels> {
    let mut stage = Stage::new(Channels::new(2));
    for number in 0..messages {
        stage.called(0, number, &isend(0, number, 100)).unwrap();
    }
    stage
}

/// A fragment of a message.
fn fragment(ssn: u64, offset: u64, payload: usize) -> RecordHeader {
    RecordHeader {
        kind: RecordKind::Fragment,
        extent: offset,
        ..first_frame(0, ssn, payload, 0)
    }
}

/// Frames of messages one after the other, and of announced messages mixed.
#[test]
fn whole_messages_in_order_are_let_pass() {
    let mut stage = stage(3);
    let bytes = payload(0, 0, 100);
    stage
        .posted(0, &first_frame(0, 0, 60, 100), &bytes[..60])
        .unwrap();
    stage.posted(0, &fragment(0, 60, 40), &bytes[60..]).unwrap();
    let announced = RecordHeader {
        kind: RecordKind::Rendezvous,
        ..first_frame(0, 1, 0, 100)
    };
    stage.posted(0, &announced, &[]).unwrap();
    let next = payload(0, 2, 100);
    stage
        .posted(0, &first_frame(0, 2, 100, 100), &next)
        .unwrap();
    let later = payload(0, 1, 100);
    stage.posted(0, &fragment(1, 0, 100), &later).unwrap();
}

/// Each frame that does not match the frames before it, or its message, is found.
// Known trap: duplicate judged per fragment
#[test]
fn frames_that_do_not_fit_are_found() {
    let whole = first_frame(0, 0, 100, 100);
    let other_life = RecordHeader {
        incarnation: Incarnation(1),
        ..whole
    };
    let other_tag = RecordHeader { tag: 4, ..whole };
    let other_length = RecordHeader {
        extent: 101,
        ..whole
    };
    let later = first_frame(0, 1, 100, 100);
    let unsent = first_frame(0, 2, 100, 100);
    let begun = fragment(0, 0, 100);
    let first = payload(0, 0, 100);
    let second = payload(0, 1, 100);
    for (frames, what) in [
        (vec![(whole, &first), (whole, &first)], "not the next"),
        (vec![(later, &second), (whole, &first)], "not the next"),
        (vec![(whole, &first), (unsent, &second)], "no program sent"),
        (vec![(whole, &second)], "bytes are not"),
        (vec![(other_life, &first)], "another sender"),
        (vec![(other_tag, &first)], "envelope is another"),
        (vec![(other_length, &first)], "length is another"),
        (vec![(begun, &first)], "has not begun"),
        (vec![(whole, &first), (begun, &first)], "has not begun"),
    ] {
        let mut stage = stage(2);
        let (last, before) = frames.split_last().unwrap();
        for (header, payload) in before {
            stage.posted(0, header, payload).unwrap();
        }
        assert_breach(stage.posted(0, &last.0, last.1), "channel", what);
    }
    let mut stage = stage(1);
    stage
        .posted(0, &first_frame(0, 0, 60, 100), &first[..60])
        .unwrap();
    let gap = stage.posted(0, &fragment(0, 61, 39), &first[61..]);
    assert_breach(gap, "channel", "does not begin where");
    let cut = stage.posted(0, &first_frame(0, 0, 60, 100), &first[..59]);
    assert_breach(cut, "channel", "not as long as it says");
}

/// Programs number their messages without gaps.
#[test]
fn a_program_that_sends_out_of_turn_is_found() {
    let mut stage = stage(1);
    let skipped = stage.called(0, 1, &isend(0, 2, 100));
    assert_breach(skipped, "channel", "number 2 after 1");
    // No peer has seen the message: a life without a record may send another one.
    stage.called(0, 1, &isend(0, 0, 99)).unwrap();
    stage.called(0, 1, &isend(0, 0, 100)).unwrap();
    let first = first_frame(0, 0, 100, 100);
    stage.posted(0, &first, &payload(0, 0, 100)).unwrap();
    // After the message has left, a later life must send the same one. REC-8
    stage.called(0, 1, &isend(0, 0, 100)).unwrap();
    let other = stage.called(0, 1, &isend(0, 0, 99));
    assert_breach(other, "channel", "another message 0");
}

/// Rank 1 has posted receives from any source.
fn receiving(receives: u32) -> Stage<Channels> {
    let mut stage = stage(3);
    for number in 0..receives {
        stage.called(1, number.into(), &irecv(None)).unwrap();
        stage.answered(1, number.into(), &posted(number)).unwrap();
    }
    stage
}

/// Receives may end in any order; messages are assigned in the order of the posts.
#[test]
fn messages_go_to_receives_in_order() {
    let mut stage = receiving(3);
    for number in [1, 0, 2] {
        let got = received(number, 0, payload(0, number.into(), 100));
        stage.answered(1, 9, &got).unwrap();
    }
    let mut stage = receiving(2);
    let early = received(0, 0, payload(0, 1, 100));
    stage.answered(1, 9, &early).unwrap();
    let late = stage.answered(1, 9, &received(1, 0, payload(0, 0, 100)));
    assert_breach(late, "channel", "overtook");
    // The same order violation, with the receives ended the other way round.
    let mut stage = receiving(2);
    let late = received(1, 0, payload(0, 0, 100));
    stage.answered(1, 9, &late).unwrap();
    let early = stage.answered(1, 9, &received(0, 0, payload(0, 1, 100)));
    assert_breach(early, "channel", "overtook");
}

/// A blocking receive counts like other receives; a pattern that names the source is a different
/// pattern.
#[test]
fn patterns_have_an_order_each() {
    let mut stage = receiving(1);
    let recv = |source| Call::Recv {
        from: From { source, tag: None },
        room_bytes: 100,
    };
    stage.called(1, 5, &recv(Some(Rank(0)))).unwrap();
    stage
        .answered(1, 5, &received(1, 0, payload(0, 0, 100)))
        .unwrap();
    stage.called(1, 6, &recv(None)).unwrap();
    stage
        .answered(1, 6, &received(2, 0, payload(0, 1, 100)))
        .unwrap();
    let overtaken = stage.answered(1, 7, &received(0, 0, payload(0, 2, 100)));
    assert_breach(overtaken, "channel", "overtook");
}

/// A message that was changed, lost, sent to another rank or received twice is found.
#[test]
fn messages_that_are_others_are_found() {
    let mut changed = payload(0, 0, 100);
    changed[99] ^= 1;
    let lost = payload(0, 7, 100);
    let others = payload(1, 0, 100);
    for (bytes, what) in [
        (changed, "other bytes"),
        (lost, "was not sent"),
        (others, "message of another channel"),
    ] {
        let mut stage = receiving(1);
        let got = stage.answered(1, 9, &received(0, 0, bytes));
        assert_breach(got, "channel", what);
    }
    let mut stage = receiving(2);
    let got = received(0, 0, payload(0, 0, 100));
    stage.answered(1, 9, &got).unwrap();
    let again = stage.answered(1, 9, &received(1, 0, payload(0, 0, 100)));
    assert_breach(again, "channel", "had already");
}

/// A truncated message is correct if its received part is.
#[test]
fn messages_may_be_cut() {
    let mut stage = receiving(1);
    let Answer::Ended(mut ended) = received(0, 0, payload(0, 0, 100)) else {
        unreachable!("it is an end");
    };
    ended[0].payload.truncate(50);
    stage.answered(1, 9, &Answer::Ended(ended)).unwrap();
}
