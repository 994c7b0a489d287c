//! The socket of one connection: bytes in both directions.

use super::host::{Channel, DoesNotRead};
use super::stream::Stream;
use crate::framing::{self, FrameError, FrameReader};
use crate::message::{ToClient, ToLogger};
use refrain_wire::{Guest, Session};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

/// Bytes that are read at a time.
pub(super) const READ_BYTES: usize = 64 << 10;

/// What there was to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Some,
    Nothing,
    /// The other side has closed, or is dead.
    End,
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: Stream,
    /// With a secret: what is said goes through it.
    session: Option<Session>,
    frames: FrameReader,
    out: Vec<u8>,
    sent: usize,
    /// Go with the byte of `out` at this place.
    descriptors: Option<(usize, [OwnedFd; 2])>,
    /// What epoll was told.
    pub(super) interest: EventFlags,
}

impl Socket {
    /// # Errors
    /// Of the system.
    pub(super) fn new(guest: Guest) -> io::Result<Self> {
        let stream = Stream::new(guest.stream)?;
        let mut session = guest.session;
        let mut frames = FrameReader::default();
        if let Some(session) = &mut session {
            frames.extend(&session.take_heard());
        }
        Ok(Self {
            stream,
            session,
            frames,
            out: Vec::new(),
            sent: 0,
            descriptors: None,
            interest: EventFlags::empty(),
        })
    }

    /// Reads once. What is held is a frame and one reading at most, since
    /// nothing is read before the frames that are whole were taken. `bytes`: room for
    /// the reading.
    pub(super) fn receive(&mut self, bytes: &mut [u8]) -> Received {
        loop {
            return match self.stream.read(bytes) {
                Ok(0) => Received::End,
                Ok(count) => self.take(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Received::Nothing,
                Err(_) => Received::End,
            };
        }
    }
}

impl Socket {
    fn take(&mut self, bytes: &[u8]) -> Received {
        let Some(session) = &mut self.session else {
            self.frames.extend(bytes);
            return Received::Some;
        };
        let understood = session.receive(bytes);
        self.frames.extend(&session.take_heard());
        match understood {
            Ok(()) => Received::Some,
            Err(_) => Received::End,
        }
    }
}

impl Channel for Socket {
    type Handle = [OwnedFd; 2];

    fn is_local(&self) -> bool {
        self.stream.is_local()
    }

    fn next_message(&mut self) -> Result<Option<ToLogger>, FrameError> {
        self.frames.next_message()
    }

    fn say(
        &mut self,
        message: &ToClient,
        descriptors: Option<[OwnedFd; 2]>,
    ) -> Result<(), FrameError> {
        let at = self.out.len();
        framing::encode(message, &mut self.out)?;
        if let Some(session) = &mut self.session {
            let said = session.say(&self.out);
            self.out.clear();
            // Over, which is noticed by whatever is tried next.
            return said.or(Ok(()));
        }
        if let Some(both) = descriptors {
            debug_assert!(self.descriptors.is_none(), "one welcome for a connection");
            self.descriptors = Some((at, both));
        }
        Ok(())
    }

    fn unsent_bytes(&self) -> usize {
        let sealed = self.session.as_ref();
        sealed.map_or(self.out.len() - self.sent, |session| session.unsent().len())
    }

    fn send(&mut self, bytes_max: usize) -> Result<(), DoesNotRead> {
        while let Some(session) = &mut self.session {
            if session.unsent().is_empty() {
                return Ok(());
            }
            match self.stream.send(session.unsent(), None) {
                Ok(count) => session.note_sent(count),
                Err(Errno::AGAIN) if session.unsent().len() <= bytes_max => return Ok(()),
                Err(_) => return Err(DoesNotRead),
            }
        }
        while self.unsent_bytes() > 0 {
            let (to, descriptors) = match &self.descriptors {
                Some((at, both)) if *at == self.sent => (self.out.len(), Some(both)),
                Some((at, _)) => (*at, None),
                None => (self.out.len(), None),
            };
            match self.stream.send(&self.out[self.sent..to], descriptors) {
                Ok(count) => {
                    if descriptors.is_some() {
                        self.descriptors = None;
                    }
                    self.sent += count;
                }
                Err(Errno::AGAIN) if self.unsent_bytes() <= bytes_max => return Ok(()),
                Err(_) => return Err(DoesNotRead),
            }
        }
        self.out.clear();
        self.sent = 0;
        // A burst is no reason to hold its memory for ever.
        self.out.shrink_to(READ_BYTES);
        Ok(())
    }
}
