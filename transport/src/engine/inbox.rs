//! What arrives: matches frames to receives, or remembers where they lie.

use super::EngineError;
use super::landing::{Landings, Portion};
use super::rehearsal::Rehearsal;
use super::request::{Receiving, RequestId, Requests, Status};
use super::source::{Delivered, Source, Target};
use super::stored::{Message, Part, Stored};
use super::unrecorded::Unseen;
use crate::control::Control;
use crate::fabric::{self, Arrival, Attributes, Disposition, Fabric};
use crate::matching::{Envelope, Matcher};
use crate::protocol::{Event, Protocol};
use refrain_ring::{Clock, Frontier, Rank, RecordHeader, RecordKind, Ssn};
use slab::Slab;

#[derive(Debug)]
pub(super) struct Inbox {
    /// Of the program.
    pub matcher: Matcher<RequestId, usize>,
    /// Messages and receives of internal operations. No receive or probe of the program
    /// finds them, whatever its pattern. STREAM-4
    pub internal: Matcher<RequestId, usize>,
    pub messages: Slab<Message>,
    pub landings: Landings,
    pub sources: Vec<Source>,
    /// Control frames of this poll, for the outbox.
    pub controls_in: Vec<(Rank, Control)>,
    /// Control frames that matches made, for the outbox.
    pub controls_out: Vec<(Rank, Control)>,
    /// Sources that may stall for memory which their kept frames hold.
    pub pressed: Vec<Rank>,
    pub violation: Option<EngineError>,
    /// Peers that the fabric has given up, and that were not told yet. Apart: they
    /// may come back, and must not stand in the way of what else is wrong.
    pub lost: Vec<Rank>,
    /// Events of this poll that emissions have to wait for.
    pub events_told: u64,
    /// The latest operation, for events.
    pub now: Clock,
    /// A match is an event whatever the receive named.
    pub every_reception: bool,
    /// Matches so far that were events.
    pub match_events: u64,
    /// Senders keep what they sent: copying it out would free nothing.
    pub senders_keep: bool,
    /// Matches of a later life that have no record and that the program has not seen;
    /// `None`: they do not matter (any more). REC-9
    pub unseen: Option<Vec<Unseen>>,
    /// Records of a life before are played.
    pub rehearsal: Option<Box<Rehearsal>>,
}

/// What becomes of a message that has begun to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This receive gets it.
    Receive(RequestId),
    /// It waits for one.
    Queue,
    /// It waits until it is known who may get it.
    Hold,
}

