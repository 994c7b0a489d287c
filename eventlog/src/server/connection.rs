//! One connection: bytes in both directions, and what it is for.

use super::joining::Joining;
use super::listener::Stream;
use super::reading::Answer;
use super::writer::Writer;
use crate::framing::{self, FrameError, FrameReader};
use crate::message::{FRAME_BYTES_MAX, ToClient, ToLogger};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// What a connection is for.
#[derive(Debug)]
pub(super) enum Role {
    /// It has said no hello: it may ask.
    Visitor,
    /// Its hello is being seen to.
    Joining(Box<Joining>),
    /// It writes the determinants of a rank.
    Writer(Writer),
}

/// What there was to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Some,
    Nothing,
    /// The other side has closed, or is dead.
    End,
}

/// The client does not read what it is sent.
#[derive(Debug)]
pub(super) struct DoesNotRead;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    frames: FrameReader,
    out: Vec<u8>,
    sent: usize,
    /// Go with the byte of `out` at this place.
    descriptors: Option<(usize, [OwnedFd; 2])>,
    pub(super) role: Role,
    /// An answer that is being given, in pieces.
    pub(super) answer: Option<Answer>,
    /// Ends when everything was sent.
    pub(super) ends: bool,
    /// What epoll was told.
    pub(super) interest: EventFlags,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            frames: FrameReader::default(),
            out: Vec::new(),
            sent: 0,
            descriptors: None,
            role: Role::Visitor,
            answer: None,
            ends: false,
            interest: EventFlags::empty(),
        }
    }

    /// Whether it may be listened to: not before what it said is done with.
    pub(super) fn is_listened_to(&self) -> bool {
        !self.ends && self.answer.is_none() && !matches!(self.role, Role::Joining(_))
    }

    /// Reads once. What is held is a frame and one reading at most, since
    /// nothing is read before the frames that are whole were taken.
    pub(super) fn receive(&mut self) -> Received {
        let mut bytes = [0; READ_BYTES];
        loop {
            return match self.stream.read(&mut bytes) {
                Ok(0) => Received::End,
                Ok(count) => {
                    self.frames.extend(&bytes[..count]);
                    Received::Some
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Received::Nothing,
                Err(_) => Received::End,
            };
        }
    }

    /// The next message that has come.
    pub(super) fn next_message(&mut self) -> Result<Option<ToLogger>, FrameError> {
        self.frames.next_message()
    }

    /// Says something, as soon as the other side takes it.
    pub(super) fn say(&mut self, message: &ToClient) {
        if let Err(error) = framing::encode(message, &mut self.out) {
            // Only for what is as long as somebody else made it.
            let reason = format!("the answer does not fit: {error}");
            let refused = ToClient::Refused { reason };
            framing::encode(&refused, &mut self.out).expect("a short sentence fits a frame");
            self.ends = true;
        }
    }

    /// Says something, with two descriptors.
    pub(super) fn say_with(&mut self, message: &ToClient, descriptors: [OwnedFd; 2]) {
        debug_assert!(self.descriptors.is_none(), "one welcome for a connection");
        self.descriptors = Some((self.out.len(), descriptors));
        self.say(message);
    }

    /// Says no, and ends.
    pub(super) fn refuse(&mut self, reason: impl Into<String>) {
        let mut reason = reason.into();
        let mut bytes = reason.len().min(FRAME_BYTES_MAX / 2);
        while !reason.is_char_boundary(bytes) {
            bytes -= 1;
        }
        reason.truncate(bytes);
        self.say(&ToClient::Refused { reason });
        self.ends = true;
    }

    /// Bytes that wait to be sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends as much as is taken. `bytes_max`: of what the other side has not
    /// read; more, and it is cut off.
    pub(super) fn send(&mut self, bytes_max: usize) -> Result<(), DoesNotRead> {
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
