//! A server's door: its listening sockets and the connections that have not yet proved that
//! they know the secret. Their number and time are limited, and so are log lines about them.
//! Does not block.

use crate::address::ServerAddress;
use crate::connection::{Connection, WireError};
use crate::framing::Protocol;
use crate::listener::Listener;
use crate::secret::Secret;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

mod notices;

pub use notices::Notices;

/// Most unproven connections at a time. A further one closes the oldest: a client with the secret
/// proves it within a round trip, and otherwise connects again.
pub const STRANGERS_MAX: usize = 64;
/// Time limit for the proof of the secret.
pub const STRANGER_WAIT: Duration = Duration::from_secs(10);
/// Pause after the system has failed to accept a connection: another attempt would fail at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Most reads in one step from a refused connection, which may send without end.
const DROPPED_READS_MAX: usize = 64;

/// A connection that is not yet served.
#[derive(Debug)]
struct Waiting {
    connection: Connection,
    /// The refusal is sent. Further bytes are read and dropped; otherwise the other side would lose
    /// the refusal.
    is_refused: bool,
    until: Instant,
}

/// The state of a waiting connection.
enum Outcome {
    Waits,
    /// The other side has proved that it knows the secret, if there is one.
    Proven,
    /// The connection is closed. `Some`: the reason, for the log.
    Gone(Option<String>),
}

/// Listening sockets, and connections that have not proved the secret. When it is readable, and at
/// its [deadline](Self::deadline), call [`step`](Self::step).
#[derive(Debug)]
pub struct Door {
    listeners: Vec<Listener>,
    protocol: &'static Protocol,
    /// Readable when a listener or a waiting connection is.
    epoll: OwnedFd,
    /// Connections that are not served yet, the oldest first.
    waiting: VecDeque<Waiting>,
    /// The time until which no connection is accepted.
    paused_until: Option<Instant>,
    trouble: Option<io::Error>,
    notices: Notices,
}

