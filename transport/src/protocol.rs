//! What the engine tells a logging protocol, and asks of it.
//!
//! The engine creates events where they happen, in the matching and completion
//! paths; whether they are logged, and when the gate may open, is the
//! protocol's affair. Implementations live above this crate.

use refrain_ring::{Clock, Rank, Ssn};

/// A non-deterministic outcome (Open MPI-V, sections 2.3 and 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An any-source receive was matched.
    Match {
        /// The receive: the clock at its post.
        request: Clock,
        /// Whose message it got.
        source: Rank,
        /// Which message.
        ssn: Ssn,
    },
    /// A probe or matched probe found a message.
    Probe {
        /// The operation.
        clock: Clock,
        /// The sender of the message.
        source: Rank,
        /// Which message.
        ssn: Ssn,
    },
    /// A wait or test whose outcome depends on timing completed these requests,
    /// in this order.
    Completion {
        /// The operation.
        clock: Clock,
        /// The completed requests, by the clocks at their posts.
        requests: &'a [Clock],
    },
    /// A probe or test that found nothing.
    Nothing {
        /// The operation.
        clock: Clock,
    },
}

/// A member of the protocol family, as the engine sees it.
pub trait Protocol {
    /// Its name as given to `--protocol`.
    fn name(&self) -> &'static str;

    /// Whether payload stays in the log after it was consumed, until the
    /// receiver's horizon frees it (LOG-1, LOG-4).
    fn keeps_payload(&self) -> bool;

    /// A non-deterministic event has happened. Returns whether emissions must
    /// wait from now on (GATE-1).
    fn event(&mut self, event: Event<'_>) -> bool;

    /// Sends wait because the payload log has no room left; a checkpoint of the
    /// receivers, published, would give it some. Said once each time that sends
    /// begin to wait. LOG-3
    fn wants_checkpoint(&mut self) {}

    /// Whether everything that happened so far is stable, so that emissions
    /// may go on.
    fn stable(&mut self) -> bool;
}
