//! Messages that carry the events that they may depend on, for protocols whose messages do not wait.
//! CAUSAL-1
//!
//! Events travel behind the message, in its record. For messages of several records, or with payload elsewhere,
//! and for more events than an attachment holds, they travel in *carriers*: records ahead of the message.
//! A carrier is on the stream that numbers nothing, as parts of results are: no checkpoint covers it, and no
//! later life misses it.

use super::destination::Destination;
use super::inbox::Delivery;
use super::outbox::{Means, Outbox};
use super::request::RequestId;
use super::{EngineError, SendTo};
use crate::fabric::{Arrival, Disposition, Payload};
use crate::protocol::Protocol;
use refrain_ring::{Carriage, Rank, RecordHeader, RecordKind, ReserveError, Ssn, Stream};

/// The context of carriers.
pub const CARRIER_CONTEXT: u32 = 0xffff_fff0;
/// Bytes of one carrier after which further events go into the next.
const CARRIER_BYTES_MAX: usize = 4096;

/// The protocol that makes carriers.
pub(super) struct Carrier<'a>(pub &'a mut dyn Protocol);

impl Destination {
    /// Writes what a message of `bytes` bytes is to carry. Returns whether its record has room for all of it.
    #[inline]
    pub(super) fn attach<P: Protocol + ?Sized>(
        &self,
        bytes: usize,
        protocol: &mut P,
        attachment: &mut Vec<u8>,
    ) -> bool {
        let room = self.limits.carrying_bytes_max.saturating_sub(bytes);
        let bytes_max = room.min(RecordHeader::ATTACHMENT_BYTES_MAX);
        self.carry((bytes, bytes_max), protocol, attachment) && attachment.len() <= bytes_max
    }

    /// Writes what a record with a message of `bytes` bytes is to carry. Returns whether that is all.
    #[inline]
    fn carry<P: Protocol + ?Sized>(
        &self,
        (bytes, bytes_max): (usize, usize),
        protocol: &mut P,
        out: &mut Vec<u8>,
    ) -> bool {
        let carriage = Carriage {
            to: self.rank,
            life: self.life,
            may_be_first: self.carried_in != self.log.sequence_end(),
            bytes_max,
        };
        let is_all = protocol.carry(carriage, out);
        if carriage.may_be_first || self.log.has_room(bytes + out.len()) {
            return is_all;
        }
        // The record goes into the next chunk. CAUSAL-4
        out.clear();
        let carriage = Carriage {
            may_be_first: true,
            ..carriage
        };
        protocol.carry(carriage, out)
    }

    /// What was written last is in the log.
    #[inline]
    pub(super) fn carried<P: Protocol + ?Sized>(&mut self, protocol: &mut P) {
        self.carried_in = self.log.sequence_end();
        protocol.carried(self.rank);
    }
}

impl Outbox {
    /// Packs the next record of a send with the events before it, if its lane is live: then the message does
    /// not wait for them. CAUSAL-1
    pub(super) fn pack_with_events(
        &mut self,
        to: Rank,
        id: RequestId,
        means: &mut Means<'_>,
    ) -> Result<u64, ReserveError> {
        // The memory is reused.
        let mut attachment = core::mem::take(&mut self.attachment);
        attachment.clear();
        let packed = (self.precede(to, id, &mut attachment, means))
            .and_then(|()| self.pack_record(to, id, &attachment, means));
        if packed.is_ok()
            && !attachment.is_empty()
            && let Some(Carrier(protocol)) = &mut means.carrier
        {
            self.destinations[to.index()].carried(*protocol);
        }
        self.attachment = attachment;
        packed
    }

