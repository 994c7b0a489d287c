//! Requests: operations in progress, and those that have ended but are not retired.

use super::SendTo;
use super::buffer::{ReceiveBuffer, SendBuffer};
use super::publishing::Publication;
use super::stored::MessageHead;
use crate::gate::{Gate, Mark};
use crate::matching::PostedId;
use core::num::NonZeroU32;
use refrain_ring::{Clock, Rank, Ssn, Stream};
use slab::Slab;

/// The name of a request of one engine. Stale names are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    index: u32,
    /// Never 0, so that there is room for the id of no request.
    generation: NonZeroU32,
}

/// Properties of a message that was received, sent or found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its sender (of a send: its receiver).
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes; of a truncated one, the whole length.
    pub bytes: u64,
    /// Whether the receive was cancelled: then there is no message.
    pub cancelled: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status of its message.
    pub status: Status,
    /// The receive's room in bytes, if it was less than the message.
    pub truncated_to: Option<u64>,
}

impl Outcome {
    /// The end of a receive with this room.
    #[inline(always)]
    fn received(status: Status, room_bytes: u64) -> Self {
        Self {
            status,
            truncated_to: (room_bytes < status.bytes).then_some(room_bytes),
        }
    }
}

impl From<Status> for Outcome {
    /// The end of a request whose message was not truncated.
    #[inline]
    fn from(status: Status) -> Self {
        Self {
            status,
            truncated_to: None,
        }
    }
}

impl SendTo {
    /// The outcome of a send of this length to this destination.
    #[inline]
    pub fn outcome(&self, bytes: u64) -> Outcome {
        Outcome::from(Status {
            source: self.rank,
            tag: self.tag,
            bytes,
            cancelled: false,
        })
    }
}

#[derive(Debug)]
pub(super) struct Request {
    generation: NonZeroU32,
    /// Its id in events: the clock at its post.
    pub posted_at: Clock,
    pub kind: RequestKind,
    pub state: RequestState,
    /// Whether the request is removed when it ends, without a report of its end.
    pub detached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Send,
    Receive,
    /// An internal operation, for which the program waits.
    Operation(Stream),
    /// A receive of an internal operation.
    Step,
}

#[derive(Debug)]
pub(super) enum RequestState {
    Sending(Sending),
    Receiving(Receiving),
    /// An internal operation that is not finished.
    Operating,
    Done(Outcome),
}

#[derive(Debug)]
pub(super) struct Sending {
    pub buffer: SendBuffer,
    pub to: SendTo,
    pub ssn: Ssn,
    pub packed_bytes: u64,
    /// Whether its first record is in the log.
    pub announced: bool,
    pub mode: SendMode,
    /// Of a message that goes to several ranks.
    pub publication: Option<Publication>,
    /// The events before it precede it: it waits for none. CAUSAL-1
    pub is_preceded: bool,
}

impl Sending {
    pub fn new(buffer: SendBuffer, to: SendTo, ssn: Ssn) -> Self {
        Self {
            buffer,
            to,
            ssn,
            packed_bytes: 0,
            announced: false,
            mode: SendMode::Eager,
            publication: None,
            is_preceded: false,
        }
    }

    /// The events for which its next record waits.
    pub fn mark(&self, gate: &Gate) -> Mark {
        match self.is_preceded {
            true => gate.preceded(),
            false => gate.mark(),
        }
    }

    pub fn outcome(&self) -> Outcome {
        self.to.outcome(self.buffer.message_bytes())
    }
}

/// How the payload of a send travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    Eager,
    Rendezvous,
}

#[derive(Debug)]
pub(super) struct Receiving {
    pub buffer: ReceiveBuffer,
    pub any_source: bool,
    /// Whether its match is an event.
    pub is_logged: bool,
    /// Whether it takes no message while records are replayed.
    pub is_undecided: bool,
    /// Set while it waits for a match.
    pub posted: Option<PostedId>,
    pub status: Status,
    /// Bytes that have arrived. Payload that lands in the buffer counts when it has landed.
    pub arrived_bytes: u64,
    /// Number of payloads that the fabric is writing into the buffer.
    pub landings: u32,
}

