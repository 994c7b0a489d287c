//! All queue pairs of an endpoint, by slot and by number.

use super::pair::{Pair, PairState};
use super::work_request::PairId;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// Queue pairs, including those that are stopped and not yet destroyed.
pub(super) struct Pairs {
    slots: Vec<Option<Pair>>,
    /// The id of the next queue pair of each slot.
    next: Vec<PairId>,
    free: Vec<u16>,
    by_number: HashMap<u32, PairId, BuildHasherDefault<NumberHasher>>,
    draining: usize,
}

/// A simple hash: the device chooses the numbers of queue pairs, so no attacker can make them
/// collide.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

impl Pairs {
    /// Room for `count` queue pairs, at most 2^16.
    pub(super) fn new(count: usize) -> Self {
        Self {
            slots: (0..count).map(|_| None).collect(),
            next: (0..count).map(|slot| PairId::first(slot as u16)).collect(),
            free: (0..count).rev().map(|slot| slot as u16).collect(),
            by_number: HashMap::default(),
            draining: 0,
        }
    }

    /// The id of the next queue pair, if a slot is free.
    pub(super) fn vacancy(&self) -> Option<PairId> {
        self.free.last().map(|slot| self.next[usize::from(*slot)])
    }

    /// Adds a queue pair that has the id of [`Pairs::vacancy`].
    pub(super) fn insert(&mut self, pair: Pair) {
        let slot = self.free.pop();
        debug_assert_eq!(slot, Some(pair.id.slot));
        self.by_number.insert(pair.offer.qpn, pair.id);
        let slot = usize::from(pair.id.slot);
        self.next[slot] = pair.id.next();
        self.slots[slot] = Some(pair);
    }

    #[inline]
    pub(super) fn get(&self, id: PairId) -> Option<&Pair> {
        let pair = self.slots.get(usize::from(id.slot))?.as_ref();
        pair.filter(|pair| pair.id == id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: PairId) -> Option<&mut Pair> {
        let pair = self.slots.get_mut(usize::from(id.slot))?.as_mut();
        pair.filter(|pair| pair.id == id)
    }

    /// The queue pair with this number of the device.
    #[inline]
    pub(super) fn by_number(&self, number: u32) -> Option<PairId> {
        self.by_number.get(&number).copied()
    }

    /// Removes a queue pair. Its slot and its number may be reused.
    pub(super) fn take(&mut self, id: PairId) -> Option<Pair> {
        self.get(id)?;
        let pair = self.slots[usize::from(id.slot)].take()?;
        self.free.push(id.slot);
        self.by_number.remove(&pair.offer.qpn);
        self.draining -= usize::from(matches!(pair.state, PairState::Draining { .. }));
        Some(pair)
    }

    /// Counts a queue pair that was stopped.
    pub(super) fn gave_up_one(&mut self) {
        self.draining += 1;
    }

    /// Number of queue pairs that are stopped and not yet destroyed.
    pub(super) fn draining(&self) -> usize {
        self.draining
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        self.slots.iter_mut().flatten()
    }

    /// Removes all queue pairs, to be destroyed.
    pub(super) fn take_all(&mut self) -> Vec<Pair> {
        self.by_number.clear();
        self.slots.iter_mut().filter_map(Option::take).collect()
    }
}
