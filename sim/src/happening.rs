//! What is seen of a job: each effect and each answer, as it comes.

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
    /// Number of the life, from 0.
    pub incarnation: Incarnation,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Happening<'a> {
    /// A life begins.
    Began(Life),
    /// A later life has its checkpoint and records, and its program begins its replay. REC-1,
    /// REC-2
    Resumed {
        /// The life.
        life: Life,
        /// Number of its checkpoint; 0: the beginning.
        number: u32,
        /// Contents of the checkpoint.
        saved: &'a Saved,
        /// The determinants after it, as loggers hold them.
        events: &'a [Determinant],
    },
    /// A program calls. `clock`: of the operation; of calls that are none, that
    /// of the one before.
    Called(Life, Clock, &'a Call),
    /// A program is answered.
    Answered(Life, Clock, &'a Answer),
    /// An engine reports an event to its protocol.
    Event(Life, Determinant),
    /// A frame leaves a rank for another one, which may see it from now on: header, payload.
    Posted(Life, Rank, &'a RecordHeader, &'a [u8]),
    /// A control frame leaves a rank.
    PostedControl(Life, Rank, Control),
    /// The first life takes no more frames of the second.
    Fenced(Life, Life),
    /// A frame is handed to an engine.
    Heard {
        /// Sender of the frame.
        from: Life,
        /// Its receiver.
        to: Life,
    },
    /// A word that a rank printed is output.
    Seen(Life, u64),
    /// A word that an earlier life has output is printed again, and not output.
    SeenBefore(Life, u64),
    /// A checkpoint begins to be written: its number, from 1 (0 is the beginning of the
    /// program), and the operation that was the latest.
    CheckpointTaken(Life, u32, Clock),
    /// It can be read back whatever happens from now on.
    CheckpointStable(Rank, u32),
    /// All peers know that it and all before it are not needed any more.
    CheckpointsSuperseded(Rank, u32),
    /// The log of a rank to another one gave up what lies before this message.
    Freed(Rank, Rank, Ssn),
    /// A process is dead.
    Died(Process),
    /// A process is back.
    Restarted(Process),
}

/// A rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{oracle}: {what}")]
pub struct Breach {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Happening<'_> {
    /// A number that tells it from others, for the digest of a run.
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

/// For a trace: without payloads, which tell a reader nothing, and not too long.
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
