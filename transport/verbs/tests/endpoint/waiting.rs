//! Sleeping on the endpoint's descriptor.

use crate::bytes::{put_word, word};
use crate::pair::{Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint, Refused};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limit of a sleep; a test must not need it.
const LIMIT: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// Sleeps if the endpoint may sleep; returns whether it slept.
#[track_caller]
fn sleep(side: &mut Side) -> bool {
    if !side.endpoint.may_sleep() {
        return false;
    }
    let fd = side.endpoint.wait_fd().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let woken = poll(&mut fds, Some(&LIMIT)).unwrap();
    assert_eq!(woken, 1, "nobody woke us: {:?}", side.endpoint.counters());
    true
}

/// Sends numbers and waits for answers, or answers; sleeps in between.
fn play(side: &mut Side, begins: bool, rounds: u64) -> u64 {
    let mut slept = 0;
    let part = side.part(1024, 64);
    side.endpoint.receive(part, 1).unwrap();
    for round in 0..rounds {
        if begins {
            slept += say(side, round);
        }
        while side.completion(1).is_none() {
            slept += u64::from(sleep(side));
            side.poll();
        }
        assert_eq!(word(&side.region, 1024), round);
        side.endpoint.receive(part, 1).unwrap();
        if !begins {
            slept += say(side, round);
        }
    }
    slept
}

/// Sends a number, and waits until its memory is free.
fn say(side: &mut Side, number: u64) -> u64 {
    put_word(&side.region, 0, number);
    let (peer, part) = (side.peer(), side.part(0, 8));
    let mut slept = 0;
    while let Err(refused) = side.endpoint.send(peer, &[part], 2) {
        assert_eq!(refused, Refused::Again);
        slept += u64::from(sleep(side));
        side.poll();
    }
    while side.completion(2).is_none() {
        slept += u64::from(sleep(side));
        side.poll();
    }
    slept
}

/// Two endpoints that only sleep connect, wake each other, and get the completions of their sends.
#[test]
fn two_sleepers_wake_each_other() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions::default();
    let mut a = Side::open(&ground, 0, 4096, &options);
    let mut b = Side::open(&ground, 1, 4096, &options);
    a.meet(&b);
    b.meet(&a);
    let (slept_a, slept_b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| play(&mut a, true, 100));
        let b = scope.spawn(|| play(&mut b, false, 100));
        (a.join().unwrap(), b.join().unwrap())
    });
    println!("slept {slept_a} and {slept_b} times");
    println!("{:?}", a.endpoint.counters());
    assert!(slept_a > 0 && slept_b > 0);
    assert!(a.endpoint.counters().notifications > 0);
}

/// Without work, no event and no timer wakes the endpoint.
#[test]
fn a_connected_endpoint_sleeps_well() {
    let Some(ground) = ground() else { return };
    let mut pair = crate::pair::Pair::open(&ground, 4096);
    pair.connect();
    // Greetings that were still in flight.
    pair.until(|pair| {
        let may = pair.a.endpoint.may_sleep();
        let fd = pair.a.endpoint.wait_fd().unwrap();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 700_000_000,
        };
        (may && poll(&mut fds, Some(&moment)).unwrap() == 0).then_some(())
    });
}
