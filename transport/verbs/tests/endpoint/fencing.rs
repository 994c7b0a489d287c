//! Which peers' messages count, and which do not any more (FENCE-1).

use crate::bytes::{copy, put_word};
use crate::pair::{Ground, LIMIT, Pair, Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint, Refused};
use std::time::Instant;

/// Endless writes and messages of `a`.
struct Flood {
    pair: Pair,
    count: u64,
}

const SLOTS: u64 = 200;

impl Flood {
    fn new(ground: &Ground) -> Self {
        let mut pair = Pair::open(ground, 1 << 20);
        for slot in 0..SLOTS {
            let part = pair.b.part(slot as usize * 1024, 1024);
            pair.b.endpoint.receive(part, slot).unwrap();
        }
        Self { pair, count: 0 }
    }

    /// Sends a few more messages and writes, with new contents each time.
    fn pour(&mut self) {
        let mut key = self.pair.b.endpoint.remote_key(self.pair.b.memory);
        key.base += 1 << 19;
        let a = &mut self.pair.a;
        let peer = a.peer();
        for _ in 0..16 {
            self.count += 1;
            let offset = (self.count % 512) as usize * 1024;
            put_word(&a.region, offset, self.count);
            let part = a.part(offset, 1024);
            let _ = a.endpoint.send(peer, &[part], 1);
            let _ = a.endpoint.write(peer, part, key, 2);
        }
        a.poll();
        a.completions.clear();
    }

    /// Receives, and posts the receives again.
    fn drink(&mut self) -> usize {
        self.pair.b.poll();
        let received = core::mem::take(&mut self.pair.b.completions);
        for completion in &received {
            let part = self.pair.b.part(completion.token as usize * 1024, 1024);
            self.pair
                .b
                .endpoint
                .receive(part, completion.token)
                .unwrap();
        }
        received.len()
    }
}

/// FENCE-1: from the moment that a peer is removed, no message of it arrives and no byte is written
/// by it, even during its traffic. No posted receive is lost by it, and other peers are not
/// disturbed.
#[test]
fn nothing_of_a_removed_peer_arrives() {
    let Some(ground) = ground() else { return };
    for round in 0..5 {
        let mut flood = Flood::new(&ground);
        let mut received = 0;
        while received < 200 + 50 * round {
            flood.pour();
            received += flood.drink();
        }
        let began = Instant::now();
        flood.pour();
        let peer = flood.pair.b.peer();
        flood.pair.b.endpoint.remove(peer).unwrap();
        println!("removed in {:?}", began.elapsed());
        let before = copy(&flood.pair.b.region, 0, 1 << 20);
        for _ in 0..2000 {
            flood.pour();
            assert_eq!(flood.drink(), 0, "a completion of a removed peer");
        }
        assert!(
            copy(&flood.pair.b.region, 0, 1 << 20) == before,
            "a late write"
        );
        let part = flood.pair.b.part(0, 8);
        let refused = flood.pair.b.endpoint.send(peer, &[part], 1);
        assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
        assert!(flood.pair.b.endpoint.remove(peer).is_err());
        let name = flood.pair.a.endpoint.name().unwrap();
        assert!(flood.pair.b.endpoint.insert(&name).is_err(), "it came back");
        every_receive_is_left(&ground, &mut flood.pair.b);
    }
}

/// Another peer's messages reach each of the posted receives.
fn every_receive_is_left(ground: &Ground, b: &mut Side) {
    let mut c = Side::open(ground, 0, 1 << 16, &EndpointOptions::default());
    c.meet(b);
    let name = c.endpoint.name().unwrap();
    let address = b.endpoint.insert(&name).unwrap();
    let (peer, part) = (c.peer(), c.part(0, 8));
    let mut sent = 0;
    let began = Instant::now();
    b.completions.clear();
    while b.completions.len() < SLOTS as usize {
        if sent < SLOTS && c.endpoint.send(peer, &[part], 1).is_ok() {
            sent += 1;
        }
        c.poll();
        b.poll();
        let lost = SLOTS as usize - b.completions.len();
        assert!(began.elapsed() < LIMIT, "{lost} receives are lost");
    }
    let mut tokens: Vec<u64> = b.completions.iter().map(|one| one.token).collect();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..SLOTS));
    assert!(b.completions.iter().all(|one| one.peer == Some(address)));
}

