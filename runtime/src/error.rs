//! Errors of the library's operations.

use crate::Ended;
use core::fmt;
use refrain_job::JobError;
use refrain_rank::dead_rank::DeadRankError;
use refrain_ring::Rank;
use refrain_transport::engine::Stall;
use thiserror::Error;

/// An error: what failed, what was attempted, and what to do about it.
#[derive(Debug, Error)]
pub enum Error {
    /// The message was longer than the receive's buffer. The buffer holds the beginning of the
    /// message; the rest is lost.
    #[error(
        "truncated: a message of {message_bytes} bytes from rank {source_rank} (tag {tag}) met a receive of {buffer_bytes} bytes"
    )]
    Truncated {
        /// The sender of the message.
        source_rank: Rank,
        /// The tag of the message.
        tag: i32,
        /// The length of the message.
        message_bytes: u64,
        /// The length of the receive's buffer.
        buffer_bytes: u64,
    },
    /// A call on several requests received messages that were longer than their buffers. Contains
    /// every request that ended in the call.
    #[error("{}", truncated(.0))]
    TooLong(Vec<Ended>),
    /// A handle of a call does not name a request.
    #[error(
        "request {index} of the call has ended already, is named twice, or is of another world"
    )]
    Request {
        /// Index of the handle in the call.
        index: usize,
    },
    /// The rank does not exist in the job.
    #[error("rank {rank} does not exist: the job has ranks 0 to {last}")]
    NoSuchRank {
        /// The rank that was given.
        rank: Rank,
        /// The highest rank of the job.
        last: u32,
    },
    /// An argument is outside its limits.
    #[error("{0}")]
    Argument(String),
    /// The payload log is full, and no memory of it can be freed.
    #[error("the payload log of this rank is full: {0}")]
    LogFull(LogFull),
    /// The events that ranks hold for each other take all the memory that they may.
    #[error("this rank has no room for events: {0}")]
    EventsFull(EventsFull),
    /// A send waits for its events to become stable, and no quorum of event loggers has them.
    #[error(
        "a send has waited {} s for its events to become stable: {why}; check the event loggers, or raise --event-wait",
        waited.as_secs()
    )]
    EventsNotStable {
        /// How long the send has waited.
        waited: core::time::Duration,
        /// The explanation of the event loggers' client.
        why: String,
    },
    /// A fabric failed.
    #[error(transparent)]
    Fabric(Box<refrain_transport::fabric::FabricError>),
    /// The engine cannot continue.
    #[error(transparent)]
    Engine(refrain_transport::engine::EngineError),
    /// The launcher or its control socket failed.
    #[error("{attempted}: {error}")]
    Control {
        /// What was attempted, and what to do about it.
        attempted: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The launcher ends the job.
    #[error("the job is being ended: {0}")]
    Aborted(String),
    /// A process that was forked by a rank's process called the library.
    #[error(
        "this process was forked by the process of a rank: only the process that joined the job may call the library; a child may run another program (exec) or exit"
    )]
    Forked,
    /// The settings of the job cannot be used.
    #[error("{0}")]
    Config(String),
}

/// Lists the requests whose messages were too long.
fn truncated(ended: &[Ended]) -> String {
    let truncated = ended.iter().filter_map(|ended| {
        let error = ended.status().err()?;
        Some(format!("request {} of the call: {error}", ended.index))
    });
    truncated.collect::<Vec<_>>().join("; ")
}

/// The memory of events that a rank holds, where it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsFull {
    /// Memory in use.
    pub used_bytes: u64,
    /// The memory that may be used.
    pub limit_bytes: u64,
    /// The rank whose events take the most of it.
    pub most_of: Rank,
}

impl fmt::Display for EventsFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            used_bytes,
            limit_bytes,
            most_of,
        } = self;
        write!(
            f,
            "events that ranks hold for each other take {used_bytes} of {limit_bytes} bytes (a quarter of --log-memory), most of them those of rank {most_of}, and none may be freed before a checkpoint: publish checkpoints more often, raise --log-memory, or choose --protocol pessimist"
        )
    }
}

/// Why a payload log is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFull {
    /// The reason why sends wait.
    pub stall: Stall,
    /// Log memory in use.
    pub used_bytes: u64,
    /// The memory budget.
    pub budget_bytes: u64,
    /// The explanation of the spill disk, if the log has one.
    pub disk: Option<String>,
}

impl fmt::Display for LogFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used_bytes, budget_bytes) = (self.used_bytes, self.budget_bytes);
        match self.stall {
            Stall::Disk => write!(
                f,
                "{used_bytes} of {budget_bytes} bytes of memory are in use, and writing them to disk makes no progress"
            )?,
            Stall::Share => write!(
                f,
                "one receiver's share of {budget_bytes} bytes of memory is in use, and none of it may be freed before a checkpoint"
            )?,
            Stall::Memory => write!(
                f,
                "the system gives no more memory than the {used_bytes} of {budget_bytes} bytes that are in use, and none of them may be freed before a checkpoint"
            )?,
            Stall::Budget | Stall::Window => write!(
                f,
                "{used_bytes} of {budget_bytes} bytes of memory are in use, and none of them may be freed before a checkpoint"
            )?,
        }
        match (&self.disk, self.stall) {
            (Some(disk), Stall::Memory) => write!(f, "; {disk}; or free memory on this host"),
            (Some(disk), _) => write!(f, "; {disk}"),
            (None, _) => f.write_str(
                ": raise --log-memory, give it a disk with --spill-dir, or publish checkpoints more often",
            ),
        }
    }
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Argument(reason) => Self::Argument(reason),
            JobError::Config(reason) => Self::Config(reason),
            JobError::Control { attempted, error } => Self::Control { attempted, error },
            JobError::Aborted(reason) => Self::Aborted(reason),
        }
    }
}

impl From<DeadRankError> for Error {
    fn from(error: DeadRankError) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<refrain_transport::layout::LayoutError> for Error {
    fn from(error: refrain_transport::layout::LayoutError) -> Self {
        Self::Argument(error.to_string())
    }
}

impl From<refrain_transport::fabric::FabricError> for Error {
    fn from(error: refrain_transport::fabric::FabricError) -> Self {
        Self::Fabric(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_for_a_full_log_fit_its_cause() {
        let says = |stall, disk: Option<&str>| {
            let full = LogFull {
                stall,
                used_bytes: 3,
                budget_bytes: 4,
                disk: disk.map(str::to_owned),
            };
            Error::LogFull(full).to_string()
        };
        let checkpoint = "may be freed before a checkpoint";
        for (stall, words) in [
            (Stall::Budget, "3 of 4 bytes of memory are in use"),
            (Stall::Share, "one receiver's share of 4 bytes"),
            (Stall::Memory, "the system gives no more memory"),
            (Stall::Disk, "writing them to disk makes no progress"),
        ] {
            let said = says(stall, Some("the disk's words"));
            assert!(said.contains(words), "{said}");
            assert!(said.contains("; the disk's words"), "{said}");
            assert_eq!(said.contains(checkpoint), stall != Stall::Disk, "{said}");
        }
        assert!(says(Stall::Budget, None).contains(": raise --log-memory, give it a disk"));
    }
}
