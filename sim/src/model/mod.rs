//! The core of the pessimistic protocol, explored exhaustively: every order in
//! which receives, batches, acknowledgements, deaths and new lives of a small
//! job can come. docs/design/model-checking.md says what that shows, and what not.
//!
//! The transitions call the real pure cores, which are part of the state: the
//! gate, the pessimist with its recorder, the committer, the acceptor's rows, and how
//! a logger catches up with others. Around them are only programs, messages,
//! connections and deaths.
//!
//! # Planted bugs
//!
//! Each is in the world around the real parts. Breadth first finds a shortest way.
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
//! Its place is `World::let_out`: what a life has sent is there at once for every later
//! life of its receiver, as if peers had answered (REC-3).

mod actions;
mod loggers;
mod process;
mod rules;
mod world;

use crate::explorer::{Exploration, Model, explore};
use actions::Action;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::World;

/// Explores all of the protocol at a size, or as far as to a broken rule.
pub fn run(size: &Size) -> Exploration {
    explore(&Core(size.clone()))
}

/// The protocol at a size.
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
        // Replicas are alike: their order does not matter.
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
            false => Err("no dead end: nothing goes on, and a program is not over".to_owned()),
        }
    }

    fn is_fault(&self, action: &Action) -> bool {
        action.is_fault()
    }
}

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

/// How a replica admits a life that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Joining {
    /// Planted: the hello says only from where on the life can send
    /// (`first_kept`), and a life leaves no mark (docs/design/model-checking.md).
    FirstKept,
    /// As the server does it: the hello states where the life begins and which life wrote
    /// what is before, and the per-rank event log records that it began.
    Marked,
}

/// The replicas from which a life that begins reads its determinants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// From any replicas that are enough to contain one of every quorum.
    AnyOfEveryQuorum,
    /// From a replica that has admitted the life.
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
    /// A hello fences no earlier life.
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

use Operation::{Any, Checkpoint, From, Send};

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
    /// How replicas admit lives.
    pub joining: Joining,
    /// The replicas from which determinants are read.
    pub reading: Reading,
    /// A bug that is to be found.
    pub bug: Option<Bug>,
}

impl Size {
    /// The names that [`Size::named`] knows.
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

    /// In a second, also in a debug build: two ranks send to a third, which
    /// receives one of the messages first and says which.
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

    /// Three ranks, two receives from any, two crashes, three loggers.
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

    /// The same; one logger starts again, one loses what it has, and
    /// acknowledgements come late.
    pub fn faults() -> Self {
        Self {
            logger_restarts: 1,
            losses: 1,
            stale_acks: true,
            ..Self::full()
        }
    }

    /// As [`Size::full`], but two ranks receive from any, once each, one after
    /// the other.
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

    /// As [`Size::full`], with two checkpoints and the initial state, of which
    /// two are kept, and trimming.
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
}
