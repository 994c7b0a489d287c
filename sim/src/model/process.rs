//! One rank: the position of its program, the messages received and sent, and the real gate,
//! recorder, protocol and committer of its life.

use super::{Operation, Size};
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::committer::{Committer, LogEnd};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::gate::{Gate, Mark};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// The job's number; every batch contains it.
pub(super) const JOB: u64 = 1;

/// Wraps the real committer for the protocol.
#[derive(Clone, Debug)]
pub(super) struct ModelCommits {
    pub committer: Committer,
    /// Planted: number of replicas of which each alone makes determinants stable, if any.
    pub believes_any_of: Option<usize>,
}

/// Leaves the replicas out: see [`Committer::hash_shared`].
impl Hash for ModelCommits {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.committer.hash_shared(hasher);
    }
}

impl Commits for ModelCommits {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.committer.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        let confirmed = |replicas| {
            let each = (0..replicas).map(|replica| self.committer.confirmed(replica));
            each.max().unwrap_or_default()
        };
        let believed = self.believes_any_of.map(confirmed);
        self.committer
            .stable_end()
            .max(believed.unwrap_or_default())
    }

    fn poll(&mut self) -> EventIndex {
        self.stable_end()
    }

    fn is_instant(&self) -> bool {
        false
    }
}

/// The phase of a life.
#[derive(Clone, Debug, Hash)]
pub(super) enum Phase {
    /// The rank receives from named sources only: it has nothing to log.
    Unlogged,
    /// The life surveys the loggers and waits for its admission.
    Seeking(Box<Seeking>),
    /// The life runs its program.
    Running(Box<Pessimist<ModelCommits>>),
}

/// A life before its program starts.
#[derive(Clone, Debug)]
pub(super) struct Seeking {
    pub commits: ModelCommits,
    /// Answers to the survey, by replica.
    pub answers: Vec<Option<LogEnd>>,
}

/// Leaves the replicas out.
impl Hash for Seeking {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.commits.hash(hasher);
    }
}

/// The state of a program; a checkpoint contains all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ProgramPosition {
    pub place: usize,
    /// A hash of all messages that the program received.
    pub told: u64,
    /// Number of messages received, by source.
    pub given: Vec<usize>,
    /// The matches of receives from any source, with their clocks.
    pub matches: Vec<(Clock, Matched)>,
    /// Messages sent, by destination: the payload log. LOG-5
    pub sent: Vec<Vec<u64>>,
}

impl ProgramPosition {
    fn start(ranks: usize) -> Self {
        Self {
            given: vec![0; ranks],
            sent: vec![Vec::new(); ranks],
            ..Self::default()
        }
    }

    /// The clock of the next operation; the first operation has clock 1.
    pub fn clock(&self) -> Clock {
        Clock(self.place as u64 + 1)
    }

    /// The clock of the latest operation that has ended.
    pub fn clock_before(&self) -> Clock {
        Clock(self.place as u64)
    }
}

/// A message that waits at the gate.
#[derive(Clone, Debug, Hash)]
pub(super) struct Held {
    pub to: usize,
    pub mark: Mark,
    /// Number of events before the message, in all lives.
    pub events_before: usize,
}

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub(super) struct Process {
    pub incarnation: Incarnation,
    pub phase: Phase,
    pub at: ProgramPosition,
    /// Number of messages that have left, by destination.
    pub left: Vec<usize>,
    /// Messages that have arrived, by source.
    pub arrived: Vec<Vec<u64>>,
    pub held: VecDeque<Held>,
    pub gate: Gate,
    /// Determinants that remain to be replayed.
    pub replay: VecDeque<Matched>,
    /// The older and the newest generation.
    pub checkpoints: [ProgramPosition; 2],
}

