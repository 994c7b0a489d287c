//! The gate: the one choke point below every emission (GATE-1).
//!
//! Fabrics post only against a [`Pass`], and a pass comes only from here: from
//! a [`Gate`] that found every earlier determinant of this rank stable, or for
//! traffic that tells a peer's *program* nothing (GATE-4).

/// The permission to post one frame. Cannot be made outside this module.
#[derive(Debug)]
pub struct Pass(());

/// Holds emissions back while a determinant is not stable.
#[derive(Debug, Default)]
pub struct Gate {
    closed: bool,
}

impl Gate {
    /// Opens or closes the gate; the protocol decides (see
    /// [`Protocol`](crate::protocol::Protocol)).
    pub fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Whether emissions wait.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// A pass for an effect that another rank's program can see, if the gate
    /// is open.
    #[inline]
    pub fn pass(&self) -> Option<Pass> {
        (!self.closed).then_some(Pass(()))
    }

    /// A pass for traffic that no program sees: credits, horizons, goodbyes,
    /// and a clear-to-send for a named receive. Never waits (GATE-4).
    #[inline]
    pub fn pass_unseen(&self) -> Pass {
        Pass(())
    }
}
