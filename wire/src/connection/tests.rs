use super::*;
use crate::{Door, Listener, STRANGER_WAIT};
use rustix::net::{SocketFlags, socketpair};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

static PROTOCOL: Protocol = Protocol {
    purpose: "test",
    magic: *b"RT",
    version: 1,
    message_bytes_max: 1 << 20,
    data_bytes_max: 1 << 20,
    unacknowledged_max: Duration::from_secs(30),
};

fn until() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

fn pair() -> (Connection, Connection) {
    let flags = SocketFlags::CLOEXEC;
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let over = |socket| Connection::new(socket, &PROTOCOL);
    (over(here), over(there))
}

/// Both sides over TCP, sealed with a secret.
fn sealed() -> (Connection, Connection) {
    let secret = Secret::from_bytes([7; 32]);
    let any = ServerAddress::Tcp("127.0.0.1:0".into()).sealed(&secret);
    let listener = Listener::bind(&any).unwrap();
    let address = listener.address().clone();
    let mut door = Door::new(vec![listener], &PROTOCOL).unwrap();
    let caller = std::thread::spawn(move || {
        Connection::connect(&address, &PROTOCOL, STRANGER_WAIT).expect("a friend")
    });
    loop {
        let mut polled = [PollFd::new(&door, PollFlags::IN)];
        poll(&mut polled, None).unwrap();
        if let Some(guest) = door.step(Instant::now()).pop() {
            return (caller.join().unwrap(), guest);
        }
    }
}

/// Each message has its own descriptor, regardless of how many bytes are in the socket.
#[test]
fn each_descriptor_comes_with_its_own_message() {
    let (mut here, mut there) = pair();
    let texts: Vec<String> = (0..6_usize)
        .map(|number| "x".repeat(number * 20_000))
        .collect();
    for (number, text) in texts.iter().enumerate() {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "{number}").unwrap();
        let descriptors = match number % 2 {
            0 => vec![Arc::new(OwnedFd::from(file))],
            _ => Vec::new(),
        };
        here.say_with(text, descriptors).unwrap();
    }
    let sender = std::thread::spawn(move || here.wait_flushed(until()).map(|()| here));
    for (number, text) in texts.iter().enumerate() {
        let heard: String = there.wait_message(until()).unwrap();
        assert_eq!(heard, *text);
        if number % 2 == 0 {
            let mut file = std::fs::File::from(there.take_descriptor().unwrap());
            let mut content = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, number.to_string());
        }
    }
    let here = sender.join().unwrap().unwrap();
    assert_eq!(here.unsent_bytes(), 0);
    assert!(there.take_descriptor().is_none());
}

#[test]
fn messages_and_data_come_in_order_plain_and_sealed() {
    for (mut here, mut there) in [pair(), sealed()] {
        let data: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        let sent = data.clone();
        let sender = std::thread::spawn(move || {
            here.say(&"begin").unwrap();
            here.send_data(&sent[..1000], until()).unwrap();
            here.send_data(&sent, until()).unwrap();
            here.say(&"end").unwrap();
            here.wait_flushed(until()).unwrap();
        });
        let mut room = vec![0; 1 << 20];
        let mut next = || there.wait_frame::<String>(&mut room, until()).unwrap();
        assert_eq!(next(), Incoming::Message("begin".into()));
        assert_eq!(next(), Incoming::Data(1000));
        assert_eq!(next(), Incoming::Data(1 << 20));
        assert_eq!(next(), Incoming::Message("end".into()));
        assert_eq!(next(), Incoming::End);
        assert!(room == data);
        sender.join().unwrap();
    }
}

#[test]
fn a_gone_peer_is_closed_even_if_it_left_things_unread() {
    let (mut here, there) = pair();
    here.say(&"unread").unwrap();
    here.flush().unwrap();
    drop(there);
    assert!(matches!(here.receive(), Err(WireError::Closed)));
    here.say(&"too late").unwrap();
    assert!(matches!(here.flush(), Err(WireError::Closed)));
}

