//! What arrives: matches frames to receives, or remembers where they lie.

use super::buffer::Lent;
use super::landing::{Flight, Landings, Portion};
use super::request::{Receiving, RequestId, Requests, Status};
use super::stored::{Message, Part, Parts, Stored};
use super::{EngineError, Statistics};
use crate::control::Control;
use crate::fabric::{Arrival, Attributes, Disposition, Fabric, Landed, Payload, Place, Sink};
use crate::matching::{Envelope, Matcher};
use crate::protocol::{Event, Protocol};
use refrain_ring::{Rank, RecordHeader, RecordKind, Ssn};
use slab::Slab;

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
    /// Messages of which fragments are still to come, or to land for a receive.
    assembling: Vec<(Ssn, Target)>,
    horizon_told: Ssn,
    /// Frames that are kept in this sender's log.
    in_place: usize,
    /// Frames may be left readable in its log.
    reads_in_place: bool,
    /// It was disconnected: that its payload is lost is no fault.
    fenced: bool,
}

#[derive(Debug)]
pub(super) struct Inbox {
    pub matcher: Matcher<RequestId, usize>,
    pub messages: Slab<Message>,
    pub landings: Landings,
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
    /// `of`: what the fabric can do from each rank.
    pub fn new<'a>(size: u32, senders_keep: bool, of: impl Fn(Rank) -> &'a Attributes) -> Self {
        let source = |rank: u32| Source {
            reads_in_place: of(Rank(rank)).reads_in_place,
            ..Source::default()
        };
        Self {
            matcher: Matcher::new(),
            messages: Slab::new(),
            landings: Landings::default(),
            sources: (0..size).map(source).collect(),
            controls_in: Vec::new(),
            controls_out: Vec::new(),
            pressed: Vec::new(),
            violation: None,
            gate_closed: false,
            match_events: 0,
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
        for (index, message) in &mut self.messages {
            if message.envelope.source != source {
                continue;
            }
            for part in message.parts.iter_mut() {
                match part.stored {
                    Stored::InPlace { place, bytes } => {
                        part.stored = Stored::Copied(kept(fabric, place, bytes).into());
                        fabric.let_go(place);
                    }
                    Stored::Distant { place, bytes } => {
                        let portion = Portion {
                            source,
                            ssn: message.ssn,
                            offset: part.offset,
                            bytes,
                        };
                        let target = Target::Message(index);
                        let (token, landing) = self.landings.stage(portion, target);
                        part.stored = Stored::Landing(token);
                        fabric.fetch(place, landing);
                    }
                    _ => continue,
                }
                self.sources[source.index()].in_place -= 1;
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
            self.deliver_part(&header, part, id, receiving, fabric);
        }
        if !requests.finish_receive_if_whole(id) {
            self.expect_more(message.envelope.source, message.ssn, Target::Request(id));
        }
    }

    fn deliver_part(
        &mut self,
        begun: &Begun,
        part: Part,
        id: RequestId,
        receiving: &mut Receiving,
        fabric: &mut dyn Fabric,
    ) {
        let source = begun.envelope.source;
        match part.stored {
            Stored::Copied(data) => receive_part(receiving, part.offset, &data),
            Stored::Staged { staging, bytes } => {
                receive_part(receiving, part.offset, staging.payload(bytes));
                self.landings.recycle(staging);
            }
            Stored::InPlace { place, bytes } => {
                receive_part(receiving, part.offset, kept(fabric, place, bytes));
                fabric.let_go(place);
                self.sources[source.index()].in_place -= 1;
            }
            Stored::Distant { place, bytes } => {
                let portion = Portion {
                    source,
                    ssn: begun.ssn,
                    offset: part.offset,
                    bytes,
                };
                match self.landings.fetch(portion, id, receiving) {
                    Disposition::Fetch(landing) => fabric.fetch(place, landing),
                    Disposition::Consumed | Disposition::Keep => fabric.let_go(place),
                }
                self.sources[source.index()].in_place -= 1;
            }
            Stored::Landing(token) => self.landings.retarget(token, id),
            Stored::Lost => {}
        }
    }

    /// What is lost of this peer from now on is no fault, and what was left in
    /// its log is gone.
    pub fn fence(&mut self, peer: Rank) {
        let source = &mut self.sources[peer.index()];
        source.fenced = true;
        source.in_place = 0;
        for (_, message) in &mut self.messages {
            if message.envelope.source != peer {
                continue;
            }
            for part in message.parts.iter_mut() {
                if matches!(part.stored, Stored::InPlace { .. } | Stored::Distant { .. }) {
                    part.stored = Stored::Lost;
                }
            }
        }
    }

    /// A payload that will never come. Its message stays void, and matched if
    /// it was: its bytes never count as arrived. REC-7
    #[cold]
    fn lose(&mut self, source: Rank) {
        if !self.sources[source.index()].fenced {
            self.violation
                .get_or_insert(EngineError::PeerLost { peer: source });
        }
    }

    /// Nothing more of a message is to come, nor under way.
    fn assembled(&mut self, source: Rank, ssn: Ssn) {
        let assembling = &mut self.sources[source.index()].assembling;
        if let Some(at) = assembling.iter().position(|(of, _)| *of == ssn) {
            assembling.swap_remove(at);
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
            Some((_, id)) => self.begin_matched(&begun, id, arrival.payload),
            None => self.begin_unexpected(&begun, arrival),
        }
    }

    #[inline]
    fn begin_matched(&mut self, begun: &Begun, id: RequestId, payload: Payload<'_>) -> Disposition {
        self.inbox
            .match_made(begun, id, self.requests, self.protocol);
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

    fn begin_unexpected(&mut self, begun: &Begun, arrival: &Arrival<'_>) -> Disposition {
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
        self.inbox.matcher.push_unexpected(begun.envelope, index);
        if arrived_bytes < begun.bytes && !begun.rendezvous {
            self.inbox
                .expect_more(begun.envelope.source, begun.ssn, Target::Message(index));
        }
        disposition
    }

    /// Remembers the payload of an arrival as a part of a message.
    fn store(&mut self, index: usize, offset: u64, arrival: &Arrival<'_>) -> Disposition {
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
            // Of a message that was received before a restart of its sender.
            self.statistics.duplicates += 1;
            return Disposition::Consumed;
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
        self.inbox.violation = Some(EngineError::PeerLost { peer });
    }
}