    /// Writes what the record is to carry, or puts it into the log before the record.
    fn precede(
        &mut self,
        to: Rank,
        id: RequestId,
        attachment: &mut Vec<u8>,
        means: &mut Means<'_>,
    ) -> Result<(), ReserveError> {
        let destination = &mut self.destinations[to.index()];
        let (Some(Carrier(protocol)), Some(sending)) =
            (&mut means.carrier, means.requests.sending(id))
        else {
            return Ok(());
        };
        if !destination.lane.is_live() || sending.announced || !protocol.may_carry(to) {
            return Ok(());
        }
        let bytes = sending.buffer.message_bytes();
        let is_whole =
            sending.publication.is_none() && bytes <= destination.limits.at_once_bytes_max;
        let mut is_all = is_whole && destination.attach(bytes as usize, *protocol, attachment);
        if !is_all {
            is_all = self.carry_ahead(to, attachment, means)?;
            attachment.clear();
        }
        if let Some(sending) = means.requests.sending(id) {
            sending.is_preceded = is_all;
        }
        Ok(())
    }

    /// Puts all events for a rank into the log, in carriers. Returns whether that was possible.
    fn carry_ahead(
        &mut self,
        to: Rank,
        carrier: &mut Vec<u8>,
        means: &mut Means<'_>,
    ) -> Result<bool, ReserveError> {
        let longest = self.destinations[to.index()].limits.carrying_bytes_max;
        loop {
            let destination = &mut self.destinations[to.index()];
            let Some(Carrier(protocol)) = &mut means.carrier else {
                return Ok(false);
            };
            carrier.clear();
            let bytes_max = CARRIER_BYTES_MAX.min(longest);
            let is_all = destination.carry((0, bytes_max), *protocol, carrier);
            if carrier.is_empty() {
                return Ok(true);
            }
            if carrier.len() > longest {
                // It would stay with the sender: the message waits instead. CAUSAL-3
                return Ok(false);
            }
            let send_to = SendTo {
                rank: to,
                context: CARRIER_CONTEXT,
                tag: 0,
                synchronous: false,
            };
            let ssn = Ssn(Ssn::first(Stream::RESULTS).0 + self.unnumbered);
            let header = send_to.header(RecordKind::Eager, ssn, carrier.len() as u64);
            if !destination.log.has_room(carrier.len()) {
                destination.before_chunk(&mut means.log);
            }
            let fill = |place: &mut [u8]| place.copy_from_slice(carrier);
            let arena = &mut *means.log.arena;
            let appended = (destination.log).append(arena, carrier.len(), true, header, fill);
            destination.push_packed(appended?, means.log.gate.preceded());
            // No checkpoint covers it.
            destination.horizon.raise_to(ssn.next());
            self.unnumbered += 1;
            destination.carried(*protocol);
            if is_all {
                return Ok(true);
            }
        }
    }
}

impl<P: Protocol> Delivery<'_, P> {
    /// Takes what a message carries, before the program gets it. CAUSAL-2
    pub(super) fn take_carried(&mut self, source: Rank, carried: &[u8]) {
        self.inbox.has_carried = true;
        if let Err(why) = self.protocol.take_carried(source, carried) {
            let error = EngineError::StrangePiece { peer: source, why };
            self.inbox.violation.get_or_insert(error);
        }
    }

    /// Takes a carrier, before the program gets the message behind it. CAUSAL-2
    pub(super) fn take_carrier(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let peer = arrival.header.source;
        match arrival.payload {
            Payload::Here(carrier) => self.take_carried(peer, carrier),
            Payload::Distant(_) => {
                let why = "a carrier is not here";
                let error = EngineError::StrangePiece { peer, why };
                self.inbox.violation.get_or_insert(error);
            }
        }
        Disposition::Consumed
    }

    /// Takes a message with an attachment. CAUSAL-2
    // Not inlined into its caller, which is optimised as seldom called.
    #[inline(never)]
    pub(super) fn begin_attached(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let Payload::Here(payload) = arrival.payload else {
            let peer = arrival.header.source;
            let why = "an attachment is not here";
            let error = EngineError::StrangePiece { peer, why };
            self.inbox.violation.get_or_insert(error);
            return Disposition::Consumed;
        };
        let (header, message, attachment) = arrival.header.detach(payload);
        self.take_carried(header.source, attachment);
        self.begin(&Arrival {
            header: &header,
            payload: Payload::Here(message),
            ..*arrival
        })
    }
}
