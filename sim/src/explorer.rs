//! Breadth first through all states that a model can reach, each once.
//!
//! What was seen is kept as a hash of 64 bits, with that of the state before
//! it: the shortest way to a state is found again by going it once more. Two
//! states with one hash would hide one of them: with ten million states the
//! chance of that is one in 10⁵.
//!
//! *Else weighed:* `stateright` (0.31, July 2025), which does far more than is needed
//! here: actors, a web interface, linearizability.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Debug, Display, Write as _};
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

/// States that are expanded at a time: what they lead to is in memory at once.
const BLOCK: usize = 1 << 14;

/// What is to be explored.
pub trait Model: Sync {
    /// Everything that is.
    type State: Clone + Send + Sync;
    /// Something that may happen next.
    type Action: Debug;

    /// Where it begins.
    fn initial(&self) -> Self::State;
    /// A hash of a state; the same for states that differ in nothing but names.
    fn fingerprint(&self, state: &Self::State) -> u64;
    /// What may happen next.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// What it leads to.
    ///
    /// # Errors
    /// The rule that it breaks.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;
    /// Whether a state is as it has to be; `moved`: something other than a
    /// fault leads on from it.
    ///
    /// # Errors
    /// The rule that is broken.
    fn check(&self, state: &Self::State, moved: bool) -> Result<(), String>;
    /// Whether this is a fault, which need not happen.
    fn is_fault(&self, action: &Self::Action) -> bool;
}

/// What came of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// States found.
    pub states: u64,
    /// Actions tried.
    pub steps: u64,
    /// The most actions on the shortest way to a state.
    pub depth: usize,
    /// A way to a broken rule, if there is one: none is shorter.
    pub counterexample: Option<Counterexample>,
}

/// The shortest way to a broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is broken.
    pub rule: String,
    /// What happened before, in words.
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

/// Hashes words, but for addresses: two runs have other ones.
struct Words<'a> {
    hasher: &'a mut DefaultHasher,
    /// The digits of an address come next.
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

/// Hashes how something reads.
pub(crate) fn hash_words(hasher: &mut DefaultHasher, what: &dyn fmt::Debug) {
    let mut to = Words {
        hasher,
        in_address: false,
    };
    // Hashing does not fail.
    let _ = write!(to, "{what:?}");
}

/// Hashes that are hashes already.
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

/// Each state's hash, and that of the state it was first reached from.
type Seen = HashMap<u64, u64, BuildHasherDefault<Same>>;

/// What one state leads to.
struct Expanded<S> {
    from: u64,
    /// Actions, whatever came of them.
    steps: u64,
    /// States that were not known yet.
    next: Vec<(u64, S)>,
    /// The way on to a broken rule, none when the state itself breaks it.
    broken: Option<(String, Option<String>)>,
}

/// Explores all of `model` with two threads, or as far as to a broken rule.
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

/// The actions from the beginning to the state with this hash.
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
