//! What a rank knows of a group whose collectives' results are kept: who closes its collectives, and
//! which ones are finished, closed, gone and covered.

use refrain_ring::Rank;
use refrain_transport::engine::ResultName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Collectives of each kind of call: blocking ones, and those that were begun. COLL-2
pub(super) const KINDS: usize = 2;

/// The first collective of each kind for which something does not hold.
pub(super) type Until = [u64; KINDS];

/// The name of a collective in its group, if results can be kept for it: its number among those of
/// its kind, which never begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name(pub(super) u64);

impl Name {
    /// Bits of the number in the tags of messages; above them is the kind. COLL-2
    const TAG_BITS: u32 = 29;

    /// Of the collective with this number among the blocking ones, or among those that were begun.
    pub fn new(number: u64, is_begun: bool) -> Self {
        Self(number << 1 | u64::from(is_begun))
    }

    /// The name of a result of this collective.
    pub(in crate::collective) fn of_result(self, context: u32, owner: Option<u32>) -> ResultName {
        ResultName {
            context,
            collective: self.0,
            owner: owner_tag(owner),
        }
    }

    pub(super) fn kind(self) -> usize {
        (self.0 & 1) as usize
    }

    pub(super) fn number(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn is_before(self, until: &Until) -> bool {
        self.number() < until[self.kind()]
    }
}

/// −1: it is the same at all places.
pub(super) fn owner_tag(owner: Option<u32>) -> i32 {
    owner.map_or(-1, |place| place as i32)
}

/// What a rank knows of one of its groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// By place; empty before the first collective.
    pub members: Arc<[Rank]>,
    pub me: u32,
    /// Collectives that this rank has finished.
    pub finished: Until,
    /// Beyond `finished`: finished before an earlier one.
    pub ahead: BTreeSet<Name>,
    /// Work since the closers were told.
    pub untold: u64,
    /// By closer: what it has closed.
    pub closed_by: BTreeMap<Rank, Until>,
    /// For a closer: what members have finished, and what it has told to be closed.
    pub finished_by: BTreeMap<Rank, Until>,
    pub told_closed: Until,
    /// What all members have finished, in any life: its results may be given.
    pub known_closed: Until,
    /// Collectives whose messages this rank, or any member that has told so, has freed.
    pub gone: Until,
    /// For those that keep results: what checkpoints of members cover.
    pub covered_by: BTreeMap<Rank, Until>,
}

/// The least of all.
pub(super) fn least<'a>(all: impl Iterator<Item = Option<&'a Until>>) -> Until {
    all.fold([u64::MAX; KINDS], |least, until| {
        let until = until.unwrap_or(&[0; KINDS]);
        core::array::from_fn(|kind| least[kind].min(until[kind]))
    })
}

pub(super) fn raise(until: &mut Until, name: Name) {
    let until = &mut until[name.kind()];
    *until = (*until).max(name.number());
}

/// As messages: the first one for which something does not hold.
pub(super) fn names(until: Until) -> [Name; KINDS] {
    [Name::new(until[0], false), Name::new(until[1], true)]
}

impl Group {
    /// The members that close collectives, `failures` + 1 of them, as far apart by place as possible.
    pub fn closers(&self, failures: u32) -> impl Iterator<Item = Rank> {
        let size = self.members.len();
        let count = size.min(failures as usize + 1);
        (0..count).map(move |index| self.members[index * size / count])
    }

    /// The members within this distance around the ring, in both directions.
    pub fn neighbours(&self, distance: u32) -> impl Iterator<Item = Rank> {
        let (size, me) = (self.members.len() as u32, self.me);
        let near = distance.min(size.saturating_sub(1));
        let places = (1..=near).flat_map(move |by| [me + by, me + size - by]);
        places.map(move |place| self.members[(place % size) as usize])
    }

    /// The members that keep the result of a place that has one for itself.
    pub fn keepers(&self, owner: u32, failures: u32) -> impl Iterator<Item = Rank> {
        let size = self.members.len() as u32;
        let distances = 0..=failures.min(size - 1);
        distances.map(move |by| self.members[((owner + by) % size) as usize])
    }

    /// What all closers have closed: its messages may be freed.
    pub fn closed_by_all(&self, failures: u32) -> Until {
        least(self.closers(failures).map(|it| self.closed_by.get(&it)))
    }

    /// Whether this rank has finished a collective.
    pub fn has_finished(&self, name: Name) -> bool {
        name.is_before(&self.finished) || self.ahead.contains(&name)
    }

    /// Whether this rank has finished the collective whose messages have this tag. COLL-2
    pub fn is_over(&self, tag: i32) -> bool {
        let number = tag as u64;
        let kind = match number >> Name::TAG_BITS {
            0 => 0,
            1 => 1,
            // Prepared in order: its messages are kept.
            _ => return false,
        };
        let before = self.finished[kind].wrapping_sub(number) % (1 << Name::TAG_BITS);
        let is_ahead = || {
            let number = self.finished[kind] + ((1 << Name::TAG_BITS) - before);
            self.ahead.contains(&Name::new(number, kind == 1))
        };
        (1..1 << (Name::TAG_BITS - 1)).contains(&before) || is_ahead()
    }

    pub fn finish(&mut self, name: Name) {
        if self.ahead.is_empty() && name.number() == self.finished[name.kind()] {
            self.finished[name.kind()] += 1;
            return;
        }
        self.ahead.insert(name);
        for next in names(self.finished) {
            let mut next = next;
            while self.ahead.remove(&next) {
                self.finished[next.kind()] += 1;
                next = names(self.finished)[next.kind()];
            }
        }
    }
}
