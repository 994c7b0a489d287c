//! Peers that were not inserted, such as clients of an event logger.

use crate::pair::{Ground, LIMIT, Side, ground};
use refrain_verbs::{EndpointOptions, MessageEndpoint, RemoteMemory};
use std::time::{Duration, Instant};

/// Less than the time after which a client that does not connect is late.
const SOON: Duration = Duration::from_secs(20);

/// An endpoint that accepts at most `peers_max` unknown clients.
fn accepting(ground: &Ground, peers_max: usize) -> Side {
    let options = EndpointOptions {
        accepts_unknown: true,
        peers_max,
        ..EndpointOptions::default()
    };
    Side::open(ground, 0, 4096, &options)
}

fn client_of(ground: &Ground, server: &Side) -> Side {
    let mut client = Side::open(ground, 1, 4096, &EndpointOptions::default());
    client.meet(server);
    client
}

/// Polls both until something has happened.
#[track_caller]
fn poll_until(
    limit: Duration,
    client: &mut Side,
    server: &mut Side,
    has_happened: impl Fn(&Side, &Side) -> bool,
) {
    let began = Instant::now();
    while !has_happened(client, server) {
        client.poll();
        server.poll();
        assert!(
            began.elapsed() < limit,
            "the server counts {:?}",
            server.endpoint.counters()
        );
    }
}

fn is_connected(client: &Side) -> bool {
    client.endpoint.is_connected(client.peer())
}

/// Polls both until the client is connected.
#[track_caller]
fn connect_within(limit: Duration, client: &mut Side, server: &mut Side) {
    poll_until(limit, client, server, |client, _| is_connected(client));
}

#[track_caller]
fn write(client: &mut Side, server: &mut Side, token: u64) {
    let there = server.endpoint.remote_key(server.memory);
    let (to, part) = (client.peer(), client.part(0, 8));
    client.endpoint.write(to, part, there, token).unwrap();
    poll_until(LIMIT, client, server, |client, _| {
        client.completions.iter().any(|it| it.token == token)
    });
    client.completion(token).unwrap().outcome.unwrap();
}

/// There is room for one client. A client that closes its endpoint, or dies, sends nothing; the
/// next one is accepted nevertheless, any number of times.
#[test]
fn strangers_that_are_gone_make_room() {
    let Some(ground) = ground() else { return };
    let mut server = accepting(&ground, 1);
    for life in 0..3_u64 {
        let mut client = client_of(&ground, &server);
        connect_within(LIMIT, &mut client, &mut server);
        write(&mut client, &mut server, life);
        client.endpoint.close().unwrap();
    }
}

/// A refused write ends its writer's connection. The writer detects that first and greets for
/// another one; the next client is accepted nevertheless.
#[test]
fn strangers_whose_write_was_refused_make_room() {
    let Some(ground) = ground() else { return };
    let mut server = accepting(&ground, 1);
    for life in 0..3_u64 {
        let mut client = client_of(&ground, &server);
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
    let mut server = accepting(&ground, 1);
    let mut gone = client_of(&ground, &server);
    poll_until(LIMIT, &mut gone, &mut server, |_, server| {
        server.endpoint.counters().greetings_heard > 0
    });
    gone.endpoint.close().unwrap();
    let mut client = client_of(&ground, &server);
    connect_within(SOON, &mut client, &mut server);
}

/// If the options do not allow it, unknown clients are not answered.
#[test]
fn strangers_are_not_let_in_everywhere() {
    let Some(ground) = ground() else { return };
    let mut server = Side::open(&ground, 0, 4096, &EndpointOptions::default());
    let mut client = client_of(&ground, &server);
    // Its greetings arrived several times, and were not answered.
    poll_until(LIMIT, &mut client, &mut server, |_, server| {
        server.endpoint.counters().greetings_ignored >= 3
    });
    assert_eq!(server.endpoint.counters().greetings_sent, 0);
    assert!(!is_connected(&client));
}

/// A client that greets and then computes for longer than a peer may be silent is accepted
/// nevertheless when it continues.
#[test]
fn a_stranger_may_compute_before_it_connects() {
    let Some(ground) = ground() else { return };
    let mut server = accepting(&ground, 64);
    let mut client = client_of(&ground, &server);
    poll_until(LIMIT, &mut client, &mut server, |client, server| {
        assert!(!is_connected(client), "connected before it was heard");
        server.endpoint.counters().greetings_heard > 0
    });
    let began = Instant::now();
    while server.endpoint.counters().silences == 0 {
        server.poll();
        assert!(began.elapsed() < LIMIT, "its silence is not noticed");
    }
    connect_within(LIMIT, &mut client, &mut server);
    write(&mut client, &mut server, 1);
}
