//! Receives: begun, matched at once if their message is there, taken back.

use super::buffer::ReceiveBuffer;
use super::request::{Outcome, Receiving, RequestId, State, Status};
use super::{Engine, Matched};
use crate::matching::Pattern;
use refrain_ring::Clock;

impl Engine {
    /// Begins a receive.
    // Inlined always, as `add_receive`: the request is built in its place.
    #[inline(always)]
    pub fn start_receive(&mut self, buffer: ReceiveBuffer, pattern: Pattern) -> RequestId {
        let clock = self.tick();
        let id = self.add_receive(clock, buffer, pattern.source.is_none());
        match self.inbox.matcher.take_unexpected(&pattern) {
            Some((_, index)) => self.deliver(index, id),
            None => {
                let posted = self.inbox.matcher.post(pattern, id);
                if let Some(receiving) = self.requests.receiving(id) {
                    receiving.posted = Some(posted);
                }
            }
        }
        id
    }

    /// Begins the receive of a message that a matched probe took.
    pub fn start_matched_receive(&mut self, buffer: ReceiveBuffer, matched: Matched) -> RequestId {
        let clock = self.tick();
        // The probe was the event: this receive is as good as named.
        let id = self.add_receive(clock, buffer, false);
        self.deliver(matched.index, id);
        id
    }

    #[inline(always)]
    fn add_receive(&mut self, clock: Clock, buffer: ReceiveBuffer, any_source: bool) -> RequestId {
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
            posted: None,
            status,
            arrived_bytes: 0,
            landings: 0,
        };
        self.requests.add(clock, State::Receiving(receiving))
    }

    fn deliver(&mut self, index: usize, id: RequestId) {
        self.inbox.deliver_stored(
            index,
            id,
            &mut self.requests,
            &mut *self.fabric,
            &mut *self.protocol,
        );
        self.after_matches();
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
        let unmatched = self
            .requests
            .receiving(id)
            .and_then(|receiving| Some((receiving.posted?, receiving.status)));
        let Some((posted, status)) = unmatched else {
            self.note_nothing(clock);
            return;
        };
        let status = Status {
            bytes: 0,
            cancelled: true,
            ..status
        };
        if self.inbox.matcher.cancel(posted).is_some() {
            self.requests.finish(
                id,
                Outcome {
                    status,
                    truncated_to: None,
                },
            );
            self.note_completion(clock, &[posted_at]);
        }
    }
}
