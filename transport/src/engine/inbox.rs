//! What arrives: matches frames to receives, or remembers where they lie.

use super::request::{Receiving, RequestId, Requests, Status};
use super::{EngineError, Statistics};
use crate::control::Control;
use crate::fabric::{Arrival, Disposition, Fabric, Landed, Payload, Place, Sink};
use crate::matching::{Envelope, Matcher};
use crate::protocol::{Event, Protocol};
use refrain_ring::{Rank, RecordHeader, RecordKind, Ssn};
use slab::Slab;

/// A message that came before its receive. Where the fabric allows, its bytes
/// stay in the sender's log.
#[derive(Debug)]
pub(super) struct Message {
    pub envelope: Envelope,
    pub ssn: Ssn,
    pub bytes: u64,
    pub arrived_bytes: u64,
    pub want_ack: bool,
    pub rendezvous: bool,
    pub parts: Parts,
    /// A self-send that completes with the match.
    pub completes: Option<RequestId>,
}

/// The payload of a message so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    first: Option<Part>,
    /// Only of messages of several frames.
    rest: Vec<Part>,
}

#[derive(Debug)]
pub(super) struct Part {
    offset: u64,
    stored: Stored,
}

#[derive(Debug)]
pub(super) enum Stored {
    InPlace { place: Place, bytes: usize },
    Copied(Box<[u8]>),
}

impl Parts {
    pub fn push(&mut self, offset: u64, stored: Stored) {
        let part = Part { offset, stored };
        if self.first.is_none() {
            self.first = Some(part);
        } else {
            self.rest.push(part);
        }
    }

    fn drain(&mut self) -> impl Iterator<Item = Part> {
        self.first
            .take()
            .into_iter()
            .chain(core::mem::take(&mut self.rest))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

/// Where the further fragments of a message go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Request(RequestId),
    Message(usize),
}

/// The receiving side of one peer.
#[derive(Debug, Default)]
struct Source {
    /// One past the HSR: the SSN of the next message.
    next_ssn: Ssn,
    /// Messages of which fragments are still to come.
    assembling: Vec<(Ssn, Target)>,
    horizon_told: Ssn,
    /// Frames that are kept in this sender's log.
    in_place: usize,
}

#[derive(Debug)]
pub(super) struct Inbox {
    pub matcher: Matcher<RequestId, usize>,
    pub messages: Slab<Message>,
    sources: Vec<Source>,
    /// Control frames of this poll, for the outbox.
    pub controls_in: Vec<(Rank, Control)>,
    /// Control frames that matches made, for the outbox.
    pub controls_out: Vec<(Rank, Control)>,
    /// Sources that may stall for memory which their kept frames hold.
    pub pressed: Vec<Rank>,
    pub violation: Option<EngineError>,
    pub gate_closed: bool,
    /// Any-source matches so far.
    pub match_events: u64,
    /// Frames may be left in the sender's log.
    reads_in_place: bool,
    /// Senders keep what they sent: copying it out would free nothing.
    senders_keep: bool,
}

/// The inbox at work during a poll.
pub(super) struct Delivery<'a> {
    pub inbox: &'a mut Inbox,
    pub requests: &'a mut Requests,
    pub protocol: &'a mut dyn Protocol,
    pub statistics: &'a mut Statistics,
}

impl Inbox {
    pub fn new(size: u32, reads_in_place: bool, senders_keep: bool) -> Self {
        Self {
            matcher: Matcher::new(),
            messages: Slab::new(),
            sources: (0..size).map(|_| Source::default()).collect(),
            controls_in: Vec::new(),
            controls_out: Vec::new(),
            pressed: Vec::new(),
            violation: None,
            gate_closed: false,
            match_events: 0,
            reads_in_place,
            senders_keep,
        }
    }

    fn is_pressed(&self, arrival: &Arrival<'_>) -> bool {
        arrival.pressed && !self.senders_keep
    }

    /// Remembers where later fragments of a message go.
    pub fn expect_more(&mut self, source: Rank, ssn: Ssn, target: Target) {
        let assembling = &mut self.sources[source.index()].assembling;
        match assembling.iter_mut().find(|(of, _)| *of == ssn) {
            Some(entry) => entry.1 = target,
            None => assembling.push((ssn, target)),
        }
    }

    /// Copies out what `source` holds in place, so that it need not stall.
    pub fn copy_out(&mut self, source: Rank, fabric: &mut dyn Fabric) {
        for (_, message) in &mut self.messages {
            if message.envelope.source != source {
                continue;
            }
            for part in message.parts.iter_mut() {
                if let Stored::InPlace { place, bytes } = part.stored {
                    self.sources[source.index()].in_place -= 1;
                    part.stored = Stored::Copied(kept(fabric, place, bytes).into());
                    fabric.let_go(place);
                }
            }
        }
    }

