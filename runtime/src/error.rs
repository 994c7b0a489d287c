//! Everything that can go wrong for a program that uses the library.

use refrain_ring::Rank;
use thiserror::Error;

/// What went wrong, what was attempted and what to do about it.
#[derive(Debug, Error)]
pub enum Error {
    /// The message was longer than the receive's buffer; the buffer holds its
    /// beginning, the rest is lost.
    #[error(
        "truncated: a message of {message_bytes} bytes from rank {source_rank} (tag {tag}) met a receive of {buffer_bytes} bytes"
    )]
    Truncated {
        /// Whose message it was.
        source_rank: Rank,
        /// Its tag.
        tag: i32,
        /// Its length.
        message_bytes: u64,
        /// The receive's room.
        buffer_bytes: u64,
    },
    /// A rank that the job does not have.
    #[error("rank {rank} does not exist: the job has ranks 0 to {last}")]
    NoSuchRank {
        /// As given.
        rank: Rank,
        /// The highest there is.
        last: u32,
    },
    /// An argument outside its limits.
    #[error("{0}")]
    Argument(String),
    /// The payload log is full and nothing may be freed.
    #[error(
        "the payload log of this rank is full ({budget_bytes} bytes of memory, nothing may be freed before a checkpoint){}",
        disk.as_ref().map_or_else(
            || ": raise --log-memory, give it a disk with --spill-dir, or publish checkpoints more often".to_owned(),
            |disk| format!("; {disk}"),
        )
    )]
    LogFull {
        /// The memory budget.
        budget_bytes: u64,
        /// What the disk under it says, if there is one.
        disk: Option<String>,
    },
    /// A fabric failed.
    #[error(transparent)]
    Fabric(#[from] refrain_transport::fabric::FabricError),
    /// The engine cannot go on.
    #[error(transparent)]
    Engine(refrain_transport::engine::EngineError),
    /// The launcher or its control socket failed.
    #[error("{attempted}: {error}")]
    Control {
        /// What was attempted, and what to do about it.
        attempted: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// The launcher ends the job.
    #[error("the job is being ended: {0}")]
    Aborted(String),
    /// The program that was to be started cannot be.
    #[error("{reason}")]
    Program {
        /// What was tried and what to do.
        reason: String,
        /// It exists, but may not be executed.
        found: bool,
    },
    /// The job's settings cannot be used.
    #[error("{0}")]
    Config(String),
}
