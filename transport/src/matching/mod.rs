//! Which message goes to which receive: MPI's matching rules (MPI-4.1, 3.5).
//!
//! A [`Matcher`] holds the receives that wait for a message and the messages
//! that came before their receive; it is pure: what happens depends only on the
//! order of calls. What a receive or a message *is* is the caller's affair.
//!
//! | operation | cost |
//! |---|---|
//! | post; cancel; remove by id | O(1) |
//! | message to an exact receive | O(1), and O(wildcards posted before it) |
//! | message to a wildcard receive | O(wildcards posted before it) |
//! | exact receive or probe of an unexpected message | O(1) |
//! | wildcard receive or probe of one | O(messages that arrived before it) |
//!
//! None depends on how many entries share an envelope, and none allocates once
//! the queues have been as long before.

mod directory;
mod envelope;
mod pool;
mod posted;
mod unexpected;

#[cfg(test)]
mod tests;

pub use envelope::{Envelope, Pattern};
pub use posted::PostedId;
pub use unexpected::UnexpectedId;

use directory::Directory;
use pool::{List, Pool};

/// Posted receives with values `R`, unexpected messages with values `M`.
///
/// The two sides do not look at each other: who posts a receive has tried
/// [`take_unexpected`](Self::take_unexpected) before, who adds an unexpected
/// message has tried [`take_posted`](Self::take_posted).
///
/// Ids are never used twice: one whose entry is gone finds nothing.
#[derive(Debug)]
pub struct Matcher<R, M> {
    /// Receives; each is on one list: that of its envelope if it is exact, else the
    /// wildcards'.
    receives: Pool<(Pattern, R), 1>,
    exact_receives: Directory,
    wildcards: List,
    /// Messages; each is on two lists: of all messages, and of its envelope.
    messages: Pool<(Envelope, M), 2>,
    messages_by_envelope: Directory,
    arrivals: List,
}

impl<R, M> Matcher<R, M> {
    /// Without receives and messages.
    pub fn new() -> Self {
        Self {
            receives: Pool::new(),
            exact_receives: Directory::new(),
            wildcards: List::EMPTY,
            messages: Pool::new(),
            messages_by_envelope: Directory::new(),
            arrivals: List::EMPTY,
        }
    }
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self::new()
    }
}
