//! Messages of a rank to itself.

use super::inbox::Place;
use super::request::Sending;
use super::stored::{Message, MessageHead, Parts, Stored};
use super::{Engine, Started};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::Clock;
use refrain_ring::copy::Target;

impl<P: Protocol> Engine<P> {
    /// Sends a message to this rank. It uses neither fabric nor log: when the rank fails, its
    /// replay sends the message again.
    pub(super) fn send_to_self(&mut self, clock: Clock, sending: Sending) -> Started {
        let envelope = Envelope {
            context: sending.to.context,
            source: self.options.rank,
            tag: sending.to.tag,
        };
        let bytes = sending.buffer.message_bytes();
        let mut copy = vec![0; bytes as usize];
        sending.buffer.pack(0, &mut copy, Target::Cached);
        let head = MessageHead::to_self(envelope, sending.ssn, bytes);
        let outcome = sending.outcome();
        let (mut delivery, _) = self.delivery();
        let place = match head.ssn.is_program() {
            true => delivery.place(&head),
            false => delivery.place_internal(&head),
        };
        if let Place::Receive(id) = place {
            delivery.match_made(&head, id);
            if let Some(receiving) = delivery.requests.receiving(id) {
                receiving.take(0, &copy);
            }
            delivery.requests.finish_receive_if_whole(id);
            self.after_matches();
            return Started::Done(outcome);
        }
        let mut parts = Parts::default();
        parts.push(0, Stored::Copied(copy.into()));
        let is_synchronous = sending.to.synchronous;
        let completes = is_synchronous.then(|| self.requests.add_send(clock, sending));
        let index = self.inbox.messages.insert(Message {
            head,
            arrived_bytes: bytes,
            parts,
            completes,
        });
        self.inbox.add_waiting(place, index);
        completes.map_or(Started::Done(outcome), Started::Pending)
    }
}
