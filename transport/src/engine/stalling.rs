//! Sends for which the log has no room: what can be freed for them, and why they
//! wait. LOG-3

use super::EngineError;
use super::outbox::{Means, Outbox};
use refrain_ring::{ArenaFull, Rank, ReserveError};

/// Why packing has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// A receiver has to consume before its channel's window moves.
    Window,
    /// The log memory is in use; only a horizon frees it.
    Budget,
    /// The channel's share of the log memory is in use and consumed, and no disk takes any of it;
    /// only a horizon frees it.
    Share,
    /// The system gives no more memory for the log; only a horizon frees memory in the log.
    Memory,
    /// The log memory is in use, and part of it is on its way to disk.
    Disk,
}

impl Stall {
    /// Whether the stall could last for ever: a receiver that consumes does not end it.
    pub fn is_of_memory(self) -> bool {
        self != Self::Window
    }
}

impl Outbox {
    /// Frees what channels hold and do not need, and gives the disk what it takes. Returns whether
    /// packing can continue: if not, the stall is noted. LOG-3
    ///
    /// # Errors
    /// When the system has no memory.
    pub(super) fn makes_room(
        &mut self,
        to: Rank,
        stop: ReserveError,
        means: &mut Means<'_>,
    ) -> Result<bool, EngineError> {
        let may_help = match stop {
            ReserveError::Arena(_) => true,
            // Without a disk a channel's window only moves when its receiver consumes.
            ReserveError::Window => means.log.spilling.is_on(),
        };
        // Only the channel's own chunks make room in its window. Chunks of other channels would
        // only be written to disk before them.
        let of_window = matches!(stop, ReserveError::Window);
        if may_help && self.reclaim_from(of_window.then_some(to), means) {
            return Ok(true);
        }
        self.note_stall(to, stop, means).map(|()| false)
    }

    /// Frees memory of one channel, or of all; returns whether any was freed.
    #[cold]
    pub(super) fn reclaim_from(&mut self, only: Option<Rank>, means: &mut Means<'_>) -> bool {
        let before = means.log.arena.used_bytes();
        self.after_disk(means.log.spilling);
        self.trim_all(&mut means.log);
        if only.is_none() && means.log.arena.used_bytes() >= before {
            self.rest_all(&mut means.log);
        }
        // Memory is exhausted, even if other channels hold it: all complete chunks are lent.
        for destination in self.destinations.iter_mut() {
            if only.is_none_or(|only| only == destination.rank) {
                (means.log.spilling).lend_above(0, destination, means.log.arena);
            }
        }
        means.log.arena.used_bytes() < before
    }

    /// Notes why packing waits. LOG-3: a record without room waits, and nothing is dropped; the
    /// caller sees the reason and decides how long to wait.
    fn note_stall(
        &mut self,
        to: Rank,
        stop: ReserveError,
        means: &mut Means<'_>,
    ) -> Result<(), EngineError> {
        let stall = match stop {
            ReserveError::Window if self.receiver_holds(to, means) => Stall::Window,
            _ if means.log.spilling.is_writing() => Stall::Disk,
            ReserveError::Arena(_) if self.waits_for_receivers(means.log.fabric) => Stall::Window,
            ReserveError::Arena(error @ ArenaFull::Memory { .. })
                if !gets_by_with_what_it_has(means) =>
            {
                return Err(EngineError::Log(error));
            }
            ReserveError::Window => Stall::Share,
            ReserveError::Arena(ArenaFull::Budget { .. }) => Stall::Budget,
            ReserveError::Arena(ArenaFull::Memory { .. }) => Stall::Memory,
        };
        // A slow receiver must not hide that another channel has no memory: only a lack of memory
        // ends with an error.
        if stall != Stall::Window || self.stall.is_none() {
            self.stall = Some(stall);
        }
        Ok(())
    }

    /// Whether the oldest part of a channel's log is not consumed yet.
    fn receiver_holds(&mut self, to: Rank, means: &mut Means<'_>) -> bool {
        let destination = &mut self.destinations[to.index()];
        let oldest = destination.log.first_end();
        let released = destination.released(to, means.log.fabric);
        !destination.keeps_payload() || oldest.is_none_or(|end| released < end)
    }
}

/// Whether a log continues in its present memory when the system has no more: chunks are freed as
/// the disk takes them.
fn gets_by_with_what_it_has(means: &Means<'_>) -> bool {
    means.log.spilling.is_on() && means.log.arena.used_bytes() > 0
}
