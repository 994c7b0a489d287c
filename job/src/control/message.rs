//! What launcher and ranks say to each other.
//!
//! A change of anything here, or of [`JobConfig`], is a new
//! [`CONTROL_VERSION`](super::framing::CONTROL_VERSION): the encoding
//! (postcard) does not describe itself.

use crate::config::JobConfig;
use crate::statistics::Statistics;
use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::divergence::FirstDifference;
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
    /// Waits for all ranks. Answered with [`ToRank::FenceDone`]: at once for a
    /// fence that an earlier life of this rank has helped to pass.
    Fence {
        /// How many fences this rank has passed.
        generation: u64,
        /// Behind this one the rank has left the job in order.
        last: bool,
    },
    /// A later life: from which checkpoint it goes on, and that it has everything
    /// it needs of its launcher. Nothing that it printed is handed on before.
    /// Answered with [`ToRank::Marked`].
    Beginning {
        /// The checkpoint's number; 0: the beginning of the program.
        checkpoint: u64,
    },
    /// All output of this rank up to here lies before a checkpoint. Answered with
    /// [`ToRank::Marked`].
    Mark {
        /// The checkpoint's number, from 1.
        checkpoint: u64,
    },
    /// A checkpoint is begun.
    Taking {
        /// Its number.
        checkpoint: u64,
    },
    /// A checkpoint is stable.
    Stable {
        /// Its number.
        checkpoint: u64,
        /// Its length.
        bytes: u64,
        /// Of it, about how many are of the rank's own log. LOG-5
        log_bytes: u64,
    },
    /// The answer to [`ToRank::AskStatus`].
    Status {
        /// How it is.
        figures: Box<StatusFigures>,
    },
    /// The log of this rank is filled by messages to `of`: a checkpoint of that
    /// rank would make room. LOG-3
    WantCheckpoint {
        /// Whose checkpoint.
        of: u32,
    },
    /// The fabric reports this life of a rank as lost. If it lives, it is ended and
    /// started again: those who took it for dead do not listen to it any more.
    /// FENCE-1
    Suspect {
        /// Which rank.
        rank: u32,
        /// Which life.
        incarnation: u32,
    },
    /// The replay progress of a later life.
    Replaying {
        /// How far it is.
        figures: ReplayFigures,
    },
    /// A later life has played everything again that is known of the lives before.
    Recovered {
        /// What it was, and how long it took.
        figures: Box<RecoveryFigures>,
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

/// The replay progress of a later life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFigures {
    /// Its clock at its beginning: that of its checkpoint, or 0.
    pub begin: u64,
    /// Its clock now.
    pub clock: u64,
    /// The clock of its last recorded event: the life before came at least to there. `begin`
    /// or less: it has no events.
    pub events_until: u64,
}

/// What a later life has done before it went on where the one before was, and how
/// long it took, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryFigures {
    /// The checkpoint that it began with; 0: the beginning.
    pub checkpoint: u64,
    /// From the start of the process until the checkpoint was read.
    pub restore_us: u64,
    /// Until its events were read, and it was announced to its peers.
    pub collect_us: u64,
    /// From the start of the process until the first message of a peer came.
    pub first_message_us: Option<u64>,
    /// From the announcement until the last event was played again.
    pub replay_us: u64,
    /// Events that were played again.
    pub events: u64,
    /// Messages that came again.
    pub messages: u64,
    /// Sends that were held back, since their receivers had them.
    pub suppressed: u64,
    /// Messages that were compared with what the earlier life had sent.
    pub compared: u64,
    /// Their bytes.
    pub compared_bytes: u64,
    /// Of these messages, how many had other bytes. REC-8
    pub differing: u64,
    /// How many bytes differed, in all of them.
    pub differing_bytes: u64,
    /// The first of them.
    pub first_difference: Option<DifferenceFigures>,
}

