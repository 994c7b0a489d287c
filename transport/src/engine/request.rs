//! Requests: operations that are under way, or done and not yet asked for.

use super::SendTo;
use super::buffer::{ReceiveBuffer, SendBuffer};
use crate::matching::PostedId;
use refrain_ring::{Clock, Rank, Ssn};
use slab::Slab;

/// Names a request of one engine. Stale names are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

/// What is known of a message that was received, sent or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its sender.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length; of a truncated one, the whole length.
    pub bytes: u64,
    /// The receive was cancelled: there is no message.
    pub cancelled: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it was about.
    pub status: Status,
    /// The receive had only this much room, which was less than the message.
    pub truncated_to: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Request {
    generation: u32,
    /// Its id in events: the clock at its post.
    pub posted_at: Clock,
    pub is_receive: bool,
    pub state: State,
    /// Nobody will ask for it: forget it when it is done.
    pub detached: bool,
}

#[derive(Debug)]
pub(super) enum State {
    Sending(Sending),
    Receiving(Receiving),
    Done(Outcome),
}

#[derive(Debug)]
pub(super) struct Sending {
    pub buffer: SendBuffer,
    pub to: SendTo,
    pub ssn: Ssn,
    pub packed_bytes: u64,
    /// Its first record is in the log.
    pub announced: bool,
    pub way: Way,
}

/// How the payload of a send travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Eager,
    Rendezvous,
}

#[derive(Debug)]
pub(super) struct Receiving {
    pub buffer: ReceiveBuffer,
    pub any_source: bool,
    /// Its match is an event.
    pub is_logged: bool,
    /// It takes nothing while records are played.
    pub in_limbo: bool,
    /// Set while it waits for a match.
    pub posted: Option<PostedId>,
    pub status: Status,
    /// Bytes that are there: of what lands, only when it has landed.
    pub arrived_bytes: u64,
    /// Payloads that are being written into the buffer by the fabric.
    pub landings: u32,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    slab: Slab<Request>,
    generations: u32,
}

impl Requests {
    // Inlined always, so that the request is built in its place.
    #[inline(always)]
    pub fn add(&mut self, posted_at: Clock, state: State) -> RequestId {
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        let index = self.slab.insert(Request {
            generation,
            posted_at,
            is_receive: matches!(state, State::Receiving(_)),
            state,
            detached: false,
        });
        RequestId {
            index: index as u32,
            generation,
        }
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
            State::Sending(sending) => Some(sending),
            _ => None,
        }
    }

    #[inline]
    pub fn receiving(&mut self, id: RequestId) -> Option<&mut Receiving> {
        match &mut self.get_mut(id)?.state {
            State::Receiving(receiving) => Some(receiving),
            _ => None,
        }
    }

    /// The request is over.
    #[inline]
    pub fn finish(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(request) = self.get_mut(id) {
            request.state = State::Done(outcome);
            if request.detached {
                self.slab.remove(id.index as usize);
            }
        }
    }

    /// A receive is over if all of its message has arrived.
    #[inline]
    pub fn finish_receive_if_whole(&mut self, id: RequestId) -> bool {
        let Some(receiving) = self.receiving(id) else {
            return true;
        };
        // A fragment sent twice counts twice: what is landing may not be wanted
        // any more, but it is landing in the buffer. One branch: `|`.
        if (receiving.arrived_bytes < receiving.status.bytes) | (receiving.landings > 0) {
            return false;
        }
        let room = receiving.buffer.room_bytes();
        let status = receiving.status;
        let truncated_to = (room < status.bytes).then_some(room);
        self.finish(
            id,
            Outcome {
                status,
                truncated_to,
            },
        );
        true
    }

    /// Its match was an event of a life before.
    pub fn set_told(&mut self, id: RequestId) {
        if let Some(receiving) = self.receiving(id) {
            receiving.is_logged = false;
        }
    }

    pub fn put_in_limbo(&mut self, id: RequestId) {
        if let Some(receiving) = self.receiving(id) {
            receiving.in_limbo = true;
        }
    }

    pub fn is_in_limbo(&self, id: RequestId) -> bool {
        let state = self.get(id).map(|request| &request.state);
        matches!(state, Some(State::Receiving(receiving)) if receiving.in_limbo)
    }

    pub fn is_logged(&self, id: RequestId) -> bool {
        let state = self.get(id).map(|request| &request.state);
        matches!(state, Some(State::Receiving(receiving)) if receiving.is_logged)
    }

    #[inline]
    pub fn outcome(&self, id: RequestId) -> Option<Outcome> {
        match self.get(id)?.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    #[inline]
    pub fn remove(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.slab.remove(id.index as usize);
        }
    }

    /// Clock at the post of the oldest receive that exists, done or not.
    pub fn oldest_receive(&self) -> Option<Clock> {
        let receives = self.slab.iter().filter(|(_, request)| request.is_receive);
        receives.map(|(_, request)| request.posted_at).min()
    }

    /// Clock at the post of a receive that exists, and whether its buffer was given
    /// up; first of those that were not.
    pub fn any_receive(&self) -> Option<(Clock, bool)> {
        let receives = self.slab.iter().filter(|(_, request)| request.is_receive);
        let receives = receives.map(|(_, request)| (request.posted_at, request.detached));
        receives.min_by_key(|(posted_at, is_detached)| (*is_detached, *posted_at))
    }

    pub fn count(&self) -> usize {
        self.slab.len()
    }
}
