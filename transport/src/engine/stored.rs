//! Messages that came before their receive, and where their bytes are.

use super::buffer::Staging;
use super::request::{RequestId, Status};
use crate::fabric::Place;
use crate::matching::Envelope;
use refrain_ring::Ssn;

/// A message that came before its receive. Where the fabric allows, its bytes
/// stay in the sender's log.
#[derive(Debug)]
pub(super) struct Message {
    pub envelope: Envelope,
    pub ssn: Ssn,
    pub bytes: u64,
    /// Bytes of the parts that are known, wherever they are.
    pub arrived_bytes: u64,
    pub want_ack: bool,
    pub rendezvous: bool,
    pub parts: Parts,
    /// A self-send that completes with the match.
    pub completes: Option<RequestId>,
}

/// The payload of a message so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    first: Option<Part>,
    /// Only of messages of several frames.
    rest: Vec<Part>,
}

#[derive(Debug)]
pub(super) struct Part {
    pub offset: u64,
    pub stored: Stored,
}

#[derive(Debug)]
pub(super) enum Stored {
    /// Readable in the sender's log.
    InPlace {
        place: Place,
        bytes: usize,
    },
    /// In the sender's log, to be fetched.
    Distant {
        place: Place,
        bytes: usize,
    },
    /// Being fetched into staging memory, by the landing's name.
    Landing(u64),
    Staged {
        staging: Staging,
        bytes: usize,
    },
    Copied(Box<[u8]>),
    /// Gone with its sender, who has to send the message again. REC-7
    Lost,
}

impl Parts {
    pub fn push(&mut self, offset: u64, stored: Stored) {
        let part = Part { offset, stored };
        if self.first.is_none() {
            self.first = Some(part);
        } else {
            self.rest.push(part);
        }
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Part> {
        self.first
            .take()
            .into_iter()
            .chain(core::mem::take(&mut self.rest))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.first.iter_mut().chain(&mut self.rest)
    }

    /// Where the first part is.
    pub fn first(&self) -> Option<&Stored> {
        self.first.as_ref().map(|part| &part.stored)
    }

    /// The part that a landing is for.
    pub fn of_landing(&mut self, token: u64) -> Option<&mut Part> {
        self.iter_mut()
            .find(|part| matches!(part.stored, Stored::Landing(of) if of == token))
    }
}

impl Message {
    pub fn status(&self) -> Status {
        Status {
            source: self.envelope.source,
            tag: self.envelope.tag,
            bytes: self.bytes,
            cancelled: false,
        }
    }
}
