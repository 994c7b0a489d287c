//! Messages that leave before they are in the log.
//!
//! A log that keeps its payload moves on through memory that no cache holds:
//! writing there takes longer than a network takes to begin. Where a fabric sends
//! by copying anyway, it copies from memory of its own, and the log's copy is
//! made while the message travels. LOG-1: it is there before the send completes.

use super::buffer::SendBuffer;
use super::outbox::{Destination, LogMeans, Logging, Record};
use refrain_ring::copy::Target;

impl Destination {
    /// Sends a frame if the fabric takes it now; how many bytes of payload it
    /// has then. If not, nothing has happened.
    pub(super) fn stage(
        &mut self,
        buffer: &SendBuffer,
        record: &Record,
        log: Logging,
        means: &mut LogMeans<'_>,
    ) -> Option<u64> {
        let lengths = &self.limits.staged_bytes;
        if !self.lane.is_live() {
            return None;
        }
        if !lengths.contains(&(record.payload_bytes as u64)) || !self.packed.is_empty() {
            return None;
        }
        let pass = means.gate.pass()?;
        let least = lengths.start as usize;
        if !self.log.has_room(record.payload_bytes) {
            self.before_chunk(record.to, log.keeps_payload, means);
        }
        let arena = &mut *means.arena;
        // LOG-3: what the log has no room for does not leave.
        let reserved = self.log.reserve(arena, record.payload_bytes, record.whole);
        let mut reservation = reserved.ok()?;
        let payload_bytes = reservation.payload_bytes();
        if payload_bytes < least {
            return None;
        }
        let header = self.log.stamp(record.header(payload_bytes));
        let mut fill = |place: &mut [u8]| buffer.pack(record.offset, place, Target::Cached);
        means
            .fabric
            .stage(pass, record.to, &header, &mut fill)
            .ok()?;
        let payload = self.log.payload_mut(arena, &mut reservation);
        buffer.pack(record.offset, payload, log.target);
        let frame = self.log.append(arena, reservation, header);
        means.fabric.staged(record.to, &frame);
        Some(payload_bytes as u64)
    }
}
