//! A server that accepts over TCP only clients that know its secret.

use crate::batches::Life;
use crate::rank::Rank;
use crate::serving::Threaded;
use bytes::BytesMut;
use refrain_eventlog::Level;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::client::read::list;
use refrain_eventlog::message::{CommitPath, PROTOCOL, ToLogger};
use refrain_wire::{STRANGERS_MAX, Secret, Session};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const LIFE: Life = Life::new(0xabcd_0000_0000_0001, 7, 0);

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

/// A server with a rank's events, and its TCP address.
fn server() -> (Threaded, String) {
    let any = ServerAddress::Tcp("127.0.0.1:0".into()).sealed(&secret());
    let server = Threaded::with(Level::Placed, |options| options.listen.push(any));
    let ServerAddress::Sealed { address, .. } = server.addresses[1].clone() else {
        panic!("{:?}", server.addresses);
    };
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
    rank.commit(0, 9);
    rank.await_stable(9);
    (server, address)
}

#[test]
fn a_friend_is_answered_and_others_are_told_nothing() {
    let (_server, address) = server();
    let open = ServerAddress::Tcp(address.clone());
    let held = list(&open.clone().sealed(&secret()), PATIENCE).expect("a friend");
    assert_eq!(held.len(), 1);
    let wrong = open.clone().sealed(&Secret::from_bytes([8; 32]));
    let error = list(&wrong, PATIENCE).expect_err("a stranger").to_string();
    assert!(error.contains("secret"), "{error}");
    list(&open, PATIENCE).expect_err("it has proved nothing");
}

/// Beyond the limit of connections an authenticated client gets the reason, as over any socket.
#[test]
fn a_friend_is_told_of_the_limit() {
    let any = ServerAddress::Tcp("127.0.0.1:0".into()).sealed(&secret());
    let server = Threaded::with(Level::Placed, |options| {
        options.listen.push(any);
        options.limits.connections = 1;
    });
    let _first = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
    let ServerAddress::Sealed { address, .. } = server.addresses[1].clone() else {
        panic!("{:?}", server.addresses);
    };
    let friend = ServerAddress::Tcp(address.clone()).sealed(&secret());
    let error = list(&friend, PATIENCE).expect_err("too many").to_string();
    assert!(error.contains("1 connections are open"), "{error}");
    // A client without the secret gets no answer there, either.
    assert_eq!(told(&address, b"GET / HTTP/1.1\r\n\r\n"), b"");
}

/// The bytes that a client without the secret receives before the server closes.
fn told(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let _ = stream.write_all(bytes);
    let mut told = Vec::new();
    match stream.read_to_end(&mut told) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    told
}

#[test]
fn questions_without_a_proof_are_not_answered() {
    let (_server, address) = server();
    let mut question = BytesMut::new();
    PROTOCOL
        .encode(&ToLogger::List, &mut question)
        .expect("short");
    assert_eq!(told(&address, &question), b"");
    assert_eq!(told(&address, b"GET / HTTP/1.1\r\n\r\n"), b"");
}

/// A recorded request of an authenticated client, sent again.
#[test]
fn a_recorded_conversation_is_not_answered() {
    let (_server, address) = server();
    let mut friend = TcpStream::connect(&address).expect("it listens");
    let mut session = Session::caller(&secret(), PROTOCOL.purpose).expect("a caller");
    let mut question = BytesMut::new();
    PROTOCOL
        .encode(&ToLogger::List, &mut question)
        .expect("short");
    session.say(&question).expect("it waits");
    let (mut recorded, mut heard) = (Vec::new(), 0);
    while heard == 0 {
        recorded.extend_from_slice(session.unsent());
        friend.write_all(session.unsent()).expect("sent");
        session.note_sent(session.unsent().len());
        let mut bytes = [0; 4096];
        let count = friend.read(&mut bytes).expect("an answer");
        session.receive(&bytes[..count]).expect("a friend");
        heard = session.take_heard().len();
    }
    // Noise's second message, of 48 bytes, and nothing behind it.
    assert!(told(&address, &recorded).len() <= 48);
}

#[test]
fn many_silent_ones_keep_no_friend_out() {
    let (_server, address) = server();
    let connect = |_| TcpStream::connect(&address).expect("it listens");
    let mut silent: Vec<TcpStream> = (0..=STRANGERS_MAX).map(connect).collect();
    let open = ServerAddress::Tcp(address.clone());
    list(&open.sealed(&secret()), PATIENCE).expect("a friend");
    // The first connection must be closed.
    silent[0]
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout");
    assert_eq!(silent[0].read(&mut [0]).unwrap_or(0), 0);
}

/// A connection that is not authenticated in time is closed, even in the middle of a handshake.
/// Authenticated clients are served before and after, and their connections stay.
#[test]
fn a_silent_one_has_to_go_when_its_time_is_over() {
    let (server, address) = server();
    let mut silent = [b"".as_slice(), b"RFS"].map(|bytes| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream.write_all(bytes).expect("sent");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    });
    let friend = ServerAddress::Tcp(address.clone()).sealed(&secret());
    let mut rank = Rank::join(&server.socket, Life::new(3, 8, 0), 0, CommitPath::Messages);
    rank.commit(0, 5);
    rank.await_stable(5);
    assert_eq!(list(&friend, PATIENCE).expect("a friend").len(), 2);
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0]).expect("it closes"), 0);
    }
    assert_eq!(list(&friend, PATIENCE).expect("a friend").len(), 2);
}
