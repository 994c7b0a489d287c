//! The matcher against a model that scans two queues from the front, which is
//! how MPI-4.1, 3.5 states the rules.

mod seed;

use proptest::prelude::*;
use proptest::sample::Index;
use refrain_ring::Rank;
use refrain_transport::matching::{Envelope, Matcher, Pattern, PostedId, UnexpectedId};
use std::collections::VecDeque;

/// One call of the engine. Few contexts, sources and tags, so that entries collide.
#[derive(Clone, Debug)]
enum Operation {
    /// A message arrives: to a receive, else unexpected.
    Arrive(Envelope),
    /// A receive: of an unexpected message, else posted.
    Receive(Pattern),
    /// An entry that is added without a check of the other side, as from a restored state.
    Push(Envelope),
    Post(Pattern),
    Probe(Pattern),
    /// Any id that was ever given out, most of them stale.
    Cancel(Index),
    RemoveProbed(Index),
    Look(Index),
    List(Rank),
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0..2u32, 0..3u32, 0..3i32).prop_map(|(context, source, tag)| Envelope {
        context,
        source: Rank(source),
        tag: tag - 1,
    })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (
        envelope(),
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.7),
    )
        .prop_map(|(envelope, named_source, named_tag)| Pattern {
            context: envelope.context,
            source: named_source.then_some(envelope.source),
            tag: named_tag.then_some(envelope.tag),
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    let source = || (0..3u32).prop_map(Rank);
    prop_oneof![
        8 => envelope().prop_map(Operation::Arrive),
        8 => pattern().prop_map(Operation::Receive),
        4 => envelope().prop_map(Operation::Push),
        4 => pattern().prop_map(Operation::Post),
        4 => pattern().prop_map(Operation::Probe),
        3 => any::<Index>().prop_map(Operation::Cancel),
        3 => any::<Index>().prop_map(Operation::RemoveProbed),
        3 => any::<Index>().prop_map(Operation::Look),
        1 => source().prop_map(Operation::List),
    ]
}

/// Values are serial numbers, so that every entry is distinguishable.
#[derive(Default)]
struct Model {
    posted: VecDeque<(Pattern, u64)>,
    unexpected: VecDeque<(Envelope, u64)>,
}

impl Model {
    fn take_posted(&mut self, envelope: &Envelope) -> Option<(Pattern, u64)> {
        let at = self.posted.iter().position(|(p, _)| p.accepts(envelope))?;
        self.posted.remove(at)
    }

    fn find_unexpected(&self, pattern: &Pattern) -> Option<usize> {
        self.unexpected.iter().position(|(e, _)| pattern.accepts(e))
    }

    fn take_unexpected(&mut self, pattern: &Pattern) -> Option<(Envelope, u64)> {
        self.unexpected.remove(self.find_unexpected(pattern)?)
    }

    fn of(&self, source: Rank) -> Vec<(Envelope, u64)> {
        let mut all: Vec<_> = self.unexpected.clone().into();
        all.retain(|(envelope, _)| envelope.source == source);
        all
    }
}

/// Both sides, and every id ever given out with its entry's serial number.
#[derive(Default)]
struct Pair {
    real: Matcher<u64, u64>,
    model: Model,
    posted: Vec<(PostedId, u64)>,
    unexpected: Vec<(UnexpectedId, u64)>,
    serial: u64,
}

impl Pair {
    fn post(&mut self, pattern: Pattern) {
        self.serial += 1;
        self.posted
            .push((self.real.post(pattern, self.serial), self.serial));
        self.model.posted.push_back((pattern, self.serial));
    }

    fn push(&mut self, envelope: Envelope) {
        self.serial += 1;
        let id = self.real.push_unexpected(envelope, self.serial);
        self.unexpected.push((id, self.serial));
        self.model.unexpected.push_back((envelope, self.serial));
    }

    fn perform(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Arrive(envelope) => {
                let taken = self.real.take_posted(envelope);
                prop_assert_eq!(taken, self.model.take_posted(&envelope));
                if taken.is_none() {
                    self.push(envelope);
                }
            }
            Operation::Receive(pattern) => {
                let taken = self.real.take_unexpected(&pattern);
                prop_assert_eq!(taken, self.model.take_unexpected(&pattern));
                if taken.is_none() {
                    self.post(pattern);
                }
            }
            Operation::Push(envelope) => self.push(envelope),
            Operation::Post(pattern) => self.post(pattern),
            Operation::Probe(pattern) => {
                let found = self.real.find_unexpected(&pattern);
                let found = found.map(|(id, envelope, value)| (id, *envelope, *value));
                let expected = self.model.find_unexpected(&pattern);
                let expected = expected.map(|at| {
                    let (envelope, serial) = self.model.unexpected[at];
                    (self.unexpected_id(serial), envelope, serial)
                });
                prop_assert_eq!(found, expected);
            }
            Operation::Cancel(which) => self.cancel(which)?,
            Operation::RemoveProbed(which) => self.remove_probed(which)?,
            Operation::Look(which) => self.look(which)?,
            Operation::List(source) => {
                let listed = self.real.unexpected_of(source);
                let listed: Vec<_> = listed.map(|(id, e, v)| (id, *e, *v)).collect();
                let expected = self.model.of(source).into_iter();
                let expected: Vec<_> = expected
                    .map(|(envelope, serial)| (self.unexpected_id(serial), envelope, serial))
                    .collect();
                prop_assert_eq!(listed, expected);
            }
        }
        prop_assert_eq!(self.real.posted_count(), self.model.posted.len());
        prop_assert_eq!(self.real.unexpected_count(), self.model.unexpected.len());
        Ok(())
    }

    fn unexpected_id(&self, serial: u64) -> UnexpectedId {
        let found = self.unexpected.iter().find(|(_, of)| *of == serial);
        found.expect("every serial number has an id").0
    }

    fn cancel(&mut self, which: Index) -> Result<(), TestCaseError> {
        if self.posted.is_empty() {
            return Ok(());
        }
        let (id, serial) = *which.get(&self.posted);
        let at = self.model.posted.iter().position(|(_, s)| *s == serial);
        prop_assert_eq!(self.real.cancel(id), at.map(|_| serial));
        if let Some(at) = at {
            self.model.posted.remove(at);
        }
        Ok(())
    }

    fn remove_probed(&mut self, which: Index) -> Result<(), TestCaseError> {
        if self.unexpected.is_empty() {
            return Ok(());
        }
        let (id, serial) = *which.get(&self.unexpected);
        let at = self.model.unexpected.iter().position(|(_, s)| *s == serial);
        let expected = at.and_then(|at| self.model.unexpected.remove(at));
        prop_assert_eq!(self.real.remove_unexpected(id), expected);
        Ok(())
    }

    fn look(&mut self, which: Index) -> Result<(), TestCaseError> {
        if self.unexpected.is_empty() {
            return Ok(());
        }
        let (id, serial) = *which.get(&self.unexpected);
        let there = self.model.unexpected.iter().any(|(_, s)| *s == serial);
        prop_assert_eq!(
            self.real.unexpected_value(id).copied(),
            there.then_some(serial)
        );
        Ok(())
    }

    /// Takes the remaining messages in the only order that is allowed.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for context in 0..2 {
            let pattern = Pattern {
                context,
                source: None,
                tag: None,
            };
            loop {
                let taken = self.real.take_unexpected(&pattern);
                prop_assert_eq!(taken, self.model.take_unexpected(&pattern));
                if taken.is_none() {
                    break;
                }
            }
        }
        prop_assert_eq!(self.real.unexpected_count(), 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(seed::config(2_000))]

    #[test]
    fn matches_as_the_linear_model_does(
        operations in prop::collection::vec(operation(), 0..200)
    ) {
        let mut pair = Pair::default();
        for operation in operations {
            pair.perform(operation)?;
        }
        pair.drain()?;
    }
}