impl Inbox {
    /// `of`: what the fabric can do from each rank.
    pub fn new<'a>(
        size: u32,
        senders_keep: bool,
        every_reception: bool,
        is_first_life: bool,
        of: impl Fn(Rank) -> &'a Attributes,
    ) -> Self {
        let source = |rank: u32| Source {
            reads_in_place: of(Rank(rank)).reads_in_place,
            ..Source::default()
        };
        Self {
            matcher: Matcher::new(),
            internal: Matcher::new(),
            messages: Slab::new(),
            landings: Landings::default(),
            sources: (0..size).map(source).collect(),
            controls_in: Vec::new(),
            controls_out: Vec::new(),
            pressed: Vec::new(),
            violation: None,
            lost: Vec::new(),
            events_told: 0,
            now: Clock(0),
            every_reception,
            match_events: 0,
            senders_keep,
            unseen: (!is_first_life).then(Vec::new),
            rehearsal: None,
        }
    }

    /// Who gets a message that has begun to come.
    #[inline]
    pub fn place(&mut self, begun: &Begun, requests: &Requests) -> Place {
        if self.rehearsal.is_some() {
            return self.place_from_records(begun, requests);
        }
        match self.matcher.take_posted(&begun.envelope) {
            Some((_, id)) => Place::Receive(id),
            None => Place::Queue,
        }
    }

    /// The same of an internal message, of which records say nothing. STREAM-4
    pub fn place_internal(&mut self, envelope: &Envelope) -> Place {
        match self.internal.take_posted(envelope) {
            Some((_, id)) => Place::Receive(id),
            None => Place::Queue,
        }
    }

    pub fn is_pressed(&self, arrival: &Arrival<'_>) -> bool {
        arrival.pressed && !self.senders_keep
    }

    /// Remembers where later fragments of a message go.
    pub fn expect_more(&mut self, source: Rank, ssn: Ssn, target: Target) {
        self.sources[source.index()].expect_more(ssn, target);
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
        protocol: &mut impl Protocol,
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

    /// A payload that will never come. Its message stays void, and matched if
    /// it was: its bytes never count as arrived. REC-7
    #[cold]
    pub fn lose(&mut self, source: Rank) {
        if !self.sources[source.index()].fenced {
            self.note_lost(source);
        }
    }

    /// The fabric has given this peer up.
    #[cold]
    pub fn note_lost(&mut self, peer: Rank) {
        if !self.lost.contains(&peer) {
            self.lost.push(peer);
        }
    }

    /// Nothing more of a message is to come, nor under way.
    pub fn assembled(&mut self, source: Rank, ssn: Ssn) {
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
        protocol: &mut impl Protocol,
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
        let mut unseen = None;
        if receiving.is_logged {
            let event = Event::Match {
                at: self.now,
                request: posted_at,
                source,
                ssn: begun.ssn,
                is_named: !receiving.any_source,
            };
            self.match_events += 1;
            let must_wait = protocol.event(event);
            self.events_told += u64::from(must_wait);
            unseen = must_wait.then_some("a receive from any source");
        }
        if let Some(before) = &mut self.unseen {
            let is_program = begun.ssn.is_program();
            let is_behind = |it: &Unseen| is_program && it.source == source && it.ssn < begun.ssn;
            if unseen.is_none() && before.iter().any(is_behind) {
                unseen = Some("a receive behind one from any source");
            }
            before.extend(unseen.map(|what| Unseen {
                shown_by: id,
                what,
                source,
                ssn: begun.ssn,
            }));
        }
        if begun.rendezvous {
            self.controls_out
                .push((source, Control::ClearToSend { ssn: begun.ssn }));
        } else if begun.want_ack {
            self.controls_out
                .push((source, Control::Matched { ssn: begun.ssn }));
        }
    }

    /// What of a sender's messages the program has got, if no receive is open.
    pub fn delivered(&self, source: Rank) -> Delivered {
        let messages = self.messages.iter();
        let its = messages.filter(|(_, message)| message.envelope.source == source);
        self.sources[source.index()].delivered(its.map(|(_, message)| message.ssn))
    }

    /// Of each stream the first message of `source` that is not wholly delivered; all
    /// below may be freed once a checkpoint is stable. LOG-4
    pub fn horizon(&self, source: Rank) -> Frontier {
        let state = &self.sources[source.index()];
        let waiting = self
            .messages
            .iter()
            .filter(|(_, message)| message.envelope.source == source);
        let under_way = state.assembling.iter().map(|(ssn, _)| *ssn);
        let mut horizon = state.first_missing();
        waiting
            .map(|(_, message)| message.ssn)
            .chain(under_way)
            .for_each(|ssn| horizon.lower_to(ssn));
        horizon
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

impl Begun {
    #[inline]
    pub fn of(header: &RecordHeader) -> Self {
        Self {
            envelope: Envelope {
                context: header.context,
                source: header.source,
                tag: header.tag,
            },
            ssn: header.ssn,
            bytes: header.extent,
            want_ack: header.flags & RecordHeader::WANT_ACK != 0,
            rendezvous: header.kind == RecordKind::Rendezvous,
        }
    }
}

/// The payload that was left in place. Less than all of it would be delivered
/// as if it were the message.
pub(super) fn kept(fabric: &dyn Fabric, place: fabric::Place, bytes: usize) -> &[u8] {
    let payload = fabric.kept(place, bytes);
    assert_eq!(
        payload.len(),
        bytes,
        "a frame is readable until it is let go"
    );
    payload
}

#[inline]
pub(super) fn receive_part(receiving: &mut Receiving, offset: u64, payload: &[u8]) {
    receiving.buffer.unpack(offset, payload);
    receiving.arrived_bytes += payload.len() as u64;
}
