//! What is no conversation.

use crate::content::{RANK, check, job, write};
use crate::running::Running;
use refrain_checkpoint::{Place, ServerAddress, Store};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

fn send(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let ServerAddress::Tcp(address) = server.tcp() else {
        panic!("it is TCP");
    };
    let mut stream = TcpStream::connect(address).unwrap();
    // It may end the conversation before all was said.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn it_serves_on_whatever_it_is_sent() {
    let server = Running::start();
    let store = Store::open(&Place::Server(server.unix()), job()).unwrap();
    write(&store, 0, 1, 1000).unwrap();
    let frame = |length: u32, kind: u8, body: &[u8]| {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([kind, 0, 0, 0]);
        bytes.extend(body);
        bytes
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
