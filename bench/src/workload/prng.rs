//! Random numbers of the workloads: splitmix64 (Steele, Lea and Flood, OOPSLA 2014), the same on
//! every platform.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64: a bijection that changes about half of the
/// bits when one bit of the input changes.
#[must_use]
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The `index`-th number of the sequence that starts at `seed`.
#[must_use]
pub fn nth(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA)))
}

/// A seed derived from several numbers in order.
#[must_use]
pub fn combine(parts: &[u64]) -> u64 {
    parts.iter().fold(GAMMA, |seed, part| {
        mix(seed.rotate_left(23) ^ mix(part.wrapping_add(GAMMA)))
    })
}

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// The sequence that starts at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number from 0 to `bound - 1`; 0 for a bound of 0. The bias of using the high half of a
    /// product is below 2^-32 for the bounds in use.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * bound as u128;
        (wide >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True with probability 1 / `one_in`.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// One of the items, which must not be empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Shuffles by the algorithm of Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Merges sequences at random; each keeps its own order.
    pub fn merge<T>(&mut self, sequences: Vec<Vec<T>>) -> Vec<T> {
        let mut left: usize = sequences.iter().map(Vec::len).sum();
        let mut merged = Vec::with_capacity(left);
        let mut sequences: Vec<_> = sequences.into_iter().map(Vec::into_iter).collect();
        while left > 0 {
            // Weighted by the remaining length of each sequence, so that all merges are equally
            // likely.
            let mut at = self.below(left);
            for sequence in &mut sequences {
                if at < sequence.len() {
                    merged.extend(sequence.next());
                    break;
                }
                at -= sequence.len();
            }
            left -= 1;
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The first numbers of the published C code for the seed 1234567.
        let mut prng = Prng::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(
            [prng.next_u64(), prng.next_u64(), prng.next_u64()],
            expected
        );
        assert_eq!(
            [nth(1_234_567, 0), nth(1_234_567, 1), nth(1_234_567, 2)],
            expected
        );
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut prng = Prng::new(7);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[prng.below(5)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert_eq!(prng.below(0), 0);
    }

    #[test]
    fn merge_keeps_all_and_each_order() {
        let mut prng = Prng::new(3);
        for _ in 0..50 {
            let merged = prng.merge(vec![vec![0, 1, 2, 3], vec![], vec![10, 11, 12]]);
            let (small, large): (Vec<i32>, Vec<i32>) = merged.into_iter().partition(|&x| x < 10);
            assert_eq!(small, [0, 1, 2, 3]);
            assert_eq!(large, [10, 11, 12]);
        }
    }

    #[test]
    fn combine_depends_on_order() {
        assert_ne!(combine(&[1, 2]), combine(&[2, 1]));
        assert_ne!(combine(&[0]), combine(&[0, 0]));
    }
}