    /// Hands a stored message to the receive that took it.
    pub fn deliver_stored(
        &mut self,
        index: usize,
        id: RequestId,
        requests: &mut Requests,
        fabric: &mut dyn Fabric,
        protocol: &mut dyn Protocol,
    ) {
        let mut message = self.messages.remove(index);
        let header = Begun {
            envelope: message.envelope,
            ssn: message.ssn,
            bytes: message.bytes,
            want_ack: message.want_ack,
            rendezvous: message.rendezvous,
        };
        self.match_made(&header, id, requests, protocol);
        if let Some(completed) = message.completes {
            super::finish_send(requests, completed);
        }
        let Some(receiving) = requests.receiving(id) else {
            return;
        };
        for part in message.parts.drain() {
            match part.stored {
                Stored::Copied(data) => receiving.buffer.unpack(part.offset, &data),
                Stored::InPlace { place, bytes } => {
                    receiving
                        .buffer
                        .unpack(part.offset, kept(fabric, place, bytes));
                    fabric.let_go(place);
                    self.sources[message.envelope.source.index()].in_place -= 1;
                }
            }
        }
        receiving.arrived_bytes = message.arrived_bytes;
        if !requests.finish_receive_if_whole(id) {
            self.expect_more(message.envelope.source, message.ssn, Target::Request(id));
        }
    }

    /// Everything that a match entails, but for the payload.
    pub fn match_made(
        &mut self,
        begun: &Begun,
        id: RequestId,
        requests: &mut Requests,
        protocol: &mut dyn Protocol,
    ) {
        let Some(request) = requests.get_mut(id) else {
            return;
        };
        let posted_at = request.posted_at;
        let Some(receiving) = requests.receiving(id) else {
            return;
        };
        let source = begun.envelope.source;
        receiving.posted = None;
        receiving.status = Status {
            source,
            tag: begun.envelope.tag,
            bytes: begun.bytes,
            cancelled: false,
        };
        if receiving.any_source {
            let event = Event::Match {
                request: posted_at,
                source,
                ssn: begun.ssn,
            };
            self.match_events += 1;
            self.gate_closed |= protocol.event(event);
        }
        if begun.rendezvous {
            self.controls_out
                .push((source, Control::ClearToSend { ssn: begun.ssn }));
        } else if begun.want_ack {
            self.controls_out
                .push((source, Control::Matched { ssn: begun.ssn }));
        }
    }

    /// First message of `source` that is not wholly delivered to the program;
    /// all below may be freed once a checkpoint is stable. LOG-4
    pub fn horizon(&self, source: Rank) -> Ssn {
        let state = &self.sources[source.index()];
        let waiting = self
            .messages
            .iter()
            .filter(|(_, message)| message.envelope.source == source);
        let under_way = state.assembling.iter().map(|(ssn, _)| *ssn);
        waiting
            .map(|(_, message)| message.ssn)
            .chain(under_way)
            .min()
            .unwrap_or(state.next_ssn)
    }

    /// Sources that are to be told of a horizon that has moved.
    pub fn moved_horizons(&mut self) -> Vec<(Rank, Ssn)> {
        let mut moved = Vec::new();
        for rank in (0..self.sources.len() as u32).map(Rank) {
            let ssn = self.horizon(rank);
            if ssn > self.sources[rank.index()].horizon_told {
                self.sources[rank.index()].horizon_told = ssn;
                moved.push((rank, ssn));
            }
        }
        moved
    }
}

/// A message as its first record announces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub envelope: Envelope,
    pub ssn: Ssn,
    pub bytes: u64,
    pub want_ack: bool,
    pub rendezvous: bool,
}

