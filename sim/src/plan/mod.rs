//! The plan of a job, which follows from a seed.
//!
//! A [`Plan`] is plain data: generated from a seed, printed, shrunk, run again. What it does not
//! state (delays, the order of steps) follows from its seed.

pub mod generate;

use crate::collective::Shape;
use crate::planted::Planted;
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_logging::held::Tolerance;
use refrain_ring::{CHUNK_BYTES, Rank};
use std::fmt;

/// The minimum length of a message in bytes: that of its stamp (see
/// [`Stamp`](crate::program::Stamp)).
pub const STAMP_BYTES: usize = 24;

/// One message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlan {
    /// Its sender.
    pub from: Rank,
    /// Its receiver. Only named messages may go from a rank to itself.
    pub to: Rank,
    /// Whether the receive names the source; otherwise it receives from any source.
    pub is_named: bool,
    /// Its length in bytes; at least [`STAMP_BYTES`].
    pub bytes: u32,
    /// Whether the send completes when the message is matched. Named messages only: otherwise the
    /// program itself could deadlock.
    pub is_synchronous: bool,
}

/// A collective of all members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectivePlan {
    /// The group, by its index in the plan.
    pub group: usize,
    /// What all members call.
    pub shape: Shape,
    /// The group that it makes: all members learn the next contexts of all, and the first member
    /// of the new group gives it its context. Members wait for it at once.
    pub makes: Option<usize>,
}

/// One round of all ranks: begin sends and collectives, receive the messages that are due, wait for the sends. No
/// rank needs another rank's next round to end its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundPlan {
    /// All messages of the round.
    pub messages: Vec<MessagePlan>,
    /// All collectives of the round. The members of a group begin its collectives in this order.
    /// A group is made in an earlier round than its first collective.
    pub collectives: Vec<CollectivePlan>,
    /// The seed of each rank's calls in the round.
    pub style_seed: u64,
    /// Ranks that take a checkpoint at the end of the round.
    pub checkpoints: Vec<Rank>,
    /// Ranks that print at the end of the round.
    pub prints: Vec<Rank>,
}

/// One operation of a script. The program waits for each operation before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends a message of one record to this rank.
    Send(usize),
    /// Sends a message of two records to this rank.
    SendLong(usize),
    /// Sends to this rank and waits until the message is matched.
    SendMatched(usize),
    /// Receives from any source.
    Any,
    /// Receives from this rank.
    From(usize),
    /// Takes a checkpoint.
    Checkpoint,
}

/// A process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// A rank in its present life.
    Rank(Rank),
    /// An event logger.
    Logger(u32),
    /// The checkpoint store.
    Checkpoints,
}

/// The moment of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the start of this step of the job.
    Step(u64),
    /// At the process's effect with this number, counted over all its lives: before it or right
    /// after it.
    Effect {
        /// Number of the effect.
        number: u64,
        /// Whether the fault occurs before the effect.
        before: bool,
    },
}

/// The kind of a fault. The fault injector of the world states what must survive each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process dies. Its files and shared memory remain.
    Kill,
    /// The process's host loses power: data that was not synced is lost or torn. Not for ranks.
    PowerLoss,
    /// The process's host is lost: the process comes back without data. For loggers, if the other
    /// ones have all of its data and outvote it; otherwise the logger only dies.
    Forget,
    /// The process pauses for this many steps; messages to it wait.
    Pause(u64),
    /// The launcher takes the living rank for dead.
    Suspect,
    /// The process's disk is full for this many steps.
    DiskFull(u64),
    /// The process's disk does not answer for this many steps.
    DiskSlow(u64),
    /// The rank's connections to loggers break; requests under way are flushed, and completions are
    /// lost.
    Disconnect,
    /// The rank dies together with all loggers. The loggers come back without some events of this
    /// rank that they acknowledged: about this percentage of the events remains, from the first on.
    /// For ranks, once in a job and as its only fault. REC-9
    LoseEvents(u8),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The process that fails.
    pub process: Process,
    /// The moment.
    pub moment: Moment,
    /// Its kind.
    pub kind: FaultKind,
}

/// The transport of batches to loggers.
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
    /// Number of loggers.
    pub replicas: u32,
    /// Number of loggers that make a commit stable.
    pub quorum: u32,
    /// The state in which each of them must have a commit.
    pub level: Level,
    /// The transport of batches.
    pub way: WayPlan,
}

/// The network between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkPlan {
    /// Whether frames are delayed and refused, and frames of dead lives arrive late.
    pub is_rough: bool,
    /// Whether receivers read in the sender's log.
    pub reads_in_place: bool,
    /// Payloads of at least this length stay with the sender until they are fetched.
    pub distant_bytes_min: Option<u32>,
    /// Whether short frames leave before they are in the log; only without `reads_in_place` and
    /// `distant_bytes_min`.
    pub is_staged: bool,
}

/// The payload log of each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Disk, in bytes; 0: nothing is spilled.
    pub disk_bytes: u64,
}

impl LogPlan {
    /// The part of the memory that one channel may hold, in bytes, as in the runtime: with a disk
    /// an equal share, so that no channel waits for memory that another receiver holds.
    pub fn window_bytes(&self, ranks: u32, keeps_results: bool) -> u64 {
        match self.disk_bytes {
            0 => self.memory_bytes,
            _ => {
                let chunk = CHUNK_BYTES as u64;
                let channels = u64::from(ranks.saturating_sub(1).max(1)) + u64::from(keeps_results);
                self.memory_bytes / channels / chunk * chunk
            }
        }
    }
}

