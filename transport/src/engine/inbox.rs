//! Arriving messages: frames are matched to receives at once, or stored.

use super::EngineError;
use super::Statistics;
use super::buffer::Lent;
use super::landing::{Flight, Landings, Portion};
use super::per_rank::PerRank;
use super::replay_matcher::ReplayMatcher;
use super::request::{RequestId, RequestState, Requests};
use super::source::{Delivered, NewSource, Target};
use super::stored::{Message, MessageHead, Parts, Stored};
use super::unrecorded::Unseen;
use super::whole::ResultPart;
use crate::control::Control;
use crate::fabric::{Arrival, Disposition, Landed, Payload, Sink};
use crate::matching::{Envelope, Matcher};
use crate::protocol::{Event, Protocol};
use refrain_ring::{Clock, Frontier, Incarnation, Rank, RecordHeader, RecordKind, Stream};
use slab::Slab;

#[derive(Debug)]
pub(super) struct Inbox {
    /// Messages and receives of the program.
    pub matcher: Matcher<RequestId, usize>,
    /// Messages and receives of internal operations. No receive or probe of the program
    /// finds them, whatever its pattern. STREAM-4
    pub internal: Matcher<RequestId, usize>,
    pub messages: Slab<Message>,
    pub landings: Landings,
    pub sources: PerRank<NewSource>,
    /// Control frames that arrived in this poll, for the outbox.
    pub controls_in: Vec<(Rank, Control)>,
    /// Parts of results of collectives that peers have given to this rank.
    pub results: Vec<ResultPart>,
    /// Control frames that matches caused, for the outbox.
    pub controls_out: Vec<(Rank, Control)>,
    /// Sources that may stall because their kept frames hold memory.
    pub pressed: Vec<Rank>,
    pub violation: Option<EngineError>,
    /// Whether messages carried events here since the protocol was last idle.
    pub has_carried: bool,
    /// Peers that the fabric has given up, and that were not reported yet. They are apart from
    /// violations because they may come back, and must not hide other errors.
    pub lost: Vec<Rank>,
    /// Number of events of this poll for which emissions have to wait.
    pub new_events: u64,
    /// The clock of the latest operation, for events.
    pub now: Clock,
    /// Whether each match is an event, also that of a receive that named its source.
    pub every_reception: bool,
    /// Number of matches so far that were events.
    pub match_events: u64,
    /// Whether senders keep what they sent: then it frees nothing to copy messages out of their
    /// logs.
    pub senders_keep: bool,
    /// Matches of a later life that have no record and that the program has not seen. `None`: such
    /// matches are not (or no longer) relevant. REC-9
    pub unseen: Option<Vec<Unseen>>,
    /// The replay of an earlier life's records, while there is one.
    pub replay: Option<Box<ReplayMatcher>>,
}

/// What happens to a message whose first record has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This receive gets it.
    Receive(RequestId),
    /// It waits for a receive.
    Queue,
    /// It waits until replay decides which receive may get it.
    Hold,
}

impl Inbox {
    pub fn new(
        begin: NewSource,
        size: u32,
        senders_keep: bool,
        every_reception: bool,
        incarnation: Incarnation,
    ) -> Self {
        Self {
            matcher: Matcher::new(),
            internal: Matcher::new(),
            messages: Slab::new(),
            landings: Landings::default(),
            sources: PerRank::new(begin, size),
            controls_in: Vec::new(),
            results: Vec::new(),
            controls_out: Vec::new(),
            pressed: Vec::new(),
            violation: None,
            has_carried: false,
            lost: Vec::new(),
            new_events: 0,
            now: Clock(0),
            every_reception,
            match_events: 0,
            senders_keep,
            unseen: (incarnation > Incarnation(0)).then(Vec::new),
            replay: None,
        }
    }

    /// Notes that the fabric has given this peer up.
    #[cold]
    pub fn note_lost(&mut self, peer: Rank) {
        if !self.lost.contains(&peer) {
            self.lost.push(peer);
        }
    }

    /// The messages of `source` that were delivered to the program. No receive may be open.
    pub fn delivered(&self, source: Rank) -> Delivered {
        let messages = self.messages.iter();
        let its = messages.filter(|(_, message)| message.is_from(source));
        self.sources[source.index()].delivered(its.map(|(_, message)| message.head.ssn))
    }

    /// Of each stream the first message of `source` that is not wholly delivered; all
    /// below may be freed once a checkpoint is stable. LOG-4
    pub fn horizon(&self, source: Rank) -> Frontier {
        let state = &self.sources[source.index()];
        let mut horizon = state.first_uncovered();
        let messages = self.messages.iter();
        let waiting = messages.filter(|(_, message)| message.is_from(source));
        waiting
            .map(|(_, message)| message.head.ssn)
            .chain(state.assembling.iter().map(|(ssn, _)| *ssn))
            .for_each(|ssn| horizon.lower_to(ssn));
        horizon
    }
}

