//! The only source of randomness: splitmix64 (Steele, Lea and Flood, 2014).

/// A seeded sequence of numbers.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `most`, both included.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        match most.checked_add(1) {
            // The bias is far below what a simulation can notice.
            Some(count) => self.next() % count,
            None => self.next(),
        }
    }

    /// An index below `count`, which is not 0.
    pub(super) fn index(&mut self, count: usize) -> usize {
        self.up_to(count as u64 - 1) as usize
    }

    /// True in `per_mille` of 1000 cases.
    pub(super) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille != 0 && self.next() % 1000 < u64::from(per_mille)
    }
}
