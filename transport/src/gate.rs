//! The gate: the one choke point below every emission (GATE-1).
//!
//! Fabrics post only against a [`Pass`], and a pass comes only from here: from
//! a [`Gate`] that found every earlier determinant of this rank stable, or for
//! traffic that tells a peer's *program* nothing (GATE-4).

/// The permission to post one frame. Cannot be made outside this module.
#[derive(Debug)]
pub struct Pass(());

/// The number of events that had happened when an emission was made: they have to be
/// stable before it leaves, later ones need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub u64);

/// Holds emissions back while a determinant that came before them is not stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gate {
    /// Events that emissions have to wait for, so far.
    events: u64,
    /// How many of these, from the first, are stable.
    stable: u64,
}

impl Gate {
    /// Events have happened for which emissions have to wait from now on.
    #[inline]
    pub fn note_events(&mut self, events: u64) {
        self.events += events;
    }

    /// Marks the first `events` events stable, as the
    /// [`Protocol`](crate::protocol::Protocol) says.
    #[inline]
    pub fn note_stable(&mut self, events: u64) {
        self.stable = self.stable.max(events.min(self.events));
    }

    /// Whether an emission that is made now has to wait.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.stable < self.events
    }

    /// Events that are not known to be stable.
    #[inline]
    pub fn unstable(&self) -> u64 {
        self.events - self.stable
    }

    /// The events that an emission which is made now has to wait for.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.events)
    }

    /// A pass for an effect that another rank's program can see, and that is made
    /// now, if everything that has happened is stable.
    #[inline]
    pub fn pass(&self) -> Option<Pass> {
        (!self.is_closed()).then_some(Pass(()))
    }

    /// A pass for one that was made earlier, if everything that had happened then
    /// is stable. GATE-1
    #[inline]
    pub fn pass_behind(&self, mark: Mark) -> Option<Pass> {
        (self.stable >= mark.0).then_some(Pass(()))
    }

    /// A pass for a record of the log that was published before, to another life
    /// of its receiver, or to one that was not connected. It was published with a
    /// pass of its own, and the events before it stay stable. GATE-1
    #[inline]
    pub fn pass_again(&self) -> Pass {
        Pass(())
    }

    /// A pass for traffic that no program sees: credits, horizons, and the control frames
    /// of two ranks of which one has begun anew. Never waits (GATE-4).
    #[inline]
    pub fn pass_unseen(&self) -> Pass {
        Pass(())
    }
}
