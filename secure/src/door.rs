//! A listening socket, and those who have connected and not yet proved that they
//! know the secret: few at a time, and not for long. Does not block.

use crate::{Secret, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Who has not proved anything, at a time. One more, and the one that has waited
/// longest has to go: a friend needs no longer than its messages travel, and calls
/// again.
pub const STRANGERS_MAX: usize = 64;
/// How long one may take to prove that it knows the secret.
pub const STRANGER_WAIT: Duration = Duration::from_secs(10);
/// How long nobody is let in when the system cannot take anybody in: it would say so
/// again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// More than a handshake needs.
const READ_BYTES: usize = 4096;

/// Somebody who has proved to know the secret.
#[derive(Debug)]
pub struct Guest {
    /// Does not block, sends small pieces at once.
    pub stream: TcpStream,
    /// Open and proven; it may have heard something already.
    pub session: Session,
}

#[derive(Debug)]
struct Stranger {
    stream: TcpStream,
    session: Session,
    until: Instant,
}

/// What became of a stranger.
enum Outcome {
    Waits,
    Guest,
    Gone,
}

/// A listening socket, and those who wait before it: few at a time, and not for long.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    secret: Secret,
    purpose: String,
    strangers: Vec<Stranger>,
    /// Until when nobody is let in.
    paused_until: Option<Instant>,
    trouble: Option<io::Error>,
}

impl Door {
    /// Listens on all addresses of this host, at a port that the system chooses.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(secret: Secret, purpose: &str) -> io::Result<Self> {
        // Also for IPv4, where the host has IPv6 at all.
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = both.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            secret,
            purpose: purpose.to_owned(),
            strangers: Vec::new(),
            paused_until: None,
            trouble: None,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What to poll for readability.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let strangers = self
            .strangers
            .iter()
            .map(|stranger| stranger.stream.as_fd());
        let listens = self.paused_until.is_none();
        let listener = listens.then(|| self.listener.as_fd());
        listener.into_iter().chain(strangers)
    }

    /// When somebody has waited long enough, or somebody may be let in again.
    pub fn deadline(&self) -> Option<Instant> {
        let strangers = self.strangers.iter().map(|stranger| stranger.until);
        strangers.chain(self.paused_until).min()
    }

    /// Why the system could not take somebody in when it was tried last: too many open
    /// files, for one. Who calls waits meanwhile.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    /// Lets in who has come and proved itself, and shows out who cannot or does
    /// not.
    pub fn step(&mut self, now: Instant) -> Vec<Guest> {
        self.accept(now);
        let mut guests = Vec::new();
        let strangers = core::mem::take(&mut self.strangers);
        for mut stranger in strangers {
            match stranger.step() {
                Outcome::Guest => guests.push(Guest {
                    stream: stranger.stream,
                    session: stranger.session,
                }),
                Outcome::Waits if now < stranger.until => self.strangers.push(stranger),
                Outcome::Waits | Outcome::Gone => {}
            }
        }
        guests
    }

    fn accept(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.paused_until = None;
        // What more waits is taken next time.
        for _ in 0..STRANGERS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // One that has gone again.
                Err(error) if is_of_one(&error) => continue,
                Err(error) => return self.pause(error, now),
            };
            self.trouble = None;
            let prepared = stream.set_nonblocking(true);
            let prepared = prepared.and_then(|()| stream.set_nodelay(true));
            let session = Session::answerer(&self.secret, &self.purpose);
            let (Ok(()), Ok(session)) = (prepared, session) else {
                continue;
            };
            if self.strangers.len() == STRANGERS_MAX {
                self.strangers.remove(0);
            }
            self.strangers.push(Stranger {
                stream,
                session,
                until: now + STRANGER_WAIT,
            });
        }
    }

    /// Nobody can be taken in now.
    fn pause(&mut self, error: io::Error, now: Instant) {
        self.paused_until = Some(now + PAUSE);
        self.trouble = Some(error);
    }
}

/// Whether it is no trouble of this host, but of who has called.
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

impl Stranger {
    fn step(&mut self) -> Outcome {
        loop {
            if self.send().is_err() {
                return Outcome::Gone;
            }
            if self.session.is_proven() {
                return Outcome::Guest;
            }
            let mut bytes = [0; READ_BYTES];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Outcome::Gone,
                Ok(count) => {
                    if self.session.receive(&bytes[..count]).is_err() {
                        return Outcome::Gone;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Outcome::Waits,
                Err(_) => return Outcome::Gone,
            }
        }
    }

    /// 48 bytes: the system takes them at once, or the stranger is a strange one.
    fn send(&mut self) -> io::Result<()> {
        let bytes = self.session.unsent();
        if !bytes.is_empty() {
            self.stream.write_all(bytes)?;
            let count = bytes.len();
            self.session.note_sent(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
