//! Messages between ranks and a checkpoint server (docs/design/checkpoint-server.md). A
//! session writes one checkpoint, or reads one.

use crate::error::{CheckpointError, Damaged};
use crate::format::{Header, IncarnationNumber, RankNumber, STRIP_BYTES, SectionInfo};
use refrain_ring::{Incarnation, Rank};
use refrain_wire::Protocol;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// Version of the protocol.
const VERSION: u8 = 4;

/// The protocol between ranks and a checkpoint server. Data are the strips of checkpoints.
pub const PROTOCOL: Protocol = Protocol {
    purpose: "refrain: checkpoint server",
    magic: *b"RC",
    version: VERSION,
    message_bytes_max: 4 << 20,
    data_bytes_max: STRIP_BYTES,
    // A server with a slow disk may read nothing for a while.
    unacknowledged_max: Duration::from_secs(60),
};

/// Messages from a rank. Strips follow [`ToServer::Begin`] as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The first message of a session.
    Hello {
        /// The job.
        job: u64,
        /// The prefix of the job's file names.
        prefix: String,
    },
    /// A checkpoint follows: strips, then [`ToServer::Commit`].
    Begin {
        /// The rank.
        rank: u32,
        /// The life that writes it.
        incarnation: u32,
        /// The number of the checkpoint.
        number: u64,
    },
    /// All strips were sent.
    Commit {
        /// Length of all strips, in bytes.
        bytes: u64,
    },
    /// Asks for the newest checkpoint of a rank.
    Newest {
        /// The rank.
        rank: u32,
        /// The life that recovers, and the last checkpoint that counts; `None`: the request only
        /// looks.
        recovers: Option<(u32, u64)>,
    },
    /// Removes all checkpoints of the job.
    RemoveAll,
}

/// Messages from the server. Strips follow [`ToClient::Found`] as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// Answers [`ToServer::Hello`]: the session continues.
    Welcome,
    /// Answers [`ToServer::Begin`]: strips may be sent.
    Begun,
    /// The checkpoint is stable.
    Stable {
        /// The length of the checkpoint, in bytes.
        bytes: u64,
        /// Older checkpoints that could not be removed, with reasons.
        left: Vec<String>,
    },
    /// The newest checkpoint; its strips follow.
    Found(Box<Whole>),
    /// The rank has never had a checkpoint.
    Nothing,
    /// All checkpoints of the job are removed.
    Removed,
    /// Refuses the request, with the reason. The session ends.
    Refused(Refusal),
}

/// A whole checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    /// The header of the checkpoint.
    pub header: Header,
    /// The length of the checkpoint, in bytes.
    pub bytes: u64,
    /// The sections, in order.
    pub sections: Vec<SectionInfo>,
    /// Newer checkpoints of the rank that cannot be used.
    pub passed_over: Vec<Damaged>,
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// [`CheckpointError::Fenced`].
    Fenced {
        /// The rank.
        #[serde(with = "RankNumber")]
        rank: Rank,
        /// The life that asked.
        #[serde(with = "IncarnationNumber")]
        own: Incarnation,
        /// The latest life.
        #[serde(with = "IncarnationNumber")]
        found: Incarnation,
    },
    /// [`CheckpointError::NotNext`].
    NotNext {
        /// The rank.
        #[serde(with = "RankNumber")]
        rank: Rank,
        /// The number that was asked for.
        asked: u64,
        /// The highest existing number.
        found: u64,
    },
    /// [`CheckpointError::GivenUp`].
    GivenUp {
        /// The rank.
        #[serde(with = "RankNumber")]
        rank: Rank,
        /// The number of the checkpoint.
        number: u64,
    },
    /// [`CheckpointError::NoneWhole`].
    NoneWhole {
        /// The rank.
        #[serde(with = "RankNumber")]
        rank: Rank,
        /// All checkpoints of the rank.
        damaged: Vec<Damaged>,
    },
    /// The server's system has failed.
    System {
        /// What the server attempted.
        attempted: String,
        /// The number of the error, if it has one.
        code: Option<i32>,
        /// The error text of the system.
        error: String,
    },
    /// Another reason, as text.
    Other(String),
    /// The server has no room for a session now, with the reason: the client connects again.
    Busy(String),
}

impl From<CheckpointError> for Refusal {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Fenced { rank, own, found } => Self::Fenced { rank, own, found },
            CheckpointError::NotNext { rank, asked, found } => Self::NotNext { rank, asked, found },
            CheckpointError::GivenUp { rank, number } => Self::GivenUp { rank, number },
            CheckpointError::NoneWhole { rank, damaged } => Self::NoneWhole { rank, damaged },
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
    /// Converts the refusal of the server at `address` back to an error.
    pub fn into_error(self, address: &str) -> CheckpointError {
        let address = address.to_owned();
        match self {
            Self::Fenced { rank, own, found } => CheckpointError::Fenced { rank, own, found },
            Self::NotNext { rank, asked, found } => CheckpointError::NotNext { rank, asked, found },
            Self::GivenUp { rank, number } => CheckpointError::GivenUp { rank, number },
            Self::NoneWhole { rank, damaged } => CheckpointError::NoneWhole { rank, damaged },
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
            Self::Other(reason) => CheckpointError::Server { address, reason },
            Self::Busy(reason) => CheckpointError::Busy { address, reason },
        }
    }
}
