//! What arrives during a poll: matched at once, or remembered.

use super::Statistics;
use super::buffer::Lent;
use super::inbox::{Begun, Inbox, Place, receive_part};
use super::landing::{Flight, Portion};
use super::request::{RequestId, Requests};
use super::source::Target;
use super::stored::{Message, Parts, Stored};
use crate::control::Control;
use crate::fabric::{Arrival, Disposition, Landed, Payload, Sink};
use crate::protocol::Protocol;
use refrain_ring::{Rank, RecordKind};

/// The inbox at work during a poll.
pub(super) struct Delivery<'a, P> {
    pub inbox: &'a mut Inbox,
    pub requests: &'a mut Requests,
    pub protocol: &'a mut P,
    pub statistics: &'a mut Statistics,
}

impl<P: Protocol> Delivery<'_, P> {
    #[inline]
    fn begin(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let source = &mut self.inbox.sources[header.source.index()];
        // One branch: `|`.
        if (header.ssn != source.next_ssn) | source.has_missing() {
            return self.begin_again(arrival);
        }
        source.next_ssn = header.ssn.next();
        self.enter(arrival)
    }

    /// A message that has not been here before.
    #[inline]
    pub(super) fn enter(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let begun = Begun::of(arrival.header);
        self.statistics.bytes_received += begun.bytes;
        match self.inbox.place(&begun, self.requests) {
            Place::Receive(id) => self.begin_matched(&begun, id, arrival.payload),
            place => self.begin_unexpected(&begun, place, arrival),
        }
    }

    #[inline]
    fn begin_matched(&mut self, begun: &Begun, id: RequestId, payload: Payload<'_>) -> Disposition {
        self.inbox
            .match_made(begun, id, self.requests, self.protocol);
        self.first_payload(begun, id, payload)
    }

    /// The payload of a matched message's first record.
    #[inline]
    pub(super) fn first_payload(
        &mut self,
        begun: &Begun,
        id: RequestId,
        payload: Payload<'_>,
    ) -> Disposition {
        let Some(receiving) = self.requests.receiving(id) else {
            return Disposition::Consumed;
        };
        let disposition = match payload {
            Payload::Here(payload) => {
                receive_part(receiving, 0, payload);
                Disposition::Consumed
            }
            Payload::Distant(bytes) => {
                let portion = Portion {
                    source: begun.envelope.source,
                    ssn: begun.ssn,
                    offset: 0,
                    bytes,
                };
                self.inbox.landings.fetch(portion, id, receiving)
            }
        };
        if !self.requests.finish_receive_if_whole(id) {
            self.inbox
                .expect_more(begun.envelope.source, begun.ssn, Target::Request(id));
        }
        disposition
    }

    fn begin_unexpected(
        &mut self,
        begun: &Begun,
        place: Place,
        arrival: &Arrival<'_>,
    ) -> Disposition {
        self.statistics.unexpected += 1;
        let arrived_bytes = arrival.payload.bytes() as u64;
        let index = self.inbox.messages.insert(Message {
            envelope: begun.envelope,
            ssn: begun.ssn,
            bytes: begun.bytes,
            arrived_bytes,
            want_ack: begun.want_ack,
            rendezvous: begun.rendezvous,
            parts: Parts::default(),
            completes: None,
        });
        let disposition = self.store(index, 0, arrival);
        self.inbox
            .add_waiting(place, begun.envelope, begun.ssn, index);
        if arrived_bytes < begun.bytes && !begun.rendezvous {
            self.inbox
                .expect_more(begun.envelope.source, begun.ssn, Target::Message(index));
        }
        disposition
    }

    /// Remembers the payload of an arrival as a part of a message.
    pub(super) fn store(
        &mut self,
        index: usize,
        offset: u64,
        arrival: &Arrival<'_>,
    ) -> Disposition {
        let place = arrival.place;
        let source = &mut self.inbox.sources[arrival.header.source.index()];
        let (stored, disposition) = match arrival.payload {
            Payload::Here([]) | Payload::Distant(0) => return Disposition::Consumed,
            Payload::Here(payload) => {
                let pressed = arrival.pressed && !self.inbox.senders_keep;
                if source.reads_in_place && !pressed {
                    source.in_place += 1;
                    let bytes = payload.len();
                    (Stored::InPlace { place, bytes }, Disposition::Keep)
                } else {
                    (Stored::Copied(payload.into()), Disposition::Consumed)
                }
            }
            // It is in the log anyhow, and need not come before it is wanted.
            Payload::Distant(bytes) if self.inbox.senders_keep => {
                source.in_place += 1;
                (Stored::Distant { place, bytes }, Disposition::Keep)
            }
            // A log that is reused would be full of it, and its sender stuck.
            Payload::Distant(bytes) => {
                let portion = Portion {
                    source: arrival.header.source,
                    ssn: arrival.header.ssn,
                    offset,
                    bytes,
                };
                let target = Target::Message(index);
                let (token, landing) = self.inbox.landings.stage(portion, target);
                (Stored::Landing(token), Disposition::Fetch(landing))
            }
        };
        self.inbox.messages[index].parts.push(offset, stored);
        disposition
    }

    #[inline]
    fn fragment(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let assembling = &self.inbox.sources[header.source.index()].assembling;
        let Some(at) = assembling.iter().position(|(ssn, _)| *ssn == header.ssn) else {
            return self.stray_fragment(header);
        };
        let (whole, disposition) = match assembling[at].1 {
            Target::Request(id) => {
                let disposition = self.fragment_matched(id, arrival);
                (self.requests.finish_receive_if_whole(id), disposition)
            }
            Target::Message(index) => {
                let disposition = self.store(index, header.extent, arrival);
                let message = &mut self.inbox.messages[index];
                message.arrived_bytes += arrival.payload.bytes() as u64;
                (message.arrived_bytes >= message.bytes, disposition)
            }
        };
        if whole {
            self.inbox.sources[header.source.index()]
                .assembling
                .swap_remove(at);
        }
        disposition
    }

    #[inline]
    fn fragment_matched(&mut self, id: RequestId, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let Some(receiving) = self.requests.receiving(id) else {
            return Disposition::Consumed;
        };
        match arrival.payload {
            Payload::Here(payload) => {
                receive_part(receiving, header.extent, payload);
                Disposition::Consumed
            }
            Payload::Distant(bytes) => {
                let portion = Portion {
                    source: header.source,
                    ssn: header.ssn,
                    offset: header.extent,
                    bytes,
                };
                self.inbox.landings.fetch(portion, id, receiving)
            }
        }
    }

    /// Brings what has landed to whom it is for.
    fn finish_landing(&mut self, token: u64, flight: Flight, whole: bool) {
        let Portion {
            source,
            ssn,
            offset,
            bytes,
        } = flight.portion;
        let staging = flight.lent.map(Lent::end);
        match flight.target {
            Target::Request(id) => {
                if let Some(receiving) = self.requests.receiving(id) {
                    receiving.landings -= u32::from(staging.is_none());
                    match &staging {
                        _ if !whole => {}
                        None => receiving.arrived_bytes += bytes as u64,
                        Some(staging) => receive_part(receiving, offset, staging.payload(bytes)),
                    }
                }
                if let Some(staging) = staging {
                    self.inbox.landings.recycle(staging);
                }
                if self.requests.finish_receive_if_whole(id) {
                    self.inbox.assembled(source, ssn);
                }
            }
            Target::Message(index) => {
                let parts = &mut self.inbox.messages[index].parts;
                if let Some(part) = parts.of_landing(token) {
                    part.stored = match staging {
                        Some(staging) if whole => Stored::Staged { staging, bytes },
                        _ => Stored::Lost,
                    };
                }
            }
        }
    }

    /// Whatever has come, also a frame that is not kept itself: what is kept
    /// stops the sender.
    #[cold]
    fn note_pressed(&mut self, source: Rank) {
        let any_kept = self.inbox.sources[source.index()].in_place > 0;
        if any_kept && !self.inbox.pressed.contains(&source) {
            self.inbox.pressed.push(source);
        }
    }
}

impl<P: Protocol> Sink for Delivery<'_, P> {
    #[inline]
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        if self.inbox.is_pressed(&arrival) {
            self.note_pressed(arrival.header.source);
        }
        match arrival.header.kind {
            RecordKind::Eager | RecordKind::Rendezvous => self.begin(&arrival),
            RecordKind::Fragment => self.fragment(&arrival),
            RecordKind::Link => Disposition::Consumed,
        }
    }

    fn control(&mut self, source: Rank, control: Control) {
        self.inbox.controls_in.push((source, control));
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        let Some(flight) = self.inbox.landings.end(token) else {
            return;
        };
        let source = flight.portion.source;
        self.finish_landing(token, flight, landed == Landed::Whole);
        if landed == Landed::Lost {
            self.inbox.lose(source);
        }
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.inbox.note_lost(peer);
    }
}