/// A full socket blocks no caller, and queued messages are sent later.
#[test]
fn a_peer_that_does_not_read_blocks_nothing() {
    let (mut here, mut there) = pair();
    let text = "x".repeat(100_000);
    for _ in 0..20 {
        here.say(&text).unwrap();
        here.flush().unwrap();
    }
    assert!(here.unsent_bytes() > 0);
    assert!(here.interest().contains(PollFlags::OUT));
    let now = Some(Instant::now());
    assert!(matches!(here.wait_flushed(now), Err(WireError::Timeout)));
    for _ in 0..20 {
        here.flush().unwrap();
        let heard = loop {
            here.flush().unwrap();
            if let Some(heard) = there.hear::<String>().unwrap() {
                break heard;
            }
        };
        assert!(heard == text);
    }
    assert_eq!(here.unsent_bytes(), 0);
    assert!(matches!(
        there.wait_message::<String>(now),
        Err(WireError::Timeout)
    ));
}

/// A server with another secret closes without an answer.
#[test]
fn a_caller_learns_that_the_other_side_does_not_know_its_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = ServerAddress::Tcp(listener.local_addr().unwrap().to_string());
    let address = address.sealed(&Secret::from_bytes([7; 32]));
    let server = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let called = Connection::connect(&address, &PROTOCOL, STRANGER_WAIT);
    assert!(matches!(called, Err(WireError::Unproven)), "{called:?}");
    server.join().unwrap();
}

/// Both times are bounded: that of an idle connection, and that of a connection with unacknowledged
/// data, which keepalive does not affect.
#[test]
fn who_is_gone_is_noticed_idle_or_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    watch(&stream, &PROTOCOL).unwrap();
    assert!(sockopt::socket_keepalive(&stream).unwrap());
    let idle = sockopt::tcp_keepidle(&stream).unwrap();
    let asking = sockopt::tcp_keepintvl(&stream).unwrap() * KEEPALIVE_PROBES;
    assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(KEEPALIVE_PROBES));
    assert!(idle + asking <= Duration::from_secs(15));
    let unacknowledged_ms = sockopt::tcp_user_timeout(&stream).unwrap();
    assert!((1..=30_000).contains(&unacknowledged_ms));
}

/// Set in the process of another user than root, to which the limit of descriptors in flight applies.
const LIMITED: &str = "REFRAIN_TEST_LIMITED";
/// A user without a name and without processes.
const STRANGER: u32 = 65_533;

/// While too many descriptors are in flight, messages with descriptors wait, and no poll returns at
/// once for them; as others are received, all arrive.
#[test]
fn descriptors_that_are_held_back_wait_without_spinning() {
    if std::env::var_os(LIMITED).is_some() {
        return send_more_than_may_be_in_flight();
    }
    let mut limited = Command::new(std::env::current_exe().unwrap());
    limited.args(["--exact", "--nocapture"]);
    limited.arg("connection::tests::descriptors_that_are_held_back_wait_without_spinning");
    limited.env(LIMITED, "1");
    if rustix::process::geteuid().is_root() {
        limited.uid(STRANGER).gid(STRANGER);
    }
    match limited.output() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("skipped: another user cannot run this test");
        }
        ended => {
            let ended = ended.unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(
                ended.status.success() && said.contains("1 passed"),
                "{ended:?}"
            );
        }
    }
}

fn send_more_than_may_be_in_flight() {
    const MESSAGES: u32 = 300;
    let limit = Some(64);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let (mut here, mut there) = pair();
    let descriptor = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    for number in 0..MESSAGES {
        let descriptors = vec![Arc::clone(&descriptor)];
        here.say_with(&number, descriptors).unwrap();
    }
    here.flush().unwrap();
    assert!(here.is_held_back() && here.unsent_bytes() > 0);
    assert_eq!(
        here.interest(),
        PollFlags::IN,
        "it is writable all the time"
    );
    let now = Some(Instant::now());
    assert!(matches!(here.wait(now), Err(WireError::Timeout)));
    here.wait(until()).expect("to be tried again");
    for number in 0..MESSAGES {
        let heard = loop {
            if let Some(heard) = there.hear::<u32>().unwrap() {
                break heard;
            }
            here.flush().unwrap();
        };
        assert_eq!(heard, number);
        there.take_descriptor().expect("it comes with its message");
    }
    assert!(!here.is_held_back() && here.unsent_bytes() == 0);
}
