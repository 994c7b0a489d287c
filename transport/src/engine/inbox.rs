//! What arrives: matches frames to receives, or remembers where they lie.

use super::EngineError;
use super::landing::{Landings, Portion};
use super::request::{Receiving, RequestId, Requests, Status};
use super::stored::{Message, Part, Stored};
use crate::control::Control;
use crate::fabric::{Arrival, Attributes, Disposition, Fabric, Place};
use crate::matching::{Envelope, Matcher};
use crate::protocol::{Event, Protocol};
use refrain_ring::{Clock, Rank, Ssn};
use slab::Slab;

/// Where the further fragments of a message go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Request(RequestId),
    Message(usize),
}

/// The receiving side of one peer.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// One past the HSR: the SSN of the next message.
    pub next_ssn: Ssn,
    /// Messages of which fragments are still to come, or to land for a receive.
    pub assembling: Vec<(Ssn, Target)>,
    horizon_told: Ssn,
    /// Frames that are kept in this sender's log.
    pub in_place: usize,
    /// Frames may be left readable in its log.
    pub reads_in_place: bool,
    /// It was disconnected: that its payload is lost is no fault.
    fenced: bool,
}

#[derive(Debug)]
pub(super) struct Inbox {
    pub matcher: Matcher<RequestId, usize>,
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
    /// Events of this poll that emissions have to wait for.
    pub events_told: u64,
    /// The latest operation, for events.
    pub now: Clock,
    /// A match is an event whatever the receive named.
    every_reception: bool,
    /// Matches so far that were events.
    pub match_events: u64,
    /// Senders keep what they sent: copying it out would free nothing.
    pub senders_keep: bool,
}

impl Inbox {
    /// `of`: what the fabric can do from each rank.
    pub fn new<'a>(
        size: u32,
        senders_keep: bool,
        every_reception: bool,
        of: impl Fn(Rank) -> &'a Attributes,
    ) -> Self {
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
            events_told: 0,
            now: Clock(0),
            every_reception,
            match_events: 0,
            senders_keep,
        }
    }

    pub fn is_pressed(&self, arrival: &Arrival<'_>) -> bool {
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
    pub fn lose(&mut self, source: Rank) {
        if !self.sources[source.index()].fenced {
            self.violation.get_or_insert(EngineError::PeerLost {
                peer: source,
                why: None,
            });
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
        if receiving.any_source || self.every_reception {
            let event = Event::Match {
                at: self.now,
                request: posted_at,
                source,
                ssn: begun.ssn,
                is_named: !receiving.any_source,
            };
            self.match_events += 1;
            self.events_told += u64::from(protocol.event(event));
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
}

impl Source {
    /// It is to be told that all its messages before `ssn` are free; returns
    /// whether that is news. LOG-4
    pub fn tell_horizon(&mut self, ssn: Ssn) -> bool {
        let is_news = ssn > self.horizon_told;
        self.horizon_told = self.horizon_told.max(ssn);
        is_news
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
pub(super) fn receive_part(receiving: &mut Receiving, offset: u64, payload: &[u8]) {
    receiving.buffer.unpack(offset, payload);
    receiving.arrived_bytes += payload.len() as u64;
}
