//! Lengths at which transports change their ways.

use crate::workload::prng::Prng;

/// Where eager and fragmented ways and rendezvous begin, more or less.
const THRESHOLDS: [usize; 10] = [
    64,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];

/// A random length, at most `most`: often small, often next to a power of two
/// or a threshold.
pub fn random(prng: &mut Prng, most: usize) -> usize {
    let bytes = match prng.below(12) {
        0 => 0,
        1 => 1,
        2..=5 => prng.between(2, 256),
        6 | 7 => {
            let exponent = prng.below(most.max(1).ilog2() as usize + 1);
            around(prng, 1 << exponent)
        }
        8 | 9 => {
            let below: Vec<usize> = THRESHOLDS
                .into_iter()
                .filter(|&threshold| threshold <= most)
                .collect();
            let threshold = if below.is_empty() {
                most
            } else {
                prng.pick(&below)
            };
            around(prng, threshold)
        }
        10 => prng.below(most.min(8 << 10) + 1),
        _ => prng.below(most + 1),
    };
    bytes.min(most)
}

/// `bytes`, or a little less or more.
fn around(prng: &mut Prng, bytes: usize) -> usize {
    (bytes + prng.below(5)).saturating_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_interesting_lengths_appear() {
        let mut prng = Prng::new(1);
        let seen: HashSet<usize> = (0..20_000).map(|_| random(&mut prng, 1 << 20)).collect();
        for threshold in [1, 2, 128].into_iter().chain(THRESHOLDS) {
            for bytes in [threshold - 1, threshold, threshold + 1] {
                assert!(seen.contains(&bytes) || bytes > 1 << 20, "{bytes}");
            }
        }
        assert!(seen.iter().all(|&bytes| bytes <= 1 << 20));
    }

    #[test]
    fn small_limits_hold() {
        let mut prng = Prng::new(2);
        for most in 0..10 {
            for _ in 0..200 {
                assert!(random(&mut prng, most) <= most);
            }
        }
    }
}
