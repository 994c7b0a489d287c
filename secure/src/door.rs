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
        std::iter::once(self.listener.as_fd()).chain(strangers)
    }

    /// When somebody has waited long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.strangers.iter().map(|stranger| stranger.until).min()
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
        // What more waits is taken next time.
        for _ in 0..STRANGERS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nobody, or one that has gone again, or too many open files.
                Err(_) => return,
            };
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
