use super::*;
use rustix::event::{PollFd, PollFlags, poll};

const PURPOSE: &str = "test";

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

fn door() -> (Door, SocketAddr) {
    let door = Door::open(secret(), PURPOSE).expect("a port");
    let port = door.address().expect("it listens").port();
    (door, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Waits until something has come, and takes a step.
fn step(door: &mut Door, now: Instant) -> Vec<Guest> {
    let mut polled: Vec<PollFd<'_>> = door
        .descriptors()
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    poll(&mut polled, None).expect("poll");
    drop(polled);
    door.step(now)
}

/// Says all that it has to say, and reads once.
fn turn(stream: &mut TcpStream, session: &mut Session) {
    stream.write_all(session.unsent()).expect("sent");
    let sent = session.unsent().len();
    session.note_sent(sent);
    let mut bytes = [0; 100];
    let count = stream.read(&mut bytes).expect("an answer");
    session.receive(&bytes[..count]).expect("a friend");
    stream.write_all(session.unsent()).expect("sent");
}

/// Steps until a friend has been let in.
fn friend(door: &mut Door, address: SocketAddr, now: Instant) -> (TcpStream, Session, Guest) {
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
    assert!(guest.session.is_proven());
    // Told nothing, and shown out.
    for mut stranger in [garbage, false_one] {
        while door.strangers.len() > 1 {
            assert!(step(&mut door, now).is_empty());
        }
        let mut bytes = Vec::new();
        // A reset says as little as an end.
        let _ = stranger.read_to_end(&mut bytes);
        assert_eq!(bytes, b"");
    }
    assert_eq!(door.strangers.len(), 1, "the silent one may still speak");
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
    assert_eq!(door.strangers.len(), 1);
    door.step(now + STRANGER_WAIT);
    assert_eq!(door.strangers.len(), 0);
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
        assert!(door.strangers.len() <= STRANGERS_MAX);
    }
    assert_eq!(door.strangers.len(), STRANGERS_MAX);
    friend(&mut door, address, now);
    // The first had to go.
    let mut bytes = Vec::new();
    let _ = strangers[0].read_to_end(&mut bytes);
    assert_eq!(bytes, b"");
}

/// What follows the proof in the same packet is heard.
#[test]
fn what_a_friend_says_at_once_is_heard() {
    let (mut door, address) = door();
    let (mut stream, mut session, mut guest) = friend(&mut door, address, Instant::now());
    session.say(b"hello").expect("open");
    stream
        .write_all(&session.unsent()[session.unsent().len() - 23..])
        .expect("sent");
    guest.stream.set_nonblocking(false).expect("a socket");
    while guest.session.take_heard() != b"hello" {
        let mut bytes = [0; 100];
        let count = guest.stream.read(&mut bytes).expect("something");
        guest.session.receive(&bytes[..count]).expect("a friend");
    }
}

/// With too many open files whoever waits stays where it is: a door that looked again
/// at once would do nothing else.
#[test]
fn a_door_that_cannot_take_anybody_in_says_so_and_waits() {
    let (mut door, address) = door();
    let now = Instant::now();
    door.pause(rustix::io::Errno::MFILE.into(), now);
    let trouble = door.trouble().expect("it is told").to_string();
    assert!(trouble.contains("open files"), "{trouble}");
    let _silent = TcpStream::connect(address).expect("it listens");
    assert_eq!(door.descriptors().count(), 0);
    assert_eq!(door.deadline(), Some(now + PAUSE));
    assert!(door.step(now).is_empty() && door.strangers.is_empty());
    assert!(door.step(now + PAUSE).is_empty());
    assert_eq!(door.strangers.len(), 1);
    assert!(door.trouble().is_none());
}
