//! Receives: begun, matched at once if their message has arrived, cancelled.

use super::buffer::ReceiveBuffer;
use super::request::{Outcome, Receiving, RequestId, RequestKind, RequestState, Status};
use super::{Engine, Matched};
use crate::matching::{Pattern, PostedId};
use crate::protocol::{Event, Protocol};
use refrain_ring::Clock;

impl<P: Protocol> Engine<P> {
    /// Begins a receive.
    #[inline]
    pub fn start_receive(&mut self, buffer: ReceiveBuffer, pattern: Pattern) -> RequestId {
        self.start_receive_into(|| buffer, pattern)
    }

    /// As [`Engine::start_receive`], with a buffer that is made in the place of its request.
    // Inlined always, as what it calls: see `Requests`.
    #[inline(always)]
    pub fn start_receive_into(
        &mut self,
        buffer: impl FnOnce() -> ReceiveBuffer,
        pattern: Pattern,
    ) -> RequestId {
        if self.plays_again {
            return self.start_receive_again(buffer(), pattern);
        }
        let clock = self.count();
        let id = self.requests.next_id();
        let any_source = pattern.source.is_none();
        let found = self.inbox.matcher.take_or_post(&pattern, id);
        let is_logged = any_source | self.inbox.every_reception;
        self.statistics.receives += 1;
        let own = self.options.rank;
        self.requests.add(id, clock, RequestKind::Receive, || {
            let posted = found.err();
            RequestState::Receiving(Receiving::new(buffer(), any_source, is_logged, posted, own))
        });
        if let Ok(index) = found {
            self.deliver(index, id);
        }
        id
    }

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

    pub(super) fn add_receive(
        &mut self,
        clock: Clock,
        buffer: ReceiveBuffer,
        any_source: bool,
    ) -> RequestId {
        let is_logged = any_source | self.inbox.every_reception;
        self.add_receiving(clock, RequestKind::Receive, buffer, any_source, is_logged)
    }

    pub(super) fn add_receiving(
        &mut self,
        clock: Clock,
        kind: RequestKind,
        buffer: ReceiveBuffer,
        any_source: bool,
        is_logged: bool,
    ) -> RequestId {
        let id = self.requests.next_id();
        self.statistics.receives += 1;
        let own = self.options.rank;
        self.requests.add(id, clock, kind, || {
            RequestState::Receiving(Receiving::new(buffer, any_source, is_logged, None, own))
        });
        id
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
