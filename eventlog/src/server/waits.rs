//! The events that wake the server.

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// What woke the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The server must end.
    Stop,
    /// The logbook, a thread or a provider: each turn looks at them anyway.
    Wake,
    /// There are new connections.
    Door,
    /// A client's bell: the next turn checks its ring anyway.
    Bell,
    /// A connection.
    Connection {
        id: u64,
        /// There may be bytes to read.
        readable: bool,
        /// The other side is gone.
        hung_up: bool,
    },
}

/// Tokens of sources; connections are numbered from [`FIRST_CONNECTION`] on.
pub(super) const STOP: u64 = 0;
pub(super) const WAKE: u64 = 1;
pub(super) const DOOR: u64 = 2;
pub(super) const FIRST_CONNECTION: u64 = 64;
/// Combined with the number of a connection: the bell of its ring.
pub(super) const BELL: u64 = 1 << 63;
/// For sources that are never read: each signal is an edge.
pub(super) const EDGE: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// Maximum number of events taken at a time.
const EVENTS: usize = 128;

#[derive(Debug)]
pub(super) struct Waits {
    epoll: OwnedFd,
}

impl Waits {
    pub(super) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub(super) fn add(
        &self,
        source: impl AsFd,
        token: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.epoll, source, EventData::new_u64(token), flags)
    }

    pub(super) fn remove(&self, source: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, source)
    }

    pub(super) fn set_interest(
        &self,
        source: impl AsFd,
        id: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.epoll, source, EventData::new_u64(id), flags)
    }

    /// Waits for events. `timeout_ms`: `None` waits without a limit.
    pub(super) fn wait(&self, timeout_ms: Option<u32>) -> Result<Vec<Event>, Errno> {
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: (ms / 1000).into(),
            tv_nsec: i64::from(ms % 1000) * 1_000_000,
        });
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(events.iter().map(read_event).collect())
    }
}

fn read_event(event: &epoll::Event) -> Event {
    let (token, flags) = (event.data.u64(), event.flags);
    match token {
        STOP => Event::Stop,
        WAKE => Event::Wake,
        DOOR => Event::Door,
        token if token & BELL != 0 => Event::Bell,
        id => Event::Connection {
            id,
            readable: flags.contains(EventFlags::IN),
            hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
        },
    }
}
