//! Greetings to many peers at a time, as at the start of a large job.

use crate::pair::{Ground, LIMIT, Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint};
use std::time::Instant;

/// An endpoint for `peers` peers and one more.
fn open(ground: &Ground, port: usize, peers: u16) -> Side {
    let options = EndpointOptions {
        accepts_unknown: true,
        peers_max: usize::from(peers) + 1,
        ..EndpointOptions::default()
    };
    Side::open(ground, port, 4096, &options)
}

/// Addresses at which no endpoint answers: that of `side` with other identities.
fn absent(side: &Side, count: u16) -> impl Iterator<Item = Vec<u8>> {
    let name = side.endpoint.name().unwrap();
    (0..count).map(move |number| {
        let mut name = name.clone();
        name[4..6].copy_from_slice(&number.to_le_bytes());
        name[6..20].fill(0xee);
        name
    })
}

/// An endpoint that is polled once, and then not for a long time, has greeted.
#[test]
fn the_first_poll_after_a_peer_is_inserted_greets_it() {
    let Some(ground) = ground() else { return };
    let there = open(&ground, 1, 3);
    let mut side = open(&ground, 0, 3);
    for (name, greetings) in absent(&there, 3).zip(1..) {
        side.endpoint.insert(&name).unwrap();
        side.poll();
        let sent = side.endpoint.counters().greetings_sent;
        assert!(sent >= greetings, "{sent} of {greetings}");
    }
}

/// Many peers that do not answer, all due at the same time and more than there are buffers, do not
/// prevent a greeting to one that answers.
#[test]
fn absent_peers_do_not_hold_up_one_that_is_there() {
    const ABSENT: u16 = 600;
    let Some(ground) = ground() else { return };
    let mut there = open(&ground, 1, ABSENT);
    let mut side = open(&ground, 0, ABSENT);
    for name in absent(&there, ABSENT) {
        side.endpoint.insert(&name).unwrap();
    }
    side.meet(&there);
    let began = Instant::now();
    while !side.endpoint.is_connected(side.peer()) {
        side.poll();
        there.poll();
        assert!(began.elapsed() < LIMIT, "{:?}", side.endpoint.counters());
    }
    println!("{:?}", there.endpoint.counters());
}

/// An endpoint that expects many peers receives all their greetings, even if it polls late.
#[test]
fn greetings_of_many_peers_wait_for_who_computes() {
    const ABSENT: u16 = 200;
    let Some(ground) = ground() else { return };
    let mut computes = open(&ground, 1, ABSENT);
    let mut side = open(&ground, 0, ABSENT);
    for name in absent(&computes, ABSENT) {
        side.endpoint.insert(&name).unwrap();
    }
    let began = Instant::now();
    while side.endpoint.counters().greetings_sent < u64::from(ABSENT) {
        side.poll();
        assert!(began.elapsed() < LIMIT, "{:?}", side.endpoint.counters());
    }
    let heard = |side: &Side| side.endpoint.counters().greetings_ignored;
    while heard(&computes) < u64::from(ABSENT) {
        computes.poll();
        assert!(began.elapsed() < LIMIT, "{} were heard", heard(&computes));
    }
}
