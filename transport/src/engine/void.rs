//! Messages of a fenced peer: those that have arrived completely stay, the others are void and
//! arrive again. REC-7
//!
//! A void message keeps its match, or its place among the unexpected messages. None of its
//! bytes count as arrived.

use super::EngineError;
use super::inbox::{Delivery, Inbox};
use super::request::Requests;
use super::source::{Judgement, Target};
use super::stored::{Message, MessageHead, Part, Stored, kept};
use crate::control::Control;
use crate::fabric::{Arrival, Disposition, Fabric};
use crate::protocol::Protocol;
use refrain_ring::{Rank, RecordHeader, Ssn};

impl Message {
    /// Whether all of its bytes are in this rank's own memory.
    pub fn is_here(&self) -> bool {
        let is_own = |stored: &Stored| match stored {
            Stored::Copied(_) | Stored::Short { .. } | Stored::Staged { .. } => true,
            Stored::InPlace { .. } | Stored::Distant { .. } | Stored::Landing(_) | Stored::Lost => {
                false
            }
        };
        self.arrived_bytes >= self.head.bytes && self.parts.iter().all(|part| is_own(&part.stored))
    }

    /// Whether payload is being fetched into memory of this rank.
    pub fn is_landing(&mut self) -> bool {
        let is_landing = |part: &mut Part| matches!(part.stored, Stored::Landing(_));
        self.parts.iter_mut().any(is_landing)
    }
}

impl Inbox {
    /// Copies payload of complete messages out of the peer's memory, which is about to become
    /// unreadable.
    pub fn rescue(&mut self, peer: Rank, fabric: &mut dyn Fabric) {
        for (_, message) in self.messages.iter_mut().filter(|(_, it)| it.is_from(peer)) {
            if message.arrived_bytes < message.head.bytes {
                continue;
            }
            for part in message.parts.iter_mut() {
                if let Stored::InPlace { place, bytes } = part.stored {
                    part.stored = Stored::Copied(kept(fabric, place, bytes).into());
                    fabric.let_go(place);
                }
            }
        }
        let source = &mut self.sources[peer.index()];
        source.in_place = 0;
        source.fenced = true;
    }

    /// Copies payload out of the memory of all peers, which is about to become unreadable. Payload
    /// that was to be fetched is lost. The memory of fenced peers is unreadable already.
    #[cold]
    pub fn rescue_all(&mut self, fabric: &mut dyn Fabric) {
        for (_, message) in &mut self.messages {
            let source = &mut self.sources[message.head.envelope.source.index()];
            if source.fenced {
                continue;
            }
            source.in_place = 0;
            for part in message.parts.iter_mut() {
                let (place, here) = match part.stored {
                    Stored::InPlace { place, bytes } => {
                        let copy = kept(fabric, place, bytes).into();
                        (place, Stored::Copied(copy))
                    }
                    Stored::Distant { place, .. } => (place, Stored::Lost),
                    _ => continue,
                };
                part.stored = here;
                fabric.let_go(place);
            }
        }
    }

    /// Makes all messages of a peer void that have not arrived completely. The peer must be
    /// disconnected, and none of its payload may land any more. REC-7
    pub fn void(&mut self, peer: Rank, requests: &mut Requests) {
        let source = &mut self.sources[peer.index()];
        for (ssn, target) in core::mem::take(&mut source.assembling) {
            if let Target::Request(id) = target
                && let Some(receiving) = requests.receiving(id)
            {
                receiving.arrived_bytes = 0;
                source.missing.insert(ssn, Some(target));
            }
        }
        for (index, message) in &mut self.messages {
            if !message.is_from(peer) || message.is_here() {
                continue;
            }
            for part in message.parts.drain() {
                if let Stored::Staged { staging, .. } = part.stored {
                    self.landings.recycle(staging);
                }
            }
            message.arrived_bytes = 0;
            source
                .missing
                .insert(message.head.ssn, Some(Target::Message(index)));
        }
        self.controls_in.retain(|(from, _)| *from != peer);
        self.lost.retain(|lost| *lost != peer);
    }

