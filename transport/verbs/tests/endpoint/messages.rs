//! Messages, both ways.

use crate::bytes::{fill, holds};
use crate::pair::{Pair, ground};
use refrain_verbs::{Kind, MessageEndpoint, PARTS_MAX, Refused, TOKEN_OF_INJECTED};

#[test]
fn a_message_arrives_both_ways() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    for seed in 0..2 {
        fill(&pair.a.region, 0, 100, seed);
        let part = pair.b.part(4096, 200);
        pair.b.endpoint.receive(part, 1).unwrap();
        let part = pair.a.part(0, 100);
        pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[part], 2));
        let received = pair.until(|pair| pair.b.completion(1));
        assert_eq!(received.outcome, Ok(()));
        assert_eq!((received.kind, received.bytes), (Kind::Receive, 100));
        assert_eq!(received.peer, Some(pair.b.peer()));
        assert!(holds(&pair.b.region, 4096, 100, seed));
        // No further message is sent; the end of this one is detected nevertheless.
        let sent = pair.until(|pair| pair.a.completion(2));
        assert_eq!(sent.outcome, Ok(()));
        assert_eq!((sent.kind, sent.bytes), (Kind::Send, 100));
        assert_eq!(sent.peer, Some(pair.a.peer()));
        core::mem::swap(&mut pair.a, &mut pair.b);
    }
    pair.a.endpoint.close().unwrap();
    pair.b.endpoint.close().unwrap();
}

/// Messages of every size, from 0 to the longest, in one to four parts, in order.
#[test]
fn messages_of_every_size_arrive_in_order() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 16 << 20);
    let bytes_max = pair.a.endpoint.message_bytes_max();
    let longest = bytes_max.min(8 << 20);
    let sizes = [
        0,
        1,
        64,
        0,
        1023,
        1024,
        1025,
        4096,
        65_537,
        1 << 20,
        longest,
        3,
    ];
    for (round, bytes) in sizes.into_iter().enumerate() {
        for parts in 1..=PARTS_MAX {
            let seed = (round * 8 + parts) as u64;
            fill(&pair.a.region, 0, bytes, seed);
            let into = pair.b.part(0, longest);
            pair.b.endpoint.receive(into, 1).unwrap();
            let cut = bytes / parts;
            let pieces: Vec<_> = (0..parts)
                .map(|index| match index + 1 == parts {
                    true => pair.a.part(index * cut, bytes - index * cut),
                    false => pair.a.part(index * cut, cut),
                })
                .collect();
            pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &pieces, 2));
            let received = pair.until(|pair| pair.b.completion(1));
            assert_eq!((received.outcome, received.bytes), (Ok(()), bytes));
            assert!(holds(&pair.b.region, 0, bytes, seed), "{bytes} in {parts}");
            assert_eq!(pair.until(|pair| pair.a.completion(2)).outcome, Ok(()));
        }
    }
    let whole = pair.a.part(0, 16 << 20);
    if bytes_max < 16 << 20 {
        let refused = pair.a.endpoint.send(pair.a.peer(), &[whole], 3);
        assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
    }
    let many = [pair.a.part(0, 1); PARTS_MAX + 1];
    let refused = pair.a.endpoint.send(pair.a.peer(), &many, 3);
    assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
    let outside = pair.a.part((16 << 20) - 1, 2);
    let refused = pair.a.endpoint.send(pair.a.peer(), &[outside], 3);
    assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
}

/// Their memory is free at once, they keep their order with other messages, and they have no
/// completion.
#[test]
fn injected_messages_are_copied_at_once() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let bytes = pair.a.endpoint.inject_bytes();
    assert!(bytes >= 64, "{bytes}");
    for index in 0..40 {
        let part = pair.b.part(index * 512, 512);
        pair.b.endpoint.receive(part, index as u64).unwrap();
    }
    for index in 0..40_u64 {
        fill(&pair.a.region, 0, bytes, index);
        let part = pair.a.part(0, bytes);
        let half = pair.a.part(0, bytes / 2);
        let rest = pair.a.part(bytes / 2, bytes - bytes / 2);
        match index % 2 {
            0 => pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[part])),
            _ => pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[half, rest])),
        }
        // The next fill overwrites it.
    }
    for index in 0..40 {
        let received = pair.until(|pair| pair.b.completion(index));
        assert_eq!((received.outcome, received.bytes), (Ok(()), bytes));
        let offset = index as usize * 512;
        assert!(holds(&pair.b.region, offset, bytes, index), "{index}");
    }
    pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[]));
    let part = pair.b.part(0, 512);
    pair.b.endpoint.receive(part, 77).unwrap();
    assert_eq!(pair.until(|pair| pair.b.completion(77)).bytes, 0);
    assert_eq!(pair.a.completions, []);
    assert_eq!(pair.a.endpoint.counters().inline, 40);
    let long = pair.a.part(0, bytes + 1);
    let refused = pair.a.endpoint.inject(pair.a.peer(), &[long]);
    assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
}

/// A message that is too long for its receive fails on both sides, and the connection is replaced
/// for the next one.
#[test]
fn a_message_that_is_too_long_fails_on_both_sides() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let short = pair.b.part(0, 10);
    fill(&pair.b.region, 10, 90, 3);
    pair.b.endpoint.receive(short, 1).unwrap();
    let long = pair.a.part(0, 100);
    pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[long], 2));
    let sent = pair.until(|pair| pair.a.completion(2));
    let received = pair.until(|pair| pair.b.completion(1));
    println!("sent: {}", sent.outcome.unwrap_err());
    println!("received: {}", received.outcome.unwrap_err());
    assert!(
        holds(&pair.b.region, 10, 90, 3),
        "written behind the receive"
    );
    let part = pair.b.part(0, 200);
    pair.b.endpoint.receive(part, 3).unwrap();
    pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[long], 4));
    let received = pair.until(|pair| pair.b.completion(3));
    assert_eq!((received.outcome, received.bytes), (Ok(()), 100));
    assert_eq!(pair.until(|pair| pair.a.completion(4)).outcome, Ok(()));
    assert!(pair.a.endpoint.counters().replacements >= 1);
    assert!(pair.a.endpoint.counters().connections >= 2);
}

#[test]
fn an_injected_message_that_fails_is_reported() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let short = pair.b.part(0, 10);
    pair.b.endpoint.receive(short, 1).unwrap();
    let long = pair.a.part(0, 60);
    pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[long]));
    let failed = pair.until(|pair| pair.a.completion(TOKEN_OF_INJECTED));
    assert!(failed.outcome.is_err());
}

/// A receive of 0 bytes takes a message of 0 bytes, and no longer one.
#[test]
fn an_empty_receive_takes_an_empty_message() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 4096);
    fill(&pair.b.region, 0, 4096, 3);
    let part = pair.b.part(64, 0);
    pair.b.endpoint.receive(part, 1).unwrap();
    pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[]));
    let received = pair.until(|pair| pair.b.completion(1));
    assert_eq!((received.outcome, received.bytes), (Ok(()), 0));
    pair.b.endpoint.receive(part, 2).unwrap();
    let one = pair.a.part(0, 1);
    pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[one]));
    let received = pair.until(|pair| pair.b.completion(2));
    assert!(received.outcome.is_err(), "{received:?}");
    assert!(holds(&pair.b.region, 0, 4096, 3));
}
