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
mod size;
mod world;

pub use crate::model::Operation;
pub use size::{Bug, Size};

use crate::explorer::{Exploration, Model, explore};
use actions::Action;
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
