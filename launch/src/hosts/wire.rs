//! Messages over a socket, between launcher and agent: sealed
//! (`refrain_secure::Session`), nothing that blocks.

use super::message::{MessageError, Reader, encode};
use refrain_secure::{SecureError, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use thiserror::Error;

const READ_BYTES: usize = 64 << 10;
/// A host that is gone says nothing: the kernel asks after so long …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// … so often …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// … so many times, and what was sent may be unacknowledged for as long.
const KEEPALIVE_PROBES: u32 = 5;
const UNACKNOWLEDGED_MAX_MS: u32 = 30_000;

/// Why nothing more is said.
#[derive(Debug, Error)]
pub enum WireError {
    /// The other side has closed.
    #[error("the connection was closed")]
    Closed,
    /// It is a stranger, or somebody tampers.
    #[error(transparent)]
    Secure(#[from] SecureError),
    /// What it says is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The system.
    #[error("the connection broke: {0}")]
    Os(#[from] io::Error),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    session: Session,
    reader: Reader,
}

impl Wire {
    /// Over a connection whose other side is to be proven, or is.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(stream: TcpStream, session: Session) -> Result<Self, WireError> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let watched = || {
            sockopt::set_socket_keepalive(&stream, true)?;
            sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
            sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
            sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
            sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MAX_MS)
        };
        watched().map_err(io::Error::from)?;
        let mut wire = Self {
            stream,
            session,
            reader: Reader::default(),
        };
        let heard = wire.session.take_heard();
        wire.reader.push(&heard);
        wire.flush()?;
        Ok(wire)
    }

    /// This side's address.
    ///
    /// # Errors
    /// Of the system.
    pub fn own_address(&self) -> Result<IpAddr, WireError> {
        Ok(self.stream.local_addr()?.ip().to_canonical())
    }

    /// What to poll for.
    pub fn interest(&self) -> PollFlags {
        match self.is_sending() {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        }
    }

    /// Whether something waits to be sent.
    pub fn is_sending(&self) -> bool {
        !self.session.unsent().is_empty()
    }

    /// How much waits to be sent.
    pub fn unsent_bytes(&self) -> usize {
        self.session.unsent().len()
    }

    /// Whether the other side has proved itself.
    pub fn is_proven(&self) -> bool {
        self.session.is_proven()
    }

    /// Says something, when the socket takes it: [`flush`](Self::flush).
    ///
    /// # Errors
    /// It is over, or the message too long.
    pub fn say<M: Serialize>(&mut self, message: &M) -> Result<(), WireError> {
        let bytes = encode(message)?;
        Ok(self.session.say(&bytes)?)
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// It is over.
    pub fn flush(&mut self) -> Result<(), WireError> {
        while self.is_sending() {
            match self.stream.write(self.session.unsent()) {
                Ok(0) => return Err(WireError::Closed),
                Ok(count) => self.session.note_sent(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what is there, once. `false`: nothing.
    ///
    /// # Errors
    /// It is over; what came before can still be taken.
    pub fn receive(&mut self) -> Result<bool, WireError> {
        let mut bytes = [0; READ_BYTES];
        loop {
            return match self.stream.read(&mut bytes) {
                Ok(0) => Err(WireError::Closed),
                Ok(count) => {
                    let received = self.session.receive(&bytes[..count]);
                    self.reader.push(&self.session.take_heard());
                    received?;
                    // An answer of the handshake.
                    self.flush()?;
                    Ok(true)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// The next message that has come.
    ///
    /// # Errors
    /// What came is none.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, WireError> {
        Ok(self.reader.next_message()?)
    }

    /// Sleeps until something can be sent, or the time is over.
    ///
    /// # Errors
    /// Of the system; `TimedOut` when the time is over.
    pub fn wait_to_send(&self, until: Instant) -> Result<(), WireError> {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(&self.stream, PollFlags::OUT)];
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let ready = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&left)));
        match ready.map_err(io::Error::from)? {
            0 => Err(io::Error::from(ErrorKind::TimedOut).into()),
            _ => Ok(()),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
