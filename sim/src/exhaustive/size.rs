//! How large a model is, and which protocol it is of.

/// One operation of a rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Sends what it knows to this rank.
    Send(usize),
    /// Receives from any rank.
    Any,
    /// Receives from this rank.
    From(usize),
    /// A checkpoint, once everything that happened is stable.
    Checkpoint,
}

/// How a replica is let in by a life that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Joining {
    /// The hello says from where on the life can send (`first_kept`), as the
    /// server has it today.
    FirstKept,
    /// The hello says where the life begins and who wrote what is before, and
    /// the row keeps that it began (docs/model-checking.md).
    Marked,
}

/// From whom a life that begins reads its determinants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// From as many as are sure to contain one of every quorum, whoever they
    /// are.
    AnyOfEveryQuorum,
    /// From a replica that has let the life in.
    Joined,
}

/// A bug of the world around the real parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The gate never shuts.
    GateOpen,
    /// What one replica has confirmed is taken for stable.
    QuorumOfOne,
    /// An acknowledgement is not asked which life it is of.
    AnyIncarnation,
    /// A hello fences nobody.
    NoFence,
    /// A life begins with what one replica says.
    SurveyOfOne,
    /// A life begins where the shortest answer ends.
    ShortestAnswer,
    /// A life runs when it knows where it begins: what it took over is not
    /// stable again yet.
    RunsAtOnce,
    /// Determinants are given up behind the newest checkpoint.
    TrimAtNewest,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::GateOpen,
        Self::QuorumOfOne,
        Self::AnyIncarnation,
        Self::NoFence,
        Self::SurveyOfOne,
        Self::ShortestAnswer,
        Self::RunsAtOnce,
        Self::TrimAtNewest,
    ];
}

/// How large a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// What each rank does.
    pub programs: Vec<Vec<Operation>>,
    /// Loggers.
    pub replicas: usize,
    /// How many make a determinant stable.
    pub quorum: usize,
    /// Ranks that crash, at most; one may do so more than once.
    pub crashes: u8,
    /// Loggers that start again, at most.
    pub logger_restarts: u8,
    /// Loggers that lose what they have, at most; only when the others have it.
    pub losses: u8,
    /// Whether acknowledgements of a dead life reach its successor.
    pub stale_acks: bool,
    /// How replicas are let in.
    pub joining: Joining,
    /// From whom determinants are read.
    pub reading: Reading,
    /// A bug that is to be found.
    pub bug: Option<Bug>,
}

use Operation::{Any, Checkpoint, From, Send};

impl Size {
    /// In a second, also in a debug build: two ranks send to a third, which
    /// receives one of the messages first and says which.
    pub fn small() -> Self {
        Self {
            programs: vec![vec![Any, Send(1)], vec![Send(0), From(0)], vec![Send(0)]],
            replicas: 3,
            quorum: 2,
            crashes: 1,
            logger_restarts: 0,
            losses: 0,
            stale_acks: false,
            joining: Joining::Marked,
            reading: Reading::Joined,
            bug: None,
        }
    }

    /// Three ranks, two receives from any, two crashes, three loggers.
    pub fn full() -> Self {
        Self {
            programs: vec![
                vec![Any, Any, Send(1)],
                vec![Send(0), From(0)],
                vec![Send(0)],
            ],
            crashes: 2,
            ..Self::small()
        }
    }

    /// The same, but two ranks each receive from any once, one after the other.
    pub fn chain() -> Self {
        Self {
            programs: vec![
                vec![Any, Send(1), Send(2)],
                vec![Send(0), Any, Send(2)],
                vec![Send(0), Send(1), From(0), From(1)],
            ],
            ..Self::full()
        }
    }

    /// Three checkpoints, two generations of them kept, and trimming.
    pub fn checkpoints() -> Self {
        Self {
            programs: vec![
                vec![Any, Checkpoint, Any, Checkpoint, Send(1)],
                vec![Send(0), From(0)],
                vec![Send(0)],
            ],
            ..Self::full()
        }
    }

    /// Planted: an acknowledgement of one is believed.
    pub(super) fn believes_any(&self) -> Option<usize> {
        (self.bug == Some(Bug::QuorumOfOne)).then_some(self.replicas)
    }

    /// The same with a bug.
    pub fn with(self, bug: Bug) -> Self {
        Self {
            stale_acks: self.stale_acks || bug == Bug::AnyIncarnation,
            bug: Some(bug),
            ..self
        }
    }
}
