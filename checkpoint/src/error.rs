//! Errors of checkpoints.

use crate::format::Flaw;
use crate::packing::SectionRefused;
use refrain_ring::{Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use thiserror::Error;

/// A checkpoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damaged {
    /// The name of the file, with its folder.
    pub file: String,
    /// The number of the checkpoint.
    pub number: u64,
    /// Offset of the damage, in bytes.
    pub place: u64,
    /// The damage.
    pub reason: String,
}

impl Damaged {
    /// Describes the flaw at `place`.
    pub fn new(file: String, number: u64, place: u64, flaw: Flaw) -> Self {
        Self {
            file,
            number,
            place,
            reason: flaw.to_string(),
        }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "checkpoint {} ({}) cannot be used: {} (byte {})",
            self.number, self.file, self.reason, self.place
        )
    }
}

/// A checkpoint was not written or read. Earlier stable checkpoints stay.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// Space or quota is used up.
    #[error(
        "{attempted}: {error}; the earlier checkpoints stay: free some room there, or choose another place"
    )]
    NoRoom {
        /// What was attempted.
        attempted: String,
        /// The error of the system.
        error: io::Error,
    },
    /// Files cannot be created or read there.
    #[error(
        "{attempted}: {error}; the earlier checkpoints stay: change the permissions, or choose another place"
    )]
    Forbidden {
        /// What was attempted.
        attempted: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The folder does not exist.
    #[error("{attempted}: there is no such folder; create it, or choose another place")]
    Missing {
        /// What was attempted.
        attempted: String,
    },
    /// The system refused for another reason.
    #[error(
        "{attempted}: {error}; the earlier checkpoints stay: check the disk, or choose another place"
    )]
    Io {
        /// What was attempted.
        attempted: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A later life of the rank writes checkpoints already (FENCE-1).
    #[error(
        "rank {rank} has a life {found} that writes checkpoints, this one is {own}: it was fenced and has to end"
    )]
    Fenced {
        /// The rank.
        rank: Rank,
        /// The life that asked.
        own: Incarnation,
        /// The latest life.
        found: Incarnation,
    },
    /// The number was used already.
    #[error(
        "rank {rank} already has checkpoint {found}, so number {asked} is refused: use a higher number"
    )]
    NotNext {
        /// The rank.
        rank: Rank,
        /// The number that was asked for.
        asked: u64,
        /// The highest existing number.
        found: u64,
    },
    /// Another checkpoint of the rank was begun meanwhile, or a later life has begun to read.
    #[error(
        "checkpoint {number} of rank {rank} was abandoned: another one was begun, or a later life was started; a rank writes one checkpoint at a time"
    )]
    GivenUp {
        /// The rank.
        rank: Rank,
        /// The number of the checkpoint.
        number: u64,
    },
    /// The rank has checkpoints, and none can be used.
    #[error("no checkpoint of rank {rank} can be used, though there were some: {}; restore one, or start the job from the beginning", all(.damaged))]
    NoneWhole {
        /// The rank.
        rank: Rank,
        /// All checkpoints of the rank.
        damaged: Vec<Damaged>,
    },
    /// The checkpoint was whole when it was first checked.
    #[error(
        "{0}; it was intact when it was opened: read again to get the newest intact checkpoint"
    )]
    DamagedMeanwhile(Damaged),
    /// The section cannot be begun.
    #[error(transparent)]
    Section(#[from] SectionRefused),
    /// A section is shorter than the requested bytes.
    #[error("section {kind} {id} of the checkpoint ends before what was to be read of it")]
    SectionEnds {
        /// The kind of the section.
        kind: &'static str,
        /// The id of the section.
        id: u64,
    },
    /// The prefix of a job cannot be part of a file name.
    #[error("{0:?} cannot begin a file name: use letters, digits, `-`, `_` and `.`")]
    Prefix(String),
    /// The checkpoint server cannot be reached, or refuses.
    #[error("checkpoint server {address}: {reason}; the checkpoints that it has acknowledged stay")]
    Server {
        /// The address of the server.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The checkpoint server has no room for a session, also after repeated attempts.
    #[error(
        "checkpoint server {address} has no room for a session: {reason}; the checkpoints that it has acknowledged stay. Start another server for some of the jobs, or use a secret so that only trusted processes can use this one"
    )]
    Busy {
        /// The address of the server.
        address: String,
        /// The reason that the server gave.
        reason: String,
    },
}

fn all(damaged: &[Damaged]) -> String {
    let each: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    each.join("; ")
}

impl CheckpointError {
    /// Converts an error of the system.
    pub fn of_system(attempted: impl Into<String>, error: io::Error) -> Self {
        let attempted = attempted.into();
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoRoom { attempted, error },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Forbidden { attempted, error }
            }
            _ => Self::Io { attempted, error },
        }
    }
}
