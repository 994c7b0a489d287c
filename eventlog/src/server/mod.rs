//! The process that serves: drains rings into the logbook, acknowledges, fetches
//! what it lacks, and gives out what it has.
//!
//! One thread around one wait. A turn does what can be done
//! without waiting: it takes what lies in the rings, lets the logbook go on, and
//! tells everybody what became of what they wrote. When nothing moves, the
//! server says so in the rings, looks once more, and sleeps until somebody rings
//! or speaks. There is no tick: at level `placed` over shared memory a commit is
//! done when it lies in the ring, and the server is woken when there is a
//! quarter of a ring to take.
//!
//! What clients say is believed only as far as it was checked: a writer commits
//! for the rank and life of its hello only; whoever breaks the protocol, or does
//! not read its answers, is cut off. There is no authentication: a Unix socket
//! serves processes of the same user (and root) only, a TCP port whoever reaches
//! it.

//!
//! What it decides is in [`service`], which knows no sockets, files or time;
//! here is what brings it events and lets it sleep.

mod catch_up;
mod connection;
pub mod host;
pub mod inquiry;
mod joining;
mod napping;
mod options;
mod reading;
mod remote;
mod requests;
pub mod resting;
mod ring_file;
pub mod ring_name;
mod served_ring;
pub mod service;
mod socket;
mod start;
mod stream;
mod system;
mod waits;
mod writer;

pub use options::{Limits, RemoteOptions, ServerError, ServerOptions};

use crate::client::{PURPOSE, ServerAddress};
use host::Channel;
use refrain_secure::{Listener, STRANGER_WAIT, STRANGERS_MAX, Session};
use resting::Rest;
use service::Service;
use socket::{Received, Socket};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use stream::Stream;
use system::System;
use waits::Event;

/// How long to wait before a full disk is tried again.
const NO_ROOM_PAUSE_MS: u32 = 200;
/// How long new connections wait when there are no descriptors for them.
const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(100);

/// How long clients are heard that speak on while the server is to end.
const LAST_EVENTS_TURNS: usize = 64;

/// An event logger's server. See the [module](self).
pub struct Server {
    service: Service<System>,
    listeners: Vec<Listener>,
    /// There was no descriptor for a new connection: nobody is let in before this.
    accepts_from: Option<Instant>,
    /// Connections that have proved nothing, the oldest first, and how long they may.
    strangers: VecDeque<(u64, Instant)>,
    /// What is read goes here first.
    read: Box<[u8]>,
}

