//! Messages that leave before they are in the log.
//!
//! A log that keeps its payload moves on through memory that no cache holds:
//! writing there takes longer than a network takes to begin. Where a fabric sends
//! by copying anyway, it copies from memory of its own, and the log's copy is
//! made while the message travels. LOG-1: it is there before the send completes.

use super::buffer::SendBuffer;
use super::outbox::{Destination, LogMeans};
use refrain_ring::copy::Target;
use refrain_ring::{Frame, RecordHeader};

impl Destination {
    /// Sends up to `payload_bytes_max` bytes of a message from `offset` on, if the
    /// fabric takes them now. If not, nothing has happened.
    pub(super) fn stage(
        &mut self,
        buffer: &SendBuffer,
        offset: u64,
        payload_bytes_max: usize,
        whole: bool,
        header: RecordHeader,
        means: &mut LogMeans<'_>,
    ) -> Option<Frame> {
        let lengths = &self.limits.staged_bytes;
        if !self.lane.is_live()
            || !lengths.contains(&(payload_bytes_max as u64))
            || !self.packed.is_empty()
        {
            return None;
        }
        let pass = means.gate.pass()?;
        let least = lengths.start as usize;
        if !self.log.has_room(payload_bytes_max) {
            self.before_chunk(means);
        }
        let (to, target) = (self.rank, self.limits.target);
        let fabric = &mut *means.fabric;
        let leave = |header: &RecordHeader, payload: &mut [u8]| {
            let mut fill = |place: &mut [u8]| buffer.pack(offset, place, Target::Cached);
            let is_taken =
                payload.len() >= least && fabric.stage(pass, to, header, &mut fill).is_ok();
            if is_taken {
                buffer.pack(offset, payload, target);
            }
            is_taken
        };
        // LOG-3: what the log has no room for does not leave.
        let appended = (self.log).append_if(means.arena, payload_bytes_max, whole, header, leave);
        let frame = appended.ok()??;
        means.fabric.staged(to, &frame);
        Some(frame)
    }
}
