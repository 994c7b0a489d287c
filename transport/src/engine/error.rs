//! Why an engine stops.

use crate::fabric::FabricError;
use refrain_ring::{ArenaFull, Rank, Ssn};
use thiserror::Error;

/// Why the engine cannot go on.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The fabric or a peer broke.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A message is missing on a channel.
    #[error("message {expected} of rank {source_rank} is missing: message {found} came instead")]
    Gap {
        /// Whose channel.
        source_rank: Rank,
        /// What came.
        found: Ssn,
        /// What was next.
        expected: Ssn,
    },
    /// The fabric noticed the end of a peer.
    #[error("rank {peer} is gone{}", why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    PeerLost {
        /// The peer.
        peer: Rank,
        /// What the fabric knows of it.
        why: Option<String>,
    },
    /// A peer never ended what it was bringing into a receive that was given
    /// up: the fabric had to be closed.
    #[error(
        "a transfer from rank {peer} into a buffer that was given up did not end: this rank has closed all its connections, end the job"
    )]
    Closed {
        /// The peer.
        peer: Rank,
    },
    /// A message that the log can never hold.
    #[error(
        "a message of {message_bytes} bytes never fits into the payload log of {budget_bytes} bytes, with its headers and beside other messages: raise --log-memory"
    )]
    LongerThanLog {
        /// The message.
        message_bytes: u64,
        /// The log.
        budget_bytes: u64,
    },
    /// The system gave no log memory.
    #[error(transparent)]
    Log(ArenaFull),
}