    /// Whether a message of `source` was matched, in this life or before the checkpoint from which
    /// this life started.
    fn is_matched(&self, source: Rank, ssn: Ssn) -> bool {
        let mut messages = self.messages.iter();
        let state = &self.sources[source.index()];
        !state.misses_unmatched(ssn) && !messages.any(|(_, it)| it.key() == (source, ssn))
    }

    /// Answers a sender that asks whether its synchronous send is matched. If it is not matched
    /// yet, the match will answer.
    pub fn answer_again(&mut self, source: Rank, ssn: Ssn) {
        if self.is_matched(source, ssn) {
            return self.controls_out.push((source, Control::Matched { ssn }));
        }
        let mut messages = self.messages.iter_mut().map(|(_, message)| message);
        if let Some(message) = messages.find(|it| it.key() == (source, ssn)) {
            // A message that a checkpoint held was not waited for.
            message.head.want_ack = true;
        }
    }

    /// Whether a message that arrives again is the same as before. REC-8
    fn is_same(&self, head: &MessageHead, target: Target, requests: &mut Requests) -> bool {
        match target {
            Target::Message(index) => {
                let before = &self.messages[index].head;
                (before.envelope, before.bytes) == (head.envelope, head.bytes)
            }
            Target::Request(id) => requests.receiving(id).is_none_or(|receiving| {
                let status = receiving.status;
                (status.tag, status.bytes) == (head.envelope.tag, head.bytes)
            }),
        }
    }
}

impl<P: Protocol> Delivery<'_, P> {
    /// Handles the first record of a message that is internal, or whose sender was connected again
    /// or breaks the rules. Messages are judged by their first record: further records of a
    /// duplicate belong to no message.
    #[cold]
    pub(super) fn begin_again(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let source = &mut self.inbox.sources[header.source.index()];
        let is_first = header.flags & RecordHeader::FIRST != 0;
        match source.judge(header.ssn, is_first) {
            Judgement::New if header.ssn.is_program() => return self.enter(arrival),
            Judgement::New => {
                let head = MessageHead::of(header);
                let place = self.place_internal(&head);
                return self.enter_at(place, &head, arrival);
            }
            Judgement::Void(target) => return self.restart(arrival, target),
            Judgement::Duplicate => {
                self.statistics.duplicates += 1;
                if header.flags & RecordHeader::WANT_ACK != 0 {
                    self.inbox.answer_again(header.source, header.ssn);
                }
            }
            Judgement::Gap(expected) => self.gap(header, expected),
        }
        Disposition::Consumed
    }

    /// Starts a void message again, for its match or at its place. REC-7
    fn restart(&mut self, arrival: &Arrival<'_>, target: Target) -> Disposition {
        let head = MessageHead::of(arrival.header);
        let (source, ssn) = (head.envelope.source, head.ssn);
        if !self.inbox.is_same(&head, target, self.requests) {
            self.inbox.violation = Some(EngineError::Differs {
                source_rank: source,
                ssn,
            });
            return Disposition::Consumed;
        }
        match target {
            Target::Request(id) => {
                if head.want_ack {
                    self.inbox
                        .controls_out
                        .push((source, Control::Matched { ssn }));
                }
                self.first_payload(&head, id, arrival.payload)
            }
            Target::Message(index) => {
                let message = &mut self.inbox.messages[index];
                message.arrived_bytes = arrival.payload.bytes() as u64;
                if message.arrived_bytes < message.head.bytes {
                    self.inbox.sources[source.index()].expect_more(ssn, target);
                }
                self.store(index, 0, arrival)
            }
        }
    }

    /// Handles a fragment of a message that is not being assembled.
    #[cold]
    pub(super) fn stray_fragment(&mut self, header: &RecordHeader) -> Disposition {
        let source = &self.inbox.sources[header.source.index()];
        if source.skips && !header.ssn.is_program() {
            // The beginning of the message was freed with its collective. WHOLE-4
        } else if source.misses(header.ssn) {
            self.gap(header, source.first_missing_of(header.ssn.stream()));
        } else {
            // The message was received before a restart of its sender.
            self.statistics.duplicates += 1;
        }
        Disposition::Consumed
    }

    fn gap(&mut self, header: &RecordHeader, expected: Ssn) {
        self.inbox.violation = Some(EngineError::Gap {
            source_rank: header.source,
            found: header.ssn,
            expected,
        });
    }
}