/// Operations of the remover itself with that peer do not complete, either.
#[test]
fn operations_with_a_removed_peer_are_gone() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 20);
    pair.connect();
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    let (peer, part) = (pair.a.peer(), pair.a.part(0, 1 << 16));
    let mut begun = 0;
    for token in 0..40 {
        // No receive is posted, so the sends wait.
        begun += usize::from(pair.a.endpoint.send(peer, &[part], token).is_ok());
        let write = pair.a.endpoint.write(peer, part, key, token);
        begun += usize::from(write.is_ok());
    }
    assert!(begun > 40);
    // Completions are read ahead, but not polled.
    let _ = pair.a.endpoint.may_sleep();
    pair.a.endpoint.remove(peer).unwrap();
    assert_eq!(pair.a.endpoint.operations_in_flight(), 0);
    for _ in 0..1000 {
        pair.a.poll();
    }
    assert_eq!(pair.a.completions, []);
}

/// A peer that was not inserted is accepted only if the options allow it.
#[test]
fn unknown_peers_are_heard_where_that_is_wanted() {
    let Some(ground) = ground() else { return };
    let open = EndpointOptions {
        accepts_unknown: true,
        ..EndpointOptions::default()
    };
    for options in [open, EndpointOptions::default()] {
        let mut server = Side::open(&ground, 1, 1 << 16, &options);
        let mut client = Side::open(&ground, 0, 1 << 16, &EndpointOptions::default());
        client.meet(&server);
        let (peer, part) = (client.peer(), client.part(0, 64));
        server.endpoint.receive(server.part(0, 64), 1).unwrap();
        server.endpoint.receive(server.part(64, 64), 1).unwrap();
        if !options.accepts_unknown {
            let began = Instant::now();
            while server.endpoint.counters().greetings_ignored < 5 {
                client.poll();
                server.poll();
                let refused = client.endpoint.send(peer, &[part], 2);
                assert_eq!(refused, Err(Refused::Again));
                assert!(began.elapsed() < LIMIT, "no greeting came");
            }
            assert_eq!(server.endpoint.counters().greetings_sent, 0, "answered");
            continue;
        }
        let mut pair = Pair {
            a: client,
            b: server,
        };
        pair.start(|pair| pair.a.endpoint.send(peer, &[part], 2));
        let received = pair.until(|pair| pair.b.completion(1));
        let from = received.peer.unwrap();
        // It can be answered, and stays the same peer when it is inserted later.
        let name = pair.a.endpoint.name().unwrap();
        assert_eq!(pair.b.endpoint.insert(&name), Ok(from));
        pair.a.endpoint.receive(pair.a.part(64, 64), 3).unwrap();
        let part = pair.b.part(0, 64);
        pair.start(|pair| pair.b.endpoint.send(from, &[part], 4));
        assert_eq!(pair.until(|pair| pair.a.completion(3)).outcome, Ok(()));
        pair.b.endpoint.remove(from).unwrap();
        assert!(pair.b.endpoint.insert(&name).is_err());
    }
}

/// Greetings for an earlier endpoint with another identity are not answered, although they arrive
/// at the same port.
#[test]
fn greetings_for_another_are_ignored() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        accepts_unknown: true,
        ..EndpointOptions::default()
    };
    let mut server = Side::open(&ground, 1, 1 << 16, &options);
    let mut client = Side::open(&ground, 0, 1 << 16, &EndpointOptions::default());
    let mut name = server.endpoint.name().unwrap();
    // Changes the identity in the address.
    name[10] ^= 1;
    let peer = client.endpoint.insert(&name).unwrap();
    let began = Instant::now();
    while server.endpoint.counters().greetings_ignored < 5 {
        client.poll();
        server.poll();
        assert!(began.elapsed() < LIMIT, "no greeting came");
    }
    assert_eq!(server.endpoint.counters().greetings_heard, 0);
    assert_eq!(server.endpoint.counters().greetings_sent, 0);
    assert!(!client.endpoint.is_connected(peer));
}
