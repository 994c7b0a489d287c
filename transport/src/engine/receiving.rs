//! Receives: begun, matched at once if their message is there, taken back.

use super::buffer::ReceiveBuffer;
use super::request::{Receiving, RequestId, State, Status};
use super::{Engine, Matched};
use crate::matching::Pattern;
use crate::protocol::Protocol;
use refrain_ring::Clock;

impl<P: Protocol> Engine<P> {
    /// Begins a receive.
    // Inlined always, as `add_receive`: the request is built in its place.
    #[inline(always)]
    pub fn start_receive(&mut self, buffer: ReceiveBuffer, pattern: Pattern) -> RequestId {
        if self.plays_again {
            return self.start_receive_again(buffer, pattern);
        }
        let clock = self.count();
        let id = self.add_receive(clock, buffer, pattern.source.is_none());
        match self.inbox.matcher.take_unexpected(&pattern) {
            Some((_, index)) => self.deliver(index, id),
            None => self.post(id, pattern),
        }
        id
    }

    /// The same of one of which nothing is told.
    pub(super) fn match_or_post(&mut self, id: RequestId, pattern: Pattern) {
        match self.inbox.matcher.take_unexpected(&pattern) {
            Some((_, index)) => {
                self.inbox.note_taken(index);
                self.deliver(index, id);
            }
            None => self.post(id, pattern),
        }
    }

    #[inline(always)]
    pub(super) fn post(&mut self, id: RequestId, pattern: Pattern) {
        let posted = self.inbox.matcher.post(pattern, id);
        if let Some(receiving) = self.requests.receiving(id) {
            receiving.posted = Some(posted);
        }
    }

    /// Begins the receive of a message that a matched probe took.
    pub fn start_matched_receive(&mut self, buffer: ReceiveBuffer, matched: Matched) -> RequestId {
        let clock = self.tick();
        // The probe was the event: this receive is as good as named.
        let id = self.add_receive(clock, buffer, false);
        if self.plays_again {
            self.check_matched_receive(clock, id, matched.index);
        }
        self.deliver(matched.index, id);
        id
    }

    #[inline(always)]
    pub(super) fn add_receive(
        &mut self,
        clock: Clock,
        buffer: ReceiveBuffer,
        any_source: bool,
    ) -> RequestId {
        self.statistics.receives += 1;
        let status = Status {
            source: self.options.rank,
            tag: 0,
            bytes: u64::MAX,
            cancelled: false,
        };
        let receiving = Receiving {
            buffer,
            any_source,
            is_logged: any_source | self.inbox.every_reception,
            in_limbo: false,
            posted: None,
            status,
            arrived_bytes: 0,
            landings: 0,
        };
        self.requests.add(clock, State::Receiving(receiving))
    }

    pub(super) fn deliver(&mut self, index: usize, id: RequestId) {
        self.inbox.deliver_stored(
            index,
            id,
            &mut self.requests,
            &mut *self.fabric,
            &mut self.protocol,
        );
        self.after_matches();
        // Its sender waits for the answer, and this rank may compute now.
        if self.outbox.has_controls() {
            self.post_controls();
        }
    }

    /// Takes a receive back if it has not matched. Which of the two it is depends
    /// on timing: an event either way, but for sends, which are never taken back.
    pub fn cancel(&mut self, id: RequestId) {
        let clock = self.tick();
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let posted_at = request.posted_at;
        if !request.is_receive {
            return;
        }
        if self.plays_again && self.cancel_again(clock, id, posted_at) {
            return;
        }
        let receiving = self.requests.receiving(id);
        let Some(posted) = receiving.and_then(|receiving| receiving.posted) else {
            self.note_nothing(clock);
            return;
        };
        if self.inbox.matcher.cancel(posted).is_some() {
            self.finish_cancelled(id);
            self.note_cancelled(clock, posted_at);
        }
    }
}
