//! The barrier and the fence of all ranks.

use super::World;
use super::collective::barrier;
use crate::Error;

impl World {
    /// Returns when every rank has called it: the [`barrier`] of all ranks.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.collective(barrier(self.all()))
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
            self.engine.wait(self.patience.sleep_max);
        }
        Ok(())
    }
}
