//! What the server sleeps on.

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The server is to end.
    Stop,
    /// The logbook, a thread or a provider: looked at in each turn anyway.
    Wake,
    /// There are new connections.
    Door,
    /// A client rang: its ring is looked at in the next turn anyway.
    Bell,
    /// A connection.
    Connection {
        id: u64,
        /// There may be something to read.
        readable: bool,
        /// The other side is gone.
        hung_up: bool,
    },
}

const STOP: u64 = 0;
const WAKE: u64 = 1;
const DOOR: u64 = 2;
/// Connections are numbered from here on.
pub(super) const FIRST_CONNECTION: u64 = 64;
const BELL: u64 = 1 << 63;

/// Events taken at a time.
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

    fn add(&self, source: impl AsFd, token: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, source, EventData::new_u64(token), flags)
    }

    pub(super) fn add_stop(&self, source: impl AsFd) -> Result<(), Errno> {
        self.add(source, STOP, EventFlags::IN)
    }

    pub(super) fn remove(&self, source: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, source)
    }

    /// Rung by threads of the server, or by the logbook's files. Every ring is an
    /// edge: most are never read, and nobody reads what rings behind a look.
    pub(super) fn add_wake(&self, source: impl AsFd) -> Result<(), Errno> {
        self.add(source, WAKE, EventFlags::IN | EventFlags::ET)
    }

    /// A provider's: readable as long as there is something to do.
    pub(super) fn add_provider(&self, source: impl AsFd) -> Result<(), Errno> {
        self.add(source, WAKE, EventFlags::IN)
    }

    pub(super) fn add_door(&self, door: impl AsFd) -> Result<(), Errno> {
        self.add(door, DOOR, EventFlags::IN)
    }

    pub(super) fn add_bell(&self, source: impl AsFd, id: u64) -> Result<(), Errno> {
        self.add(source, BELL | id, EventFlags::IN | EventFlags::ET)
    }

    pub(super) fn add_connection(&self, source: impl AsFd, id: u64) -> Result<(), Errno> {
        self.add(source, id, EventFlags::empty())
    }

    pub(super) fn set_interest(
        &self,
        source: impl AsFd,
        id: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.epoll, source, EventData::new_u64(id), flags)
    }

    /// Waits for what is next. `timeout_ms`: `None` for ever.
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
