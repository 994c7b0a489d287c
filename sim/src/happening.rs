//! What oracles see of a job: each effect and each answer, in order.

use crate::plan::Process;
use crate::program::{Answer, Call};
use crate::saved::Saved;
use core::fmt;
use core::mem::discriminant;
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Incarnation, Rank, RecordHeader, Ssn};
use refrain_transport::control::Control;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One life of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The rank.
    pub rank: Rank,
    /// Number of this life of the rank, from 0.
    pub incarnation: Incarnation,
}

/// One observed step of a job.
#[derive(Clone, Debug)]
pub enum Happening<'a> {
    /// A life begins.
    Began(Life),
    /// A later life has collected its checkpoint and records; its program begins to replay. REC-1,
    /// REC-2
    Resumed {
        /// The life.
        life: Life,
        /// Number of the life's checkpoint; 0 is the beginning of the program.
        number: u32,
        /// Contents of the checkpoint.
        saved: &'a Saved,
        /// The determinants after the checkpoint, as the loggers hold them.
        events: &'a [Determinant],
    },
    /// A program makes a call. The clock is that of the operation; for a call that is no operation,
    /// that of the operation before.
    Called(Life, Clock, &'a Call),
    /// A call of a program returns.
    Answered(Life, Clock, &'a Answer),
    /// An engine reports an event to its protocol.
    Event(Life, Determinant),
    /// A frame leaves a life for the rank that is named second and is visible there from now on:
    /// header, payload.
    Posted(Life, Rank, &'a RecordHeader, &'a [u8]),
    /// The frame that is posted next carries this behind its message. CAUSAL-1
    Attached(Life, Rank, &'a [u8]),
    /// A control frame leaves a life for the rank that is named second.
    PostedControl(Life, Rank, Control),
    /// From now on the first life takes no frames of the second one.
    Fenced(Life, Life),
    /// A frame is handed to an engine.
    Heard {
        /// Sender of the frame.
        from: Life,
        /// Its receiver.
        to: Life,
    },
    /// A printed word reaches the output.
    Seen(Life, u64),
    /// A later life prints a word again that an earlier life has output; it is suppressed.
    SeenBefore(Life, u64),
    /// The write of a checkpoint begins: its number, from 1 (0 is the beginning of the program),
    /// and the clock of the latest operation.
    CheckpointTaken(Life, u32, Clock),
    /// The checkpoint with this number is durable: no later fault prevents reading it.
    CheckpointStable(Rank, u32),
    /// All peers know that the checkpoint with this number and all before it are superseded.
    CheckpointsSuperseded(Rank, u32),
    /// The log of the first rank for the second has freed all messages before this one.
    Freed(Rank, Rank, Ssn),
    /// A process died.
    Died(Process),
    /// A process was restarted.
    Restarted(Process),
}

/// The violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{oracle}: {what}")]
pub struct Breach {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The description of the violation.
    pub what: String,
}

impl Happening<'_> {
    /// A hash, for the digest of a run.
    pub fn fingerprint(&self) -> u64 {
        let hash = &mut DefaultHasher::new();
        discriminant(self).hash(hash);
        match self {
            Self::Began(life) => life.hash(hash),
            Self::Resumed {
                life,
                number,
                events,
                ..
            } => (life, number, events.len()).hash(hash),
            Self::Called(life, clock, _) => (life, clock).hash(hash),
            Self::Answered(life, clock, answer) => (life, clock, answer).hash(hash),
            Self::Event(life, event) => (life, event.at()).hash(hash),
            Self::Posted(from, to, header, _) => (from, to, header.first_word()).hash(hash),
            Self::Attached(from, to, attachment) => (from, to, attachment).hash(hash),
            Self::PostedControl(life, to, control) => {
                let words = control.encode(life.rank, life.incarnation);
                (life, to, words).hash(hash);
            }
            Self::Fenced(by, of) => (by, of).hash(hash),
            Self::Heard { from, to } => (from, to).hash(hash),
            Self::Seen(life, word) | Self::SeenBefore(life, word) => (life, word).hash(hash),
            Self::CheckpointTaken(life, number, clock) => (life, number, clock).hash(hash),
            Self::CheckpointStable(rank, number) | Self::CheckpointsSuperseded(rank, number) => {
                (rank, number).hash(hash);
            }
            Self::Freed(sender, receiver, first) => (sender, receiver, first).hash(hash),
            Self::Died(process) | Self::Restarted(process) => process.hash(hash),
        }
        hash.finish()
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        match self.incarnation.0 {
            0 => Ok(()),
            again => write!(f, " (incarnation {again})"),
        }
    }
}

/// The debug format without payloads, cut to 400 characters.
impl fmt::Display for Happening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = format!("{self:?}");
        while let Some(at) = words.find("payload: [") {
            let end = words[at..]
                .find(']')
                .map_or(words.len(), |end| at + end + 1);
            words.replace_range(at..end, "…");
        }
        write!(f, "{words:.400}")
    }
}
