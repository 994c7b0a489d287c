//! A conversation over a socket that blocks.

use crate::{Secret, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

const READ_BYTES: usize = 16 << 10;

/// The calling side. What is written goes at once; the socket's own timeouts count.
#[derive(Debug)]
pub struct SealedStream {
    stream: TcpStream,
    session: Session,
    /// Heard, and not read yet.
    heard: Vec<u8>,
}

impl SealedStream {
    /// Calls who has accepted the connection, and returns when it has proved that it
    /// knows the secret.
    ///
    /// # Errors
    /// Of the socket; `InvalidData` when the other side is a stranger.
    pub fn call(stream: TcpStream, secret: &Secret, purpose: &str) -> io::Result<Self> {
        let session = Session::caller(secret, purpose).map_err(invalid)?;
        let mut sealed = Self {
            stream,
            session,
            heard: Vec::new(),
        };
        sealed.flush()?;
        while !sealed.session.is_proven() {
            if sealed.receive()? == 0 {
                return Err(invalid("who listens there does not know the secret"));
            }
        }
        sealed.flush()?;
        Ok(sealed)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; READ_BYTES];
        let count = self.stream.read(&mut bytes)?;
        self.session.receive(&bytes[..count]).map_err(invalid)?;
        self.heard.extend(self.session.take_heard());
        Ok(count)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Read for SealedStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.heard.is_empty() {
            if self.receive()? == 0 {
                return Ok(0);
            }
        }
        let count = self.heard.len().min(to.len());
        to[..count].copy_from_slice(&self.heard[..count]);
        self.heard.drain(..count);
        Ok(count)
    }
}

impl Write for SealedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.say(bytes).map_err(invalid)?;
        self.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.session.unsent().is_empty() {
            let count = self.stream.write(self.session.unsent())?;
            if count == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.session.note_sent(count);
        }
        Ok(())
    }
}
