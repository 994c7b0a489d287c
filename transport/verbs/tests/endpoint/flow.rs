//! Many messages: their cost, and behaviour without room.

use crate::bytes::{put_word, word};
use crate::pair::{Pair, Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint, Refused};

/// Counts signals and doorbells, not time: 1,000 messages need at most one doorbell each, and one
/// signal in 16.
#[test]
fn a_thousand_messages_are_cheap() {
    let Some(ground) = ground() else { return };
    const COUNT: u64 = 1000;
    let mut pair = Pair::open(&ground, 1 << 20);
    pair.connect();
    for index in 0..COUNT {
        let part = pair.b.part((index as usize % 512) * 64, 64);
        pair.b.endpoint.receive(part, index).unwrap();
    }
    for index in 0..COUNT {
        let part = pair.a.part(0, 64);
        pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[part], index));
    }
    pair.until(|pair| (pair.b.completions.len() == COUNT as usize).then_some(()));
    pair.until(|pair| (pair.a.completions.len() == COUNT as usize).then_some(()));
    // In order, on both sides.
    for side in [&pair.a, &pair.b] {
        let tokens = side.completions.iter().map(|completion| completion.token);
        assert!(tokens.eq(0..COUNT));
    }
    let sent = *pair.a.endpoint.counters();
    println!("{sent:?}");
    assert_eq!(sent.work_requests - sent.markers, COUNT);
    assert!(sent.signalled - sent.markers <= COUNT / 16);
    assert!(sent.doorbells - sent.markers <= COUNT);
    let received = *pair.b.endpoint.counters();
    println!("{received:?}");
    assert_eq!(received.receives, COUNT);
    assert!(received.receive_doorbells <= COUNT / 16 + 1);
    assert_eq!(received.doorbells, 0);
}

/// Without receives the sender waits, and continues as soon as there are some.
#[test]
fn a_sender_waits_for_receives() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let receive = |pair: &mut Pair, index: u64| {
        let part = pair.b.part(index as usize * 64, 64);
        pair.b.endpoint.receive(part, index).unwrap();
    };
    (0..4).for_each(|index| receive(&mut pair, index));
    for index in 0..64 {
        put_word(&pair.a.region, index as usize * 64, index);
        let part = pair.a.part(index as usize * 64, 64);
        pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[part], index));
    }
    pair.until(|pair| (pair.b.completions.len() == 4).then_some(()));
    for _ in 0..20_000 {
        pair.a.poll();
        pair.b.poll();
    }
    assert_eq!(pair.b.completions.len(), 4);
    assert!(pair.a.completions.len() <= 4, "more than was received");
    for index in 4..64 {
        receive(&mut pair, index);
    }
    for index in 0..64 {
        let received = pair.until(|pair| pair.b.completion(index));
        assert_eq!(received.outcome, Ok(()));
        assert_eq!(word(&pair.b.region, index as usize * 64), index);
        assert_eq!(pair.until(|pair| pair.a.completion(index)).outcome, Ok(()));
    }
    assert_eq!(pair.a.endpoint.counters().replacements, 0);
}

/// The room for operations is shared: unsignalled operations that have ended must not use it up.
#[test]
fn operations_that_are_over_make_room() {
    let Some(ground) = ground() else { return };
    const ROOM: usize = 40;
    let options = EndpointOptions {
        operations_max: ROOM,
        ..EndpointOptions::default()
    };
    let mut pair = Pair::open_with(&ground, 1 << 16, &options);
    let mut others: Vec<Side> = (0..2)
        .map(|_| Side::open(&ground, 1, 1 << 16, &options))
        .collect();
    let mut peers = vec![pair.a.peer()];
    for other in &mut others {
        other.meet(&pair.a);
        let name = other.endpoint.name().unwrap();
        peers.push(pair.a.endpoint.insert(&name).unwrap());
        for index in 0..64 {
            let part = other.part(index * 64, 64);
            other.endpoint.receive(part, 1).unwrap();
        }
    }
    for index in 0..64 {
        let part = pair.b.part(index * 64, 64);
        pair.b.endpoint.receive(part, 1).unwrap();
    }
    let part = pair.a.part(0, 8);
    let mut was_full = false;
    // 15 in each queue, one fewer than the interval of signals.
    for message in 0..45 {
        pair.until(|pair| {
            others.iter_mut().for_each(Side::poll);
            let taken = pair.a.endpoint.inject(peers[message / 15], &[part]);
            was_full |= taken == Err(Refused::Full);
            taken.is_ok().then_some(())
        });
        assert!(pair.a.endpoint.operations_in_flight() <= ROOM);
    }
    assert!(was_full, "45 operations in a room for {ROOM}");
    assert!(pair.a.endpoint.counters().markers > 0);
}

#[test]
fn what_a_device_cannot_have_is_refused_in_words() {
    let Some(ground) = ground() else { return };
    let completions = ground.ports[0].limits.completions as usize;
    let options = EndpointOptions {
        peers_max: completions,
        ..EndpointOptions::default()
    };
    let error = Side::try_open(&ground, 0, &options).unwrap_err();
    println!("{error}");
    assert!(
        error.to_string().contains(&completions.to_string()),
        "{error}"
    );
    // Many operations are only cut.
    let options = EndpointOptions {
        operations_max: usize::MAX,
        receives_max: usize::MAX / 2,
        ..EndpointOptions::default()
    };
    let endpoint = Side::try_open(&ground, 0, &options).unwrap();
    let receives = endpoint.receives_max();
    println!("{receives} receives");
    assert!(receives <= ground.ports[0].limits.shared_requests as usize);
}

/// The promised number of receives can be posted, and no more.
#[test]
fn receives_are_limited() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        receives_max: 50,
        ..EndpointOptions::default()
    };
    let mut pair = Pair::open_with(&ground, 1 << 16, &options);
    assert_eq!(pair.b.endpoint.receives_max(), 50);
    let part = pair.b.part(0, 64);
    for index in 0..50 {
        pair.b.endpoint.receive(part, index).unwrap();
    }
    assert_eq!(pair.b.endpoint.receive(part, 50), Err(Refused::Full));
    for index in 0..50 {
        pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[]));
        let received = pair.until(|pair| pair.b.completion(index));
        assert_eq!(received.outcome, Ok(()));
    }
    pair.b.endpoint.receive(part, 51).unwrap();
}
