//! A raw client: sends given messages, and checks the answers.

use crate::batches::Life;
use bytes::BytesMut;
use refrain_eventlog::LoggerId;
use refrain_eventlog::message::{
    Begins, CommitPath, Hello, Holding, PROTOCOL, ToClient, ToLogger, Welcome,
};
use refrain_eventlog::ring::{RingMemory, RingWriter};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};
use refrain_ring::{Clock, Incarnation};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, recvmsg};
use std::collections::VecDeque;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Timeout after which a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection: sends bytes, receives messages and descriptors.
pub struct Wire {
    stream: OwnedFd,
    incoming: BytesMut,
    descriptors: VecDeque<OwnedFd>,
}

impl Wire {
    pub fn unix(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self::new(stream.into())
    }

    pub fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self::new(stream.into())
    }

    fn new(stream: OwnedFd) -> Self {
        Self {
            stream,
            incoming: BytesMut::new(),
            descriptors: VecDeque::new(),
        }
    }

    pub fn say(&mut self, message: &ToLogger) {
        let mut frame = BytesMut::new();
        PROTOCOL.encode(message, &mut frame).expect("a frame");
        self.say_bytes(&frame);
    }

    pub fn say_bytes(&mut self, bytes: &[u8]) {
        // The other side may have closed the connection.
        let stream = self.stream.try_clone().expect("a descriptor");
        let _ = UnixStream::from(stream).write_all(bytes);
    }

    pub fn close(&self) {
        rustix::net::shutdown(&self.stream, Shutdown::Both).expect("closed");
    }

    /// The next message; `None`: the other side has closed.
    pub fn hear(&mut self) -> Option<ToClient> {
        loop {
            if let Some(message) = PROTOCOL.decode(&mut self.incoming).expect("messages") {
                return Some(message);
            }
            if !self.read() {
                return None;
            }
        }
    }

    fn read(&mut self) -> bool {
        let mut bytes = vec![0; 64 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            self.stream.as_fd(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(both) = message {
                self.descriptors.extend(both);
            }
        }
        match received {
            Ok(received) if received.bytes > 0 => {
                self.incoming.extend_from_slice(&bytes[..received.bytes]);
                true
            }
            Err(Errno::INTR) => true,
            Ok(_) | Err(Errno::CONNRESET) => false,
            Err(error) => panic!("the server is silent: {error}"),
        }
    }

    /// The reason of the refusal.
    pub fn refusal(&mut self) -> String {
        loop {
            match self.hear() {
                Some(ToClient::Refused { reason }) => {
                    assert_eq!(self.hear(), None, "the end");
                    return reason;
                }
                Some(_) => {}
                None => panic!("no refusal"),
            }
        }
    }
}

/// A hello; a later life begins with `first_kept`, behind batches of one
/// determinant of the first life.
pub fn hello(life: Life, first_kept: u64, way: CommitPath) -> Hello {
    let clock_before = first_kept.saturating_sub(1) * 10;
    hello_behind(life, (first_kept, clock_before), first_kept, way)
}

/// A hello of a life that begins there, with this clock before it, behind the
/// first life.
pub fn hello_behind(
    life: Life,
    (start, clock_before): (u64, u64),
    first_kept: u64,
    way: CommitPath,
) -> Hello {
    let begins = Begins {
        start: EventIndex(start),
        clock_before: Clock(clock_before),
        follows: Incarnation(0),
    };
    Hello {
        job: life.job,
        rank: refrain_ring::Rank(life.rank),
        incarnation: Incarnation(life.incarnation),
        first_kept: EventIndex(first_kept),
        begins: (life.incarnation > 0).then_some(begins),
        way,
    }
}

/// A rank that was welcomed.
pub struct Rank {
    pub life: Life,
    pub wire: Wire,
    pub welcome: Welcome,
    pub ring: Option<RingWriter>,
    pub bell: Option<OwnedFd>,
}

impl Rank {
    pub fn join(socket: &Path, life: Life, first_kept: u64, way: CommitPath) -> Self {
        Self::try_join(Wire::unix(socket), life, first_kept, way).expect("a welcome")
    }

    pub fn try_join(
        wire: Wire,
        life: Life,
        first_kept: u64,
        way: CommitPath,
    ) -> Result<Self, String> {
        Self::try_join_with(wire, life, hello(life, first_kept, way))
    }

