//! Maps (context, source, tag) to the list of the entries with exactly this envelope.
//!
//! An open-addressed table with linear probing. It holds one place per *distinct* envelope, so a
//! thousand entries of one envelope make neither long probes nor a big table. When the last entry
//! of a list is removed, its place is freed by shifting its followers back: no tombstones
//! accumulate.

use super::pool::List;
use refrain_ring::Rank;

/// Number of places in a new table; a power of two.
const INITIAL_PLACES: usize = 64;

/// The matching part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Communication context; messages never cross contexts.
    pub context: u32,
    /// The sender.
    pub source: Rank,
    /// The tag given by the sender.
    pub tag: i32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    envelope: Envelope,
    list: List,
}

/// The table. At most half of its places are taken.
#[derive(Debug)]
pub(super) struct Directory {
    places: Vec<Place>,
    taken: usize,
}

const VACANT: Place = Place {
    envelope: Envelope {
        context: 0,
        source: Rank(0),
        tag: 0,
    },
    list: List::EMPTY,
};

impl Directory {
    pub(super) fn new() -> Self {
        Self {
            places: vec![VACANT; INITIAL_PLACES],
            taken: 0,
        }
    }

    /// Whether there are no lists.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The place of the list of this envelope; valid until the next change.
    #[inline]
    pub(super) fn place(&self, envelope: &Envelope) -> Option<usize> {
        if self.taken == 0 {
            return None;
        }
        let at = self.find(envelope);
        (!self.places[at].list.is_empty()).then_some(at)
    }

    /// The place of this envelope and the oldest entry there.
    #[inline]
    pub(super) fn oldest(&self, envelope: &Envelope) -> Option<(usize, u32)> {
        let place = self.place(envelope)?;
        Some((place, self.places[place].list.first()?))
    }

    /// Lets `append` put an entry at the end of the list of this envelope.
    #[inline]
    pub(super) fn append<T>(
        &mut self,
        envelope: &Envelope,
        append: impl FnOnce(&mut List) -> T,
    ) -> T {
        let at = self.find(envelope);
        let place = &mut self.places[at];
        let is_new = place.list.is_empty();
        place.envelope = *envelope;
        let appended = append(&mut place.list);
        if is_new {
            self.taken += 1;
            if self.taken * 2 > self.places.len() {
                self.grow();
            }
        }
        appended
    }

    /// Lets `unlink` take an entry off the list of this place.
    #[inline]
    pub(super) fn unlink<T>(&mut self, place: usize, unlink: impl FnOnce(&mut List) -> T) -> T {
        let list = &mut self.places[place].list;
        let unlinked = unlink(list);
        if list.is_empty() {
            self.taken -= 1;
            self.close_gap(place);
        }
        unlinked
    }

    /// The place of this envelope, or the vacant one where it would go.
    #[inline]
    fn find(&self, envelope: &Envelope) -> usize {
        let mut at = self.home(envelope);
        loop {
            let place = &self.places[at];
            if place.list.is_empty() || place.envelope == *envelope {
                return at;
            }
            at = (at + 1) & self.mask();
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    #[inline]
    fn home(&self, envelope: &Envelope) -> usize {
        hash(envelope) as usize & self.mask()
    }

    /// Moves followers of the vacated place `gap` back, so that no search ends at a gap before the
    /// place that it looks for.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.mask();
        let mut at = (gap + 1) & mask;
        while !self.places[at].list.is_empty() {
            let home = self.home(&self.places[at].envelope);
            let reaches_gap = (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask);
            if reaches_gap {
                self.places[gap] = self.places[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.places[gap].list = List::EMPTY;
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = vec![VACANT; self.places.len() * 2];
        for place in core::mem::replace(&mut self.places, doubled) {
            if !place.list.is_empty() {
                let vacant = self.find(&place.envelope);
                self.places[vacant] = place;
            }
        }
    }
}

/// Multiplies to 128 bits and folds the halves, so that every bit of the
/// envelope reaches the low bits, which choose the place. Fixed constants (the
/// fractions of the golden ratio and of the square root of 3): the same on
/// every rank and in every run.
#[inline]
fn hash(envelope: &Envelope) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    const ROOT_3: u64 = 0xbb67_ae85_84ca_a73b;
    let name = u64::from(envelope.source.0) << 32 | u64::from(envelope.tag.cast_unsigned());
    let context = u64::from(envelope.context).wrapping_mul(ROOT_3) ^ GOLDEN;
    let product = u128::from(name ^ ROOT_3) * u128::from(context | 1);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::*;

    impl Directory {
        pub(in super::super) fn places(&self) -> usize {
            self.places.len()
        }

        fn probes(&self, envelope: &Envelope) -> usize {
            let at = self.find(envelope);
            (at.wrapping_sub(self.home(envelope)) & self.mask()) + 1
        }
    }

    /// The envelopes of typical programs: halos (many sources, few tags), task farms (few sources,
    /// many tags), libraries (many contexts).
    fn shapes() -> [(u32, u32, i32); 4] {
        [(1, 4096, 1), (1, 1, 4096), (4096, 1, 1), (16, 16, 16)]
    }

    fn envelopes((contexts, sources, tags): (u32, u32, i32)) -> Vec<Envelope> {
        let mut all = Vec::new();
        for context in 0..contexts {
            for source in (0..sources).map(Rank) {
                all.extend((0..tags).map(|tag| Envelope {
                    context,
                    source,
                    tag,
                }));
            }
        }
        all
    }

    #[test]
    fn the_usual_envelopes_spread_well() {
        for shape in shapes() {
            let mut directory = Directory::new();
            let mut pool = Pool::<(), 1>::new();
            let envelopes = envelopes(shape);
            for (number, envelope) in (0..).zip(&envelopes) {
                directory.append(envelope, |list| pool.append(number, (), [list]));
            }
            let probes: usize = envelopes.iter().map(|e| directory.probes(e)).sum();
            assert!(
                probes <= envelopes.len() * 2,
                "{probes} probes for {} envelopes of shape {shape:?}",
                envelopes.len()
            );
        }
    }

    #[test]
    fn searches_survive_growth_and_gaps() {
        for shape in shapes() {
            let mut directory = Directory::new();
            let mut pool = Pool::<Envelope, 1>::new();
            let envelopes = envelopes(shape);
            for (number, envelope) in (0..).zip(&envelopes) {
                directory.append(envelope, |list| pool.append(number, *envelope, [list]));
            }
            assert!(directory.taken * 2 <= directory.places.len());
            // Every third envelope is removed, then every second, then the rest.
            for (step, gone) in [3, 2, 1].into_iter().enumerate() {
                for envelope in envelopes.iter().step_by(gone) {
                    if let Some((place, index)) = directory.oldest(envelope) {
                        directory.unlink(place, |list| pool.take(index, [list]));
                    }
                }
                for (number, envelope) in envelopes.iter().enumerate() {
                    let there = [3, 2, 1][..=step].iter().all(|gone| number % gone != 0);
                    let found = directory
                        .oldest(envelope)
                        .map(|(_, index)| *pool.get(index));
                    assert_eq!(found, there.then_some(*envelope));
                }
            }
            assert_eq!((directory.taken, pool.count()), (0, 0));
        }
    }
}
