use super::*;
use crate::Session;
use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

const PURPOSE: &str = "test";
static PROTOCOL: Protocol = Protocol {
    purpose: PURPOSE,
    magic: *b"RT",
    version: 1,
    message_bytes_max: 1000,
    data_bytes_max: 0,
    unacknowledged_max: Duration::from_secs(30),
};

fn frame(text: &str) -> BytesMut {
    let mut frame = BytesMut::new();
    PROTOCOL.encode(&text, &mut frame).expect("short");
    frame
}

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

fn door() -> (Door, SocketAddr) {
    let (door, port) = Door::open(secret(), &PROTOCOL).expect("a port");
    (door, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Waits until the door is readable, and takes a step.
fn step(door: &mut Door, now: Instant) -> Vec<Connection> {
    let mut polled = [PollFd::new(door, PollFlags::IN)];
    poll(&mut polled, None).expect("poll");
    door.step(now)
}

/// Whether the door is readable.
fn is_readable(door: &Door) -> bool {
    let mut polled = [PollFd::new(door, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).expect("poll") > 0
}

/// Sends everything that is queued, and reads once.
fn turn(stream: &mut TcpStream, session: &mut Session) {
    stream.write_all(session.unsent()).expect("sent");
    let sent = session.unsent().len();
    session.note_sent(sent);
    let mut bytes = [0; 100];
    let count = stream.read(&mut bytes).expect("an answer");
    session.receive(&bytes[..count]).expect("a friend");
    stream.write_all(session.unsent()).expect("sent");
}

/// Steps until a client with the secret is returned.
fn friend(door: &mut Door, address: SocketAddr, now: Instant) -> (TcpStream, Session, Connection) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut session = Session::caller(&secret(), PURPOSE).expect("a caller");
    let thread = std::thread::spawn(move || {
        turn(&mut stream, &mut session);
        (stream, session)
    });
    let mut guests = Vec::new();
    while guests.is_empty() {
        guests = step(door, now);
    }
    assert_eq!(guests.len(), 1, "and nobody else");
    let (stream, session) = thread.join().expect("it was let in");
    (stream, session, guests.remove(0))
}

#[test]
fn a_friend_is_let_in_among_strangers() {
    let (mut door, address) = door();
    let now = Instant::now();
    let mut garbage = TcpStream::connect(address).expect("it listens");
    garbage.write_all(b"SSH-2.0-scanner\r\n").expect("sent");
    let mut false_one = TcpStream::connect(address).expect("it listens");
    let wrong = Secret::from_bytes([9; 32]);
    let session = Session::caller(&wrong, PURPOSE).expect("a caller");
    false_one.write_all(session.unsent()).expect("sent");
    let _silent = TcpStream::connect(address).expect("it listens");
    let (_stream, _session, guest) = friend(&mut door, address, now);
    assert!(guest.is_proven());
    // They received no bytes, and were closed.
    for mut stranger in [garbage, false_one] {
        while door.waiting.len() > 1 {
            assert!(step(&mut door, now).is_empty());
        }
        let mut bytes = Vec::new();
        // A reset is as good as an end.
        let _ = stranger.read_to_end(&mut bytes);
        assert_eq!(bytes, b"");
    }
    assert_eq!(door.waiting.len(), 1, "the silent one may still speak");
}

#[test]
fn a_silent_one_has_to_go_when_its_time_is_over() {
    let (mut door, address) = door();
    let now = Instant::now();
    assert_eq!(door.deadline(), None);
    let mut silent = TcpStream::connect(address).expect("it listens");
    assert!(step(&mut door, now).is_empty());
    assert_eq!(door.deadline(), Some(now + STRANGER_WAIT));
    door.step(now + STRANGER_WAIT - Duration::from_millis(1));
    assert_eq!(door.waiting.len(), 1);
    door.step(now + STRANGER_WAIT);
    assert_eq!(door.waiting.len(), 0);
    let mut bytes = Vec::new();
    silent.read_to_end(&mut bytes).expect("the end");
    assert_eq!(bytes, b"");
}

#[test]
fn many_strangers_keep_no_friend_out() {
    let (mut door, address) = door();
    let now = Instant::now();
    let mut strangers = Vec::new();
    for _ in 0..2 * STRANGERS_MAX {
        strangers.push(TcpStream::connect(address).expect("it listens"));
        assert!(step(&mut door, now).is_empty());
        assert!(door.waiting.len() <= STRANGERS_MAX);
    }
    assert_eq!(door.waiting.len(), STRANGERS_MAX);
    friend(&mut door, address, now);
    // The oldest connection was closed.
    let mut bytes = Vec::new();
    let _ = strangers[0].read_to_end(&mut bytes);
    assert_eq!(bytes, b"");
}

/// Bytes that follow the proof in the same packet are received.
#[test]
fn what_a_friend_says_at_once_is_heard() {
    let (mut door, address) = door();
    let (mut stream, mut session, mut guest) = friend(&mut door, address, Instant::now());
    session.note_sent(session.unsent().len());
    session.say(&frame("hello")).expect("open");
    stream.write_all(session.unsent()).expect("sent");
    let until = Some(Instant::now() + STRANGER_WAIT);
    let heard: String = guest.wait_message(until).expect("something");
    assert_eq!(heard, "hello");
}

/// With too many open files, connections stay in the queue. A door that tried again at once would
/// do nothing else.
#[test]
fn a_door_that_cannot_take_anybody_in_says_so_and_waits() {
    let (mut door, address) = door();
    let now = Instant::now();
    door.pause(rustix::io::Errno::MFILE.into(), now);
    let trouble = door.trouble().expect("it is told").to_string();
    assert!(trouble.contains("open files"), "{trouble}");
    let _silent = TcpStream::connect(address).expect("it listens");
    assert!(!is_readable(&door));
    let line = door.notice(now).expect("it is told");
    assert!(line.contains("open files"), "{line}");
    assert_eq!(door.deadline(), Some(now + PAUSE));
    assert!(door.step(now).is_empty() && door.waiting.is_empty());
    assert!(door.step(now + PAUSE).is_empty());
    assert_eq!(door.waiting.len(), 1);
    assert!(door.trouble().is_none());
}

/// The bytes of a refused connection are read to their end, so that the other side receives the
/// reason; with a secret and without.
#[test]
fn a_guest_that_is_refused_hears_why() {
    let now = Instant::now();
    let (mut sealed, address) = door();
    let (mut stream, mut session, guest) = friend(&mut sealed, address, now);
    sealed.refuse(guest, &"full", "it is full", now);
    // No further step follows, since no event may arrive that would wake the door.
    session.say(&[7; 5000]).expect("open");
    stream.write_all(session.unsent()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the end");
    session.receive(&bytes).expect("sealed");
    assert_eq!(session.take_heard(), frame("full"));
    let line = sealed.notice(now).expect("a line");
    assert!(
        line.contains("127.0.0.1") && line.contains("it is full"),
        "{line}"
    );
    drop(stream);
    while !sealed.waiting.is_empty() {
        step(&mut sealed, now);
    }

    let any = ServerAddress::Tcp("127.0.0.1:0".into());
    let listener = Listener::bind(&any).expect("a port");
    let mut open = Door::new(vec![listener], &PROTOCOL).expect("an epoll");
    let ServerAddress::Tcp(address) = open.addresses().next().expect("one").clone() else {
        panic!("it is open");
    };
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(&[7; 5000]).expect("sent");
    let guest = step(&mut open, now).remove(0);
    open.refuse(guest, &"full", "it is full", now);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the end");
    assert_eq!(bytes, frame("full"));
    open.step(now + STRANGER_WAIT);
    assert!(open.waiting.is_empty(), "it has had its time");
}
