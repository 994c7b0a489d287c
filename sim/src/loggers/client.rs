//! The client of a life: the real client over the simulated network.

use super::Loggers;
use super::ledger::Ledger;
use super::network::{Network, PortState, SessionId};
use crate::crash_point::CrashPoint;
use crate::happening::Life;
use crate::planted::Planted;
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::network::{Network as ClientNetwork, Wire};
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::{Hello, RemoteRing, ToClient, ToLogger};
use refrain_eventlog::remote::{Port, RemoteError, RemoteWriter};
use refrain_eventlog::ring::{RingIdentity, RingMemory};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::WireError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Maximum number of messages that wait for one logger, before the client keeps commits back.
const BACKLOG_MAX: usize = 32;
/// Maximum number of one-sided writes under way to one logger.
const WRITES_MAX: usize = 16;
/// The duration of a tick for clients.
pub const TICK: Duration = Duration::from_millis(1);

/// The client's end of a session.
#[derive(Debug)]
pub struct LoggerWire {
    session: SessionId,
    links: LoggerLinks,
}

/// The access of a life to its loggers.
#[derive(Clone, Debug)]
pub struct LoggerLinks {
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) life: Life,
    pub(super) process: CrashPoint,
    /// One past the last committed determinant.
    pub(super) end: Rc<Cell<EventIndex>>,
    /// The time in ticks.
    pub(super) now: Rc<Cell<u64>>,
}

impl LoggerLinks {
    /// The message, as [`Planted::EventsFreedBeforeStable`] changes it.
    fn bent(&self, message: &ToLogger) -> ToLogger {
        match message {
            ToLogger::Hello(hello)
                if self.network.borrow().bug == Some(Planted::EventsFreedBeforeStable) =>
            {
                ToLogger::Hello(Hello {
                    first_kept: hello.first_kept.max(self.end.get()),
                    ..hello.clone()
                })
            }
            other => other.clone(),
        }
    }
}

impl Wire for LoggerWire {
    fn has_room(&self) -> bool {
        self.links.network.borrow().backlog(self.session) < BACKLOG_MAX
    }

    fn say(&mut self, message: &ToLogger) -> Result<(), WireError> {
        let message = self.links.bent(message);
        let network = &self.links.network;
        let said = self
            .links
            .process
            .act(|| network.borrow_mut().say(self.session, message));
        match said {
            Some(false) => Err(WireError::Closed),
            // A dead life sends nothing and gets no error.
            Some(true) | None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    fn hear(&mut self) -> Result<Option<ToClient>, WireError> {
        if self.links.process.is_dead() {
            return Ok(None);
        }
        let heard = self.links.network.borrow_mut().hear(self.session);
        heard.map_err(|()| WireError::Closed)
    }

    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        None
    }
}

impl Drop for LoggerWire {
    fn drop(&mut self) {
        if let Ok(mut network) = self.links.network.try_borrow_mut() {
            network.hang_up(self.session);
        }
    }
}

impl ClientNetwork for LoggerLinks {
    type Wire = LoggerWire;

    fn begin(&mut self, address: &ServerAddress) -> Result<LoggerWire, WireError> {
        let logger = Loggers::logger_at(address).ok_or(WireError::Closed)?;
        let (life, process) = (Some(self.life), self.process.clone());
        let session = self.network.borrow_mut().call(logger, life, process);
        Ok(LoggerWire {
            session: session.ok_or(WireError::Closed)?,
            links: self.clone(),
        })
    }

    fn open_writer(
        &mut self,
        _options: &ClientOptions,
        ring: &RemoteRing,
    ) -> Result<RemoteWriter, String> {
        let nobody = RingIdentity {
            job: 0,
            rank: Rank(0),
            incarnation: Incarnation(0),
            logger: LoggerId(0),
            start: EventIndex(0),
        };
        let image = RingMemory::anonymous(&nobody).map_err(|error| error.to_string())?;
        let port = RingPort {
            key: ring.key,
            state: Rc::default(),
            begun: 0,
            over: 0,
            links: self.clone(),
        };
        Ok(RemoteWriter::over(Box::new(port), image))
    }

