//! Checkpoints as a program takes them: the memory that the program names, and everything that the
//! library needs to continue from there.
//!
//! A rank takes a checkpoint by itself, at any time between scopes; no other rank takes part or
//! waits, unless the rank is in a correlated set (`rounds`). A checkpoint is no operation of the rank's clock: a replay takes none and has the same
//! results. When the checkpoint is stable, payload in the logs of other ranks and events before it
//! are freed (LOG-4, GC-1).

mod restored;
mod rounds;
mod taking;

pub use restored::Restored;
pub use taking::Image;
pub(super) use taking::{ENGINE_SECTION, WORLD_SECTION, WorldPart, broken};

use super::World;
use super::checkpoint_requests::CheckpointRequests;
use crate::Error;
use core::time::Duration;
use refrain_checkpoint::Store;
use refrain_job::control::message::ToLauncher;
pub(super) use rounds::Rounds;

/// A checkpoint that is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// The checkpoint's number among those of this rank, over all lives, from 1.
    pub number: u64,
    /// Length of the checkpoint, with the library's sections.
    pub bytes: u64,
    /// How long the checkpoint stopped the program.
    pub took: Duration,
}

/// The state of a rank's checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// `None` if the job has no checkpoint store or does not restart ranks.
    pub(super) store: Option<Store>,
    /// The number of the next checkpoint.
    pub(super) next: u64,
    /// The job requests a checkpoint.
    pub(super) is_wanted: bool,
    /// The program asks for checkpoint requests.
    pub(super) heeds_requests: bool,
    /// The traffic up to the last checkpoint.
    pub(super) traffic_before: Traffic,
    /// Requests to other ranks for checkpoints that free memory of this rank's log. LOG-3
    pub(super) requests: CheckpointRequests,
    /// The same for memory of events.
    pub(super) event_requests: CheckpointRequests,
    /// The rank has waited for log memory in vain.
    pub(super) has_waited: bool,
    /// The rounds of the rank's correlated set.
    pub(super) rounds: Rounds,
    /// The checkpoint that this life continues from, until the program has taken it.
    pub(super) restored: Option<Restored>,
}

/// Bytes that a rank has received from and sent to all other ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl World {
    /// Whether a rank that dies is restarted and recovers, instead of ending the job.
    pub fn recovers(&self) -> bool {
        self.attention.peers_may_return
    }

    /// Returns the checkpoint that this life continues from; `None` in a life that starts at the
    /// beginning, and after the first call.
    ///
    /// Call it before any other operation; otherwise that operation fails. The program must
    /// continue where it took the checkpoint.
    ///
    /// # Errors
    /// When the launcher ends the job.
    pub fn restored(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.checkpoints.restored.take();
        if let (Some(restored), Some(control)) = (&restored, &mut self.control) {
            // Output so far was printed before the checkpoint was found; later output belongs after
            // the checkpoint.
            crate::stdio::flush();
            control.tell_beginning(restored.number())?;
        }
        Ok(restored)
    }

    /// Whether the job requests a checkpoint of this rank: because of `refrain run
    /// --checkpoint-policy`, or because the log of another rank is full. Returns true once for each
    /// request. A rank whose own log is nearly full waits here, for a tenth of a second at most,
    /// for checkpoints of other ranks that free memory in it.
    ///
    /// It is no operation of the clock. The program may use the result only to decide whether it
    /// takes a checkpoint.
    ///
    /// # Errors
    /// When the launcher ends the job; else as [`World::send`].
    pub fn checkpoint_requested(&mut self) -> Result<bool, Error> {
        if self.checkpoints.store.is_none() {
            return Ok(false);
        }
        if !self.checkpoints.heeds_requests {
            self.checkpoints.heeds_requests = true;
            self.tell(|control| control.report(&ToLauncher::HeedsRequests))?;
        }
        if self.engine.is_replaying() {
            return Ok(false);
        }
        self.look_for_news_at_times()?;
        self.wait_for_room()?;
        Ok(core::mem::take(&mut self.checkpoints.is_wanted))
    }

    /// Takes a checkpoint and returns when it is stable. `save` adds the state that the program
    /// needs to continue from here. Returns `None` without a checkpoint store, and in a replay;
    /// therefore no message and no output may depend on the result.
    ///
    /// In a correlated set (`refrain run --sets`) the members take their checkpoints in rounds, and a
    /// checkpoint counts when each member has one. The call waits until all members keep their
    /// messages to each other, 10 s at most, and returns `None` if this rank has taken one already,
    /// or a member recovers.
    ///
    /// ```no_run
    /// # fn steps(world: &mut refrain::World) -> Result<(), refrain::Error> {
    /// let (mut step, mut field) = (0u64, vec![0u8; 1 << 20]);
    /// if let Some(mut restored) = world.restored()? {
    ///     step = restored.value(1)?;
    ///     restored.memory(2, &mut field)?;
    /// }
    /// while step < 1000 {
    ///     // … compute, send, receive …
    ///     step += 1;
    ///     if step % 100 == 0 {
    ///         world.checkpoint(|image| {
    ///             image.protect_value(1, &step)?;
    ///             image.protect(2, &field)
    ///         })?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] inside a scope with open requests, or while a message of a matched probe
    /// is not received; [`Error::Config`] when the store fails (earlier checkpoints stay); errors
    /// of `save`; else as [`World::send`].
    pub fn checkpoint(
        &mut self,
        save: impl FnOnce(&mut Image<'_>) -> Result<(), Error>,
    ) -> Result<Option<Checkpointed>, Error> {
        if self.checkpoints.store.is_none() || self.engine.is_replaying() {
            return Ok(None);
        }
        taking::take(self, save)
    }
}
