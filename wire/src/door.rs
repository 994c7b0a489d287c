//! A server's door: its listening sockets, and the connections in front of it that have
//! not proved that they know the secret. Few at a time, not for long, and one line of
//! complaint a second. Does not block.

use crate::{Accepted, Listener, Secret, ServerAddress, Session};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

mod notices;

pub use notices::Notices;

/// Connections in front of the door at a time. One more, and the one that has waited
/// longest is closed: a friend needs no longer than its messages travel, and calls again.
pub const STRANGERS_MAX: usize = 64;
/// How long one may take to prove that it knows the secret.
pub const STRANGER_WAIT: Duration = Duration::from_secs(10);
/// How long no connection is accepted when the system cannot take one in: it would say
/// so again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// More than a handshake needs.
const READ_BYTES: usize = 4096;
/// Reads in one step from a connection that was refused: one that sends without end does
/// not keep the server.
const DROPPED_READS_MAX: usize = 64;

/// A connection that may be served: where there is a secret, the other side has proved
/// that it knows it.
#[derive(Debug)]
pub struct Guest {
    /// Does not block; TCP sends small pieces at once.
    pub stream: Accepted,
    /// With a secret: open and proven; it may have heard something already.
    pub session: Option<Session>,
}

impl Guest {
    /// The two of a connection that came to a listener with a secret.
    pub fn sealed(self) -> Option<(TcpStream, Session)> {
        match (self.stream, self.session) {
            (Accepted::Tcp(stream), Some(session)) => Some((stream, session)),
            _ => None,
        }
    }
}

/// A connection in front of the door.
#[derive(Debug)]
struct Waiting {
    stream: Accepted,
    /// `None`: without a secret.
    session: Option<Session>,
    /// Was refused: the refusal is sent, and what the other side still sends is read and
    /// dropped, or it would lose the refusal.
    refusal: Option<Vec<u8>>,
    until: Instant,
}

/// What became of one.
enum Outcome {
    Waits,
    Guest,
    /// `Some`: why it was closed.
    Gone(Option<String>),
}

/// Listening sockets, and the connections in front of them. To be polled for
/// readability; then, and at its [deadline](Self::deadline), it wants a
/// [step](Self::step).
#[derive(Debug)]
pub struct Door {
    listeners: Vec<Listener>,
    purpose: String,
    /// Readable when a listener or a waiting connection is.
    epoll: OwnedFd,
    /// The one that has waited longest first.
    waiting: VecDeque<Waiting>,
    /// Until when no connection is accepted.
    paused_until: Option<Instant>,
    trouble: Option<io::Error>,
    notices: Notices,
}