impl Receiving {
    #[inline(always)]
    pub fn take(&mut self, offset: u64, payload: &[u8]) {
        self.buffer.unpack(offset, payload);
        self.arrived_bytes += payload.len() as u64;
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    slab: Slab<Request>,
    generations: u32,
}

impl Requests {
    // Inlined always, so that the request is built in its place.
    #[inline(always)]
    pub fn add(&mut self, posted_at: Clock, kind: RequestKind, state: RequestState) -> RequestId {
        self.generations = self.generations.wrapping_add(1);
        let generation = NonZeroU32::new(self.generations).unwrap_or(NonZeroU32::MAX);
        let index = self.slab.insert(Request {
            generation,
            posted_at,
            kind,
            state,
            detached: false,
        });
        RequestId {
            index: index as u32,
            generation,
        }
    }

    #[inline(always)]
    pub fn add_send(&mut self, posted_at: Clock, sending: Sending) -> RequestId {
        let state = RequestState::Sending(sending);
        self.add(posted_at, RequestKind::Send, state)
    }

    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.slab
            .get(id.index as usize)
            .filter(|request| request.generation == id.generation)
    }

    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.slab
            .get_mut(id.index as usize)
            .filter(|request| request.generation == id.generation)
    }

    #[inline]
    pub fn sending(&mut self, id: RequestId) -> Option<&mut Sending> {
        match &mut self.get_mut(id)?.state {
            RequestState::Sending(sending) => Some(sending),
            _ => None,
        }
    }

    #[inline]
    pub fn receiving(&mut self, id: RequestId) -> Option<&mut Receiving> {
        match &mut self.get_mut(id)?.state {
            RequestState::Receiving(receiving) => Some(receiving),
            _ => None,
        }
    }

    /// Ends a request.
    #[inline(always)]
    pub fn finish(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(request) = self.get_mut(id) {
            request.state = RequestState::Done(outcome);
            if request.detached {
                self.slab.remove(id.index as usize);
            }
        }
    }

    pub fn finish_send(&mut self, id: RequestId) {
        if let Some(sending) = self.sending(id) {
            let outcome = sending.outcome();
            self.finish(id, outcome);
        }
    }

    /// Ends a receive whose match is no event with its message, all of which is here: the usual
    /// message. Returns false, and does nothing, if the match is an event.
    #[inline(always)]
    pub fn receive_whole(&mut self, id: RequestId, head: &MessageHead, payload: &[u8]) -> bool {
        let Some(request) = self.get_mut(id) else {
            return false;
        };
        let RequestState::Receiving(receiving) = &request.state else {
            return false;
        };
        if receiving.is_logged {
            return false;
        }
        receiving.buffer.unpack(0, payload);
        let outcome = Outcome::received(head.status(), receiving.buffer.room_bytes());
        request.state = RequestState::Done(outcome);
        if request.detached {
            self.slab.remove(id.index as usize);
        }
        true
    }

    /// Ends a receive if all of its message has arrived; returns whether it has ended.
    #[inline(always)]
    pub fn finish_receive_if_whole(&mut self, id: RequestId) -> bool {
        let Some(request) = self.get_mut(id) else {
            return true;
        };
        let RequestState::Receiving(receiving) = &request.state else {
            return true;
        };
        // A fragment that was sent twice counts twice: all bytes may have arrived while the fabric
        // still writes to the buffer. One branch: `|`.
        if (receiving.arrived_bytes < receiving.status.bytes) | (receiving.landings > 0) {
            return false;
        }
        let outcome = Outcome::received(receiving.status, receiving.buffer.room_bytes());
        request.state = RequestState::Done(outcome);
        if request.detached {
            self.slab.remove(id.index as usize);
        }
        true
    }

    #[inline]
    pub fn outcome(&self, id: RequestId) -> Option<Outcome> {
        match self.get(id)?.state {
            RequestState::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The outcome of a request that has ended; removes the request.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Option<Outcome> {
        let outcome = self.outcome(id)?;
        self.slab.remove(id.index as usize);
        Some(outcome)
    }

    #[inline]
    pub fn remove(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.slab.remove(id.index as usize);
        }
    }

    /// Receives of the program that exist, done or not.
    pub fn receives(&self) -> impl Iterator<Item = &Request> {
        let requests = self.slab.iter().map(|(_, request)| request);
        requests.filter(|it| it.kind == RequestKind::Receive)
    }

    pub fn count(&self) -> usize {
        self.slab.len()
    }
}