impl Server {
    /// The addresses that it listens on, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.listeners.iter().map(Listener::address)
    }

    /// Serves until `stop` is readable; then takes what is in the rings, stores
    /// everything, and returns.
    ///
    /// # Errors
    /// When its files do not work any more. What was acknowledged is in them, or
    /// in the rings.
    pub fn serve_until(&mut self, stop: impl AsFd) -> Result<(), ServerError> {
        self.service
            .host
            .waits
            .add_stop(&stop)
            .map_err(system("waiting for the end"))?;
        let served = self.serve();
        let _ = self.service.host.waits.remove(&stop);
        served?;
        self.see_last_events()?;
        self.service.end()?;
        self.listeners.clear();
        Ok(())
    }

    /// Takes in what clients said, and that they are gone, before the end.
    fn see_last_events(&mut self) -> Result<(), ServerError> {
        for _ in 0..LAST_EVENTS_TURNS {
            let events = self
                .service
                .host
                .waits
                .wait(Some(0))
                .map_err(system("waiting"))?;
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

    fn serve(&mut self) -> Result<(), ServerError> {
        loop {
            let moved = self.service.turn()?;
            let rest = self.service.lie_down(moved);
            let timeout_ms = self.timeout_ms(&rest);
            let events = self
                .service
                .host
                .waits
                .wait(timeout_ms)
                .map_err(system("waiting"))?;
            self.service.get_up(&rest);
            let mut is_over = false;
            for event in events {
                is_over |= event == Event::Stop;
                self.handle(event);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// How long to sleep, at most.
    fn timeout_ms(&mut self, rest: &Rest) -> Option<u32> {
        let remote = &mut self.service.host.remote;
        let limits = [
            rest.moved.then_some(0),
            remote.nap_ms(rest.sleep_max, rest.moved),
            self.disk_timeout_ms(),
            self.stranger_timeout_ms(),
            self.accept_timeout_ms(),
        ];
        limits.into_iter().flatten().min()
    }

    /// How long to sleep while strangers may prove themselves.
    fn stranger_timeout_ms(&mut self) -> Option<u32> {
        if self.strangers.is_empty() {
            return None;
        }
        let now = Instant::now();
        Some(until_ms(self.show_out(now)?, now))
    }

    /// How long to sleep before new connections are let in again; listens to them
    /// when that is over.
    fn accept_timeout_ms(&mut self) -> Option<u32> {
        let (from, now) = (self.accepts_from?, Instant::now());
        if now < from {
            return Some(until_ms(from, now));
        }
        self.accepts_from = None;
        self.listen_to_knocks(true);
        None
    }

    /// How long to sleep while the disk does not take what waits for it.
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
            Event::Knock(index) => self.accept(index),
            Event::Connection {
                id,
                readable,
                hung_up,
            } => self.receive(id, readable, hung_up),
        }
    }

    /// Takes in those who knock.
    fn accept(&mut self, index: usize) {
        while let Some(listener) = self.listeners.get(index) {
            match listener.accept().and_then(Stream::new) {
                Ok(stream) => {
                    let session = listener.secret().map(|it| Session::answerer(it, PURPOSE));
                    match session.transpose() {
                        Ok(session) => self.take_in(Socket::new(stream, session)),
                        Err(error) => (self.service.host.report)(&error.to_string()),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_connection(&error) => {
                    (self.service.host.report)(&format!("a connection was refused: {error}"));
                }
                Err(error) => {
                    (self.service.host.report)(&format!(
                        "no connection can be taken in now: {error}"
                    ));
                    self.pause_accepting();
                    return;
                }
            }
        }
    }

    /// A connection: of a stranger, who is seen to until it has proved itself.
    fn take_in(&mut self, socket: Socket) {
        let is_stranger = socket.is_stranger();
        let id = self.service.connect(socket).filter(|_| is_stranger);
        if let Some(id) = id {
            self.strangers
                .push_back((id, Instant::now() + STRANGER_WAIT));
        }
        self.show_out(Instant::now());
    }

    /// Strangers who have had their time, and the oldest of too many, have to go.
    /// Returns when the next one has had it.
    fn show_out(&mut self, now: Instant) -> Option<Instant> {
        let service = &mut self.service;
        self.strangers.retain(|(id, _)| {
            let socket = service.connections.get(id).map(|it| &it.channel);
            socket.is_some_and(Socket::is_stranger)
        });
        while let Some((id, until)) = self.strangers.front() {
            if *until > now && self.strangers.len() <= STRANGERS_MAX {
                return Some(*until);
            }
            service.drop_connection(*id, true);
            self.strangers.pop_front();
        }
        None
    }

    /// Does not listen to new connections for a while.
    fn pause_accepting(&mut self) {
        let until = Instant::now() + NO_DESCRIPTORS_PAUSE;
        if self.accepts_from.replace(until).is_some() {
            return;
        }
        self.listen_to_knocks(false);
    }

    fn listen_to_knocks(&mut self, listens: bool) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let told = self
                .service
                .host
                .waits
                .set_listens(listener, index, listens);
            if let Err(error) = told {
                (self.service.host.report)(&format!("{}: {error}", listener.address()));
            }
        }
    }

    /// Reads from a connection.
    fn receive(&mut self, id: u64, readable: bool, hung_up: bool) {
        let socket = if readable {
            self.service.listen(id)
        } else {
            None
        };
        match socket.map(|it| it.receive(&mut self.read)) {
            Some(Received::Some) => self.service.take_messages(id),
            Some(Received::Nothing) => {}
            Some(Received::End) => self.service.drop_connection(id, true),
            None if hung_up => self.service.drop_connection(id, true),
            None => {}
        }
    }
}

/// Up, so as not to wake before it is time.
fn until_ms(then: Instant, now: Instant) -> u32 {
    let left = then.saturating_duration_since(now).as_millis();
    u32::try_from(left).unwrap_or(u32::MAX).saturating_add(1)
}

fn is_of_connection(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::PermissionDenied
            | ErrorKind::Interrupted
    )
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
