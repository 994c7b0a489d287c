//! The barrier and the fence of all ranks.

#![allow(unsafe_code, reason = "empty buffers need no lender")]

use super::World;
use super::envelope::CONTEXT_RESERVED_MIN;
use super::waiting::SLEEP_MAX;
use crate::Error;
use refrain_ring::Rank;
use refrain_transport::engine::{ReceiveBuffer, SendBuffer, SendTo, Started};
use refrain_transport::matching::Pattern;

const CONTEXT_BARRIER: u32 = CONTEXT_RESERVED_MIN;

impl World {
    /// Returns when every rank has called it. It is a dissemination barrier over messages (Hensgen,
    /// Finkel, Manber 1988) with ⌈log₂ n⌉ rounds; other operations make progress meanwhile.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn barrier(&mut self) -> Result<(), Error> {
        // Messages of one pair and round cannot overtake each other, so tags can be reused.
        let epoch = (self.barriers % 1024) as i32 * 64;
        self.barriers += 1;
        let size = self.size;
        let mut distance = 1;
        let mut round = 0;
        while distance < size {
            let to = Rank((self.rank.0 + distance) % size);
            let from = Rank((self.rank.0 + size - distance) % size);
            self.signal(to, from, epoch + round)?;
            distance = distance.saturating_mul(2);
            round += 1;
        }
        Ok(())
    }

    fn signal(&mut self, to: Rank, from: Rank, tag: i32) -> Result<(), Error> {
        // SAFETY: no bytes are lent.
        let (data, room) = unsafe {
            let nothing = core::ptr::NonNull::dangling().as_ptr();
            (
                SendBuffer::bytes(nothing, 0),
                ReceiveBuffer::bytes(nothing, 0),
            )
        };
        let pattern = Pattern {
            context: CONTEXT_BARRIER,
            source: Some(from),
            tag: Some(tag),
        };
        let receive = self.engine.start_receive(room, pattern);
        let to = SendTo {
            rank: to,
            context: CONTEXT_BARRIER,
            tag,
            synchronous: false,
        };
        if let Started::Pending(send) = self.engine.start_send(data, to)? {
            self.finish(send)?;
        }
        self.finish(receive).map(|_| ())
    }

    /// Returns when every rank has called it. The fence goes through the launcher: it is slow, but
    /// independent of the fabric. The rank makes progress meanwhile, since other ranks may need its
    /// acknowledgements to reach the fence.
    ///
    /// # Errors
    /// When the launcher ends the job; else as [`World::send`].
    pub fn fence(&mut self) -> Result<(), Error> {
        if self.control.is_none() {
            return Ok(());
        }
        // GATE-1: other ranks see that this rank has reached the fence.
        self.block_until(|world| world.engine.is_settled().then_some(()))?;
        self.fence_while(false, |world| world.make_progress().map(|_| ()))
    }

    /// Repeats `meanwhile` until every rank has reached the fence. `last`: the rank leaves the job
    /// with this fence. All earlier events must be stable.
    pub(super) fn fence_while(
        &mut self,
        last: bool,
        mut meanwhile: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(control) = &mut self.control {
            control.begin_fence(last)?;
        }
        while let Some(control) = &mut self.control
            && !control.fence_passed()?
        {
            self.heed_news()?;
            meanwhile(self)?;
            self.engine.wait(SLEEP_MAX);
        }
        Ok(())
    }
}
