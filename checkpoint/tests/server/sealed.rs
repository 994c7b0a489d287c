//! A server that talks by TCP with those who know its secret, and with nobody else.

use crate::content::{RANK, check, job, write};
use crate::running::{Running, secret};
use refrain_checkpoint::framing;
use refrain_checkpoint::message::{PROTOCOL_VERSION, ToServer};
use refrain_checkpoint::{PURPOSE, Place, ServerAddress, Store};
use refrain_secure::{STRANGERS_MAX, Secret, Session};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a checkpoint, and where friends reach it.
fn server() -> (Running, String) {
    let server = Running::start();
    write(&friend(&server), 0, 1, 3_000_000).expect("a friend");
    let ServerAddress::Sealed { address, .. } = server.sealed() else {
        panic!("it is sealed");
    };
    (server, address)
}

fn friend(server: &Running) -> Store {
    Store::open(&Place::Server(server.sealed()), job()).expect("a friend")
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// What a stranger hears before the server closes.
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

/// The messages as they are said.
fn said(messages: &[ToServer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        framing::say(&mut bytes, message).expect("short");
    }
    bytes
}

fn hello() -> ToServer {
    ToServer::Hello {
        version: PROTOCOL_VERSION,
        job: job().id,
        prefix: job().prefix,
    }
}

#[test]
fn who_does_not_know_the_secret_learns_nothing_and_does_nothing() {
    let (server, address) = server();
    let open = ServerAddress::Tcp(address.clone());
    let wrong = open.clone().sealed(&Secret::from_bytes([8; 32]));
    let error = Store::open(&Place::Server(wrong), job()).expect_err("a stranger");
    let error = error.to_string();
    let words = ["secret", "--checkpoint-secret"];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    // Without any it is not refused before it asks.
    let store = Store::open(&Place::Server(open), job());
    let error = store.and_then(|store| store.newest(RANK).map(|_| ()));
    let error = error.expect_err("it has proved nothing").to_string();
    assert!(error.contains("--checkpoint-secret"), "{error}");
    let newest = ToServer::Newest {
        rank: RANK.0,
        life: None,
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

/// A recorded conversation of a friend, played again: nothing is removed by it.
#[test]
fn what_was_recorded_does_nothing_when_it_is_played_again() {
    let (server, address) = server();
    let mut stream = connect(&address);
    let mut session = Session::caller(&secret(), PURPOSE).expect("a caller");
    let mut recorded = Vec::new();
    session
        .say(&said(&[hello(), ToServer::RemoveAll]))
        .expect("it waits");
    let mut heard = Vec::new();
    while heard.is_empty() {
        recorded.extend_from_slice(session.unsent());
        stream.write_all(session.unsent()).expect("sent");
        session.note_sent(session.unsent().len());
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("an answer");
        session.receive(&bytes[..count]).expect("a friend");
        heard = session.take_heard();
    }
    assert!(server.names().is_empty(), "it is a friend's wish");
    write(&friend(&server), 0, 2, 1000).expect("a friend");
    // Noise's second message, of 48 bytes, and nothing behind it.
    assert!(told(&address, &recorded).len() <= 48);
    check(&mut friend(&server).newest(RANK).unwrap().unwrap(), 1000);
}

/// Whoever says nothing has to go when its time is over, or when many others come;
/// friends are served meanwhile.
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
    // The first had to go for others, the last because they say nothing.
    for number in [0, STRANGERS_MAX - 1, STRANGERS_MAX] {
        assert_eq!(silent[number].read(&mut [0]).expect("it closes"), 0);
    }
    check(
        &mut friend(&server).newest(RANK).unwrap().unwrap(),
        3_000_000,
    );
}