    pub fn try_join_with(mut wire: Wire, life: Life, hello: Hello) -> Result<Self, String> {
        let way = hello.way;
        wire.say(&ToLogger::Hello(hello));
        let welcome = match wire.hear() {
            Some(ToClient::Welcome(welcome)) => welcome,
            Some(ToClient::Refused { reason }) => return Err(reason),
            other => panic!("{other:?}"),
        };
        let mut rank = Self {
            life,
            wire,
            welcome,
            ring: None,
            bell: None,
        };
        if way == CommitPath::SharedMemory {
            assert_eq!(rank.wire.descriptors.len(), 2);
            let ring = rank.wire.descriptors.pop_front().expect("two");
            let memory = RingMemory::open(ring).expect("a ring");
            let said = memory.identity();
            assert_eq!((said.job, said.rank.0), (life.job, life.rank));
            assert_eq!(said.incarnation.0, life.incarnation);
            assert_eq!(said.start.0, rank.welcome.end.0);
            rank.ring = Some(RingWriter::new(memory));
            rank.bell = rank.wire.descriptors.pop_front();
        }
        assert!(rank.wire.descriptors.is_empty());
        Ok(rank)
    }

    pub fn commit(&mut self, first: u64, count: u16) {
        let batch = self.life.batch(first, count);
        self.wire.say(&ToLogger::Commit { batch });
    }

    /// Places a batch; returns whether it counts.
    pub fn place(&mut self, first: u64, count: u16) -> bool {
        let batch = self.life.batch(first, count);
        let ring = self.ring.as_mut().expect("shared memory");
        while ring.write(&batch).is_err() {
            if ring.is_closed() {
                return false;
            }
            ring_bell(self.bell.as_ref());
            std::thread::yield_now();
        }
        !ring.is_closed()
    }

    /// Whether a batch has room now; does not wait.
    pub fn has_room(&self) -> bool {
        let ring = self.ring.as_ref().expect("shared memory");
        !ring.position().is_full(BATCH_BYTES_MAX, ring.consumed())
    }

    pub fn ring_bell(&self) {
        ring_bell(self.bell.as_ref());
    }

    /// Receives acknowledgements until one reaches `end`. GATE-3
    pub fn await_stable(&mut self, end: u64) -> ToClient {
        loop {
            let heard = self.wire.hear().expect("the server lives");
            let ToClient::Stable {
                logger,
                rank,
                incarnation,
                end: stable,
                ..
            } = heard
            else {
                panic!("{heard:?}");
            };
            assert_eq!(logger, LoggerId(self.welcome.logger.0));
            assert_eq!((rank, incarnation), (self.life.rank, self.life.incarnation));
            assert!(stable <= end, "{stable} was never written");
            if stable == end {
                return heard;
            }
        }
    }
}

fn ring_bell(bell: Option<&OwnedFd>) {
    let bell = bell.expect("shared memory");
    rustix::io::write(bell, &1_u64.to_ne_bytes()).expect("rung");
}

/// A client that only asks.
pub struct Reader {
    wire: Wire,
}

impl Reader {
    pub fn new(socket: &Path) -> Self {
        let wire = Wire::unix(socket);
        Self { wire }
    }

    pub fn ranks(&mut self) -> Vec<Holding> {
        self.wire.say(&ToLogger::List);
        match self.wire.hear() {
            Some(ToClient::Ranks { ranks }) => ranks,
            other => panic!("{other:?}"),
        }
    }

    /// The stored batches of a rank, as (first, count) of whole batches; every byte
    /// is checked to be one that `lives` have written.
    pub fn read(&mut self, lives: &[Life], from: u64) -> Vec<(u64, u16, u32)> {
        self.try_read(lives, from, None).expect("an answer")
    }

    pub fn try_read(
        &mut self,
        lives: &[Life],
        from: u64,
        after_clock: Option<u64>,
    ) -> Result<Vec<(u64, u16, u32)>, String> {
        self.wire.say(&ToLogger::Read {
            job: lives[0].job,
            rank: lives[0].rank,
            from,
            after_clock,
        });
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let (batches, is_last) = match self.wire.hear() {
                Some(ToClient::Events { batches, is_last }) => (batches, is_last),
                Some(ToClient::Refused { reason }) => return Err(reason),
                other => panic!("{other:?}"),
            };
            let mut rest = &batches[..];
            while !rest.is_empty() {
                let (header, _) = BatchHeader::read(rest).expect("a batch");
                let (batch, behind) = rest.split_at(header.batch_bytes());
                let life = lives
                    .iter()
                    .find(|life| life.incarnation == header.incarnation.0);
                let life = life.unwrap_or_else(|| panic!("{header:?} is of nobody"));
                let written = life.batch_at(header.first.0, header.count, header.first_clock.0);
                assert_eq!(batch, written, "as it was written");
                assert!(next.is_none_or(|next| next == header.first), "no gap");
                next = Some(header.end());
                found.push((header.first.0, header.count, header.incarnation.0));
                rest = behind;
            }
            if is_last {
                return Ok(found);
            }
        }
    }
}
