//! Why there is no checkpoint.

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
    /// What it is called, with its folder.
    pub file: String,
    /// Which one it claims to be.
    pub number: u64,
    /// Where it is not as it was written, in bytes.
    pub place: u64,
    /// What is wrong.
    pub reason: String,
}

impl Damaged {
    /// With what was found.
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

/// Why a checkpoint was not written or read. What was stable before stays so.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// Space or quota is used up.
    #[error(
        "{attempted}: {error}; the earlier checkpoints stay: free some room there, or choose another place"
    )]
    NoRoom {
        /// What was attempted.
        attempted: String,
        /// The system's words.
        error: io::Error,
    },
    /// Files cannot be made or read there.
    #[error(
        "{attempted}: {error}; the earlier checkpoints stay: allow it, or choose another place"
    )]
    Forbidden {
        /// What was attempted.
        attempted: String,
        /// The system's words.
        error: io::Error,
    },
    /// There is no such folder.
    #[error("{attempted}: there is no such folder; make it, or choose another place")]
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
        /// The system's words.
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
        /// The latest one.
        found: Incarnation,
    },
    /// The number was used.
    #[error(
        "rank {rank} has a checkpoint {found} already, {asked} does not follow: take the next number"
    )]
    NotNext {
        /// The rank.
        rank: Rank,
        /// What was asked for.
        asked: u64,
        /// The highest that is there.
        found: u64,
    },
    /// Another one of the rank was begun meanwhile, or a later life reads.
    #[error(
        "checkpoint {number} of rank {rank} was given up: another one was begun, or a later life has come; one is written at a time"
    )]
    GivenUp {
        /// The rank.
        rank: Rank,
        /// Which.
        number: u64,
    },
    /// There were checkpoints, and none can be used.
    #[error("no checkpoint of rank {rank} can be used, though there were some: {}; restore one, or start the job from the beginning", all(.damaged))]
    NoneWhole {
        /// The rank.
        rank: Rank,
        /// All that are there.
        damaged: Vec<Damaged>,
    },
    /// It was whole when it was looked at first.
    #[error("{0}; it was whole a moment ago: read again, an older one may be taken")]
    DamagedMeanwhile(Damaged),
    /// No such section can be begun.
    #[error(transparent)]
    Section(#[from] SectionRefused),
    /// A section ends before what was asked for.
    #[error("section {kind} {id} of the checkpoint ends before what was to be read of it")]
    SectionEnds {
        /// Its kind.
        kind: &'static str,
        /// Its id.
        id: u64,
    },
    /// The name of a job cannot be part of a file's name.
    #[error("{0:?} is no beginning of a file name: letters, digits, `-`, `_` and `.` make one")]
    Prefix(String),
    /// The checkpoint server cannot be reached, or refuses.
    #[error("checkpoint server {address}: {reason}; the checkpoints that it has acknowledged stay")]
    Server {
        /// Where it should be.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The checkpoint server has no room for a session, also after a while.
    #[error(
        "checkpoint server {address} has no room for a session: {reason}; the checkpoints that it has acknowledged stay. Start another server for some of the jobs, or use a secret so that only trusted processes can use this one"
    )]
    Busy {
        /// Where it is.
        address: String,
        /// Its reason.
        reason: String,
    },
}

fn all(damaged: &[Damaged]) -> String {
    let each: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    each.join("; ")
}

impl CheckpointError {
    /// Of the system, when it refused something.
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
