//! Calls on several requests.

use crate::empty::send_buffer;
use crate::pair::{Pair, Saw, to};
use refrain_rank::calls::{self, Handle};
use refrain_ring::Clock;

fn posted(pair: &Pair, handles: &[Handle]) -> Vec<Clock> {
    let posted = handles.iter().map(|handle| handle.posted_at(&pair.rank));
    posted.map(|posted| posted.expect("it is there")).collect()
}

/// A wait for some that ends three requests tells of all three, in their order: a
/// replay that ended one only would go another way.
#[test]
fn a_wait_for_some_tells_of_all_that_it_ends() {
    let mut pair = Pair::new();
    let mut handles = [1, 2, 3, 4].map(|tag| pair.receive(tag));
    let clocks = posted(&pair, &handles);
    let clock = pair.rank.tick();
    assert!(calls::try_some(&mut pair.rank, clock, &mut handles[..]).is_none());
    assert_eq!(pair.seen(), [], "a wait that goes on is no event");
    [4, 2, 1].into_iter().for_each(|tag| pair.send(tag));
    pair.settle();
    let ended = calls::try_some(&mut pair.rank, clock, &mut handles[..]).expect("three have");
    let indices: Vec<usize> = ended.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 1, 3]);
    let all_three = vec![clocks[0], clocks[1], clocks[3]];
    assert_eq!(pair.seen(), [Saw::Completion(clock, all_three)]);
    let are_null = handles.map(|handle| handle.is_null());
    assert_eq!(are_null, [true, true, false, true]);
    assert_eq!(pair.rank.request_count(), 1);
}

/// A wait for any tells of one, the first; the next tells of the next.
#[test]
fn a_wait_for_any_tells_of_one() {
    let mut pair = Pair::new();
    let mut handles = [1, 2].map(|tag| pair.receive(tag));
    let clocks = posted(&pair, &handles);
    [2, 1].into_iter().for_each(|tag| pair.send(tag));
    pair.settle();
    for index in [0, 1] {
        let clock = pair.rank.tick();
        let ended = calls::try_any(&mut pair.rank, clock, &mut handles[..]);
        assert_eq!(ended.map(|(at, _)| at), Some(index));
        let expected = Saw::Completion(clock, vec![clocks[index]]);
        assert_eq!(pair.seen(), [expected]);
    }
    assert!(calls::are_null(&handles[..]));
}

/// A wait for all ends the same way whatever the timing; a test of all does not,
/// unless there is nothing to test.
#[test]
fn a_wait_for_all_is_no_event_and_a_test_of_all_is() {
    let mut pair = Pair::new();
    for is_test in [false, true] {
        let mut handles = [pair.receive(1), Handle::NULL, pair.receive(2)];
        let clocks = [handles[0], handles[2]].map(|handle| handle.posted_at(&pair.rank));
        pair.send(1);
        pair.settle();
        let clock = pair.rank.tick();
        let ask = |pair: &mut Pair, handles: &mut [Handle]| match is_test {
            true => calls::test_all(&mut pair.rank, clock, handles),
            false => calls::try_all(&mut pair.rank, handles),
        };
        assert_eq!(ask(&mut pair, &mut handles), None);
        assert!(!calls::are_null(&handles[..]), "all of them or none");
        pair.send(2);
        pair.settle();
        let ended = ask(&mut pair, &mut handles).expect("all have ended");
        let tags = ended.iter().map(|end| end.map(|end| end.status.tag));
        assert_eq!(tags.collect::<Vec<_>>(), [Some(1), None, Some(2)]);
        let expected = Saw::Completion(clock, clocks.into_iter().flatten().collect());
        assert_eq!(pair.seen(), if is_test { vec![expected] } else { vec![] });
        assert!(ask(&mut pair, &mut handles).is_some(), "all are null");
        assert_eq!(pair.seen(), []);
    }
}

/// A send that was done when its call returned is done in every replay, so that
/// a test of it is no event; among several requests it is one, since the others
/// could have come first.
#[test]
fn a_send_that_is_done_at_once_is_tested_without_an_event() {
    let mut pair = Pair::new();
    let mut post = || {
        let posted = calls::post_send(&mut pair.rank, send_buffer(), to(0, 1));
        (posted.expect("there is room"), pair.rank.now())
    };
    let ((mut alone, _), (among, posted_at)) = (post(), post());
    let clock = pair.rank.tick();
    assert!(calls::test(&mut pair.rank, clock, &mut alone).is_some_and(|end| end.at_once));
    assert!(alone.is_null());
    assert_eq!(pair.seen(), []);
    let mut handles = [pair.receive(1), among];
    let clock = pair.rank.tick();
    let ended = calls::try_any(&mut pair.rank, clock, &mut handles[..]);
    assert_eq!(ended.map(|(at, _)| at), Some(1));
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![posted_at])]);
}
