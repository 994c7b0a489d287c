//! An exhaustive model of the core of the pessimistic protocol: all orders of receives, batches,
//! acknowledgements, deaths and new lives of a small job. docs/design/model-checking.md states what
//! the exploration proves, and what it does not.
//!
//! The transitions call the real pure cores, which are part of the state: the gate, the pessimist
//! with its recorder, the committer, the loggers' `RankLog`, and the logger's catch-up with other
//! replicas. Only programs, messages, connections and deaths are modelled.
//!
//! # Planted bugs
//!
//! Each bug is in the code around the real cores. The search is breadth first, so each
//! counterexample is one of the shortest.
//!
//! | bug | rule that breaks | steps to it | states seen |
//! |---|---|---|---|
//! | [`GateOpen`](Bug::GateOpen) | GATE-1 | 1 | 6 |
//! | [`QuorumOfOne`](Bug::QuorumOfOne) | GATE-1 | 3 | 50 |
//! | [`NoFence`](Bug::NoFence) | FENCE-1 | 4 | 50 |
//! | [`RunsAtOnce`](Bug::RunsAtOnce) | GATE-1 | 5 | 193 |
//! | [`SurveyOfOne`](Bug::SurveyOfOne) | GATE-1, EL-5 | 8 | 1,095 |
//! | [`ShortestAnswer`](Bug::ShortestAnswer) | GATE-1, EL-5 | 9 | 935 |
//! | [`TrimAtNewest`](Bug::TrimAtNewest) | GC-1 | 9 | 1,480 |
//! | [`AnyIncarnation`](Bug::AnyIncarnation) | EL-1 | 11 | 2,395 |
//!
//! # The restart exchange
//!
//! `World::let_out` stands for it: every message that a life has sent is available at once to every
//! later life of its receiver, as if peers had answered (REC-3).

mod actions;
mod loggers;
mod process;
mod rules;
mod world;

use crate::explorer::{Exploration, Model, explore};
use actions::Action;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::World;

/// Explores all states of the protocol at `size`; stops at the first violated rule.
pub fn run(size: &Size) -> Exploration {
    explore(&Core(size.clone()))
}

/// The model of the protocol at one size.
#[derive(Clone, Debug)]
pub struct Core(pub Size);

impl Model for Core {
    type State = World;
    type Action = Action;

    fn initial(&self) -> World {
        let mut world = World::first(&self.0);
        let flow = world.flow(&self.0);
        flow.expect("nothing has gone wrong yet");
        world
    }

    fn fingerprint(&self, world: &World) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&world.ranks, &world.said, &world.budget).hash(&mut hasher);
        // Replicas are interchangeable: the hash does not depend on their order.
        let replicas = (0..self.0.replicas).map(|replica| world.replica_hash(replica));
        replicas.fold(0, u64::wrapping_add).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        world.actions(&self.0)
    }

    fn next(&self, world: &World, action: &Action) -> Result<World, String> {
        let mut next = world.clone();
        next.act(*action, &self.0)?;
        next.flow(&self.0)?;
        Ok(next)
    }

    fn check(&self, world: &World, moved: bool) -> Result<(), String> {
        world.check(&self.0)?;
        match moved || world.is_over(&self.0) {
            true => Ok(()),
            false => {
                Err("no dead end: no action is possible, and a program has not ended".to_owned())
            }
        }
    }

    fn is_fault(&self, action: &Action) -> bool {
        action.is_fault()
    }
}

/// One operation of a rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Sends a message to this rank; its content depends on all messages received before.
    Send(usize),
    /// Receives from any rank.
    Any,
    /// Receives from this rank.
    From(usize),
    /// Takes a checkpoint, once all events so far are stable.
    Checkpoint,
}

/// How a replica admits a life that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Joining {
    /// Planted: the hello states only `first_kept`, the first number that the life can send, and
    /// the per-rank event log does not record that the life began (docs/design/model-checking.md).
    FirstKept,
    /// As in the server: the hello states where the life begins and which life wrote the
    /// determinants before, and the per-rank event log records that the life began.
    Marked,
}

/// The replicas from which a life that begins reads its determinants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// From any set of replicas that shares a member with every quorum.
    AnyOfEveryQuorum,
    /// From a replica that has admitted the life.
    Joined,
}

/// A planted bug in the code around the real cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The gate never closes.
    GateOpen,
    /// Determinants that one replica has confirmed count as stable.
    QuorumOfOne,
    /// The incarnation of an acknowledgement is not checked.
    AnyIncarnation,
    /// A hello fences no earlier life.
    NoFence,
    /// A life begins with the answer of one replica.
    SurveyOfOne,
    /// A life begins where the shortest answer ends.
    ShortestAnswer,
    /// A life runs as soon as it knows where it begins, before a quorum has admitted it.
    RunsAtOnce,
    /// Determinants are trimmed below the newest checkpoint, not below the older one.
    TrimAtNewest,
}

use Operation::{Any, Checkpoint, From, Send};

/// The bounds of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The program of each rank.
    pub programs: Vec<Vec<Operation>>,
    /// Number of loggers.
    pub replicas: usize,
    /// Number of replicas that make a determinant stable.
    pub quorum: usize,
    /// Maximum number of crashes of ranks; one rank can crash several times.
    pub crashes: u8,
    /// Maximum number of restarts of loggers.
    pub logger_restarts: u8,
    /// Maximum number of losses of a logger's data; only data that all other loggers also have is
    /// lost.
    pub losses: u8,
    /// Whether acknowledgements to a dead life can reach its successor.
    pub stale_acks: bool,
    /// How replicas admit lives.
    pub joining: Joining,
    /// The replicas from which determinants are read.
    pub reading: Reading,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

impl Size {
    /// The names that [`Size::named`] accepts.
    pub const NAMES: [&str; 5] = ["small", "full", "faults", "chain", "checkpoints"];

    /// The size with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::small()),
            "full" => Some(Self::full()),
            "faults" => Some(Self::faults()),
            "chain" => Some(Self::chain()),
            "checkpoints" => Some(Self::checkpoints()),
            _ => None,
        }
    }

    /// Takes a second, also in a debug build: two ranks send to a third one, which receives one of
    /// the messages from any source and sends a message that depends on it.
    pub fn small() -> Self {
        Self {
            programs: vec![vec![Any, Send(1)], vec![Send(0), From(0)], vec![Send(0)]],
            replicas: 3,
            quorum: 2,
            crashes: 2,
            logger_restarts: 0,
            losses: 0,
            stale_acks: false,
            joining: Joining::Marked,
            reading: Reading::Joined,
            bug: None,
        }
    }

    /// Three ranks, two receives from any source, two crashes, three loggers.
    pub fn full() -> Self {
        Self {
            programs: vec![
                vec![Any, Any, Send(1)],
                vec![Send(0), From(0)],
                vec![Send(0)],
            ],
            ..Self::small()
        }
    }

    /// As [`Size::full`]; one logger restarts, one loses its data, and acknowledgements of dead
    /// lives reach their successors.
    pub fn faults() -> Self {
        Self {
            logger_restarts: 1,
            losses: 1,
            stale_acks: true,
            ..Self::full()
        }
    }

    /// As [`Size::full`], but two ranks receive from any source, once each, one after the other.
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

    /// As [`Size::full`], with two checkpoints in addition to the initial state; two of the three
    /// are kept, and loggers trim.
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

    /// Planted: the number of replicas, each of which alone makes determinants stable.
    pub(super) fn believes_any(&self) -> Option<usize> {
        (self.bug == Some(Bug::QuorumOfOne)).then_some(self.replicas)
    }
}