/// A whole job and its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Determines everything that the plan does not state.
    pub seed: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// The logging protocol.
    pub protocol: Member,
    /// The rounds of all ranks.
    pub rounds: Vec<RoundPlan>,
    /// Members of groups, by place. The first group is that of all ranks.
    pub groups: Vec<Vec<Rank>>,
    /// By rank: the script of an explored job; otherwise empty.
    pub scripts: Vec<Vec<Operation>>,
    /// Event loggers.
    pub loggers: LoggersPlan,
    /// The network between ranks.
    pub network: NetworkPlan,
    /// The payload logs.
    pub log: LogPlan,
    /// The failures at a time that results of collectives survive, which are kept instead of their
    /// messages; `None`: messages are kept.
    pub whole: Option<u32>,
    /// By rank, the number of its correlated set; empty: no set has two ranks.
    pub set_of_rank: Vec<u32>,
    /// Where ranks hold events: how many ranks, or sets, may be dead at once.
    pub failures_at_once: usize,
    /// Event loggers have the events that ranks hold, too. CAUSAL-5
    pub has_loggers_beside: bool,
    /// The first clock of all ranks (to begin near 2^32).
    pub first_clock: u64,
    /// The faults.
    pub faults: Vec<FaultPlan>,
    /// The planted bug, if any.
    pub planted: Option<Planted>,
}

impl Plan {
    /// Memory for payload that several channels share, in bytes, beside that of the log: as little
    /// as possible, so that it is often full.
    pub fn shared_bytes(&self) -> u64 {
        match self.is_explored() {
            true => 0,
            false => 2 * CHUNK_BYTES as u64,
        }
    }

    /// Where ranks hold events: the deaths at once that the job survives. TICKET-4
    pub fn tolerance(&self) -> Option<Tolerance> {
        let tolerance = || Tolerance::new(self.failures_at_once, &self.set_of_rank);
        self.protocol.holds_events_at_ranks().then(tolerance)
    }

    /// Where ranks hold events: makes each have enough holders in other sets.
    pub(crate) fn fit_tolerance(&mut self) {
        let ranks = self.ranks;
        let domains = |tolerance: Tolerance| tolerance.domains((0..ranks).map(Rank));
        match self.tolerance().map(domains) {
            None => {}
            Some(1) => {
                self.set_of_rank.clear();
                self.failures_at_once = 1;
            }
            Some(domains) => self.failures_at_once = self.failures_at_once.min(domains - 1),
        }
    }

    /// The other ranks of a rank's correlated set.
    pub fn members_of(&self, rank: Rank) -> Vec<Rank> {
        let own_set = self.set_of_rank.get(rank.index());
        let is_member = |other: &Rank| {
            *other != rank && own_set.is_some_and(|set| *set == self.set_of_rank[other.index()])
        };
        (0..self.ranks).map(Rank).filter(is_member).collect()
    }

    /// Bytes that a rank sends in all rounds.
    #[cfg(test)]
    pub fn bytes_sent(&self, rank: Rank) -> u64 {
        let messages = self.rounds.iter().flat_map(|round| &round.messages);
        let its = messages.filter(|message| message.from == rank);
        its.map(|message| u64::from(message.bytes)).sum()
    }

    /// Whether an explorer drives the job, not the seed.
    pub fn is_explored(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// Whether loggers lose acknowledged events. REC-9
    pub fn loses_events(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault.kind, FaultKind::LoseEvents(_)))
    }

    /// Whether all messages are received from any source.
    pub fn is_all_wild(&self) -> bool {
        let mut messages = self.rounds.iter().flat_map(|round| &round.messages);
        messages.all(|message| !message.is_named)
    }

    /// Number of collectives in all rounds.
    pub fn collectives(&self) -> usize {
        (self.rounds.iter().map(|round| round.collectives.len())).sum()
    }

    /// Number of messages in all rounds.
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

/// `allreduce of group 1, ring, 20 elements`, with what else holds.
impl fmt::Display for CollectivePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            operation,
            algorithm,
            root,
            count,
            is_ragged,
            in_place,
        } = self.shape;
        let group = self.group;
        write!(
            f,
            "{operation} of group {group}, {algorithm}, root {root}, {count} elements"
        )?;
        f.write_str(if is_ragged { ", ragged" } else { "" })?;
        f.write_str(if in_place { ", in place" } else { "" })?;
        match self.makes {
            Some(made) => write!(f, ", makes group {made}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RoundPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "style {:016x}", self.style_seed)?;
        for message in &self.messages {
            write!(f, " {message}")?;
        }
        for collective in &self.collectives {
            write!(f, "; {collective}")?;
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
        if let Some(failures) = self.whole {
            writeln!(f, "  whole collectives, which survive {failures} failures")?;
        }
        if !self.set_of_rank.is_empty() {
            writeln!(f, "  sets by rank: {:?}", self.set_of_rank)?;
        }
        if self.protocol.holds_events_at_ranks() {
            writeln!(f, "  {} deaths at once are survived", self.failures_at_once)?;
        }
        if self.has_loggers_beside {
            writeln!(f, "  loggers have the events, too")?;
        }
        if let Some(planted) = self.planted {
            writeln!(f, "  planted: {planted:?}")?;
        }
        for (index, members) in self.groups.iter().enumerate().skip(1) {
            writeln!(f, "  group {index}: {members:?}")?;
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
