//! Receives: begun, matched at once if their message has arrived, cancelled.

use super::buffer::ReceiveBuffer;
use super::request::{Outcome, Receiving, RequestId, RequestKind, RequestState, Status};
use super::{Engine, Matched};
use crate::matching::{Pattern, PostedId};
use crate::protocol::{Event, Protocol};
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
        match self.inbox.matcher.take_or_post(pattern, id) {
            Ok(index) => self.deliver(index, id),
            Err(posted) => self.note_posted(id, posted),
        }
        id
    }

    #[inline(always)]
    pub(super) fn note_posted(&mut self, id: RequestId, posted: PostedId) {
        if let Some(receiving) = self.requests.receiving(id) {
            receiving.posted = Some(posted);
        }
    }

    /// Begins the receive of a message that a matched probe took.
    pub fn start_matched_receive(&mut self, buffer: ReceiveBuffer, matched: Matched) -> RequestId {
        let clock = self.tick();
        // The probe was the event: the message of this receive is known, as if its source were
        // named.
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
        let is_logged = any_source | self.inbox.every_reception;
        self.add_receiving(clock, RequestKind::Receive, buffer, any_source, is_logged)
    }

    #[inline(always)]
    pub(super) fn add_receiving(
        &mut self,
        clock: Clock,
        kind: RequestKind,
        buffer: ReceiveBuffer,
        any_source: bool,
        is_logged: bool,
    ) -> RequestId {
        self.statistics.receives += 1;
        let status = Status {
            source: self.options.rank,
            bytes: u64::MAX,
            ..Status::default()
        };
        let receiving = Receiving {
            buffer,
            any_source,
            is_logged,
            is_undecided: false,
            posted: None,
            status,
            arrived_bytes: 0,
            landings: 0,
        };
        let state = RequestState::Receiving(receiving);
        self.requests.add(clock, kind, state)
    }

    pub(super) fn deliver(&mut self, index: usize, id: RequestId) {
        let (mut delivery, fabric) = self.delivery();
        delivery.deliver_stored(index, id, fabric);
        self.after_matches();
        // The sender waits for these control frames, and this rank may compute now.
        if !self.outbox.controls.is_empty() {
            self.post_controls();
        }
    }

    /// Cancels a receive if it has not matched. Whether it has depends on timing, so both outcomes
    /// are events. A send is never cancelled.
    pub fn cancel(&mut self, id: RequestId) {
        let clock = self.tick();
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let posted_at = request.posted_at;
        if request.kind != RequestKind::Receive {
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
            let request = posted_at;
            self.note(Event::Cancelled { clock, request });
        }
    }

    pub(super) fn finish_cancelled(&mut self, id: RequestId) {
        if let Some(receiving) = self.requests.receiving(id) {
            let status = Status {
                bytes: 0,
                cancelled: true,
                ..receiving.status
            };
            self.requests.finish(id, Outcome::from(status));
        }
    }
}
