//! A logger that follows the test's script, in the test's own process.

use crate::batches::{JOB, LOGGER, RANK};
use bytes::BytesMut;
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::{Hello, PROTOCOL, ToClient, ToLogger, Welcome};
use refrain_eventlog::ring::{RingIdentity, RingMemory, RingReader};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation};
use refrain_wire::Protocol;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Longer than anything here takes; only to end a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Scripted {
    listener: UnixListener,
    pub address: ServerAddress,
    pub id: LoggerId,
}

/// A client's connection, seen from the logger.
pub struct Joined {
    pub stream: UnixStream,
    incoming: BytesMut,
    pub hello: Hello,
}

/// What a logger has of a client over shared memory.
pub struct Shared {
    pub reader: RingReader,
    pub bell: OwnedFd,
}

impl Scripted {
    pub fn listen(folder: &Path, index: u32) -> Self {
        let path = folder.join(format!("{index}.sock"));
        Self {
            listener: UnixListener::bind(&path).unwrap(),
            address: ServerAddress::Unix(path),
            id: LoggerId(LOGGER.0 + index),
        }
    }

    /// Waits for any client.
    pub fn accept_any(&self) -> Joined {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Joined {
            stream,
            incoming: BytesMut::new(),
            hello: hello(),
        }
    }

    /// Whether a client is connecting.
    pub fn is_called(&self) -> bool {
        let at = PollFd::new(&self.listener, PollFlags::IN);
        poll(&mut [at], Some(&Timespec::default())).unwrap() > 0
    }

    /// Waits for a client and its hello.
    pub fn accept(&self) -> Joined {
        let mut joined = self.accept_any();
        match joined.hear() {
            ToLogger::Hello(hello) => joined.hello = hello,
            other => panic!("no hello: {other:?}"),
        }
        joined
    }

    pub fn welcome(&self, end: u64, clock: u64) -> ToClient {
        self.welcome_at(Level::Durable, end, clock)
    }

    pub fn welcome_at(&self, level: Level, end: u64, clock: u64) -> ToClient {
        ToClient::Welcome(Welcome {
            logger: self.id,
            end: EventIndex(end),
            last_clock: Clock(clock),
            level,
            remote: None,
        })
    }

    /// Lets a client join over shared memory.
    pub fn share(&self, joined: &mut Joined, end: u64, clock: u64) -> Shared {
        let identity = RingIdentity {
            job: JOB,
            rank: RANK,
            incarnation: joined.hello.incarnation,
            logger: self.id,
            start: EventIndex(end),
        };
        self.share_as(joined, end, clock, identity)
    }

    pub fn share_as(
        &self,
        joined: &mut Joined,
        end: u64,
        clock: u64,
        identity: RingIdentity,
    ) -> Shared {
        let file = tempfile::tempfile().unwrap();
        let memory = RingMemory::create(&file, &identity).unwrap();
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        joined.say_with(
            &self.welcome(end, clock),
            &[file.into(), bell.try_clone().unwrap()],
        );
        Shared {
            reader: RingReader::new(memory, identity),
            bell,
        }
    }
}

impl Joined {
    pub fn hear(&mut self) -> ToLogger {
        loop {
            if let Some(message) = PROTOCOL.decode(&mut self.incoming).unwrap() {
                return message;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the client hung up");
            self.incoming.extend_from_slice(&bytes[..count]);
        }
    }

    /// Polls until the client closes the connection, which it must do.
    pub fn has_hung_up_after(&mut self, client: &mut Client, clockwork: &mut Clockwork) -> bool {
        clockwork.poll(client);
        matches!(self.stream.read(&mut [0; 16]), Ok(0))
    }

    pub fn say(&mut self, message: &ToClient) {
        self.say_in(&PROTOCOL, message);
    }

    /// As a logger of another version does.
    pub fn say_in(&mut self, protocol: &Protocol, message: &ToClient) {
        let mut frame = BytesMut::new();
        protocol.encode(message, &mut frame).unwrap();
        self.stream.write_all(&frame).unwrap();
    }

    fn say_with(&mut self, message: &ToClient, descriptors: &[OwnedFd]) {
        let mut frame = BytesMut::new();
        PROTOCOL.encode(message, &mut frame).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let whole = [IoSlice::new(&frame)];
        let sent = sendmsg(&self.stream, &whole, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, frame.len());
    }

    /// An acknowledgement that is right in every field.
    pub fn stable(&self, logger: LoggerId, end: u64, clock: u64, level: Level) -> ToClient {
        ToClient::Stable {
            logger,
            rank: self.hello.rank.0,
            incarnation: self.hello.incarnation.0,
            clock,
            end,
            level,
        }
    }
}

impl Shared {
    /// Takes all batches, as (first number, bytes), and frees their room.
    pub fn drain(&mut self) -> Vec<(EventIndex, Vec<u8>)> {
        let mut taken = Vec::new();
        let mut batch = [0; 4096];
        while let Some((header, bytes)) = self.reader.take(&mut batch) {
            taken.push((header.first, bytes.to_vec()));
        }
        self.reader.release();
        taken
    }

    /// Whether the bell was rung since it was asked last.
    pub fn was_rung(&self) -> bool {
        rustix::io::read(&self.bell, &mut [0; 8]).is_ok()
    }
}

fn hello() -> Hello {
    Hello {
        job: 0,
        rank: RANK,
        incarnation: Incarnation(0),
        first_kept: EventIndex(0),
        begins: None,
        way: refrain_eventlog::message::CommitPath::Messages,
    }
}

pub fn options(loggers: &[&Scripted], quorum: usize) -> ClientOptions {
    ClientOptions {
        job: JOB,
        rank: RANK,
        incarnation: Incarnation(0),
        loggers: loggers
            .iter()
            .map(|logger| logger.address.clone())
            .collect(),
        quorum,
        level: Level::Placed,
        way: None,
        connect_wait: PATIENCE,
        libfabric: None,
        libibverbs: None,
        provider: None,
        verbs_port: Default::default(),
    }
}

/// Connects while `script` plays the loggers.
pub fn connect<T: Send>(
    options: ClientOptions,
    script: impl FnOnce() -> T + Send,
) -> (Result<Client, refrain_eventlog::client::ClientError>, T) {
    std::thread::scope(|scope| {
        let loggers = scope.spawn(script);
        let client = Client::connect(options);
        (client, loggers.join().unwrap())
    })
}

/// Polls with a clock that advances by a second each time, so that nothing waits. It begins after
/// the time at which any client has connected.
pub struct Clockwork(pub Duration);

impl Clockwork {
    pub fn poll(&mut self, client: &mut Client) -> u64 {
        self.0 = self.0.max(PATIENCE) + Duration::from_secs(1);
        client.poll_at(self.0).0
    }

    /// Polls until `done`, which must come true.
    pub fn poll_until(&mut self, client: &mut Client, done: impl Fn(&Client) -> bool) {
        let began = std::time::Instant::now();
        while !done(client) {
            assert!(began.elapsed() < PATIENCE, "{:?}", client.explain());
            self.poll(client);
            std::thread::yield_now();
        }
    }
}
