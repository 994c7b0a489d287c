//! Messages that arrived before their receive, and where their bytes are.

use super::beginning::Undelivered;
use super::buffer::{ReceiveBuffer, Staging};
use super::inbox::{Delivery, Inbox};
use super::landing::{Landings, Portion};
use super::request::{Receiving, RequestId, Status};
use super::source::Target;
use crate::fabric::{Arrival, Disposition, Fabric, Payload, Place};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::{Rank, RecordHeader, RecordKind, Ssn};

/// A message as its first record announces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageHead {
    pub envelope: Envelope,
    pub ssn: Ssn,
    pub bytes: u64,
    pub want_ack: bool,
    pub rendezvous: bool,
}

/// A message that arrived before its receive. Where the fabric allows, its bytes
/// stay in the sender's log.
#[derive(Debug)]
pub(super) struct Message {
    pub head: MessageHead,
    /// Bytes of the parts that are known, wherever they are stored.
    pub arrived_bytes: u64,
    pub parts: Parts,
    /// A send of this rank to itself that completes with the match.
    pub completes: Option<RequestId>,
}

/// The parts of a message's payload that are known so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    first: Option<Part>,
    /// Used only for messages of several frames.
    rest: Vec<Part>,
}

#[derive(Debug)]
pub(super) struct Part {
    pub offset: u64,
    pub stored: Stored,
}

/// Longest payload that is stored without memory of its own, as long as what names a frame in its
/// sender's log.
const SHORT_BYTES_MAX: usize = 32;

#[derive(Debug)]
pub(super) enum Stored {
    /// Readable in the sender's log.
    InPlace {
        place: Place,
        bytes: usize,
    },
    /// In the sender's log, to be fetched.
    Distant {
        place: Place,
        bytes: usize,
    },
    /// Being fetched into staging memory; holds the token of the landing.
    Landing(u64),
    Staged {
        staging: Staging,
        bytes: usize,
    },
    Copied(Box<[u8]>),
    /// The first `bytes` bytes of an array.
    Short {
        bytes: u8,
        array: [u8; SHORT_BYTES_MAX],
    },
    /// Lost with its sender, which has to send the message again. REC-7
    Lost,
}

impl MessageHead {
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

    pub fn to_self(envelope: Envelope, ssn: Ssn, bytes: u64) -> Self {
        Self {
            envelope,
            ssn,
            bytes,
            want_ack: false,
            rendezvous: false,
        }
    }

    pub fn status(&self) -> Status {
        Status {
            source: self.envelope.source,
            tag: self.envelope.tag,
            bytes: self.bytes,
            cancelled: false,
        }
    }

    pub fn portion(&self, offset: u64, bytes: usize) -> Portion {
        Portion {
            source: self.envelope.source,
            ssn: self.ssn,
            offset,
            bytes,
        }
    }
}

