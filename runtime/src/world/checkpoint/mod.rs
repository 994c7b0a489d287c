//! Checkpoints, as a program takes them: what it names, and everything that the
//! library needs to go on from there.
//!
//! A checkpoint is taken by one rank for itself, at any time between scopes; no
//! other rank takes part or waits. It is no operation of the rank's clock: a life
//! that plays its past again takes none, and comes to the same. When it is stable,
//! what lies before it is given up: payload in the logs of others, events (LOG-4,
//! GC-1).

mod restored;
mod taking;

pub use restored::Restored;
pub use taking::Image;
pub(super) use taking::{ENGINE_SECTION, WORLD_SECTION, WorldPart, failed};

use super::World;
use super::wishes::Wishes;
use crate::Error;
use core::time::Duration;
use refrain_checkpoint::Store;
use std::io::Write as _;

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
    /// `None`: there is no place for them, or nobody who would go on from them.
    pub(super) store: Option<Store>,
    /// The number of the next one.
    pub(super) next: u64,
    /// One would be of use to the job.
    pub(super) is_wanted: bool,
    /// The program asks whether one is wanted.
    pub(super) heeds_requests: bool,
    /// What had passed when the last one was taken.
    pub(super) traffic_before: Traffic,
    /// Whose checkpoints would make room in this rank's log. LOG-3
    pub(super) wishes: Wishes,
    /// It has waited for room, and there is none.
    pub(super) has_waited: bool,
    /// What this life goes on from, until the program takes it.
    pub(super) restored: Option<Restored>,
}

/// What has passed between a rank and all others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl World {
    /// Whether a death of this rank, or of another, does not end the job: it is
    /// started again and goes on where it was.
    pub fn recovers(&self) -> bool {
        self.attention.peers_may_return
    }

    /// What the checkpoint holds that this life goes on from; `None` in one that
    /// begins at the beginning, and after it was taken.
    ///
    /// To be asked before any other operation, which fails otherwise: the program has
    /// to go on where it took the checkpoint.
    ///
    /// # Errors
    /// When the launcher ends the job.
    pub fn restored(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.checkpoints.restored.take();
        if let (Some(restored), Some(control)) = (&restored, &mut self.control) {
            // What was printed until now came from the way here; what comes behind it
            // is what the life before printed behind the checkpoint.
            let _ = std::io::stdout().flush();
            crate::stdio::flush_of_c();
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

    /// Takes a checkpoint and returns when it is stable: `save` gives what the
    /// program needs to go on from here. `None` where there is no place for
    /// checkpoints, and while a past is played again: so nothing that is sent or
    /// printed may depend on the result.
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
