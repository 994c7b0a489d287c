//! What a seed stands for.
//!
//! A [`Plan`] is plain data: made of a seed, printed, made smaller, run again.
//! What it does not state (delays, order of steps) follows from its seed.

pub mod generate;

use crate::planted::Planted;
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_ring::{CHUNK_BYTES, Rank};
use std::fmt;

/// The least length of a message: what it says of itself (see
/// [`Stamp`](crate::program::Stamp)).
pub const STAMP_BYTES: usize = 24;

/// One message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlan {
    /// Its sender.
    pub from: Rank,
    /// Its receiver; the rank itself of named messages only.
    pub to: Rank,
    /// Received by a receive that names its source; else by one that takes any.
    pub is_named: bool,
    /// Its length; at least [`STAMP_BYTES`].
    pub bytes: u32,
    /// Completes when it is matched. Named ones only: a program in which others
    /// were would end in a deadlock of its own.
    pub is_synchronous: bool,
}

/// One round of all ranks: sends begin, then due messages are received, then sends are
/// waited for. No rank needs another one's next round for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundPlan {
    /// All messages of the round.
    pub messages: Vec<MessagePlan>,
    /// A rank's calls in the round follow from this.
    pub style_seed: u64,
    /// Ranks that take a checkpoint at its end.
    pub checkpoints: Vec<Rank>,
    /// Ranks that print at its end.
    pub prints: Vec<Rank>,
}

/// One operation of a program that is written down. Each is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends one record to this rank.
    Send(usize),
    /// Sends a message of two records to this rank.
    SendLong(usize),
    /// Sends to this rank, and waits until the message is matched.
    SendMatched(usize),
    /// Receives from any rank.
    Any,
    /// Receives from this rank.
    From(usize),
    /// A checkpoint.
    Checkpoint,
}

/// A process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// A rank: whichever life of it is there.
    Rank(Rank),
    /// An event logger.
    Logger(u32),
    /// The checkpoint store.
    Checkpoints,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At this step of the job.
    Step(u64),
    /// When the process is about to have its effect of this number, counted over
    /// all its lives: before it, or right after it.
    Effect {
        /// Which effect.
        number: u64,
        /// Before it.
        before: bool,
    },
}

/// What goes wrong. What must survive each stands in `job`'s injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process dies. What it had written to files and shared memory stays.
    Kill,
    /// Its host loses power: what was not synced is lost, or torn. Not of ranks.
    PowerLoss,
    /// Its host is lost: it comes back with nothing. Of a logger, where the others have
    /// all of it and outvote it; else it dies.
    Forget,
    /// It stands still for this many steps; what is sent to it waits.
    Pause(u64),
    /// The launcher takes a living rank for dead.
    Suspect,
    /// Its disk is full for this many steps.
    DiskFull(u64),
    /// Its disk does not answer for this many steps.
    DiskSlow(u64),
    /// Its connections to loggers break; what was on its way is flushed, and
    /// completions are lost.
    Disconnect,
    /// It dies together with all loggers. They come back without events of this rank
    /// that they acknowledged: about this percentage of the events is left, from the
    /// first on. Of ranks, once in a job and as its only fault. REC-9
    LoseEvents(u8),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// To whom.
    pub process: Process,
    /// When.
    pub moment: Moment,
    /// What.
    pub kind: FaultKind,
}

/// How batches travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayPlan {
    /// As messages.
    Messages,
    /// One-sidedly, into a ring in the logger's memory.
    OneSided,
}

/// The event loggers: one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggersPlan {
    /// How many.
    pub replicas: u32,
    /// Number of loggers that make a commit stable.
    pub quorum: u32,
    /// What each has to have done.
    pub level: Level,
    /// How.
    pub way: WayPlan,
}

