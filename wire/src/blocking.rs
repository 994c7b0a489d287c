//! A conversation over a socket that blocks.

use crate::{Secret, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

const READ_BYTES: usize = 16 << 10;

/// One side. What is written goes at once; the socket's own timeouts count.
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
        let mut sealed = Self::new(stream, session);
        sealed.flush()?;
        while !sealed.session.is_proven() {
            if sealed.receive()? == 0 {
                return Err(invalid("who listens there does not know the secret"));
            }
        }
        sealed.flush()?;
        Ok(sealed)
    }

    /// The answering side of a conversation that is open and proven (see
    /// [`Door`](crate::Door)).
    ///
    /// # Errors
    /// Of the socket.
    pub fn proven(stream: TcpStream, mut session: Session) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let heard = session.take_heard();
        let mut sealed = Self::new(stream, session);
        sealed.heard = heard;
        Ok(sealed)
    }

    fn new(stream: TcpStream, session: Session) -> Self {
        Self {
            stream,
            session,
            heard: Vec::new(),
        }
    }

    /// The socket: to poll and to shut down, not to read or write.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether something was heard and not read yet: the socket does not tell.
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; READ_BYTES];
        let count = uninterrupted(|| self.stream.read(&mut bytes))?;
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
        send(&mut self.session, &mut self.stream)
    }
}

/// Sends all that is to be sent. A signal is no failure: who writes tries again then,
/// and would say the same twice.
fn send(session: &mut Session, to: &mut impl Write) -> io::Result<()> {
    while !session.unsent().is_empty() {
        let count = uninterrupted(|| to.write(session.unsent()))?;
        if count == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        session.note_sent(count);
    }
    Ok(())
}

/// A signal's handler is no reason to give up.
fn uninterrupted(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every other call is interrupted by a signal; each takes a few bytes.
    struct Interrupted {
        taken: Vec<u8>,
        calls: usize,
    }

    impl Write for Interrupted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls % 2 == 1 {
                return Err(ErrorKind::Interrupted.into());
            }
            let count = bytes.len().min(7);
            self.taken.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is said while signals come is said once.
    #[test]
    fn signals_interrupt_nothing() {
        let secret = Secret::from_bytes([5; 32]);
        let mut caller = Session::caller(&secret, "test").expect("randomness");
        let mut answerer = Session::answerer(&secret, "test").expect("randomness");
        for _ in 0..2 {
            let mut to = Interrupted {
                taken: Vec::new(),
                calls: 0,
            };
            send(&mut caller, &mut to).expect("it is sent");
            assert!(to.calls > 2, "{} calls", to.calls);
            answerer.receive(&to.taken).expect("it fits");
            let answer = answerer.unsent().to_vec();
            answerer.note_sent(answer.len());
            caller.receive(&answer).expect("it fits");
        }
        caller.say(b"once").expect("it is open");
        let mut to = Interrupted {
            taken: Vec::new(),
            calls: 0,
        };
        send(&mut caller, &mut to).expect("it is sent");
        answerer.receive(&to.taken).expect("it fits");
        assert_eq!(answerer.take_heard(), b"once");
    }
}
