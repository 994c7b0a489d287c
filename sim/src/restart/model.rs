//! Restarts for the [explorer](crate::exhaustive): a state is the way to it. An
//! engine cannot be copied, so each step begins at the beginning.

use super::action::Action;
use super::size::Size;
use super::world::World;
use crate::exhaustive::explorer::Model;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Restarts of a size.
#[derive(Clone, Debug)]
pub struct Restarts(pub Size);

/// A state.
#[derive(Clone, Debug)]
pub struct Reached {
    way: Vec<Action>,
    hash: u64,
    next: Vec<Action>,
    /// What is wrong if nothing but a fault goes on.
    end: Result<(), String>,
}

impl Restarts {
    /// Goes a way from the beginning.
    fn go(&self, way: Vec<Action>) -> Result<Reached, String> {
        let go = || -> Result<Reached, String> {
            let mut world = World::first(&self.0)?;
            for action in &way {
                world.act(*action)?;
            }
            Ok(Reached {
                hash: world.fingerprint(),
                next: world.actions(),
                end: world.check_end(),
                way: Vec::new(),
            })
        };
        // Nothing of it is looked at again.
        let gone = catch_unwind(AssertUnwindSafe(go));
        let reached = gone.unwrap_or_else(|panic| Err(words_of(&*panic)))?;
        Ok(Reached { way, ..reached })
    }
}

/// What a panic says.
fn words_of(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without words"))
}

impl Model for Restarts {
    type State = Reached;
    type Action = Action;

    fn initial(&self) -> Reached {
        self.go(Vec::new()).expect("nothing has gone wrong yet")
    }

    fn fingerprint(&self, state: &Reached) -> u64 {
        state.hash
    }

    fn actions(&self, state: &Reached) -> Vec<Action> {
        state.next.clone()
    }

    fn next(&self, state: &Reached, action: &Action) -> Result<Reached, String> {
        let mut way = state.way.clone();
        way.push(*action);
        self.go(way)
    }

    fn check(&self, state: &Reached, moved: bool) -> Result<(), String> {
        match moved {
            true => Ok(()),
            false => state.end.clone(),
        }
    }

    fn is_fault(&self, action: &Action) -> bool {
        action.is_fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// What a state leads to.
    fn successors(model: &Restarts, state: &Reached) -> Vec<(Action, u64)> {
        let lead = |action: &Action| {
            let next = model.next(state, action).expect("no rule is broken");
            (*action, next.hash)
        };
        state.next.iter().map(lead).collect()
    }

    /// That nothing is left out of the hash on which conduct depends: all ways to one
    /// hash go on to the same.
    #[test]
    fn states_with_one_hash_go_on_alike() {
        let model = Restarts(Size::any());
        let first = model.initial();
        let mut known = HashMap::new();
        let mut to_expand = vec![first];
        let mut met_again = 0;
        while let Some(state) = to_expand.pop() {
            let leads_to = successors(&model, &state);
            if let Some(before) = known.get(&state.hash) {
                assert_eq!(before, &leads_to, "{:?}", state.way);
                met_again += 1;
                continue;
            }
            known.insert(state.hash, leads_to);
            let next = |action| model.next(&state, action).expect("no rule is broken");
            to_expand.extend(state.next.iter().map(next));
            if known.len() > 1500 {
                break;
            }
        }
        assert!(met_again > 100, "{met_again}");
    }
}