impl Message {
    /// A copy, of a message that is [here](Message::is_here).
    pub fn to_undelivered(&self) -> Undelivered {
        let mut payload = vec![0; self.head.bytes as usize];
        for part in self.parts.iter() {
            let bytes = match &part.stored {
                Stored::Copied(bytes) => bytes,
                Stored::Short { bytes, array } => &array[..usize::from(*bytes)],
                Stored::Staged { staging, bytes } => staging.payload(*bytes),
                Stored::InPlace { .. }
                | Stored::Distant { .. }
                | Stored::Landing(_)
                | Stored::Lost => {
                    continue;
                }
            };
            payload[part.offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Undelivered {
            source: self.head.envelope.source,
            ssn: self.head.ssn,
            context: self.head.envelope.context,
            tag: self.head.envelope.tag,
            payload: payload.into(),
        }
    }

    pub fn is_from(&self, source: Rank) -> bool {
        self.head.envelope.source == source
    }

    /// The sender and the SSN.
    pub fn key(&self) -> (Rank, Ssn) {
        (self.head.envelope.source, self.head.ssn)
    }
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

    pub fn drain(&mut self) -> impl Iterator<Item = Part> {
        let rest = core::mem::take(&mut self.rest);
        self.first.take().into_iter().chain(rest)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.first.iter().chain(&self.rest)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

/// The payload that was left in place. Panics if it is incomplete: a part would be delivered as if
/// it were the message.
pub(super) fn kept(fabric: &dyn Fabric, place: Place, bytes: usize) -> &[u8] {
    let payload = fabric.kept(place, bytes);
    assert_eq!(
        payload.len(),
        bytes,
        "a frame is readable until it is released"
    );
    payload
}

impl Stored {
    fn copy(payload: &[u8], landings: &mut Landings) -> Self {
        let bytes = payload.len();
        match landings.copy(payload) {
            Some(staging) => Self::Staged { staging, bytes },
            None => Self::Copied(payload.into()),
        }
    }
}

impl<P: Protocol> Delivery<'_, P> {
    /// Stores the payload of an arrival as a part of a message.
    pub(super) fn store(
        &mut self,
        index: usize,
        offset: u64,
        arrival: &Arrival<'_>,
    ) -> Disposition {
        let place = arrival.place;
        let source = &mut self.inbox.sources[arrival.header.source.index()];
        let message = &mut self.inbox.messages[index];
        let (stored, disposition) = match arrival.payload {
            Payload::Here([]) | Payload::Distant(0) => return Disposition::Consumed,
            Payload::Here(payload) if payload.len() <= SHORT_BYTES_MAX => {
                let mut array = [0; SHORT_BYTES_MAX];
                array[..payload.len()].copy_from_slice(payload);
                let bytes = payload.len() as u8;
                (Stored::Short { bytes, array }, Disposition::Consumed)
            }
            Payload::Here(payload) => {
                let pressed = arrival.pressed && !self.inbox.senders_keep;
                if source.reads_in_place && !pressed {
                    source.in_place += 1;
                    let bytes = payload.len();
                    (Stored::InPlace { place, bytes }, Disposition::Keep)
                } else {
                    let copy = Stored::copy(payload, &mut self.inbox.landings);
                    (copy, Disposition::Consumed)
                }
            }
            // The payload stays in the log anyway, and need not be fetched before its receive.
            Payload::Distant(bytes) if self.inbox.senders_keep => {
                source.in_place += 1;
                (Stored::Distant { place, bytes }, Disposition::Keep)
            }
            // The payload would fill a log whose memory is reused, and its sender would stall.
            Payload::Distant(bytes) => {
                let portion = message.head.portion(offset, bytes);
                let target = Target::Message(index);
                let (token, landing) = self.inbox.landings.stage(portion, target);
                (Stored::Landing(token), Disposition::Fetch(landing))
            }
        };
        message.parts.push(offset, stored);
        disposition
    }

    /// Delivers a stored message to the receive that took it.
    pub fn deliver_stored(&mut self, index: usize, id: RequestId, fabric: &mut dyn Fabric) {
        let mut message = self.inbox.messages.remove(index);
        let head = message.head;
        self.match_made(&head, id);
        if let Some(completed) = message.completes {
            self.requests.finish_send(completed);
        }
        let Some(receiving) = self.requests.receiving(id) else {
            return;
        };
        for part in message.parts.drain() {
            self.inbox.deliver_part(&head, part, id, receiving, fabric);
        }
        self.finish_or_expect_more(&head, id);
    }
}

impl Inbox {
    /// Delivers a stored message, if it is in one piece, nothing of it is to come, and its sender
    /// waits for no answer.
    pub fn deliver_whole(
        &mut self,
        index: usize,
        room: &ReceiveBuffer,
        fabric: &mut dyn Fabric,
    ) -> Option<Status> {
        let Message {
            head,
            arrived_bytes,
            parts,
            completes,
        } = &self.messages[index];
        let is_waited_for = head.want_ack || head.rendezvous || completes.is_some();
        if is_waited_for || *arrived_bytes < head.bytes || !parts.rest.is_empty() {
            return None;
        }
        match &parts.first {
            None => {}
            Some(Part { offset, stored }) => match *stored {
                Stored::InPlace { place, bytes } => {
                    room.unpack(*offset, kept(fabric, place, bytes));
                    fabric.let_go(place);
                    self.sources[head.envelope.source.index()].in_place -= 1;
                }
                Stored::Copied(ref data) => room.unpack(*offset, data),
                Stored::Short { bytes, ref array } => {
                    room.unpack(*offset, &array[..usize::from(bytes)]);
                }
                _ => return None,
            },
        }
        let status = head.status();
        self.messages.remove(index);
        Some(status)
    }

    fn deliver_part(
        &mut self,
        head: &MessageHead,
        part: Part,
        id: RequestId,
        receiving: &mut Receiving,
        fabric: &mut dyn Fabric,
    ) {
        let source = &mut self.sources[head.envelope.source.index()];
        match part.stored {
            Stored::Copied(data) => receiving.take(part.offset, &data),
            Stored::Short { bytes, array } => {
                receiving.take(part.offset, &array[..usize::from(bytes)]);
            }
            Stored::Staged { staging, bytes } => {
                receiving.take(part.offset, staging.payload(bytes));
                self.landings.recycle(staging);
            }
            Stored::InPlace { place, bytes } => {
                receiving.take(part.offset, kept(fabric, place, bytes));
                fabric.let_go(place);
                source.in_place -= 1;
            }
            Stored::Distant { place, bytes } => {
                let portion = head.portion(part.offset, bytes);
                match self.landings.fetch(portion, id, receiving) {
                    Disposition::Fetch(landing) => fabric.fetch(place, landing),
                    Disposition::Consumed | Disposition::Keep => fabric.let_go(place),
                }
                source.in_place -= 1;
            }
            Stored::Landing(token) => self.landings.retarget(token, id),
            Stored::Lost => {}
        }
    }

    /// Copies out the payload that is kept in the log of `source`, so that `source` need not stall.
    pub fn copy_out(&mut self, source: Rank, fabric: &mut dyn Fabric) {
        let its = self
            .messages
            .iter_mut()
            .filter(|(_, it)| it.is_from(source));
        for (index, message) in its {
            for part in message.parts.iter_mut() {
                match part.stored {
                    Stored::InPlace { place, bytes } => {
                        part.stored = Stored::copy(kept(fabric, place, bytes), &mut self.landings);
                        fabric.let_go(place);
                    }
                    Stored::Distant { place, bytes } => {
                        let portion = message.head.portion(part.offset, bytes);
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
}
