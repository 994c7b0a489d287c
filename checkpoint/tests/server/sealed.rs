//! A server over TCP serves only clients that know its secret.

use crate::content::{RANK, check, job, write};
use crate::running::{Running, secret};
use bytes::BytesMut;
use refrain_checkpoint::message::{PROTOCOL, ToServer};
use refrain_checkpoint::{CheckpointError, CheckpointStoreSpec, ServerAddress, Store};
use refrain_wire::{STRANGERS_MAX, Secret, Session};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a checkpoint, and the address of its clients.
fn server() -> (Running, String) {
    let server = Running::start();
    write(&friend(&server), 0, 1, 3_000_000).expect("a friend");
    let ServerAddress::Sealed { address, .. } = server.sealed() else {
        panic!("it is sealed");
    };
    (server, address)
}

fn friend(server: &Running) -> Store {
    Store::open(&CheckpointStoreSpec::Server(server.sealed()), job()).expect("a friend")
}

/// Reaches the server as a job does when it starts.
fn reach(address: ServerAddress) -> Result<(), CheckpointError> {
    Store::open(&CheckpointStoreSpec::Server(address), job()).and_then(|store| store.reach())
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// The bytes that a client without the secret receives before the server closes.
fn told(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    let _ = stream.write_all(bytes);
    let mut told = Vec::new();
    match stream.read_to_end(&mut told) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    told
}

/// The encoded messages.
fn said(messages: &[ToServer]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        PROTOCOL.encode(message, &mut bytes).expect("short");
    }
    bytes
}

fn hello() -> ToServer {
    ToServer::Hello {
        job: job().id,
        prefix: job().prefix,
    }
}

#[test]
fn who_does_not_know_the_secret_learns_nothing_and_does_nothing() {
    let (server, address) = server();
    let open = ServerAddress::Tcp(address.clone());
    let wrong = open.clone().sealed(&Secret::from_bytes([8; 32]));
    let error = reach(wrong).expect_err("a stranger").to_string();
    let words = ["secret", "--checkpoint-secret"];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    // A client without a secret, and a client with a secret at a server without one.
    let error = reach(open).expect_err("it proves nothing").to_string();
    assert!(error.contains("--checkpoint-secret"), "{error}");
    let error = reach(server.tcp().sealed(&secret())).expect_err("a server without one");
    let error = error.to_string();
    assert!(error.contains("or none if it has none"), "{error}");
    let newest = ToServer::Newest {
        rank: RANK.0,
        recovers: None,
    };
    for question in [newest, ToServer::RemoveAll] {
        assert_eq!(told(&address, &said(&[hello(), question])), b"");
    }
    assert_eq!(told(&address, b"GET / HTTP/1.1\r\n\r\n"), b"");
    check(
        &mut friend(&server).newest(RANK).unwrap().unwrap(),
        3_000_000,
    );
    assert_eq!(server.names().len(), 1);
}

/// A recorded session that is replayed has no effect: no checkpoint is removed.
#[test]
fn what_was_recorded_does_nothing_when_it_is_played_again() {
    let (server, address) = server();
    let mut stream = connect(&address);
    let mut session = Session::caller(&secret(), PROTOCOL.purpose).expect("a caller");
    let mut recorded = Vec::new();
    session
        .say(&said(&[hello(), ToServer::RemoveAll]))
        .expect("it waits");
    let mut heard = Vec::new();
    // Two answers, each of a frame header and one byte.
    while heard.len() < 18 {
        recorded.extend_from_slice(session.unsent());
        stream.write_all(session.unsent()).expect("sent");
        session.note_sent(session.unsent().len());
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("an answer");
        session.receive(&bytes[..count]).expect("a friend");
        heard.extend(session.take_heard());
    }
    assert!(server.names().is_empty(), "it is a friend's wish");
    write(&friend(&server), 0, 2, 1000).expect("a friend");
    // Only Noise's second message of 48 bytes.
    assert!(told(&address, &recorded).len() <= 48);
    check(&mut friend(&server).newest(RANK).unwrap().unwrap(), 1000);
}

/// A silent connection is closed when its time is over, or when many others come; clients with the
/// secret are served meanwhile.
#[test]
fn silent_ones_keep_no_friend_out_and_do_not_stay() {
    let (server, address) = server();
    let mut silent: Vec<TcpStream> = (0..=STRANGERS_MAX).map(|_| connect(&address)).collect();
    // Half a handshake is no proof.
    let _ = silent[STRANGERS_MAX - 1].write_all(b"RFS");
    check(
        &mut friend(&server).newest(RANK).unwrap().unwrap(),
        3_000_000,
    );
    // The first one was closed to make room, the last ones because they were silent.
    for number in [0, STRANGERS_MAX - 1, STRANGERS_MAX] {
        assert_eq!(silent[number].read(&mut [0]).expect("it closes"), 0);
    }
    check(
        &mut friend(&server).newest(RANK).unwrap().unwrap(),
        3_000_000,
    );
}

/// Unproven connections come one after the other, and stay as long as they may. They get no
/// threads, and one log line a second counts them.
#[test]
fn a_flood_of_strangers_costs_neither_threads_nor_lines() {
    let (server, address) = server();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let begun = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(connect(&address));
        let _ = silent.last_mut().unwrap().write_all(b"RFS");
    }
    check(
        &mut friend(&server).newest(RANK).unwrap().unwrap(),
        3_000_000,
    );
    // One thread of a session that ends, and none of unproven connections.
    assert!(threads() <= before + 2, "{} threads", threads());
    let lines = server.reports();
    let most = begun.elapsed().as_secs() as usize + 1;
    assert!((1..=most).contains(&lines.len()), "{lines:?}");
    assert!(lines[0].contains("secret"), "{lines:?}");
}

/// A session beyond the limit is refused, and its client connects again until there is room, with a
/// secret and without.
#[test]
fn a_client_of_a_server_that_is_full_calls_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::with(folder.path(), 1);
    for address in [server.unix(), server.tcp(), server.sealed()] {
        let mut silent = match server.tcp() {
            ServerAddress::Tcp(open) => connect(&open),
            other => panic!("{other} is open"),
        };
        silent.write_all(&said(&[hello()])).expect("sent");
        // This session is accepted: it is the only one.
        silent.read_exact(&mut [0; 9]).expect("an answer");
        let refused = server.reports().len();
        let store = Store::open(&CheckpointStoreSpec::Server(address), job()).expect("an address");
        let client = std::thread::spawn(move || write(&store, 0, 1, 1000).map(|_| store));
        while server.reports().len() == refused {
            std::thread::yield_now();
        }
        drop(silent);
        let store = client.join().expect("no panic").expect("there is room");
        store.remove_all().expect("it is there");
    }
    let lines = server.reports();
    let told = |line: &String| line.contains("1 sessions are open already");
    assert!(lines.iter().all(told), "{lines:?}");
}