/// A message that had other bytes than in the life before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferenceFigures {
    /// The clock of the operation that sent it.
    pub operation: u64,
    /// Its receiver.
    pub receiver: u32,
    /// Its number among the messages to that receiver.
    pub message: u64,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The first differing bytes: offset of the first, and of the one behind the
    /// last of them; at most four ranges.
    pub ranges: Vec<(u64, u64)>,
    /// Bytes behind these ranges differ, too.
    pub has_more: bool,
}

impl From<&FirstDifference> for DifferenceFigures {
    fn from(first: &FirstDifference) -> Self {
        Self {
            operation: first.clock.0,
            receiver: first.to.0,
            message: first.ssn.0,
            context: first.context,
            tag: first.tag,
            bytes: first.bytes,
            ranges: first.ranges.clone(),
            has_more: first.has_more,
        }
    }
}

impl fmt::Display for DifferenceFigures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "operation {}: {}",
            self.operation,
            FirstDifference::from(self)
        )
    }
}

impl From<&DifferenceFigures> for FirstDifference {
    fn from(figures: &DifferenceFigures) -> Self {
        Self {
            clock: Clock(figures.operation),
            to: Rank(figures.receiver),
            ssn: Ssn(figures.message),
            context: figures.context,
            tag: figures.tag,
            bytes: figures.bytes,
            ranges: figures.ranges.clone(),
            has_more: figures.has_more,
        }
    }
}

/// How a rank's log and gate are, and what has passed since its last checkpoint, or
/// since this life of it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFigures {
    /// Bytes of messages from other ranks since its last checkpoint: as much is in
    /// their logs for it.
    pub received_bytes: u64,
    /// Bytes that it has sent since then.
    pub sent_bytes: u64,
    /// Log memory in use.
    pub log_bytes: u64,
    /// Log memory that may be used.
    pub log_bytes_max: u64,
    /// What the log takes on disk.
    pub disk_bytes: u64,
    /// How many emissions have waited for events.
    pub gate_waits: u64,
    /// How long all of them together, in microseconds.
    pub gate_wait_us: u64,
    /// Its program asks whether a checkpoint is wanted.
    pub heeds_requests: bool,
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
        /// All ranks have passed the last fence. This later life connects to no peer: it
        /// reads what they sent to it from their logs ([`ToRank::Departed`]).
        alone: bool,
    },
    /// The log memory of a rank that has passed the last fence comes with this message: one
    /// for each peer, after the welcome of a life that is `alone`.
    Departed {
        /// Which rank.
        rank: u32,
        /// The life of it that passed the last fence.
        incarnation: u32,
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
    /// What an earlier life of this rank has left in memory travels with this
    /// message. It comes right behind the welcome, if at all; twice, where the newest
    /// life died in its replay.
    Remains {
        /// Whose.
        incarnation: u32,
    },
    /// A rank is dead and fenced: nothing of this life comes any more. FENCE-1
    Down {
        /// Which.
        rank: u32,
        /// Which life of it, and all before.
        incarnation: u32,
    },
    /// A life of a rank can be reached: told to all when a later life has put its
    /// address, and to a later life about all others.
    Up {
        /// Which rank.
        rank: u32,
        /// Which life.
        incarnation: u32,
        /// The value under its address key.
        card: Vec<u8>,
        /// The descriptor that was put with it travels with this message.
        memory: bool,
    },
    /// The answer to [`ToLauncher::Mark`] and [`ToLauncher::Beginning`].
    Marked {
        /// The checkpoint's number.
        checkpoint: u64,
    },
    /// A checkpoint of this rank would be of use now.
    CheckpointWanted,
    /// How is this rank? Answered with [`ToLauncher::Status`], as soon as it looks;
    /// asked again only behind the answer.
    AskStatus,
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
        matches!(
            self,
            ToRank::Value { memory: true, .. }
                | ToRank::Up { memory: true, .. }
                | ToRank::Remains { .. }
                | ToRank::Departed { .. }
        )
    }
}
