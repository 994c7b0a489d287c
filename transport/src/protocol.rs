//! What the engine tells a logging protocol, and asks of it.
//!
//! The engine creates events where they happen, in the matching and completion
//! paths; whether they are logged, and when the gate may open, is the
//! protocol's affair. Implementations live above this crate.

use refrain_ring::{Clock, Rank, Ssn};

/// A non-deterministic outcome (Open MPI-V, sections 2.3 and 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A receive was matched: one from any source, or any for a protocol that
    /// [logs every reception](Protocol::logs_every_reception).
    Match {
        /// The operation that was the latest when it happened.
        at: Clock,
        /// The receive: the clock at its post.
        request: Clock,
        /// Whose message it got.
        source: Rank,
        /// Which message.
        ssn: Ssn,
        /// The receive named its source.
        is_named: bool,
    },
    /// A probe or matched probe found a message.
    Probe {
        /// The operation.
        clock: Clock,
        /// The sender of the message.
        source: Rank,
        /// Which message.
        ssn: Ssn,
        /// Its tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// A wait or test whose outcome depends on timing ended these requests, in
    /// this order.
    Completion {
        /// The operation.
        clock: Clock,
        /// The completed requests, by the clocks at their posts.
        requests: &'a [Clock],
    },
    /// A receive was taken back before it was matched.
    Cancelled {
        /// The operation that did so.
        clock: Clock,
        /// The receive: the clock at its post.
        request: Clock,
    },
    /// An operation was given a number that another life would not be given again:
    /// the time, for instance.
    Number {
        /// The operation.
        clock: Clock,
        /// What it asked for, from 0 to 15.
        lane: u8,
        /// What it was given.
        value: i64,
    },
    /// An operation was given bytes that another life would not be given again.
    Bytes {
        /// The operation.
        clock: Clock,
        /// What it was given, from 1 to 256.
        bytes: &'a [u8],
    },
    /// A probe or test that found nothing, or a cancel that came too late.
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

    /// Whether a match is an event also where the receive named its source, as
    /// in MPICH-V2. Asked once.
    fn logs_every_reception(&self) -> bool {
        false
    }

    /// A non-deterministic event has happened. Returns whether emissions must
    /// wait from now on (GATE-1), until [`advance`](Protocol::advance) says that
    /// they need not.
    fn event(&mut self, event: Event<'_>) -> bool;

    /// Moves commits on, without blocking: sends what has happened to where it
    /// becomes stable, and takes in what is (GATE-2). Events are counted from the
    /// first for which [`event`](Protocol::event) said that emissions must wait.
    /// The first `wanted` of them are waited for by emissions, so that what may
    /// otherwise be put off goes at once. Returns how many, the first, are
    /// stable.
    ///
    /// Called again and again while any is not, by whatever the application
    /// calls (GATE-4); where no emission waits, not before the application was told
    /// what has just arrived, but for many events.
    fn advance(&mut self, wanted: u64) -> u64;

    /// The application gets its answer now, and may compute for long: a commit
    /// that is begun here overlaps with that.
    fn operation_ended(&mut self) {}

    /// Nothing has arrived at a look, the first since [`advance`](Protocol::advance)
    /// was called: what is to come can be made ready.
    fn idle(&mut self) {}

    /// A checkpoint that covers everything up to `clock` is stable and
    /// published: earlier events will not be asked for again. GC-1
    fn checkpoint_published(&mut self, _clock: Clock) {}

    /// The rank leaves the job: returns whether everything that happened is where
    /// it is to be. Asked again until then.
    fn leave(&mut self) -> bool {
        true
    }

    /// Why [`advance`](Protocol::advance) does not let emissions go on, for
    /// people.
    fn explain(&self) -> Option<String> {
        None
    }

    /// Sends wait because the payload log has no room left; a checkpoint of the
    /// receivers, published, would give it some. Said once each time that sends
    /// begin to wait. LOG-3
    fn wants_checkpoint(&mut self) {}
}