impl Door {
    /// Of these listeners. `purpose` is what conversations are about, for both sides.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(listeners: Vec<Listener>, purpose: &str) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for listener in &listeners {
            epoll::add(&epoll, listener, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self {
            listeners,
            purpose: purpose.to_owned(),
            epoll,
            waiting: VecDeque::new(),
            paused_until: None,
            trouble: None,
            notices: Notices::default(),
        })
    }

    /// Listens with a secret on all addresses of this host, at a port that the system
    /// chooses. Returns the port, too.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(secret: Secret, purpose: &str) -> io::Result<(Self, u16)> {
        // Also for IPv4, where the host has IPv6 at all.
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = both.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let port = listener.local_addr()?.port();
        let listener = Listener::of_tcp(listener, Some(&secret))?;
        Ok((Self::new(vec![listener], purpose)?, port))
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.listeners.iter().map(Listener::address)
    }

    /// When a connection has waited long enough, connections may be accepted again, or a
    /// [notice](Self::notice) is due.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|it| it.until);
        let others = self.paused_until.into_iter().chain(self.notices.deadline());
        waiting.chain(others).min()
    }

    /// Why the system could not accept a connection when it was tried last: too many open
    /// files, for one. Connections wait meanwhile.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    /// A line about refused connections, for people: at most one a second, with a count of
    /// the rest.
    pub fn notice(&mut self, now: Instant) -> Option<String> {
        self.notices.take(now)
    }

    /// Lets in connections that may be served, and closes those that prove nothing.
    pub fn step(&mut self, now: Instant) -> Vec<Guest> {
        let mut guests = Vec::new();
        self.accept(now, &mut guests);
        for mut waiting in core::mem::take(&mut self.waiting) {
            match waiting.step() {
                Outcome::Guest => {
                    // Fails only for one that was never added.
                    let _ = epoll::delete(&self.epoll, &waiting.stream);
                    guests.push(Guest {
                        stream: waiting.stream,
                        session: waiting.session,
                    });
                }
                Outcome::Waits if now < waiting.until => self.waiting.push_back(waiting),
                Outcome::Waits if waiting.refusal.is_some() => {}
                Outcome::Waits => self.notices.note(format!(
                    "a connection from {} was closed: it did not prove in {} s that it knows the secret",
                    waiting.stream.peer(),
                    STRANGER_WAIT.as_secs()
                )),
                Outcome::Gone(Some(why)) => self.notices.note(format!(
                    "a connection from {} was closed: {why}",
                    waiting.stream.peer()
                )),
                Outcome::Gone(None) => {}
            }
        }
        guests
    }

    /// Refuses a guest with a message of the server, and closes the connection when the other
    /// side has closed it, or after [`STRANGER_WAIT`].
    pub fn refuse(&mut self, guest: Guest, words: &[u8], why: &str, now: Instant) {
        let Guest {
            stream,
            mut session,
        } = guest;
        let text = format!("a connection from {} was refused: {why}", stream.peer());
        self.notices.note(text);
        let refusal = match &mut session {
            None => words.to_vec(),
            Some(session) => {
                // Fails if it is over already: then nothing is sent.
                let _ = session.say(words);
                let sealed = session.unsent().to_vec();
                session.note_sent(sealed.len());
                sealed
            }
        };
        let mut waiting = Waiting {
            stream,
            session,
            refusal: Some(refusal),
            until: now + STRANGER_WAIT,
        };
        // Now: if the session has read all that the other side sends, nothing wakes the
        // door for this connection.
        if matches!(waiting.step(), Outcome::Waits) {
            self.wait_for(waiting);
        }
    }

    fn accept(&mut self, now: Instant, guests: &mut Vec<Guest>) {
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

    /// Accepts at one listener. More connections than these are taken in the next step.
    fn accept_at(&mut self, index: usize, now: Instant, guests: &mut Vec<Guest>) -> io::Result<()> {
        for _ in 0..STRANGERS_MAX {
            let listener = &self.listeners[index];
            let stream = match listener.accept() {
                Ok(stream) => stream,
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
            if stream.prepare().is_err() {
                continue;
            }
            let Some(secret) = listener.secret() else {
                guests.push(Guest {
                    stream,
                    session: None,
                });
                continue;
            };
            let session = Session::answerer(secret, &self.purpose);
            self.wait_for(Waiting {
                stream,
                session: Some(session.map_err(io::Error::other)?),
                refusal: None,
                until: now + STRANGER_WAIT,
            });
        }
        Ok(())
    }

    /// Puts a connection in front of the door; the oldest of too many is closed.
    fn wait_for(&mut self, waiting: Waiting) {
        if self.waiting.len() == STRANGERS_MAX
            && let Some(oldest) = self.waiting.pop_front()
            && oldest.refusal.is_none()
        {
            self.notices.note(format!(
                "a connection from {} was closed: {STRANGERS_MAX} others came that have not proved that they know the secret",
                oldest.stream.peer()
            ));
        }
        let (data, flags) = (EventData::new_u64(0), EventFlags::IN);
        match epoll::add(&self.epoll, &waiting.stream, data, flags) {
            Ok(()) => self.waiting.push_back(waiting),
            Err(error) => self.trouble = Some(error.into()),
        }
    }

    /// No connection can be accepted now.
    fn pause(&mut self, error: io::Error, now: Instant) {
        self.notices
            .note(format!("no connection can be accepted now: {error}"));
        self.paused_until = Some(now + PAUSE);
        self.trouble = Some(error);
        self.listen(EventFlags::empty());
    }

    fn listen(&self, flags: EventFlags) {
        for listener in &self.listeners {
            // Fails only for one that was never added.
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(0), flags);
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Whether the reason lies with the connection, not with this host.
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
        let mut dropped_reads = 0;
        loop {
            let sent = match &mut self.refusal {
                Some(words) => send_refusal(&mut self.stream, words),
                None => self.send(),
            };
            if sent.is_err() {
                return Outcome::Gone(None);
            }
            let session = self.session.as_mut().filter(|_| self.refusal.is_none());
            if session.as_ref().is_some_and(|it| it.is_proven()) {
                return Outcome::Guest;
            }
            let mut bytes = [0; READ_BYTES];
            match (self.stream.read(&mut bytes), session) {
                (Ok(0), None) => return Outcome::Gone(None),
                (Ok(0), Some(_)) => {
                    let why = "it has ended without a proof that it knows the secret";
                    return Outcome::Gone(Some(why.into()));
                }
                (Ok(_), None) => {
                    dropped_reads += 1;
                    if dropped_reads == DROPPED_READS_MAX {
                        return Outcome::Waits;
                    }
                }
                (Ok(count), Some(session)) => {
                    if let Err(error) = session.receive(&bytes[..count]) {
                        return Outcome::Gone(Some(error.to_string()));
                    }
                }
                (Err(error), _) if error.kind() == ErrorKind::Interrupted => {}
                (Err(error), _) if error.kind() == ErrorKind::WouldBlock => return Outcome::Waits,
                (Err(error), session) => {
                    return Outcome::Gone(session.map(|_| error.to_string()));
                }
            }
        }
    }

    /// 48 bytes: the system takes them at once.
    fn send(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            let bytes = session.unsent();
            if !bytes.is_empty() {
                self.stream.write_all(bytes)?;
                let count = bytes.len();
                session.note_sent(count);
            }
        }
        Ok(())
    }
}

/// Some hundred bytes into an empty socket: the system takes them at once.
fn send_refusal(stream: &mut Accepted, words: &mut Vec<u8>) -> io::Result<()> {
    if !words.is_empty() {
        stream.write_all(words)?;
        words.clear();
        stream.shut_down(Shutdown::Write);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
