//! A program that diverges from its records is stopped; the error states where. REC-8

use crate::job::{payload, to_rank_0};
use crate::shapes::{Player, any, from, matched};
use refrain_logging::determinant::recorder::Recorder;
use refrain_rank::calls::{self, NoAnswer};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::engine::EngineError;

/// Checks the clock and the text of the divergence.
#[track_caller]
fn assert_diverged(player: &mut Player, operation: u64, what: &str) {
    let error = player.try_settle().expect_err("it differs");
    let EngineError::Diverged { clock, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*clock, Clock(operation), "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

/// An operation of another kind than its record: the next progress after it detects it.
// REC-8
#[test]
fn another_operation_than_the_one_that_is_told() {
    type Record = fn(&mut Recorder);
    let cases: [(Record, &str); 7] = [
        (
            |recorder| recorder.matched(Clock(9), matched(1, 1, 0), false),
            "got message 0 of rank 1, and is another operation now",
        ),
        (
            |recorder| recorder.cancelled(Clock(9), Clock(1)),
            "was cancelled, and is another operation now",
        ),
        (
            |recorder| {
                recorder.probed(Clock(1), Rank(2), Ssn(4), 0, 8);
                recorder.nothing(Clock(9));
            },
            "a probe that found message 4 of rank 2, and is something else now",
        ),
        (
            |recorder| {
                recorder.completed(Clock(1), &[Clock(0), Clock(5)]);
                recorder.nothing(Clock(9));
            },
            "ended 2 requests, and is something else now",
        ),
        (
            |recorder| {
                recorder.cancelled(Clock(1), Clock(0));
                recorder.nothing(Clock(9));
            },
            "cancelled the receive of operation 0, and is something else now",
        ),
        (
            |recorder| recorder.number(Clock(1), 3, 77),
            "asked for number 3 (0: the time), and is something else now",
        ),
        (
            |recorder| recorder.bytes(Clock(1), &[1, 2, 3]),
            "asked for 3 bytes, and is something else now",
        ),
    ];
    for (record, what) in cases {
        let mut player = Player::new(record);
        // Ticks as a wait for all does.
        player.engine().tick();
        player.settle();
        player.engine().tick();
        assert_diverged(&mut player, 1, what);
    }
}

/// The same for operations that look up their records.
// REC-8
#[test]
fn an_operation_of_another_kind() {
    let probe: fn(&mut Recorder) = |recorder| recorder.probed(Clock(2), Rank(1), Ssn(0), 0, 8);
    let ended: fn(&mut Recorder) = |recorder| recorder.completed(Clock(2), &[Clock(1)]);
    let mut player = Player::new(probe);
    let mut handle = player.receive(from(2, 0));
    let clock = player.engine().tick();
    let told = calls::test(player.engine(), clock, &mut handle);
    assert_eq!(told, Err(NoAnswer::NotYet));
    assert_diverged(&mut player, 2, "and is a wait or test now");

    let mut player = Player::new(ended);
    player.receive(from(2, 0));
    let clock = player.engine().tick();
    let told = calls::look_now(player.engine(), clock, &any(0));
    assert_eq!(told, Err(NoAnswer::NotYet));
    assert_diverged(&mut player, 2, "and is a probe now");

    let mut player = Player::new(ended);
    let handle = player.receive(from(2, 0));
    calls::cancel(player.engine(), &handle);
    assert_diverged(&mut player, 2, "and cancels the receive of operation 1 now");
}

/// Values from outside are those of the records, and no other values are requested.
// REC-4, REC-8
#[test]
fn another_answer_from_outside_than_the_one_that_is_told() {
    let number: fn(&mut Recorder) = |recorder| recorder.number(Clock(1), 3, 77);
    let bytes: fn(&mut Recorder) = |recorder| recorder.bytes(Clock(1), &[1, 2, 3]);
    let nothing: fn(&mut Recorder) = |recorder| recorder.nothing(Clock(1));
    for (record, what) in [
        (number, "number 3 (0: the time), and asks for number 4 now"),
        (bytes, "3 bytes, and asks for number 4 now"),
        (nothing, "it found nothing, and asks for number 4 now"),
    ] {
        let mut player = Player::new(record);
        let clock = player.engine().tick();
        assert_eq!(calls::number(player.engine(), clock, 4, 5), None);
        assert_diverged(&mut player, 1, what);
    }
    for (record, what) in [
        (number, "number 3 (0: the time), and asks for 2 bytes now"),
        (bytes, "3 bytes, and asks for 2 bytes now"),
        (nothing, "it found nothing, and asks for 2 bytes now"),
    ] {
        let mut player = Player::new(record);
        let clock = player.engine().tick();
        assert!(!calls::bytes(player.engine(), clock, &mut [0; 2]));
        assert_diverged(&mut player, 1, what);
    }
    // After the last record it gets fresh values.
    let mut player = Player::new(number);
    let clock = player.engine().tick();
    assert_eq!(calls::number(player.engine(), clock, 3, 5), Some(77));
    let clock = player.engine().tick();
    assert_eq!(calls::number(player.engine(), clock, 3, 5), Some(5));
    player.settle();

    let mut player = Player::new(number);
    player.receive(any(0));
    assert_diverged_at_next(&mut player);
    let mut player = Player::new(number);
    let clock = player.engine().tick();
    let _ = calls::look_now(player.engine(), clock, &any(0));
    assert_diverged(&mut player, 1, "number 3 (0: the time), and is a probe now");
}

/// A receive looks up no record: the divergence is detected at the end of its operation.
#[track_caller]
fn assert_diverged_at_next(player: &mut Player) {
    player.engine().tick();
    assert_diverged(
        player,
        1,
        "number 3 (0: the time), and is something else now",
    );
}

/// A wait whose record says that nothing ended would never end: the recorded operation was another
/// one.
// REC-8
#[test]
fn a_wait_that_found_nothing() {
    let record: fn(&mut Recorder) = |recorder| recorder.nothing(Clock(2));
    let mut player = Player::new(record);
    let mut handles = [player.receive(from(1, 0))];
    let clock = player.engine().tick();
    assert_eq!(
        calls::try_any(player.engine(), clock, &mut handles[..]),
        None
    );
    assert_diverged(&mut player, 2, "waits for a result now");

    let mut player = Player::new(record);
    player.receive(from(1, 0));
    let clock = player.engine().tick();
    assert_eq!(calls::look(player.engine(), clock, &any(0)), None);
    assert_diverged(&mut player, 2, "waits for a result now");
}

/// The requests of the record are not those of the call: another one, more than one, not all.
// REC-8
#[test]
fn other_requests_than_those_that_ended() {
    let mut player = Player::new(|recorder| recorder.completed(Clock(3), &[Clock(1)]));
    let mut handles = [0, 1].map(|tag| player.receive(from(1, tag)));
    let clock = player.engine().tick();
    let told = calls::test(player.engine(), clock, &mut handles[1]);
    assert_eq!(told, Err(NoAnswer::NotYet));
    assert_diverged(
        &mut player,
        3,
        "ended the request of operation 1, which is not among",
    );

    let both: fn(&mut Recorder) = |recorder| recorder.completed(Clock(4), &[Clock(1), Clock(2)]);
    for tests_all in [false, true] {
        let mut player = Player::new(both);
        let mut handles = [0, 1, 2].map(|tag| player.receive(from(1, tag)));
        let clock = player.engine().tick();
        if tests_all {
            let told = calls::test_all(player.engine(), clock, &mut handles[..], |_, _| {});
            assert_eq!(told, Err(NoAnswer::NotYet));
            assert_diverged(&mut player, 4, "tests other requests now");
        } else {
            let told = calls::test_any(player.engine(), clock, &mut handles[..]);
            assert_eq!(told, Err(NoAnswer::NotYet));
            assert_diverged(&mut player, 4, "ended 2 requests; now it ends one");
        }
    }
}

/// The message of a record does not fit the pattern now, or differs from the record.
// REC-8
#[test]
fn a_message_that_does_not_fit() {
    for comes_first in [false, true] {
        let mut player =
            Player::new(|recorder| recorder.matched(Clock(5), matched(1, 1, 0), false));
        if comes_first {
            player.comes(1, 0, 1);
        }
        player.receive(any(0));
        if !comes_first {
            let bytes = payload(1, 0, 64);
            player.life.send(1, to_rank_0(1, false), &bytes);
        }
        assert_diverged(&mut player, 1, "does not match what it asks for now");
    }
    let mut player = Player::new(|recorder| recorder.probed(Clock(1), Rank(1), Ssn(0), 0, 63));
    player.comes(1, 0, 0);
    let clock = player.engine().tick();
    let told = calls::look_now(player.engine(), clock, &any(0));
    assert_eq!(told, Err(NoAnswer::NotYet));
    assert_diverged(&mut player, 1, "that has tag 0, 64 bytes now");
}

/// The message of a record was taken, or would have been taken, by another operation, or its sender
/// does not send it.
// REC-8
#[test]
fn a_message_that_is_not_there() {
    // A named receive without a record took it.
    let mut player = Player::new(|recorder| recorder.matched(Clock(5), matched(2, 1, 0), false));
    player.comes(1, 0, 0);
    player.receive(from(1, 0));
    player.receive(any(0));
    assert_diverged(&mut player, 2, "another operation has received it already");

    // An undecided receive would have taken it.
    let mut player = Player::new(|recorder| recorder.matched(Clock(5), matched(2, 1, 0), false));
    player.receive(any(0));
    player.comes(1, 0, 0);
    player.receive(any(0));
    assert_diverged(&mut player, 2, "posted earlier matches it");

    let record: fn(&mut Recorder) = |recorder| recorder.probed(Clock(1), Rank(0), Ssn(0), 0, 8);
    let mut player = Player::new(record);
    let clock = player.engine().tick();
    let told = calls::look_now(player.engine(), clock, &any(0));
    assert_eq!(told, Err(NoAnswer::NotYet));
    assert_diverged(&mut player, 1, "which it has not sent now");

    let record: fn(&mut Recorder) = |recorder| recorder.probed(Clock(1), Rank(9), Ssn(0), 0, 8);
    let mut player = Player::new(record);
    let clock = player.engine().tick();
    let _ = calls::look_now(player.engine(), clock, &any(0));
    assert_diverged(&mut player, 1, "there is no such rank");
}

/// A recorded message that arrives after one that is held.
// REC-8
#[test]
fn a_message_behind_one_that_is_held() {
    let mut player = Player::new(|recorder| recorder.matched(Clock(5), matched(2, 1, 1), false));
    player.receive(any(0));
    player.receive(any(1));
    player.comes(1, 0, 0);
    let bytes = payload(1, 1, 64);
    player.life.send(1, to_rank_0(1, false), &bytes);
    assert_diverged(&mut player, 2, "posted earlier matches an earlier message");
}

/// The error states what the divergence means.
// REC-8
#[test]
fn the_error_says_what_a_program_must_not_do() {
    let mut player = Player::new(|recorder| recorder.matched(Clock(9), matched(1, 1, 0), false));
    player.engine().tick();
    player.engine().tick();
    let error = player.try_settle().expect_err("it differs").to_string();
    assert!(
        error.contains("operation 1 is not what this rank did"),
        "{error}"
    );
    assert!(error.contains("time, random numbers"), "{error}");
}
