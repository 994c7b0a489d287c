//! Peers that were not inserted, such as clients of an event logger.

use crate::pair::{LIMIT, Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint, RemoteMemory};
use std::time::{Duration, Instant};

/// Less than the time after which a client that does not connect is late.
const SOON: Duration = Duration::from_secs(20);

/// Polls both until the client is connected.
#[track_caller]
fn connect(client: &mut Side, server: &mut Side) {
    connect_within(LIMIT, client, server);
}

#[track_caller]
fn connect_within(limit: Duration, client: &mut Side, server: &mut Side) {
    let began = Instant::now();
    while !client.endpoint.is_connected(client.peer()) {
        client.poll();
        server.poll();
        assert!(
            began.elapsed() < limit,
            "no connection: {:?}",
            server.endpoint.counters()
        );
    }
}

/// There is room for one client. A client that closes its endpoint, or dies, sends nothing; the
/// next one is accepted nevertheless, any number of times.
#[test]
fn strangers_that_are_gone_make_room() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        accepts_unknown: true,
        peers_max: 1,
        ..EndpointOptions::default()
    };
    let mut server = Side::open(&ground, 0, 4096, &options);
    for life in 0..3_u64 {
        let mut client = Side::open(&ground, 1, 4096, &EndpointOptions::default());
        client.meet(&server);
        connect(&mut client, &mut server);
        let there = server.endpoint.remote_key(server.memory);
        let (to, part) = (client.peer(), client.part(0, 8));
        client.endpoint.write(to, part, there, life).unwrap();
        let began = Instant::now();
        let completion = loop {
            client.poll();
            server.poll();
            if let Some(completion) = client.completion(life) {
                break completion;
            }
            assert!(began.elapsed() < LIMIT, "the write does not end");
        };
        completion.outcome.unwrap();
        client.endpoint.close().unwrap();
    }
}

/// A refused write ends its writer's connection. The writer detects that first and greets for
/// another one; the next client is accepted nevertheless.
#[test]
fn strangers_whose_write_was_refused_make_room() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        accepts_unknown: true,
        peers_max: 1,
        ..EndpointOptions::default()
    };
    let mut server = Side::open(&ground, 0, 4096, &options);
    for life in 0..3_u64 {
        let mut client = Side::open(&ground, 1, 4096, &EndpointOptions::default());
        client.meet(&server);
        connect_within(SOON, &mut client, &mut server);
        let ignored = server.endpoint.counters().greetings_ignored;
        let replacements = server.endpoint.counters().replacements;
        let greeted = client.endpoint.counters().greetings_sent;
        let there = server.endpoint.remote_key(server.memory);
        let (to, part) = (client.peer(), client.part(0, 8));
        let key = there.key.wrapping_add(1);
        let endpoint = &mut client.endpoint;
        endpoint
            .write(to, part, RemoteMemory { key, ..there }, life)
            .unwrap();
        // The server sleeps meanwhile.
        let began = Instant::now();
        while client.endpoint.counters().greetings_sent == greeted {
            client.poll();
            assert!(began.elapsed() < LIMIT, "the write is not refused");
        }
        client.completion(life).unwrap().outcome.unwrap_err();
        loop {
            server.poll();
            let counters = server.endpoint.counters();
            if counters.greetings_ignored > ignored || counters.replacements > replacements {
                break;
            }
            assert!(began.elapsed() < LIMIT, "its greeting does not come");
        }
        client.endpoint.close().unwrap();
    }
}

/// A client that greets and then stays silent loses its place to the next one.
#[test]
fn strangers_that_do_not_connect_make_room() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        accepts_unknown: true,
        peers_max: 1,
        ..EndpointOptions::default()
    };
    let mut server = Side::open(&ground, 0, 4096, &options);
    let mut gone = Side::open(&ground, 1, 4096, &EndpointOptions::default());
    gone.meet(&server);
    let began = Instant::now();
    while server.endpoint.counters().greetings_heard == 0 {
        gone.poll();
        server.poll();
        assert!(began.elapsed() < LIMIT, "nobody greets");
    }
    gone.endpoint.close().unwrap();
    let mut client = Side::open(&ground, 1, 4096, &EndpointOptions::default());
    client.meet(&server);
    connect_within(SOON, &mut client, &mut server);
}

/// If the options do not allow it, unknown clients are not answered.
#[test]
fn strangers_are_not_let_in_everywhere() {
    let Some(ground) = ground() else { return };
    let mut server = Side::open(&ground, 0, 4096, &EndpointOptions::default());
    let mut client = Side::open(&ground, 1, 4096, &EndpointOptions::default());
    client.meet(&server);
    // Its greetings arrived several times, and were not answered.
    let began = Instant::now();
    while server.endpoint.counters().greetings_ignored < 3 {
        client.poll();
        server.poll();
        assert!(began.elapsed() < LIMIT, "nobody greets");
    }
    assert_eq!(server.endpoint.counters().greetings_sent, 0);
    assert!(!client.endpoint.is_connected(client.peer()));
}

/// A client that greets and then computes for longer than a peer may be silent is accepted
/// nevertheless when it continues.
#[test]
fn a_stranger_may_compute_before_it_connects() {
    let Some(ground) = ground() else { return };
    let options = EndpointOptions {
        accepts_unknown: true,
        ..EndpointOptions::default()
    };
    let mut server = Side::open(&ground, 0, 4096, &options);
    let mut client = Side::open(&ground, 1, 4096, &EndpointOptions::default());
    client.meet(&server);
    let began = Instant::now();
    while server.endpoint.counters().greetings_heard == 0 {
        client.poll();
        server.poll();
        assert!(began.elapsed() < LIMIT, "nobody greets");
        if client.endpoint.is_connected(client.peer()) {
            panic!("connected before it was heard");
        }
    }
    while server.endpoint.counters().silences == 0 {
        server.poll();
        assert!(began.elapsed() < LIMIT, "its silence is not noticed");
    }
    connect(&mut client, &mut server);
    let there = server.endpoint.remote_key(server.memory);
    let (to, part) = (client.peer(), client.part(0, 8));
    client.endpoint.write(to, part, there, 1).unwrap();
    let completion = loop {
        client.poll();
        server.poll();
        if let Some(completion) = client.completion(1) {
            break completion;
        }
        assert!(began.elapsed() < LIMIT, "the write does not end");
    };
    completion.outcome.unwrap();
}
