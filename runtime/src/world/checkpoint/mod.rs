//! Checkpoints, as a program takes them: the memory that it names, and everything that the
//! library needs to continue from there.
//!
//! A checkpoint is taken by one rank for itself, at any time between scopes; no
//! other rank takes part or waits. It is no operation of the rank's clock: a replay
//! takes none, with the same results. When it is stable,
//! payload in the logs of others and events before it are freed (LOG-4, GC-1).

mod restored;
mod taking;

pub use restored::Restored;
pub use taking::Image;
pub(super) use taking::{ENGINE_SECTION, WORLD_SECTION, WorldPart, broken};

use super::World;
use super::checkpoint_requests::CheckpointRequests;
use crate::Error;
use core::time::Duration;
use refrain_checkpoint::Store;

/// A checkpoint that is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// Its number among those of this rank, over all its lives, from 1.
    pub number: u64,
    /// Its length, with what the library adds.
    pub bytes: u64,
    /// How long the rank was held up by it.
    pub took: Duration,
}

/// A rank's checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// `None`: there is no place for them, or ranks are not restarted.
    pub(super) store: Option<Store>,
    /// The number of the next one.
    pub(super) next: u64,
    /// The job requests one.
    pub(super) is_wanted: bool,
    /// The program asks whether one is wanted.
    pub(super) heeds_requests: bool,
    /// The traffic before the last one.
    pub(super) traffic_before: Traffic,
    /// Requests for checkpoints that would make room in this rank's log. LOG-3
    pub(super) requests: CheckpointRequests,
    /// It has waited for room, and there is none.
    pub(super) has_waited: bool,
    /// The checkpoint that this life continues from, until the program takes it.
    pub(super) restored: Option<Restored>,
}

/// The bytes that have passed between a rank and all others.
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

    /// The checkpoint that this life continues from; `None` in a life that
    /// begins at the beginning, and after it was taken.
    ///
    /// To be called before any other operation, which fails otherwise: the program has
    /// to continue where it took the checkpoint.
    ///
    /// # Errors
    /// When the launcher ends the job.
    pub fn restored(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.checkpoints.restored.take();
        if let (Some(restored), Some(control)) = (&restored, &mut self.control) {
            // Earlier output came before the checkpoint was found; later output is that of
            // the earlier life after its checkpoint.
            crate::stdio::flush();
            control.tell_beginning(restored.number())?;
        }
        Ok(restored)
    }

    /// Whether the job asks this rank for a checkpoint: as `refrain run
    /// --checkpoint-policy` says, and where the logs of others are full for it. True
    /// once for each time. A rank whose own log is nearly full waits here, for a tenth
    /// of a second at most, for the checkpoints of others that make room in it.
    ///
    /// No operation of the clock. The program may only decide by it whether it
    /// takes a checkpoint.
    ///
    /// # Errors
    /// When the launcher ends the job; else as [`World::send`].
    pub fn checkpoint_requested(&mut self) -> Result<bool, Error> {
        if self.checkpoints.store.is_none() || self.engine.is_replaying() {
            return Ok(false);
        }
        self.checkpoints.heeds_requests = true;
        self.look_for_news_at_times()?;
        self.wait_for_room()?;
        Ok(core::mem::take(&mut self.checkpoints.is_wanted))
    }

    /// Takes a checkpoint and returns when it is stable: `save` gives the state that the
    /// program needs to continue from here. `None` where there is no place for
    /// checkpoints, and in a replay: so no message and no output
    /// may depend on the result.
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
    /// [`Error::Argument`] inside a scope with open requests, or while a message
    /// of a matched probe is not received; [`Error::Config`] when the store fails
    /// (the checkpoints before stay); those of `save`; else as [`World::send`].
    pub fn checkpoint(
        &mut self,
        save: impl FnOnce(&mut Image<'_>) -> Result<(), Error>,
    ) -> Result<Option<Checkpointed>, Error> {
        if self.checkpoints.store.is_none() || self.engine.is_replaying() {
            return Ok(None);
        }
        taking::take(self, save).map(Some)
    }
}
