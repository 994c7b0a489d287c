//! Messages of a rank to itself.

use super::inbox::{Begun, Place};
use super::request::{Sending, State};
use super::stored::{Message, Parts, Stored};
use super::{Engine, Started};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::Clock;

impl<P: Protocol> Engine<P> {
    /// A message to this rank goes past the fabric and the log: when the rank
    /// fails, its re-execution sends it again.
    pub(super) fn send_to_self(&mut self, clock: Clock, sending: Sending) -> Started {
        let envelope = Envelope {
            context: sending.to.context,
            source: self.options.rank,
            tag: sending.to.tag,
        };
        let bytes = sending.buffer.message_bytes();
        let mut copy = vec![0; bytes as usize];
        sending
            .buffer
            .pack(0, &mut copy, refrain_ring::copy::Target::Cached);
        let begun = Begun {
            envelope,
            ssn: sending.ssn,
            bytes,
            want_ack: false,
            rendezvous: false,
        };
        let place = self.inbox.place(&begun, &self.requests);
        if let Place::Receive(id) = place {
            self.inbox
                .match_made(&begun, id, &mut self.requests, &mut self.protocol);
            if let Some(receiving) = self.requests.receiving(id) {
                receiving.buffer.unpack(0, &copy);
                receiving.arrived_bytes = bytes;
            }
            self.requests.finish_receive_if_whole(id);
            self.after_matches();
            return Started::Done(sending.outcome());
        }
        let mut parts = Parts::default();
        parts.push(0, Stored::Copied(copy.into()));
        let ssn = sending.ssn;
        let synchronous = sending.to.synchronous;
        let outcome = sending.outcome();
        let completes = synchronous.then(|| self.requests.add(clock, State::Sending(sending)));
        let index = self.inbox.messages.insert(Message {
            envelope,
            ssn,
            bytes,
            arrived_bytes: bytes,
            want_ack: false,
            rendezvous: false,
            parts,
            completes,
        });
        self.inbox.add_waiting(place, envelope, ssn, index);
        completes.map_or(Started::Done(outcome), Started::Pending)
    }
}
