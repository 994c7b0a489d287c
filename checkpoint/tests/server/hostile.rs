//! Clients that do not follow the protocol.

use crate::content::{RANK, check, job, write};
use crate::running::Running;
use bytes::BytesMut;
use refrain_checkpoint::message::{PROTOCOL, Refusal, ToClient, ToServer};
use refrain_checkpoint::{CheckpointStoreSpec, ServerAddress, Store};
use refrain_wire::Protocol;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

fn send(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let ServerAddress::Tcp(address) = server.tcp() else {
        panic!("it is TCP");
    };
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may end the session before all bytes are sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn it_serves_on_whatever_it_is_sent() {
    let server = Running::start();
    let store = Store::open(&CheckpointStoreSpec::Server(server.unix()), job()).unwrap();
    write(&store, 0, 1, 1000).unwrap();
    let frame = |length: u32, kind: u8, body: &[u8]| {
        let [first, second] = PROTOCOL.magic;
        let head = [first, second, PROTOCOL.version, kind];
        [&head[..], &length.to_le_bytes(), body].concat()
    };
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 100_000],
        frame(u32::MAX, 1, b""),
        frame(4 << 20, 1, b"not so much"),
        frame(u32::MAX, 2, b""),
        frame(0, 2, b""),
        frame(0, 1, b""),
        frame(5, 1, &[9; 5]),
        frame(5, 9, &[9; 5]),
        frame(1 << 20, 2, &vec![0; 1 << 20]),
        vec![7],
    ] {
        send(&server, &bytes);
    }
    check(&mut store.newest(RANK).unwrap().unwrap(), 1000);
    write(&store, 0, 2, 1000).unwrap();
    assert_eq!(server.names().len(), 2);
}

/// Both sides name both versions: the server in its refusal, the client when it reads the refusal.
#[test]
fn a_client_of_another_version_is_refused() {
    let server = Running::start();
    let (mut hello, prefix) = (BytesMut::new(), String::new());
    let newer = Protocol {
        version: PROTOCOL.version + 1,
        ..PROTOCOL
    };
    let message = ToServer::Hello { job: 1, prefix };
    newer.encode(&message, &mut hello).unwrap();
    let mut answer = BytesMut::from(&send(&server, &hello)[..]);
    let error = newer.decode::<ToClient>(&mut answer).unwrap_err();
    let answered = PROTOCOL.decode(&mut answer);
    let Ok(Some(ToClient::Refused(Refusal::Other(reason)))) = answered else {
        panic!("{answered:?}");
    };
    for text in [reason, error.to_string()] {
        let versions = [PROTOCOL.version, newer.version].map(|it| format!("version {it}"));
        assert!(versions.iter().all(|it| text.contains(it)), "{text}");
        assert!(text.contains("use the same refrain"), "{text}");
    }
}
