//! Messages that leave before they are in the log.
//!
//! A log that keeps its payload moves on through memory that no cache holds:
//! writing there takes longer than a network takes to begin. Where a fabric sends
//! by copying anyway, it copies from memory of its own, and the log's copy is
//! made while the message travels. LOG-1: it is there before the send completes.

use super::buffer::SendBuffer;
use super::outbox::{Destination, Logging, Means, Record};
use crate::gate::Pass;
use refrain_ring::copy::Target;

impl Destination {
    /// Sends a whole message if the fabric takes it now; whether it did. If not,
    /// nothing has happened.
    pub(super) fn stage(
        &mut self,
        buffer: &SendBuffer,
        record: &Record,
        log: Logging,
        pass: Pass,
        means: &mut Means<'_>,
    ) -> bool {
        if !self.log.has_room(record.payload_bytes) {
            self.trim(record.to, log.keeps_payload, means.fabric, means.arena);
        }
        // LOG-3: what the log has no room for does not leave.
        let reserved = self.log.reserve(means.arena, record.payload_bytes, true);
        let Ok(mut reservation) = reserved else {
            return false;
        };
        let header = self.log.stamp(record.header(record.payload_bytes));
        let mut fill = |place: &mut [u8]| buffer.pack(record.offset, place, Target::Cached);
        let staged = means.fabric.stage(pass, record.to, &header, &mut fill);
        if staged.is_err() {
            return false;
        }
        let payload = self.log.payload_mut(means.arena, &mut reservation);
        buffer.pack(record.offset, payload, log.target);
        let frame = self.log.append(means.arena, reservation, header);
        means.fabric.staged(record.to, &frame);
        true
    }
}