impl Delivery<'_> {
    #[inline]
    fn begin(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let source = &mut self.inbox.sources[header.source.index()];
        if header.ssn != source.next_ssn {
            return self.out_of_order(header);
        }
        source.next_ssn = header.ssn.next();
        let envelope = Envelope {
            context: header.context,
            source: header.source,
            tag: header.tag,
        };
        let begun = Begun {
            envelope,
            ssn: header.ssn,
            bytes: header.extent,
            want_ack: header.flags & RecordHeader::WANT_ACK != 0,
            rendezvous: header.kind == RecordKind::Rendezvous,
        };
        match self.inbox.matcher.take_posted(&envelope) {
            Some((_, id)) => {
                self.begin_matched(&begun, id, here(arrival));
                Disposition::Consumed
            }
            None => self.begin_unexpected(&begun, arrival),
        }
    }

    #[inline]
    fn begin_matched(&mut self, begun: &Begun, id: RequestId, payload: &[u8]) {
        self.inbox
            .match_made(begun, id, self.requests, self.protocol);
        let Some(receiving) = self.requests.receiving(id) else {
            return;
        };
        receive_part(receiving, 0, payload);
        if !self.requests.finish_receive_if_whole(id) {
            self.inbox
                .expect_more(begun.envelope.source, begun.ssn, Target::Request(id));
        }
    }

    fn begin_unexpected(&mut self, begun: &Begun, arrival: &Arrival<'_>) -> Disposition {
        self.statistics.unexpected += 1;
        let mut parts = Parts::default();
        let disposition = self.store(&mut parts, 0, arrival);
        let arrived_bytes = arrival.payload.bytes() as u64;
        let index = self.inbox.messages.insert(Message {
            envelope: begun.envelope,
            ssn: begun.ssn,
            bytes: begun.bytes,
            arrived_bytes,
            want_ack: begun.want_ack,
            rendezvous: begun.rendezvous,
            parts,
            completes: None,
        });
        self.inbox.matcher.push_unexpected(begun.envelope, index);
        if arrived_bytes < begun.bytes && !begun.rendezvous {
            self.inbox
                .expect_more(begun.envelope.source, begun.ssn, Target::Message(index));
        }
        disposition
    }

    fn store(&mut self, parts: &mut Parts, offset: u64, arrival: &Arrival<'_>) -> Disposition {
        if arrival.payload.bytes() == 0 {
            return Disposition::Consumed;
        }
        if self.inbox.reads_in_place && !self.inbox.is_pressed(arrival) {
            self.inbox.sources[arrival.header.source.index()].in_place += 1;
            parts.push(
                offset,
                Stored::InPlace {
                    place: arrival.place,
                    bytes: arrival.payload.bytes(),
                },
            );
            return Disposition::Keep;
        }
        parts.push(offset, Stored::Copied(here(arrival).into()));
        Disposition::Consumed
    }

    #[inline]
    fn fragment(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let assembling = &self.inbox.sources[header.source.index()].assembling;
        let Some(at) = assembling.iter().position(|(ssn, _)| *ssn == header.ssn) else {
            // Of a message that was received before a restart of its sender.
            self.statistics.duplicates += 1;
            return Disposition::Consumed;
        };
        let (whole, disposition) = match assembling[at].1 {
            Target::Request(id) => {
                if let Some(receiving) = self.requests.receiving(id) {
                    receive_part(receiving, header.extent, here(arrival));
                }
                (
                    self.requests.finish_receive_if_whole(id),
                    Disposition::Consumed,
                )
            }
            Target::Message(index) => {
                let mut parts = core::mem::take(&mut self.inbox.messages[index].parts);
                let disposition = self.store(&mut parts, header.extent, arrival);
                let message = &mut self.inbox.messages[index];
                message.parts = parts;
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

    /// Whatever has come, also a frame that is not kept itself: what is kept
    /// stops the sender.
    #[cold]
    fn note_pressed(&mut self, source: Rank) {
        let any_kept = self.inbox.sources[source.index()].in_place > 0;
        if any_kept && !self.inbox.pressed.contains(&source) {
            self.inbox.pressed.push(source);
        }
    }

    #[cold]
    fn out_of_order(&mut self, header: &RecordHeader) -> Disposition {
        let expected = self.inbox.sources[header.source.index()].next_ssn;
        if header.ssn < expected {
            self.statistics.duplicates += 1;
        } else {
            self.inbox.violation = Some(EngineError::Gap {
                source_rank: header.source,
                found: header.ssn,
                expected,
            });
        }
        Disposition::Consumed
    }
}

/// The payload that was left in place. Less than all of it would be delivered
/// as if it were the message.
fn kept(fabric: &dyn Fabric, place: Place, bytes: usize) -> &[u8] {
    let payload = fabric.kept(place, bytes);
    assert_eq!(
        payload.len(),
        bytes,
        "a frame is readable until it is let go"
    );
    payload
}

/// STUB: distant frames are not received yet.
fn here<'a>(arrival: &Arrival<'a>) -> &'a [u8] {
    match arrival.payload {
        Payload::Here(payload) => payload,
        Payload::Distant(_) => todo!("STUB"),
    }
}

#[inline]
fn receive_part(receiving: &mut Receiving, offset: u64, payload: &[u8]) {
    receiving.buffer.unpack(offset, payload);
    receiving.arrived_bytes += payload.len() as u64;
}

impl Sink for Delivery<'_> {
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

    fn landed(&mut self, _token: u64, _landed: Landed) {
        todo!("STUB")
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.inbox.violation = Some(EngineError::PeerLost { peer });
    }
}
