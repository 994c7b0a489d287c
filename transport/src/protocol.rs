//! The interface of the engine to a logging protocol.
//!
//! The engine creates events where they happen, in the matching and completion
//! paths; the protocol decides whether they are logged, and when the gate may
//! open. Implementations live above this crate.

use crate::control::Piece;
use refrain_ring::{Carriage, Clock, Rank, Ssn};

/// A non-deterministic outcome (Open MPI-V, sections 2.3 and 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A receive was matched: one from any source, or any for a protocol that
    /// [logs every reception](Protocol::logs_every_reception).
    Match {
        /// The clock of the latest operation when the match was made.
        at: Clock,
        /// The clock at which the receive was posted.
        request: Clock,
        /// The sender of its message.
        source: Rank,
        /// The SSN of its message.
        ssn: Ssn,
        /// Whether the receive named its source.
        is_named: bool,
    },
    /// A probe or matched probe found a message.
    Probe {
        /// The clock of the operation.
        clock: Clock,
        /// The sender of the message.
        source: Rank,
        /// Its SSN.
        ssn: Ssn,
        /// Its tag.
        tag: i32,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A wait or test whose outcome depends on timing ended these requests, in
    /// this order.
    Completion {
        /// The clock of the operation.
        clock: Clock,
        /// The completed requests, by the clocks at which they were posted.
        requests: &'a [Clock],
    },
    /// A receive was cancelled before it was matched.
    Cancelled {
        /// The clock of the cancel.
        clock: Clock,
        /// The clock at which the receive was posted.
        request: Clock,
    },
    /// An operation got a number from outside that another life would not get, for instance the
    /// time.
    Number {
        /// The clock of the operation.
        clock: Clock,
        /// The series of the number, from 0 to 15.
        series: u8,
        /// The number.
        value: i64,
    },
    /// An operation got bytes from outside that another life would not get.
    Bytes {
        /// The clock of the operation.
        clock: Clock,
        /// The bytes, from 1 to 256.
        bytes: &'a [u8],
    },
    /// A probe or test found nothing, or a cancel came too late.
    Nothing {
        /// The clock of the operation.
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

    /// Whether a match is an event even if the receive named its source, as in MPICH-V2. Called
    /// once.
    fn logs_every_reception(&self) -> bool {
        false
    }

    /// Handles a non-deterministic event. Returns whether emissions must wait from now on (GATE-1),
    /// until [`advance`](Protocol::advance) reports the event as stable.
    fn event(&mut self, event: Event<'_>) -> bool;

    /// Advances commits, without blocking: sends events to where they become stable, and notes
    /// which are stable (GATE-2). Events are counted from the first for which
    /// [`event`](Protocol::event) returned that emissions must wait. Emissions wait for the first
    /// `wanted` of them, so that their commit is not put off. Returns how many events, counted from
    /// the first, are stable.
    ///
    /// Called repeatedly while any event is not stable, by every operation of the application
    /// (GATE-4). If no emission waits, it is called after the application got what has just
    /// arrived, unless many events wait.
    fn advance(&mut self, wanted: u64) -> u64;

    /// Whether commits take time, so that they begin early: otherwise the engine does not call
    /// [`operation_ended`](Protocol::operation_ended). Called once.
    fn commits_early(&self) -> bool {
        false
    }

    /// A call of the application returns now, and the application may compute for long: a commit
    /// that begins here overlaps with the computation.
    fn operation_ended(&mut self) {}

    /// Called at the first poll without arrivals since [`advance`](Protocol::advance) was called:
    /// the next commit can be prepared.
    fn idle(&mut self) {}

    /// A checkpoint that covers everything up to `clock` is stable and
    /// published: earlier events are not needed again. GC-1
    fn checkpoint_published(&mut self, _clock: Clock) {}

    /// Prepares for the rank to leave the job. Returns whether all events are stored where the
    /// protocol requires. Called again until then.
    fn leave(&mut self) -> bool {
        true
    }

    /// The next piece that this protocol has to tell that of another rank, after any of its methods
    /// was called. Pieces to one rank arrive in order; those to a rank that is not connected are
    /// dropped. GATE-4
    fn next_piece(&mut self) -> Option<(Rank, Piece)> {
        None
    }

    /// Takes a piece of another rank's protocol.
    ///
    /// # Errors
    /// When it is nothing that a protocol tells.
    fn hear(&mut self, _from: Rank, _piece: &[u8]) -> Result<(), &'static str> {
        Err("this rank's protocol tells others nothing")
    }

    /// Whether messages carry events: then a message waits for none that its receiver is given with
    /// it. Called once.
    fn carries(&self) -> bool {
        false
    }

    /// Whether a message to this rank may leave before the events that it carries are stable. CAUSAL-1
    fn may_carry(&self, _to: Rank) -> bool {
        true
    }

    /// Number of events that are not stable when the engine begins. Called once.
    fn unstable_at_start(&self) -> u64 {
        0
    }

    /// Writes the events that the next message to a rank has to carry; nothing if there are none. Returns
    /// whether these are all: those that do not fit go into a record before it. CAUSAL-1
    fn carry(&mut self, _carriage: Carriage, _out: &mut Vec<u8>) -> bool {
        true
    }

    /// What [`carry`](Protocol::carry) wrote last for this rank is in the log. Without this call it
    /// counts as never written.
    fn carried(&mut self, _to: Rank) {}

    /// Takes the events that a message of a rank carries.
    ///
    /// # Errors
    /// When they are nothing that a protocol carries.
    fn take_carried(&mut self, _from: Rank, _attachment: &[u8]) -> Result<(), &'static str> {
        Err("messages to this rank carry no events")
    }

    /// Nothing arrives from the present life of a peer any more. FENCE-1
    fn fenced(&mut self, _peer: Rank) {}

    /// A later life of a peer, or this later life and a peer, were connected. The peers of a first
    /// life are connected from the start.
    fn connected(&mut self, _peer: Rank) {}

    /// Why emissions still wait after [`advance`](Protocol::advance), for messages to the
    /// user.
    fn explain(&self) -> Option<String> {
        None
    }

    /// Sends wait because the payload log has no room left; published checkpoints of the receivers
    /// would free log memory. Called once each time that sends begin to wait. LOG-3
    fn wants_checkpoint(&mut self) {}
}
