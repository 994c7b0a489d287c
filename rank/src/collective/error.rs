//! Why collectives end without their results.

use refrain_ring::Rank;
use refrain_transport::engine::{EngineError, ReadBackError};
use thiserror::Error;

/// Why a collective ended without its result.
#[derive(Debug, Error)]
pub enum CollectiveError {
    /// As of sends and receives.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The log with the results that this rank keeps cannot be read.
    #[error(transparent)]
    ReadBack(#[from] ReadBackError),
    /// A result was kept by ranks that have failed together.
    #[error(
        "collective {number} of the group with context {context}: all ranks that kept its result have failed: the results of collectives survive {failures} failures at a time (--collective-failures)"
    )]
    ResultLost {
        /// The number of the collective.
        number: i32,
        /// The context of the group.
        context: u32,
        /// The setting.
        failures: u32,
    },
    /// The lengths of a message differ.
    #[error(
        "collective {number} of the group with context {context}: rank {source_rank} sent {sent_bytes} bytes where {expected_bytes} were expected: do all members call the same operation with the same counts?"
    )]
    Mismatch {
        /// The number of the collective.
        number: i32,
        /// The context of the group.
        context: u32,
        /// Who sent the message.
        source_rank: Rank,
        /// Its length.
        sent_bytes: u64,
        /// The length that the schedule of this rank has.
        expected_bytes: u64,
    },
    /// Two members did not call the same.
    #[error(
        "collective {number} of the group with context {context}: rank {rank} calls {own}, and rank {other} calls {theirs}: all members make the same calls in the same order"
    )]
    Differs {
        /// The number of the collective.
        number: i32,
        /// The context of the group.
        context: u32,
        /// This rank.
        rank: Rank,
        /// Its call.
        own: String,
        /// The member at the place below.
        other: Rank,
        /// Its call.
        theirs: String,
    },
}
