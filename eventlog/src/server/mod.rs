//! The server: drains rings into the logbook, acknowledges, fetches missing determinants, and
//! answers reads.
//!
//! One thread around one wait. A turn does what can be done without waiting: it takes
//! the batches in the rings, lets the logbook continue, and sends acknowledgements. When
//! nothing moves, the server sets a flag in the rings, checks them once more, and sleeps until
//! a bell rings or a message comes. There is no periodic timer: at level `placed` over shared
//! memory a commit is complete when it lies in the ring, and the client wakes the server when a
//! quarter of a ring is filled.
//!
//! Messages of clients are checked before they count: a writer commits only for the rank and
//! incarnation of its hello. A client that breaks the protocol, or does not read its
//! answers, is disconnected. There is no authentication: a Unix socket serves processes of the
//! same user (and root) only, a TCP port serves every client that reaches it.
//!
//! The decisions are in [`service`], which knows no sockets, files or time; this module
//! brings it events and lets it sleep.

pub mod before_sleep;
mod catch_up;
mod connection;
pub mod host;
pub mod inquiry;
mod joining;
mod options;
mod poll_interval;
mod reading;
mod remote;
mod requests;
mod ring_file;
pub mod ring_name;
mod served_ring;
pub mod service;
mod socket;
mod start;
mod system;
mod waits;
mod writer;

pub use options::{Limits, RANKS_MAX, RemoteOptions, ServerError, ServerOptions};

use crate::client::ServerAddress;
use before_sleep::BeforeSleep;
use refrain_wire::Door;
use rustix::event::epoll::EventFlags;
use service::Service;
use socket::Socket;
use std::os::fd::AsFd;
use std::time::Instant;
use system::System;
use waits::{Event, STOP};

/// Pause before a write to a full disk is tried again.
const NO_ROOM_PAUSE_MS: u32 = 200;
/// Maximum number of turns for last messages of clients when the server ends.
const LAST_EVENTS_TURNS: usize = 64;

/// An event logger's server. See the [module](self).
pub struct Server {
    service: Service<System>,
    /// `None`: the server accepts no connections.
    door: Option<Door>,
}

impl Server {
    /// The addresses that it listens on, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.door.iter().flat_map(Door::addresses)
    }

    /// Serves until `stop` is readable; then takes the batches in the rings, stores
    /// everything, and returns.
    ///
    /// # Errors
    /// When its files do not work any more. Acknowledged determinants are in the files, or
    /// in the rings.
    pub fn serve_until(&mut self, stop: impl AsFd) -> Result<(), ServerError> {
        let waits = &self.service.host.waits;
        waits
            .add(&stop, STOP, EventFlags::IN)
            .map_err(system("waiting for the end"))?;
        let served = self.serve();
        let _ = self.service.host.waits.remove(&stop);
        served?;
        self.see_last_events()?;
        self.service.end()?;
        self.door = None;
        Ok(())
    }

    /// Handles the last messages and disconnections before the server ends.
    fn see_last_events(&mut self) -> Result<(), ServerError> {
        for _ in 0..LAST_EVENTS_TURNS {
            let events = self.wait(Some(0))?;
            if events.is_empty() {
                break;
            }
            for event in events {
                self.handle(event);
            }
            self.service.turn()?;
        }
        Ok(())
    }

    fn wait(&self, timeout_ms: Option<u32>) -> Result<Vec<Event>, ServerError> {
        let waits = &self.service.host.waits;
        waits.wait(timeout_ms).map_err(system("waiting"))
    }

    fn serve(&mut self) -> Result<(), ServerError> {
        loop {
            let moved = self.service.turn()?;
            let before = self.service.before_sleep(moved);
            let timeout_ms = self.timeout_ms(&before);
            let events = self.wait(timeout_ms)?;
            self.service.after_sleep(&before);
            let mut is_over = false;
            for event in events {
                is_over |= event == Event::Stop;
                self.handle(event);
            }
            let deadline = self.door.as_ref().and_then(Door::deadline);
            if deadline.is_some_and(|at| at <= Instant::now()) {
                self.admit();
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Maximum time to sleep.
    fn timeout_ms(&mut self, before: &BeforeSleep) -> Option<u32> {
        let remote = &mut self.service.host.remote;
        let deadline = self.door.as_ref().and_then(Door::deadline);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let limits = [
            before.moved.then_some(0),
            remote.nap_ms(before.sleep_max, before.moved),
            self.disk_timeout_ms(),
            // Rounded up: the door has nothing to do before its deadline.
            left.map(|left| {
                u32::try_from(left.as_millis()).map_or(u32::MAX, |ms| ms.saturating_add(1))
            }),
        ];
        limits.into_iter().flatten().min()
    }

    /// Maximum time to sleep while the disk does not take waiting writes.
    fn disk_timeout_ms(&self) -> Option<u32> {
        let is_waiting = !self.service.logbook.is_settled();
        match &self.service.trouble {
            Some(_) if is_waiting => Some(NO_ROOM_PAUSE_MS),
            _ if is_waiting && self.service.logbook.descriptor().is_none() => Some(0),
            _ => None,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Stop | Event::Wake | Event::Bell => {}
            Event::Door => self.admit(),
            Event::Connection {
                id,
                readable,
                hung_up,
            } => self.receive(id, readable, hung_up),
        }
    }

    /// Accepts new connections.
    fn admit(&mut self) {
        let Some(door) = &mut self.door else {
            return;
        };
        let now = Instant::now();
        for connection in door.step(now) {
            let interest = EventFlags::empty();
            let socket = Socket {
                connection,
                interest,
            };
            // Its hello may have come together with its proof: no event follows for that.
            if let Some(id) = self.service.connect(socket) {
                self.service.take_messages(id);
            }
        }
        if let Some(line) = door.notice(now) {
            (self.service.host.report)(&line);
        }
    }

    /// Reads from a connection.
    fn receive(&mut self, id: u64, readable: bool, hung_up: bool) {
        let socket = self.service.listen(id).filter(|_| readable);
        // One read: whole frames are taken before the next read, so that at most one frame
        // and one read are held.
        match socket.map(|it| it.connection.receive()) {
            Some(Ok(true)) => self.service.take_messages(id),
            Some(Ok(false)) => {}
            Some(Err(_)) => self.service.drop_connection(id, true),
            None if hung_up => self.service.drop_connection(id, true),
            None => {}
        }
    }
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

fn system<E: Into<std::io::Error>>(attempted: &'static str) -> impl FnOnce(E) -> ServerError {
    move |error| ServerError::System {
        attempted,
        error: error.into(),
    }
}