/// The inbox, with the parts of the engine that a match needs.
pub(super) struct Delivery<'a, P> {
    pub inbox: &'a mut Inbox,
    pub requests: &'a mut Requests,
    pub protocol: &'a mut P,
    pub statistics: &'a mut Statistics,
}

impl<P: Protocol> Delivery<'_, P> {
    // Inlined always, down to the payload: otherwise the compiler counts callers and does
    // not inline it, and each arrival takes 30 % more instructions.
    #[inline(always)]
    pub(super) fn begin(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let source = &mut self.inbox.sources[header.source.index()];
        let is_attached = header.flags & RecordHeader::ATTACHED != 0;
        // One branch: `|`. Internal messages take it, too.
        if (header.ssn != source.next.program) | !source.missing.is_empty() | is_attached {
            return self.begin_other(arrival);
        }
        source.next.program = header.ssn.next();
        if self.inbox.replay.is_some() {
            return self.enter(arrival);
        }
        let envelope = Envelope {
            context: header.context,
            source: header.source,
            tag: header.tag,
        };
        let place = match self.inbox.matcher.take_posted(envelope) {
            Some((_, id)) if self.receive_at_once(id, arrival) => return Disposition::Consumed,
            Some((_, id)) => Place::Receive(id),
            None => Place::Queue,
        };
        self.enter_other(place, arrival)
    }

    /// Ends this receive at once with the usual message: all of it is here, and the match is no event.
    /// Returns false, and does nothing, with another message.
    #[inline(always)]
    fn receive_at_once(&mut self, id: RequestId, arrival: &Arrival<'_>) -> bool {
        let header = arrival.header;
        if let Payload::Here(payload) = arrival.payload
            && payload.len() as u64 == header.extent
            && header.kind == RecordKind::Eager
            && header.flags & RecordHeader::WANT_ACK == 0
            && self.inbox.unseen.is_none()
            && self.requests.receive_whole(id, header, payload)
        {
            self.statistics.bytes_received += header.extent;
            return true;
        }
        false
    }

    // A function of its own: the message's head takes the registers of the usual one.
    #[inline(never)]
    fn enter_other(&mut self, place: Place, arrival: &Arrival<'_>) -> Disposition {
        self.enter_at(place, &MessageHead::of(arrival.header), arrival)
    }

    /// Handles the first record of a message that is not the next one of the program's stream, or has an
    /// attachment.
    // Cold: otherwise the arrival of the program's next message takes 17 instructions more.
    #[cold]
    fn begin_other(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        if header.flags & RecordHeader::ATTACHED != 0 {
            return self.begin_attached(arrival);
        }
        if header.ssn.stream() == Stream::RESULTS {
            return self.take_result(arrival);
        }
        let source = &mut self.inbox.sources[header.source.index()];
        if !source.missing.is_empty() || !source.next.pass_internal(header.ssn) {
            return self.begin_again(arrival);
        }
        let head = MessageHead::of(header);
        let place = self.place_internal(&head);
        self.enter_at(place, &head, arrival)
    }

    /// Takes in a message that has not arrived before.
    #[inline(never)]
    pub(super) fn enter(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let head = MessageHead::of(arrival.header);
        let place = self.place(&head);
        self.enter_at(place, &head, arrival)
    }

    #[inline(always)]
    pub(super) fn enter_at(
        &mut self,
        place: Place,
        head: &MessageHead,
        arrival: &Arrival<'_>,
    ) -> Disposition {
        if let Place::Receive(id) = place
            && self.receive_at_once(id, arrival)
        {
            return Disposition::Consumed;
        }
        self.statistics.bytes_received += head.bytes;
        match place {
            Place::Receive(id) => {
                self.match_made(head, id);
                self.first_payload(head, id, arrival.payload)
            }
            place => self.begin_unexpected(head, place, arrival),
        }
    }

    /// Chooses the place of a message of the program that has begun to arrive.
    #[inline(always)]
    pub(super) fn place(&mut self, head: &MessageHead) -> Place {
        if self.inbox.replay.is_some() {
            return self.inbox.place_from_records(head, self.requests);
        }
        match self.inbox.matcher.take_posted(head.envelope) {
            Some((_, id)) => Place::Receive(id),
            None => Place::Queue,
        }
    }

    /// As `place`, for an internal message. Records never name one. STREAM-4
    pub(super) fn place_internal(&mut self, head: &MessageHead) -> Place {
        match self.inbox.internal.take_posted(head.envelope) {
            Some((_, id)) => Place::Receive(id),
            None => Place::Queue,
        }
    }

    /// Does everything that a match entails, except for the payload.
    #[inline(always)]
    pub(super) fn match_made(&mut self, head: &MessageHead, id: RequestId) {
        let (inbox, source) = (&mut *self.inbox, head.envelope.source);
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let posted_at = request.posted_at;
        let RequestState::Receiving(receiving) = &mut request.state else {
            return;
        };
        receiving.posted = None;
        receiving.status = head.status();
        let mut unseen = None;
        if receiving.is_logged {
            let event = Event::Match {
                at: inbox.now,
                request: posted_at,
                source,
                ssn: head.ssn,
                is_named: !receiving.any_source,
            };
            inbox.match_events += 1;
            let must_wait = self.protocol.event(event);
            inbox.new_events += u64::from(must_wait);
            unseen = must_wait.then_some("a receive from any source");
        }
        if let Some(before) = &mut inbox.unseen {
            let is_program = head.ssn.is_program();
            let is_behind = |it: &Unseen| is_program && it.source == source && it.ssn < head.ssn;
            if unseen.is_none() && before.iter().any(is_behind) {
                unseen = Some("a receive behind one from any source");
            }
            before.extend(unseen.map(|what| Unseen {
                shown_by: id,
                what,
                source,
                ssn: head.ssn,
            }));
        }
        if head.rendezvous {
            let control = Control::ClearToSend { ssn: head.ssn };
            inbox.controls_out.push((source, control));
        } else if head.want_ack {
            let control = Control::Matched { ssn: head.ssn };
            inbox.controls_out.push((source, control));
        }
    }

    /// Delivers the payload of a matched message's first record.
    #[inline(always)]
    pub(super) fn first_payload(
        &mut self,
        head: &MessageHead,
        id: RequestId,
        payload: Payload<'_>,
    ) -> Disposition {
        let disposition = self.payload(head.portion(0, payload.bytes()), id, payload);
        self.finish_or_expect_more(head, id);
        disposition
    }

    /// Delivers the payload of a record of a matched message.
    #[inline(always)]
    fn payload(&mut self, portion: Portion, id: RequestId, payload: Payload<'_>) -> Disposition {
        let Some(receiving) = self.requests.receiving(id) else {
            return Disposition::Consumed;
        };
        match payload {
            Payload::Here(payload) => {
                receiving.take(portion.offset, payload);
                Disposition::Consumed
            }
            Payload::Distant(_) => self.inbox.landings.fetch(portion, id, receiving),
        }
    }

    #[inline(always)]
    pub(super) fn finish_or_expect_more(&mut self, head: &MessageHead, id: RequestId) {
        if !self.requests.finish_receive_if_whole(id) {
            let source = &mut self.inbox.sources[head.envelope.source.index()];
            source.expect_more(head.ssn, Target::Request(id));
        }
    }

    fn begin_unexpected(
        &mut self,
        head: &MessageHead,
        place: Place,
        arrival: &Arrival<'_>,
    ) -> Disposition {
        self.statistics.unexpected += 1;
        let arrived_bytes = arrival.payload.bytes() as u64;
        let index = self.inbox.messages.insert(Message {
            head: *head,
            arrived_bytes,
            parts: Parts::default(),
            completes: None,
        });
        let disposition = self.store(index, 0, arrival);
        self.inbox.add_waiting(place, index);
        if arrived_bytes < head.bytes && !head.rendezvous {
            let source = &mut self.inbox.sources[head.envelope.source.index()];
            source.expect_more(head.ssn, Target::Message(index));
        }
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
                let portion = Portion {
                    source: header.source,
                    ssn: header.ssn,
                    offset: header.extent,
                    bytes: arrival.payload.bytes(),
                };
                let disposition = self.payload(portion, id, arrival.payload);
                (self.requests.finish_receive_if_whole(id), disposition)
            }
            Target::Message(index) => {
                let disposition = self.store(index, header.extent, arrival);
                let message = &mut self.inbox.messages[index];
                message.arrived_bytes += arrival.payload.bytes() as u64;
                (message.arrived_bytes >= message.head.bytes, disposition)
            }
        };
        if whole {
            self.inbox.sources[header.source.index()]
                .assembling
                .swap_remove(at);
        }
        disposition
    }

    /// Delivers landed payload to its target.
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
                        Some(staging) => receiving.take(offset, staging.payload(bytes)),
                    }
                }
                if let Some(staging) = staging {
                    self.inbox.landings.recycle(staging);
                }
                if self.requests.finish_receive_if_whole(id) {
                    let assembling = &mut self.inbox.sources[source.index()].assembling;
                    if let Some(at) = assembling.iter().position(|(of, _)| *of == ssn) {
                        assembling.swap_remove(at);
                    }
                }
            }
            Target::Message(index) => {
                let mut parts = self.inbox.messages[index].parts.iter_mut();
                let its = parts.find(|it| matches!(it.stored, Stored::Landing(of) if of == token));
                if let Some(part) = its {
                    part.stored = match staging {
                        Some(staging) if whole => Stored::Staged { staging, bytes },
                        _ => Stored::Lost,
                    };
                }
            }
        }
    }

    /// Notes a sender that stalls because its frames are kept. Any frame can show that it stalls,
    /// also one that is not kept itself.
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
        if arrival.pressed && !self.inbox.senders_keep {
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
        // The payload will never come. Its message stays void, and matched if it was matched: its
        // bytes never count as arrived. REC-7
        if landed == Landed::Lost && !self.inbox.sources[source.index()].fenced {
            self.inbox.note_lost(source);
        }
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.inbox.note_lost(peer);
    }
}