impl Door {
    /// A door with these listeners, for connections of a protocol.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(listeners: Vec<Listener>, protocol: &'static Protocol) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for listener in &listeners {
            epoll::add(&epoll, listener, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self {
            listeners,
            protocol,
            epoll,
            waiting: VecDeque::new(),
            paused_until: None,
            trouble: None,
            notices: Notices::default(),
        })
    }

    /// Listens with a secret on all addresses of this host, at a port that the system chooses. Also
    /// returns the port.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open(secret: Secret, protocol: &'static Protocol) -> io::Result<(Self, u16)> {
        // Accepts IPv4, too, if the host has IPv6; otherwise IPv4 alone.
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = both.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let port = listener.local_addr()?.port();
        let listener = Listener::of_tcp(listener, Some(&secret))?;
        Ok((Self::new(vec![listener], protocol)?, port))
    }

    /// The addresses of the listeners, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.listeners.iter().map(Listener::address)
    }

    /// The time of the next [step](Self::step): a waiting connection expires, connections may be
    /// accepted again, or a [notice](Self::notice) is due.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|it| it.until);
        let others = self.paused_until.into_iter().chain(self.notices.deadline());
        waiting.chain(others).min()
    }

    /// The error of the last attempt to accept a connection, for example too many open files.
    /// Connections wait meanwhile.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    /// A log line about refused connections: at most one a second, with the number of others.
    pub fn notice(&mut self, now: Instant) -> Option<String> {
        self.notices.take(now)
    }

    /// Returns connections that may be served, and closes those that have not proved the secret in
    /// time. A returned connection may already have received messages.
    pub fn step(&mut self, now: Instant) -> Vec<Connection> {
        let mut guests = Vec::new();
        // First those that wait: a new one may take the place of one whose proof has arrived.
        for mut waiting in core::mem::take(&mut self.waiting) {
            match waiting.step() {
                Outcome::Proven => {
                    // Fails only for a connection that was never added.
                    let _ = epoll::delete(&self.epoll, &waiting.connection);
                    guests.push(waiting.connection);
                }
                Outcome::Waits if now < waiting.until => self.waiting.push_back(waiting),
                Outcome::Waits if waiting.is_refused => {}
                Outcome::Waits => self.notices.note(format!(
                    "a connection from {} was closed: it did not prove in {} s that it knows the secret",
                    waiting.connection.peer(),
                    STRANGER_WAIT.as_secs()
                )),
                Outcome::Gone(Some(why)) => self.notices.note(format!(
                    "a connection from {} was closed: {why}",
                    waiting.connection.peer()
                )),
                Outcome::Gone(None) => {}
            }
        }
        self.accept(now, &mut guests);
        guests
    }

    /// Refuses a connection with a message of the server. Closes it when the other side has closed
    /// it, or after [`STRANGER_WAIT`].
    pub fn refuse(
        &mut self,
        mut connection: Connection,
        message: &impl Serialize,
        why: &str,
        now: Instant,
    ) {
        let text = format!("a connection from {} was refused: {why}", connection.peer());
        self.notices.note(text);
        // Fails if the connection has ended already: then nothing is sent.
        let _ = connection.say(message);
        let mut waiting = Waiting {
            connection,
            is_refused: true,
            until: now + STRANGER_WAIT,
        };
        // Step now: if all bytes of the other side were read, nothing wakes the door for this
        // connection.
        if matches!(waiting.step(), Outcome::Waits) {
            self.wait_for(waiting);
        }
    }

    fn accept(&mut self, now: Instant, guests: &mut Vec<Connection>) {
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        if self.paused_until.take().is_some() {
            self.listen(EventFlags::IN);
        }
        for index in 0..self.listeners.len() {
            if let Err(error) = self.accept_at(index, now, guests) {
                self.pause(error, now);
                return;
            }
        }
    }

    /// Accepts at one listener. Connections beyond the limit are accepted in the next step.
    fn accept_at(
        &mut self,
        index: usize,
        now: Instant,
        guests: &mut Vec<Connection>,
    ) -> io::Result<()> {
        for _ in 0..STRANGERS_MAX {
            let listener = &self.listeners[index];
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_of_one(&error) => {
                    if error.kind() == ErrorKind::PermissionDenied {
                        self.notices
                            .note(format!("a connection was refused: {error}"));
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.trouble = None;
            let secret = listener.secret();
            let Ok(connection) = Connection::answer(socket, self.protocol, secret) else {
                continue;
            };
            if secret.is_none() {
                guests.push(connection);
                continue;
            }
            self.wait_for(Waiting {
                connection,
                is_refused: false,
                until: now + STRANGER_WAIT,
            });
        }
        Ok(())
    }

    /// Adds a waiting connection; closes the oldest one if there are too many.
    fn wait_for(&mut self, waiting: Waiting) {
        if self.waiting.len() == STRANGERS_MAX
            && let Some(oldest) = self.waiting.pop_front()
            && !oldest.is_refused
        {
            self.notices.note(format!(
                "a connection from {} was closed: {STRANGERS_MAX} newer connections wait that have not proved that they know the secret",
                oldest.connection.peer()
            ));
        }
        let (data, flags) = (EventData::new_u64(0), EventFlags::IN);
        match epoll::add(&self.epoll, &waiting.connection, data, flags) {
            Ok(()) => self.waiting.push_back(waiting),
            Err(error) => self.trouble = Some(error.into()),
        }
    }

    /// Stops accepting for a while.
    fn pause(&mut self, error: io::Error, now: Instant) {
        self.notices
            .note(format!("no connection can be accepted now: {error}"));
        self.paused_until = Some(now + PAUSE);
        self.trouble = Some(error);
        self.listen(EventFlags::empty());
    }

    fn listen(&self, flags: EventFlags) {
        for listener in &self.listeners {
            // Fails only for a listener that was never added.
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(0), flags);
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Whether the error concerns one connection, not the host.
fn is_of_one(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    let kinds = [
        Interrupted,
        ConnectionAborted,
        ConnectionReset,
        PermissionDenied,
    ];
    kinds.contains(&error.kind())
}

impl Waiting {
    fn step(&mut self) -> Outcome {
        if self.is_refused {
            return self.step_refused();
        }
        while !self.connection.is_proven() {
            match self.connection.receive() {
                Ok(true) => {}
                Ok(false) => return Outcome::Waits,
                Err(WireError::Unproven) => {
                    let why = "it has ended without a proof that it knows the secret";
                    return Outcome::Gone(Some(why.into()));
                }
                Err(error) => return Outcome::Gone(Some(error.to_string())),
            }
        }
        Outcome::Proven
    }

    fn step_refused(&mut self) -> Outcome {
        // A refusal of some hundred bytes fits into the empty socket buffer.
        if self.connection.unsent_bytes() > 0 {
            if self.connection.flush().is_err() {
                return Outcome::Gone(None);
            }
            self.connection.shut_down(Shutdown::Write);
        }
        for _ in 0..DROPPED_READS_MAX {
            match self.connection.discard() {
                Ok(0) => return Outcome::Gone(None),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Outcome::Waits,
                Err(_) => return Outcome::Gone(None),
            }
        }
        Outcome::Waits
    }
}

#[cfg(test)]
mod tests;
