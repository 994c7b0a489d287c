//! Requests: operations in progress, and those that have ended but are not retired.

use super::SendTo;
use super::buffer::{ReceiveBuffer, SendBuffer};
use super::publishing::Publication;
use crate::gate::{Gate, Mark};
use crate::matching::PostedId;
use core::num::NonZeroU32;
use refrain_ring::{Clock, Rank, RecordHeader, Ssn, Stream};

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
    /// A receive of the rank `own` that begins.
    #[inline(always)]
    pub fn new(
        buffer: ReceiveBuffer,
        any_source: bool,
        is_logged: bool,
        posted: Option<PostedId>,
        own: Rank,
    ) -> Self {
        Self {
            buffer,
            any_source,
            is_logged,
            is_undecided: false,
            posted,
            status: Status {
                source: own,
                bytes: u64::MAX,
                ..Status::default()
            },
            arrived_bytes: 0,
            landings: 0,
        }
    }

    #[inline(always)]
    pub fn take(&mut self, offset: u64, payload: &[u8]) {
        self.buffer.unpack(offset, payload);
        self.arrived_bytes += payload.len() as u64;
    }
}

/// All requests. They are built, changed and ended in their place: one that is moved is read as a whole
/// right after its parts are written, which waits until the processor has sent off all earlier stores.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<u32>,
    generations: u32,
}

impl Requests {
    /// The id of the next request, which is [added](Self::add) before any other.
    #[inline(always)]
    pub fn next_id(&mut self) -> RequestId {
        let index = match self.free.last() {
            Some(index) => *index,
            None => self.grow(),
        };
        self.generations = self.generations.wrapping_add(1);
        RequestId {
            index,
            generation: NonZeroU32::new(self.generations).unwrap_or(NonZeroU32::MAX),
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let index = self.slots.len() as u32;
        self.slots.push(None);
        self.free.push(index);
        index
    }

    #[inline(always)]
    pub fn add(
        &mut self,
        id: RequestId,
        posted_at: Clock,
        kind: RequestKind,
        state: impl FnOnce() -> RequestState,
    ) {
        let index = self.free.pop();
        debug_assert_eq!(index, Some(id.index));
        self.slots[id.index as usize].get_or_insert_with(|| Request {
            generation: id.generation,
            posted_at,
            kind,
            state: state(),
            detached: false,
        });
    }

    #[inline(always)]
    pub fn add_send(&mut self, posted_at: Clock, sending: Sending) -> RequestId {
        let id = self.next_id();
        let state = || RequestState::Sending(sending);
        self.add(id, posted_at, RequestKind::Send, state);
        id
    }

    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let request = self.slots.get(id.index as usize)?.as_ref();
        request.filter(|request| request.generation == id.generation)
    }

    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let request = self.slots.get_mut(id.index as usize)?.as_mut();
        request.filter(|request| request.generation == id.generation)
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
                self.remove(id);
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
    pub fn receive_whole(&mut self, id: RequestId, header: &RecordHeader, payload: &[u8]) -> bool {
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
        let status = Status {
            source: header.source,
            tag: header.tag,
            bytes: header.extent,
            cancelled: false,
        };
        let outcome = Outcome::received(status, receiving.buffer.room_bytes());
        request.state = RequestState::Done(outcome);
        if request.detached {
            self.remove(id);
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
            self.remove(id);
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
        self.remove(id);
        Some(outcome)
    }

    /// Removes a request that has ended, after a look at its outcome; returns whether it has ended.
    #[inline(always)]
    pub fn take_with(&mut self, id: RequestId, look: impl FnOnce(&Outcome)) -> bool {
        let Some(slot) = self.slots.get_mut(id.index as usize) else {
            return false;
        };
        match slot {
            Some(Request {
                generation,
                state: RequestState::Done(outcome),
                ..
            }) if *generation == id.generation => look(outcome),
            _ => return false,
        }
        // Nothing of it is left to drop.
        core::mem::forget(slot.take());
        self.free.push(id.index);
        true
    }

    #[inline]
    pub fn remove(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.slots[id.index as usize] = None;
            self.free.push(id.index);
        }
    }

    /// Receives of the program that exist, done or not.
    pub fn receives(&self) -> impl Iterator<Item = &Request> {
        let requests = self.slots.iter().flatten();
        requests.filter(|it| it.kind == RequestKind::Receive)
    }

    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