/// The network between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkPlan {
    /// Delays, refusals, late frames of the dead.
    pub is_rough: bool,
    /// Receivers read in the sender's log.
    pub reads_in_place: bool,
    /// Payloads from this length on stay with the sender until they are fetched.
    pub distant_bytes_min: Option<u32>,
    /// Short frames leave before they are in the log, where nothing else is done to them.
    pub is_staged: bool,
}

/// The payload log of each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of disk; none: nothing is spilled.
    pub disk_bytes: u64,
}

impl LogPlan {
    /// What one channel may hold of the memory, as the runtime has it: with a disk
    /// its share, so that no channel waits for memory that another receiver holds.
    pub fn window_bytes(&self, ranks: u32) -> u64 {
        match self.disk_bytes {
            0 => self.memory_bytes,
            _ => {
                let chunk = CHUNK_BYTES as u64;
                let peers = u64::from(ranks.saturating_sub(1).max(1));
                self.memory_bytes / peers / chunk * chunk
            }
        }
    }
}

/// A whole job and its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that the plan does not state.
    pub seed: u64,
    /// How many ranks.
    pub ranks: u32,
    /// What they log.
    pub protocol: Member,
    /// What they do.
    pub rounds: Vec<RoundPlan>,
    /// By rank: what it does, of a job that is explored; else empty.
    pub scripts: Vec<Vec<Operation>>,
    /// Event loggers.
    pub loggers: LoggersPlan,
    /// What is between them.
    pub network: NetworkPlan,
    /// Where their messages are kept.
    pub log: LogPlan,
    /// The clock with which all ranks begin (to begin near 2^32).
    pub first_clock: u64,
    /// What goes wrong.
    pub faults: Vec<FaultPlan>,
    /// What is broken on purpose.
    pub planted: Option<Planted>,
}

impl Plan {
    /// Bytes that a rank sends in all rounds.
    #[cfg(test)]
    pub fn bytes_sent(&self, rank: Rank) -> u64 {
        let messages = self.rounds.iter().flat_map(|round| &round.messages);
        let its = messages.filter(|message| message.from == rank);
        its.map(|message| u64::from(message.bytes)).sum()
    }

    /// Whether an explorer decides what happens, not the seed.
    pub fn is_explored(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// Whether loggers lose events that they acknowledged. REC-9
    pub fn loses_events(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault.kind, FaultKind::LoseEvents(_)))
    }

    /// Whether all messages are received from any source.
    pub fn is_all_wild(&self) -> bool {
        let mut messages = self.rounds.iter().flat_map(|round| &round.messages);
        messages.all(|message| !message.is_named)
    }

    /// Messages of all rounds.
    pub fn messages(&self) -> usize {
        self.rounds.iter().map(|round| round.messages.len()).sum()
    }
}

/// `0>1:24`; `*` instead of `>`: received from any source; `!`: synchronous.
impl fmt::Display for MessagePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_named { '>' } else { '*' };
        write!(f, "{}{kind}{}:{}", self.from, self.to, self.bytes)?;
        f.write_str(if self.is_synchronous { "!" } else { "" })
    }
}

impl fmt::Display for RoundPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "style {:016x}", self.style_seed)?;
        for message in &self.messages {
            write!(f, " {message}")?;
        }
        for (what, ranks) in [("checkpoint", &self.checkpoints), ("print", &self.prints)] {
            for (index, rank) in ranks.iter().enumerate() {
                match index {
                    0 => write!(f, ", {what} {rank}")?,
                    _ => write!(f, " {rank}")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            ranks,
            protocol,
            first_clock,
            ..
        } = self;
        writeln!(
            f,
            "seed {seed}: {ranks} ranks, {protocol:?}, first clock {first_clock}"
        )?;
        writeln!(
            f,
            "  {:?}\n  {:?}\n  {:?}",
            self.loggers, self.network, self.log
        )?;
        if let Some(planted) = self.planted {
            writeln!(f, "  planted: {planted:?}")?;
        }
        for (index, round) in self.rounds.iter().enumerate() {
            writeln!(f, "  round {index}: {round}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  {fault:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
