//! What launcher and ranks say to each other.
//!
//! A change of anything here, or of [`JobConfig`], is a new
//! [`CONTROL_VERSION`](super::framing::CONTROL_VERSION): the encoding
//! (postcard) does not describe itself.

use crate::config::JobConfig;
use crate::statistics::Statistics;
use serde::{Deserialize, Serialize};

/// From a rank to its launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message: this process joins the job as the rank that owns the
    /// socket. Answered with [`ToRank::Welcome`].
    Hello {
        /// Its process id (a wrapper may stand between it and the launcher).
        process: u32,
    },
    /// Publishes a value under a key; a later one replaces it.
    Put {
        /// The name it is found by.
        key: String,
        /// Any bytes.
        value: Vec<u8>,
        /// A descriptor (shared memory) travels with this message.
        memory: bool,
    },
    /// Asks for a key. Answered with [`ToRank::Value`] when somebody has put it.
    Get {
        /// The name.
        key: String,
    },
    /// Waits for all ranks. Answered with [`ToRank::FenceDone`].
    Fence {
        /// How many fences this rank has passed.
        generation: u64,
    },
    /// What this rank has done, when it is about to leave.
    Statistics {
        /// Its figures.
        figures: Box<Statistics>,
    },
    /// This rank leaves the job in order; it may exit with status 0 now.
    Finalize,
    /// The job is to end.
    Abort {
        /// Why, for people.
        message: String,
    },
}

/// From the launcher to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRank {
    /// The answer to [`ToLauncher::Hello`].
    Welcome {
        /// Names the job on this host.
        job: u64,
        /// Which rank this process is.
        rank: u32,
        /// How many ranks there are.
        size: u32,
        /// How often this rank was started before.
        incarnation: u32,
        /// The job's settings.
        config: Box<JobConfig>,
    },
    /// The answer to [`ToLauncher::Get`].
    Value {
        /// The key that was asked for.
        key: String,
        /// As it was put.
        value: Vec<u8>,
        /// The descriptor that was put with it travels with this message.
        memory: bool,
    },
    /// Every rank has reached the fence.
    FenceDone {
        /// The fence that is passed.
        generation: u64,
    },
    /// The launcher ends the job.
    Stop {
        /// Why, for people.
        reason: String,
    },
}

/// A message that may be accompanied by a descriptor.
pub trait Accompanied {
    /// Whether a descriptor travels with this message.
    fn has_memory(&self) -> bool;
}

impl Accompanied for ToLauncher {
    fn has_memory(&self) -> bool {
        matches!(self, ToLauncher::Put { memory: true, .. })
    }
}

impl Accompanied for ToRank {
    fn has_memory(&self) -> bool {
        matches!(self, ToRank::Value { memory: true, .. })
    }
}
