//! Calls on several requests.

use crate::empty::{receive_buffer, send_buffer};
use crate::pair::{Pair, Saw, from, to};
use refrain_rank::calls::{self, Handle};
use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Outcome, SendTo};
use refrain_transport::matching::Pattern;

/// A wait for some: returns the requests that have ended, by index.
fn try_some(
    pair: &mut Pair,
    clock: Clock,
    handles: &mut [Handle],
) -> Option<Vec<(usize, Outcome)>> {
    let mut ended = Vec::new();
    let give = |index, outcome| ended.push((index, outcome));
    let count = calls::try_some(&mut pair.rank, clock, handles, give)?;
    assert_eq!(count, ended.len());
    Some(ended)
}

fn posted(handles: &[Handle]) -> Vec<Clock> {
    let posted = handles.iter().map(|handle| handle.posted_at());
    posted.map(|posted| posted.expect("it is there")).collect()
}

/// A wait for some that ends three requests records all three, in their order: a replay that ended
/// only one would diverge.
#[test]
fn a_wait_for_some_tells_of_all_that_it_ends() {
    let mut pair = Pair::new();
    let mut handles = [1, 2, 3, 4].map(|tag| pair.receive(tag));
    let clocks = posted(&handles);
    let clock = pair.rank.tick();
    assert_eq!(try_some(&mut pair, clock, &mut handles), None);
    assert_eq!(pair.seen(), [], "a wait that goes on is no event");
    [4, 2, 1].into_iter().for_each(|tag| pair.send(tag));
    pair.settle();
    let ended = try_some(&mut pair, clock, &mut handles).expect("three have");
    let indices: Vec<usize> = ended.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 1, 3]);
    let all_three = vec![clocks[0], clocks[1], clocks[3]];
    assert_eq!(pair.seen(), [Saw::Completion(clock, all_three)]);
    let are_null = handles.map(|handle| handle.is_null());
    assert_eq!(are_null, [true, true, false, true]);
    assert_eq!(pair.rank.request_count(), 1);
}

/// A wait for any records the first request that ended; the next wait records the next.
#[test]
fn a_wait_for_any_tells_of_one() {
    let mut pair = Pair::new();
    let mut handles = [1, 2].map(|tag| pair.receive(tag));
    let clocks = posted(&handles);
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

/// A wait for all ends the same way with any timing; a test of all does not, unless all requests
/// are null.
#[test]
fn a_wait_for_all_is_no_event_and_a_test_of_all_is() {
    let mut pair = Pair::new();
    for is_test in [false, true] {
        let mut handles = [pair.receive(1), Handle::NULL, pair.receive(2)];
        let clocks = [handles[0], handles[2]].map(|handle| handle.posted_at());
        pair.send(1);
        pair.settle();
        let clock = pair.rank.tick();
        let ask = |pair: &mut Pair, handles: &mut [Handle]| {
            let mut ended = vec![None; handles.len()];
            let give = |index: usize, outcome| ended[index] = Some(outcome);
            let told = match is_test {
                true => calls::test_all(&mut pair.rank, clock, handles, give).ok(),
                false => calls::try_all(&mut pair.rank, handles, give),
            };
            told.map(|()| ended)
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

/// Whether a send is complete when its call returns depends on the room in the log: a test that
/// finds it complete is an event like any other, for one request or several.
#[test]
fn a_send_that_is_done_at_once_is_tested_with_an_event() {
    let mut pair = Pair::new();
    let [mut alone, among] = [(); 2].map(|()| send(&mut pair, false));
    let clocks = [alone, among].map(|handle| handle.posted_at().expect("it is there"));
    assert_eq!([alone.id(), among.id()], [None; 2], "there is room");
    let clock = pair.rank.tick();
    assert!(
        calls::test(&mut pair.rank, clock, &mut alone)
            .ok()
            .is_some()
    );
    assert!(alone.is_null());
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![clocks[0]])]);
    let mut handles = [pair.receive(1), among];
    let clock = pair.rank.tick();
    let ended = calls::try_any(&mut pair.rank, clock, &mut handles[..]);
    assert_eq!(ended.map(|(at, _)| at), Some(1));
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![clocks[1]])]);
}

fn send(pair: &mut Pair, synchronous: bool) -> Handle {
    let to = SendTo {
        synchronous,
        ..to(0, 1)
    };
    calls::post_send(&mut pair.rank, send_buffer(), to).expect("there is room")
}

/// Events of requests whose scope has ended depend neither on which sends were complete at once,
/// nor on other requests in progress: all have the clocks at their posts.
#[test]
fn requests_of_a_scope_that_is_over_are_told_as_others_are() {
    let mut pair = Pair::new();
    let mut handles = [
        pair.receive(1),
        pair.receive(2),
        send(&mut pair, false),
        send(&mut pair, true),
    ];
    let clocks = posted(&handles);
    assert!(handles[2].id().is_none(), "complete at once");
    let [given_up, waited_for] = [1, 3].map(|at| handles[at].id().expect("it is under way"));
    pair.rank.detach(given_up);
    let ours = Pattern {
        source: Some(Rank(1)),
        ..from(1)
    };
    for _ in 0..2 {
        calls::post_receive(&mut pair.peer, receive_buffer(), ours);
    }
    pair.settle();
    assert!(pair.rank.finish(waited_for).is_some());
    pair.seen();
    let mut again = handles;
    let clock = pair.rank.tick();
    // That the second request ended shows that the first had not.
    let ended = calls::try_any(&mut pair.rank, clock, &mut again[..]);
    assert_eq!(ended.map(|(at, _)| at), Some(1));
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![clocks[1]])]);
    let clock = pair.rank.tick();
    let ended = try_some(&mut pair, clock, &mut handles).expect("three have");
    let [receive, at_once, later] = ended[..] else {
        panic!("{ended:?}");
    };
    assert_eq!([receive.0, at_once.0, later.0], [1, 2, 3]);
    assert!(receive.1.status.cancelled);
    assert_eq!(at_once.1, later.1, "the end of a send is the same");
    let told = Saw::Completion(clock, clocks[1..].to_vec());
    assert_eq!(pair.seen(), [told]);
    assert!(!handles[0].is_null());
}
