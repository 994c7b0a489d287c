//! The collectives of a program: their order among its other calls, contributions and results.
//!
//! As in the runtime, a rank counts the collectives of each of its groups and the contexts that it
//! has given to groups; both belong to its checkpoint. COLL-2, COLL-3

use super::Call;
use super::beginning::Step;
use super::rounds::{Asked, Kind, Program};
use super::stamp::fold;
use crate::collective::Collective;
use fastrand::Rng;
use std::rc::Rc;
use std::sync::Arc;

/// The context of the group of all ranks.
const CONTEXT_ALL: u32 = 0x8000_0000;

/// What a program knows of a group of which it is a member.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Group {
    /// `None`: the group is not made yet.
    context: Option<u32>,
    /// Collectives begun so far.
    begun: i32,
}

/// The groups of a program.
#[derive(Clone, Debug, Hash)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Contexts that this rank has given.
    given: u32,
}

impl Groups {
    /// Of a program that begins: the first group is that of all ranks.
    pub fn new(count: usize) -> Self {
        let group = |index| Group {
            context: (index == 0).then_some(CONTEXT_ALL),
            begun: 0,
        };
        Self {
            groups: (0..count).map(group).collect(),
            given: 1,
        }
    }
}

impl Program {
    /// Inserts the collectives of the round into its steps: each group's in the order of the plan.
    /// A rank waits at once for some of those behind which it has begun all that come before them
    /// in the plan.
    pub(super) fn insert_collectives(&self, steps: &mut Vec<Step>, seed: u64) {
        let collectives = &self.script.rounds[self.round].collectives;
        let mut chance = Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..collectives.len()).collect();
        for at in 1..order.len() {
            let [one, other] = [order[at - 1], order[at]].map(|index| &collectives[index]);
            let may_swap = one.group != other.group && one.makes.is_none();
            if may_swap && chance.bool() {
                order.swap(at - 1, at);
            }
        }
        let mut at = 0;
        for (begun, index) in order.iter().copied().enumerate() {
            let before = order[..begun].iter().filter(|other| **other < index);
            let may_wait = before.count() == index;
            let waits = collectives[index].makes.is_some() || may_wait && chance.u32(0..4) == 0;
            at = chance.usize(at..=steps.len());
            steps.insert(at, Step::Collective { index, waits });
            at += 1;
        }
    }

    pub(super) fn begin_collective(&mut self, index: usize, waits: bool) -> Option<Call> {
        let script = Rc::clone(&self.script);
        let joined = &script.rounds[self.round].collectives[index];
        let members = &script.groups[joined.group];
        let part = members.part(joined.shape)?;
        let group = &mut self.groups.groups[joined.group];
        let (context, number) = (group.context?, group.begun);
        group.begun += 1;
        let mut word = fold(
            self.state,
            u64::from(joined.id) << 32 | u64::from(self.rank.0),
        );
        let input = match joined.makes {
            Some(_) => self.next_context().to_le_bytes().to_vec(),
            None => part.contribution(|| {
                word = fold(word, 1);
                word
            }),
        };
        self.asked = Asked::Kind(Kind::Collective {
            group: joined.group,
            makes: joined.makes,
            waits,
        });
        Some(Call::Collective(Rc::new(Collective {
            id: joined.id,
            part,
            members: Arc::clone(&members.ranks),
            context,
            number,
            input,
        })))
    }

    /// The context that this rank would give next.
    fn next_context(&self) -> u64 {
        let size = self.script.groups[0].ranks.len() as u32;
        u64::from(CONTEXT_ALL + self.groups.given * size + self.rank.0)
    }

    /// The collective has told all members of `parent` their next contexts: the new group has that
    /// of its first member.
    pub(super) fn make_group(&mut self, parent: usize, made: usize, contexts: &[u8]) {
        let script = Rc::clone(&self.script);
        let [parent, members] = [parent, made].map(|group| &script.groups[group]);
        let Some(first) = members.ranks.first() else {
            return;
        };
        let place = parent.ranks.iter().position(|rank| rank == first);
        let context = place.and_then(|place| contexts.as_chunks::<8>().0.get(place));
        if members.me == Some(0) {
            self.groups.given += 1;
        }
        self.groups.groups[made].context = context.map(|it| u64::from_le_bytes(*it) as u32);
    }

    /// Forgets how many contexts it has given, as a planted bug does.
    pub fn give_contexts_anew(&mut self) {
        self.groups.given = 1;
    }

    /// Forgets how many collectives have begun in its groups, as a planted bug does.
    pub fn count_collectives_anew(&mut self) {
        self.groups
            .groups
            .iter_mut()
            .for_each(|group| group.begun = 0);
    }
}
