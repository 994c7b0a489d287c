//! Carriers: records with the events that the messages behind them may depend on, for protocols whose
//! messages do not wait. CAUSAL-1
//!
//! A carrier is on the stream that numbers nothing, as parts of results are: no checkpoint covers it,
//! and no later life misses it. Its tag is the life of its receiver: to a later life of the receiver, it
//! is from another connection, and says nothing.

use super::inbox::Delivery;
use super::outbox::{Means, Outbox};
use super::request::RequestId;
use super::{EngineError, SendTo};
use crate::fabric::{Arrival, Disposition, Payload};
use crate::protocol::Protocol;
use refrain_ring::{ChannelLog, Rank, RecordKind, ReserveError, Ssn, Stream};

/// The context of carriers.
pub const CARRIER_CONTEXT: u32 = 0xffff_fff0;
/// Bytes of one carrier after which further events go into the next.
const CARRIER_BYTES_MAX: usize = 4096;

/// The protocol that makes carriers.
pub(super) struct Carrier<'a>(pub &'a mut dyn Protocol);

impl Outbox {
    /// Puts the events before a message into the log, ahead of its first record, if its lane is live:
    /// then the message does not wait for them. CAUSAL-1
    pub(super) fn precede(
        &mut self,
        to: Rank,
        id: RequestId,
        means: &mut Means<'_>,
    ) -> Result<(), ReserveError> {
        let is_live = self.destination(to).lane.is_live();
        let sending = means.requests.sending(id);
        let is_first = sending.is_some_and(|sending| !sending.announced);
        if !is_live || !is_first {
            return Ok(());
        }
        let attached = means.log.fabric.attributes_to(to).attached_bytes_max;
        // The memory is reused.
        let mut carrier = core::mem::take(&mut self.carrier);
        let preceded = self.carry_all(to, attached, &mut carrier, means);
        self.carrier = carrier;
        if preceded? && let Some(sending) = means.requests.sending(id) {
            sending.is_preceded = true;
        }
        Ok(())
    }

    /// Puts all carriers for a rank into the log. Returns whether they hold everything.
    fn carry_all(
        &mut self,
        to: Rank,
        attached: usize,
        carrier: &mut Vec<u8>,
        means: &mut Means<'_>,
    ) -> Result<bool, ReserveError> {
        let bytes_max = CARRIER_BYTES_MAX.min(attached);
        loop {
            let Some(Carrier(protocol)) = &mut means.carrier else {
                return Ok(false);
            };
            carrier.clear();
            protocol.carry(to, bytes_max, carrier);
            if carrier.is_empty() {
                return Ok(true);
            }
            if carrier.len() > attached.min(ChannelLog::PAYLOAD_BYTES_MAX) {
                // It would stay with the sender: the message waits instead. CAUSAL-3
                return Ok(false);
            }
            let destination = &mut self.destinations[to.index()];
            let send_to = SendTo {
                rank: to,
                context: CARRIER_CONTEXT,
                tag: destination.life.0.cast_signed(),
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
            protocol.carried(to);
        }
    }
}

impl<P: Protocol> Delivery<'_, P> {
    /// Takes a carrier, before the program gets the message behind it. CAUSAL-2
    pub(super) fn take_carrier(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let is_of_this_life = header.tag.cast_unsigned() == self.inbox.incarnation.0;
        let taken = match arrival.payload {
            _ if !is_of_this_life => Ok(()),
            Payload::Here(carrier) => self.protocol.take_carried(header.source, carrier),
            Payload::Distant(_) => Err("a carrier is not here"),
        };
        if let Err(why) = taken {
            let peer = header.source;
            let error = EngineError::StrangePiece { peer, why };
            self.inbox.violation.get_or_insert(error);
        }
        Disposition::Consumed
    }
}
