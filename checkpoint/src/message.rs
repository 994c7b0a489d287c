//! What ranks and a checkpoint server say to each other
//! (docs/design/checkpoint-server.md). One conversation writes one checkpoint, or reads
//! one.

use crate::error::{CheckpointError, Damaged};
use crate::format::{Header, SectionInfo, SectionKind};
use refrain_ring::{Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::io;

/// Version of the conversation. A server refuses every other.
pub const PROTOCOL_VERSION: u32 = 2;

/// From a rank. Strips follow [`ToServer::Begin`] as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The first one.
    Hello {
        /// [`PROTOCOL_VERSION`].
        version: u32,
        /// The job.
        job: u64,
        /// What its files' names begin with.
        prefix: String,
    },
    /// A checkpoint follows: strips, then [`ToServer::Commit`].
    Begin {
        /// Whose.
        rank: u32,
        /// The life that writes it.
        incarnation: u32,
        /// Which.
        number: u64,
    },
    /// All strips were said.
    Commit {
        /// Bytes of all.
        bytes: u64,
    },
    /// Asks for the newest checkpoint of a rank.
    Newest {
        /// Whose.
        rank: u32,
        /// The life that asks for itself.
        life: Option<u32>,
    },
    /// Removes all checkpoints of the job.
    RemoveAll,
}

/// From the server. Strips follow [`ToClient::Found`] as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// Answers [`ToServer::Hello`]: the conversation may go on.
    Welcome,
    /// Strips may come.
    Begun,
    /// It is stable.
    Stable {
        /// Its length.
        bytes: u64,
        /// Older ones that could not be removed.
        left: Vec<String>,
    },
    /// The newest; its strips follow.
    Found(Box<FoundHere>),
    /// There never was one.
    Nothing,
    /// All are removed.
    Removed,
    /// No, and why. Nothing more follows.
    Refused(Refusal),
}

/// A whole checkpoint on the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundHere {
    /// The job.
    pub job: u64,
    /// Whose.
    pub rank: u32,
    /// The life that wrote it.
    pub incarnation: u32,
    /// Which.
    pub number: u64,
    /// Its salt.
    pub salt: u64,
    /// Its length.
    pub bytes: u64,
    /// Code of the kind, id and bytes of each section.
    pub sections: Vec<(u16, u64, u64)>,
    /// Newer ones that cannot be used.
    pub passed_over: Vec<DamagedThere>,
}

/// A checkpoint that cannot be used: file, number, place, reason.
pub type DamagedThere = (String, u64, u64, String);

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// [`CheckpointError::Fenced`], and the latest life.
    Fenced {
        /// The rank.
        rank: u32,
        /// The life that asked.
        own: u32,
        /// The latest one.
        found: u32,
    },
    /// [`CheckpointError::NotNext`].
    NotNext {
        /// The rank.
        rank: u32,
        /// What was asked for.
        asked: u64,
        /// What is there.
        found: u64,
    },
    /// [`CheckpointError::GivenUp`].
    GivenUp {
        /// The rank.
        rank: u32,
        /// Which.
        number: u64,
    },
    /// [`CheckpointError::NoneWhole`].
    NoneWhole {
        /// The rank.
        rank: u32,
        /// All that are there.
        damaged: Vec<DamagedThere>,
    },
    /// The server's system has refused something.
    System {
        /// What was attempted there.
        attempted: String,
        /// The number of the error, if it has one.
        code: Option<i32>,
        /// The system's words.
        error: String,
    },
    /// Anything else, for people.
    Other(String),
    /// There is no room for a conversation now, and why: the client calls again.
    Busy(String),
}

fn there(damaged: Vec<Damaged>) -> Vec<DamagedThere> {
    let each = damaged.into_iter();
    each.map(|it| (it.file, it.number, it.place, it.reason))
        .collect()
}

fn here(damaged: Vec<DamagedThere>) -> Vec<Damaged> {
    let here = |(file, number, place, reason)| Damaged {
        file,
        number,
        place,
        reason,
    };
    damaged.into_iter().map(here).collect()
}

impl FoundHere {
    /// What is said of a checkpoint.
    pub fn new(
        header: &Header,
        bytes: u64,
        sections: &[SectionInfo],
        passed_over: Vec<Damaged>,
    ) -> Self {
        let section = |it: &SectionInfo| (it.kind.code(), it.id, it.bytes);
        Self {
            job: header.job,
            rank: header.rank.0,
            incarnation: header.incarnation.0,
            number: header.number,
            salt: header.salt,
            bytes,
            sections: sections.iter().map(section).collect(),
            passed_over: there(passed_over),
        }
    }

    /// What was said of a checkpoint; `None` where this version knows it not.
    pub fn read(self) -> Option<(Header, Vec<SectionInfo>, Vec<Damaged>)> {
        let header = Header {
            job: self.job,
            rank: Rank(self.rank),
            incarnation: Incarnation(self.incarnation),
            number: self.number,
            salt: self.salt,
        };
        let section = |(kind, id, bytes)| {
            Some(SectionInfo {
                kind: SectionKind::of_code(kind)?,
                id,
                bytes,
            })
        };
        let sections: Option<Vec<_>> = self.sections.into_iter().map(section).collect();
        Some((header, sections?, here(self.passed_over)))
    }
}

impl From<CheckpointError> for Refusal {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Fenced { rank, own, found } => Self::Fenced {
                rank: rank.0,
                own: own.0,
                found: found.0,
            },
            CheckpointError::NotNext { rank, asked, found } => Self::NotNext {
                rank: rank.0,
                asked,
                found,
            },
            CheckpointError::GivenUp { rank, number } => Self::GivenUp {
                rank: rank.0,
                number,
            },
            CheckpointError::NoneWhole { rank, damaged } => Self::NoneWhole {
                rank: rank.0,
                damaged: there(damaged),
            },
            CheckpointError::NoRoom { attempted, error }
            | CheckpointError::Forbidden { attempted, error }
            | CheckpointError::Io { attempted, error } => Self::System {
                attempted,
                code: error.raw_os_error(),
                error: error.to_string(),
            },
            other => Self::Other(other.to_string()),
        }
    }
}

impl Refusal {
    /// The error that it was on the server at `address`.
    pub fn into_error(self, address: &str) -> CheckpointError {
        match self {
            Self::Fenced { rank, own, found } => CheckpointError::Fenced {
                rank: Rank(rank),
                own: Incarnation(own),
                found: Incarnation(found),
            },
            Self::NotNext { rank, asked, found } => CheckpointError::NotNext {
                rank: Rank(rank),
                asked,
                found,
            },
            Self::GivenUp { rank, number } => CheckpointError::GivenUp {
                rank: Rank(rank),
                number,
            },
            Self::NoneWhole { rank, damaged } => CheckpointError::NoneWhole {
                rank: Rank(rank),
                damaged: here(damaged),
            },
            Self::System {
                attempted,
                code,
                error,
            } => {
                let error =
                    code.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error);
                let attempted = format!("checkpoint server {address}: {attempted}");
                CheckpointError::of_system(attempted, error)
            }
            Self::Other(reason) => CheckpointError::Server {
                address: address.into(),
                reason,
            },
            Self::Busy(reason) => CheckpointError::Busy {
                address: address.into(),
                reason,
            },
        }
    }
}