    fn now(&self) -> Duration {
        TICK * self.now.get() as u32
    }
}

/// Writes one-sidedly into a ring in a logger's memory.
#[derive(Debug)]
pub struct RingPort {
    key: u64,
    state: Rc<RefCell<PortState>>,
    begun: usize,
    over: usize,
    links: LoggerLinks,
}

impl RingPort {
    fn check(&self) -> Result<(), RemoteError> {
        match self.state.borrow().is_broken {
            true => Err(RemoteError::Refused(
                "the writes under way were flushed".into(),
            )),
            false => Ok(()),
        }
    }
}

impl Port for RingPort {
    fn write(
        &mut self,
        image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, RemoteError> {
        self.check()?;
        if self.begun - self.over >= WRITES_MAX {
            return Ok(false);
        }
        self.begun += 1;
        let mut from = vec![0; bytes];
        image.read(offset, &mut from);
        let LoggerLinks {
            network, process, ..
        } = &self.links;
        process.act(|| {
            let mut network = network.borrow_mut();
            network.write((self.key, offset, token), from, &self.state, process);
        });
        Ok(true)
    }

    fn poll(&mut self, completed: &mut dyn FnMut(u64)) -> Result<(), RemoteError> {
        if self.links.process.is_dead() {
            return Ok(());
        }
        let tokens = core::mem::take(&mut self.state.borrow_mut().completed);
        self.over += tokens.len();
        tokens.into_iter().for_each(completed);
        self.check()
    }
}

/// Commits the determinants of one life.
#[derive(Debug)]
pub struct LoggerClient {
    pub(super) client: Client<LoggerLinks>,
    pub(super) links: LoggerLinks,
    pub(super) ledger: Ledger,
    pub(super) starts: Rc<RefCell<BTreeMap<Life, (Incarnation, EventIndex)>>>,
    pub(super) newest: Clock,
    pub(super) has_begun: bool,
    /// Whether a quorum has admitted the life.
    pub(super) is_admitted: bool,
    pub(super) quorum: usize,
}

impl LoggerClient {
    /// Notes what the last poll of the client has found.
    fn note_polled(&mut self) {
        if self.links.process.is_dead() {
            return;
        }
        let Life { rank, incarnation } = self.links.life;
        let Some(start) = self.client.start() else {
            return;
        };
        if !self.has_begun {
            self.has_begun = true;
            self.links.end.set(start);
            let after = (self.client.follows(), start);
            self.starts.borrow_mut().insert(self.links.life, after);
            self.ledger.began(rank, incarnation, after);
        }
        // A quorum has confirmed what is stable, even if one of its loggers is lost again.
        let end = self.client.stable_end();
        let is_confirmed = end >= start && end > EventIndex(0);
        if !self.is_admitted && (self.client.live() >= self.quorum || is_confirmed) {
            self.is_admitted = true;
            self.ledger.admitted(rank, incarnation);
        }
    }

    /// Polls; returns the number of the first determinant of this life; `None` until a quorum has
    /// answered.
    pub fn start(&mut self) -> Option<EventIndex> {
        self.poll();
        self.client.start()
    }

    /// Number of loggers that have admitted the life.
    pub fn live(&self) -> usize {
        self.client.live()
    }

    /// As [`LoggerClient::start`], as far as is known.
    pub fn logged_end(&self) -> EventIndex {
        self.client.next()
    }

    /// The life that made the last determinant before [`LoggerClient::start`].
    pub fn made_by(&self) -> Incarnation {
        self.client.made_by()
    }
}

impl Commits for LoggerClient {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        if !self.links.process.is_dead() {
            self.ledger.committed(header);
        }
        self.links.end.set(header.end());
        self.newest = header.last_clock;
        self.client.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        self.client.stable_end()
    }

    fn poll(&mut self) -> EventIndex {
        let end = self.client.poll();
        self.note_polled();
        end
    }

    fn is_instant(&self) -> bool {
        false
    }

    fn trim(&mut self, clock: Clock) {
        self.ledger.trimmed(self.links.life.rank, clock);
        let bug = self.links.network.borrow().bug;
        self.client.trim(match bug {
            Some(Planted::TrimTooFar) => clock.max(self.newest),
            _ => clock,
        });
    }

    fn leave(&mut self) -> bool {
        let has_left = self.client.leave();
        self.note_polled();
        has_left
    }

    fn explain(&self) -> Option<String> {
        self.client.explain()
    }
}
