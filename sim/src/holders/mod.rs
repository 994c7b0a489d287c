//! An exhaustive model of events at ranks: all orders of receives, carriers, pieces of the control
//! lane, news, deaths and new lives of a small job, with `ticket` or `causal`.
//! docs/design/model-checking.md states what the exploration proves, and what it does not.
//!
//! The transitions call the real pure cores, which are part of the state: the gate, the pessimist
//! with its recorder, what ranks hold ([`Holdings`](refrain_logging::held::Holdings)), what a later
//! life collects, and what the launcher knows ([`Losses`](refrain_logging::held::Losses)). Only
//! programs, lanes, logs, news and deaths are modelled.

mod actions;
mod process;
mod rules;
mod world;

use crate::explorer::{Exploration, Model, explore};
pub use crate::model::Operation;
use Operation::{Any, Checkpoint, From, Send};
use actions::Action;
use refrain_logging::held::Gives;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::World;

/// Explores all states of the protocol at `size`; stops at the first violated rule.
pub fn run(size: &Size) -> Exploration {
    explore(&Holders(size.clone()))
}

/// The model at one size.
#[derive(Clone, Debug)]
struct Holders(Size);

impl Model for Holders {
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
        world.hash(&mut hasher);
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
        matches!(action, Action::Die(_))
    }
}

/// A planted bug in the code around the real cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The gate never closes.
    GateOpen,
    /// What a dead rank held is given to another rank only when its next life is connected.
    HoldersForgotten,
    /// Survivors count as having made a death good at once.
    RestoredAtOnce,
    /// A later life ignores the carriers in the logs of its earlier lives.
    OwnCarriersForgotten,
    /// What was carried to one rank counts as carried to all.
    CarriedOnce,
    /// Determinants are trimmed below the newest checkpoint, not below the older one.
    TrimAtNewest,
}

/// The bounds of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// When ranks give their batches to others: the protocol.
    pub gives: Gives,
    /// The program of each rank.
    pub programs: Vec<Vec<Operation>>,
    /// Maximum number of deaths, each made good before another rank dies; a rank that is gone may
    /// die again.
    pub deaths: u8,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

impl Size {
    /// The names that [`Size::named`] accepts, each behind `ticket-` or `causal-`.
    pub const NAMES: [&str; 4] = ["small", "two", "chain", "saved"];

    /// The size with this name.
    pub fn named(name: &str) -> Option<Self> {
        let (protocol, programs) = name.split_once('-')?;
        let gives = match protocol {
            "ticket" => Gives::AtCommit,
            "causal" => Gives::WithMessages,
            _ => return None,
        };
        let (programs, deaths) = match programs {
            "small" => (Self::small(), 2),
            "two" => (Self::two(), 2),
            "chain" => (Self::chain(), 1),
            "saved" => (Self::saved(), 2),
            _ => return None,
        };
        Some(Self {
            gives,
            programs,
            deaths,
            bug: None,
        })
    }

    /// Two ranks send to a third one, which receives from any source and sends what depends on it.
    fn small() -> Vec<Vec<Operation>> {
        vec![vec![Any, Send(1)], vec![Send(0), From(0)], vec![Send(0)]]
    }

    /// Two ranks, of which each receives from any source: the holder of a batch may only be the
    /// next life of a dead rank.
    fn two() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Send(1), Any, Send(1)],
            vec![Send(0), Any, Send(0), From(0)],
        ]
    }

    /// Two ranks receive from any source, one after the other: an event depends on another rank's.
    fn chain() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Send(1), Send(2)],
            vec![Send(0), Any, Send(2)],
            vec![Send(0), Send(1), From(0), From(1)],
        ]
    }

    /// As [`Size::small`] with two receives from any source and two checkpoints.
    fn saved() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Checkpoint, Any, Checkpoint, Send(1)],
            vec![Send(0), From(0)],
            vec![Send(0)],
        ]
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