impl Process {
    /// The first life; all loggers have admitted it.
    pub fn first(rank: usize, size: &Size) -> Self {
        let start = ProgramPosition::start(size.programs.len());
        let mut process =
            Self::from_checkpoint(rank, size, Incarnation(0), [start.clone(), start], 1);
        if let Phase::Seeking(seeking) = &mut process.phase {
            let committer = &mut seeking.commits.committer;
            for replica in 0..size.replicas {
                committer.joins(replica);
            }
            for replica in 0..size.replicas {
                let id = LoggerId(replica as u32);
                let welcomed = committer.welcomed(replica, id, EventIndex(0), Clock(0));
                welcomed.expect("an empty log is accepted");
            }
            let commits = seeking.commits.clone();
            process.run(rank, commits);
        }
        process
    }

    /// A life that begins with one of the two checkpoints.
    pub fn from_checkpoint(
        rank: usize,
        size: &Size,
        incarnation: Incarnation,
        checkpoints: [ProgramPosition; 2],
        generation: usize,
    ) -> Self {
        let ranks = size.programs.len();
        let at = checkpoints[generation].clone();
        let is_logged = size.programs[rank].contains(&Operation::Any);
        let seeking = || Seeking {
            commits: ModelCommits {
                committer: Committer::new(
                    Rank(rank as u32),
                    incarnation,
                    size.replicas,
                    size.quorum,
                ),
                believes_any_of: size.believes_any(),
            },
            answers: vec![None; size.replicas],
        };
        Self {
            incarnation,
            phase: match is_logged {
                true => Phase::Seeking(Box::new(seeking())),
                false => Phase::Unlogged,
            },
            left: at.sent.iter().map(Vec::len).collect(),
            // Messages received before are in the checkpoint.
            arrived: at.given.iter().map(|&given| vec![0; given]).collect(),
            at,
            held: VecDeque::with_capacity(ranks),
            gate: Gate::default(),
            replay: VecDeque::new(),
            checkpoints,
        }
    }

    /// Starts the program: the life has its determinants.
    pub fn run(&mut self, rank: usize, commits: ModelCommits) {
        let identity = Identity {
            job: JOB,
            rank: Rank(rank as u32),
            incarnation: self.incarnation,
        };
        let next = commits.committer.start().unwrap_or_default();
        self.phase = Phase::Running(Box::new(Pessimist::new(identity, next, commits)));
    }

    /// Whether the program runs.
    pub fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Seeking(_))
    }

    pub fn committer(&self) -> Option<&Committer> {
        match &self.phase {
            Phase::Unlogged => None,
            Phase::Seeking(seeking) => Some(&seeking.commits.committer),
            Phase::Running(pessimist) => Some(&pessimist.commits().committer),
        }
    }

    pub fn committer_mut(&mut self) -> Option<&mut Committer> {
        match &mut self.phase {
            Phase::Unlogged => None,
            Phase::Seeking(seeking) => Some(&mut seeking.commits.committer),
            Phase::Running(pessimist) => Some(&mut pessimist.commits_mut().committer),
        }
    }

    /// A receive from any source got this message; the match is an event unless it is replayed
    /// (`is_new` is false).
    pub fn matched(&mut self, source: usize, matched: Matched, is_new: bool) {
        let at = self.at.clock();
        if let Phase::Running(pessimist) = &mut self.phase
            && is_new
        {
            self.gate.note_events(1);
            pessimist.record().matched(at, matched, false);
            pessimist.operation_ended();
        }
        self.at.matches.push((at, matched));
        self.take(source);
    }

    /// A receive gets the next message of `source`.
    pub fn take(&mut self, source: usize) {
        let content = self.arrived[source][self.at.given[source]];
        self.at.given[source] += 1;
        self.at.told = mixed(&(self.at.told, source, content));
        self.at.place += 1;
    }

    /// Updates the gate; asks for all events to become stable if a message waits at the gate.
    pub fn look(&mut self) {
        self.advance(!self.held.is_empty());
    }

    /// Updates the gate. `wanted`: something waits until all events so far are stable.
    pub fn advance(&mut self, wanted: bool) {
        if let Phase::Running(pessimist) = &mut self.phase {
            let wanted = if wanted { self.gate.mark().0 } else { 0 };
            let stable = pessimist.advance(wanted);
            self.gate.note_stable(stable);
        }
    }
}

/// A hash of `what`.
pub(super) fn mixed(what: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
