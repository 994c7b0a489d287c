//! The gate: the one choke point below every emission (GATE-1).
//!
//! Fabrics post only with a [`Pass`]. Only this module makes passes: a [`Gate`] gives one when
//! every earlier determinant of this rank is stable, for traffic that shows nothing to a peer's
//! *program* (GATE-4), or for a message with its determinants in its record or before it in its lane
//! (CAUSAL-1).

/// The permission to post one frame. Cannot be made outside this module.
#[derive(Debug)]
pub struct Pass(());

/// The number of events before an emission was made: they have to be stable before it leaves, later
/// ones need not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub u64);

/// Holds emissions back while a determinant that came before them is not stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gate {
    /// Number of events so far for which emissions have to wait.
    events: u64,
    /// How many of these events, counted from the first, are stable.
    stable: u64,
}

impl Gate {
    /// Adds events for which emissions have to wait from now on.
    #[inline]
    pub fn note_events(&mut self, events: u64) {
        self.events += events;
    }

    /// Marks the first `events` events stable, as reported by the
    /// [`Protocol`](crate::protocol::Protocol).
    #[inline]
    pub fn note_stable(&mut self, events: u64) {
        self.stable = self.stable.max(events.min(self.events));
    }

    /// Whether an emission that is made now has to wait.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.stable < self.events
    }

    /// Number of events that are not known to be stable.
    #[inline]
    pub fn unstable(&self) -> u64 {
        self.events - self.stable
    }

    /// The events that have to be stable before an emission that is made now.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.events)
    }

    /// A pass for an effect that is made now and that another rank's program can see, if all events
    /// so far are stable.
    #[inline]
    pub fn pass(&self) -> Option<Pass> {
        (!self.is_closed()).then_some(Pass(()))
    }

    /// A pass for an effect that was made earlier, if all events before it are stable. GATE-1
    #[inline]
    pub fn pass_behind(&self, mark: Mark) -> Option<Pass> {
        (self.stable >= mark.0).then_some(Pass(()))
    }

    /// The mark of a message whose events are in its record, or before it in its lane: it waits for none.
    /// CAUSAL-1
    #[inline]
    pub fn preceded(&self) -> Mark {
        Mark(0)
    }

    /// A pass for such a message. CAUSAL-1
    #[inline]
    pub fn pass_with_events(&self) -> Pass {
        Pass(())
    }

    /// A pass for a record of the log that was published before: for another life of its receiver,
    /// or while the receiver was not connected. The record was published with a pass of its own,
    /// and the events before it stay stable. GATE-1
    #[inline]
    pub fn pass_again(&self) -> Pass {
        Pass(())
    }

    /// A pass for traffic that no program sees: credits, horizons, and the control frames of two
    /// ranks of which one is a later life. Never waits (GATE-4).
    #[inline]
    pub fn pass_unseen(&self) -> Pass {
        Pass(())
    }
}
