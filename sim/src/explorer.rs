//! Breadth-first search of all states that a model can reach; each is expanded once.
//!
//! A visited state is kept as a hash of 64 bits, with the hash of the state before it. The shortest
//! way to a state is reconstructed by running the model again. If two states had the same hash, one
//! of them would not be explored: with ten million states the probability is 10⁻⁵.
//!
//! *Alternative:* `stateright` (0.31, July 2025) does far more than is needed here: actors, a web
//! interface, linearizability.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Debug, Display, Write as _};
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

/// Number of states that are expanded at a time; all their successors are in memory at once.
const BLOCK: usize = 1 << 14;

/// A state machine to be explored.
pub trait Model: Sync {
    /// A complete state of the model.
    type State: Clone + Send + Sync;
    /// A transition from one state to the next.
    type Action: Debug;

    /// The initial state.
    fn initial(&self) -> Self::State;
    /// A hash of a state; equal for states that differ only in names.
    fn fingerprint(&self, state: &Self::State) -> u64;
    /// The actions that are possible in a state.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// The state after an action.
    ///
    /// # Errors
    /// The rule that the action violates.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;
    /// Checks the invariants of a state. `moved`: an action other than a fault leads to a different
    /// state.
    ///
    /// # Errors
    /// The rule that is violated.
    fn check(&self, state: &Self::State, moved: bool) -> Result<(), String>;
    /// Whether the action is a fault: a fault may happen but need not.
    fn is_fault(&self, action: &Self::Action) -> bool;
}

/// The result of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Number of states found.
    pub states: u64,
    /// Number of actions tried.
    pub steps: u64,
    /// Length of the longest of the shortest ways to the states, in actions.
    pub depth: usize,
    /// A shortest way to a violated rule, if there is one.
    pub counterexample: Option<Counterexample>,
}

/// A shortest way to a violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The rule that is violated.
    pub rule: String,
    /// The actions before, in order.
    pub trace: Vec<String>,
}

impl Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            steps,
            depth,
            ..
        } = self;
        write!(f, "{states} states, {steps} steps, {depth} deep")?;
        let Some(Counterexample { rule, trace }) = &self.counterexample else {
            return write!(f, ": no rule is broken");
        };
        writeln!(f, "\n{rule}")?;
        for (number, words) in (1..).zip(trace) {
            writeln!(f, "{number:4}. {words}")?;
        }
        Ok(())
    }
}

/// Hashes text without the digits of addresses, which differ between runs.
struct Words<'a> {
    hasher: &'a mut DefaultHasher,
    /// Whether the digits of an address come next.
    in_address: bool,
}

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        let is_address = core::mem::replace(&mut self.in_address, words == "0x");
        if !is_address {
            self.hasher.write(words.as_bytes());
        }
        Ok(())
    }
}

/// Hashes the debug format of `what`.
pub(crate) fn hash_words(hasher: &mut DefaultHasher, what: &dyn fmt::Debug) {
    let mut to = Words {
        hasher,
        in_address: false,
    };
    // Hashing does not fail.
    let _ = write!(to, "{what:?}");
}

/// Passes hashes on unchanged.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Each state's hash, with the hash of the state from which it was first reached.
type Seen = HashMap<u64, u64, BuildHasherDefault<Same>>;

/// The successors of one state.
struct Expanded<S> {
    from: u64,
    /// Number of actions that led to a state, known or new.
    steps: u64,
    /// Hashes and states that were not seen before.
    next: Vec<(u64, S)>,
    /// The violated rule with the action that violates it; no action if the state itself does.
    broken: Option<(String, Option<String>)>,
}

/// Explores all of `model` with two threads; stops at the first violated rule.
pub fn explore<M: Model>(model: &M) -> Exploration {
    let initial = model.initial();
    let first = model.fingerprint(&initial);
    let mut seen = Seen::default();
    seen.insert(first, first);
    let mut level = vec![(first, initial)];
    let mut found = Exploration {
        states: 1,
        steps: 0,
        depth: 0,
        counterexample: None,
    };
    while !level.is_empty() {
        let mut next_level = Vec::new();
        for block in level.chunks(BLOCK) {
            for expanded in expand_in_parallel(model, block, &seen) {
                if let Some((rule, last)) = expanded.broken {
                    let mut trace = retrace(model, &seen, expanded.from);
                    trace.extend(last);
                    found.counterexample = Some(Counterexample { rule, trace });
                    return found;
                }
                found.steps += expanded.steps;
                for (hash, state) in expanded.next {
                    if let Entry::Vacant(vacant) = seen.entry(hash) {
                        vacant.insert(expanded.from);
                        next_level.push((hash, state));
                    }
                }
            }
            found.states = seen.len() as u64;
        }
        found.depth += usize::from(!next_level.is_empty());
        level = next_level;
    }
    found
}

fn expand_in_parallel<M: Model>(
    model: &M,
    block: &[(u64, M::State)],
    seen: &Seen,
) -> Vec<Expanded<M::State>> {
    let expand_all = |part: &[(u64, M::State)]| -> Vec<_> {
        let each = part.iter();
        each.map(|(hash, state)| expand(model, *hash, state, seen))
            .collect()
    };
    let (one, other) = block.split_at(block.len() / 2);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| expand_all(one));
        let mut rest = expand_all(other);
        let mut all = beside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        all.append(&mut rest);
        all
    })
}

fn expand<M: Model>(model: &M, from: u64, state: &M::State, seen: &Seen) -> Expanded<M::State> {
    let mut expanded = Expanded {
        from,
        steps: 0,
        next: Vec::new(),
        broken: None,
    };
    let mut moved = false;
    for action in model.actions(state) {
        match model.next(state, &action) {
            Ok(next) => {
                let hash = model.fingerprint(&next);
                moved |= hash != from && !model.is_fault(&action);
                expanded.steps += 1;
                if !seen.contains_key(&hash) {
                    expanded.next.push((hash, next));
                }
            }
            Err(rule) => {
                moved = true;
                expanded
                    .broken
                    .get_or_insert((rule, Some(format!("{action:?}"))));
            }
        }
    }
    if let Err(rule) = model.check(state, moved) {
        expanded.broken = Some((rule, None));
    }
    expanded
}

/// The actions from the initial state to the state with this hash.
fn retrace<M: Model>(model: &M, seen: &Seen, to: u64) -> Vec<String> {
    let mut way = vec![to];
    let mut at = to;
    while let Some(&before) = seen.get(&at)
        && before != at
    {
        way.push(before);
        at = before;
    }
    let mut state = model.initial();
    let mut trace = Vec::new();
    for hash in way.into_iter().rev().skip(1) {
        let leads_there = |action: &M::Action| {
            let next = model.next(&state, action).ok()?;
            (model.fingerprint(&next) == hash).then(|| (format!("{action:?}"), next))
        };
        let Some((words, next)) = model.actions(&state).iter().find_map(leads_there) else {
            trace.push("(a state that cannot be reached again: two have one hash)".to_owned());
            return trace;
        };
        trace.push(words);
        state = next;
    }
    trace
}
