//! Lengths at which transports change the protocol of a message.

use crate::workload::prng::Prng;

/// Approximate thresholds between eager, fragmented and rendezvous messages.
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

/// Distances of lengths from a threshold: 0, 1, 2, and lengths of headers in a slot or frame (48
/// and 64 bytes, their sum, twice the latter).
const DISTANCES: [usize; 7] = [0, 1, 2, 48, 64, 112, 128];

/// A random length of at most `most`: often small, often near a power of two or a threshold.
pub fn random(prng: &mut Prng, most: usize) -> usize {
    let bytes = match prng.below(12) {
        0 => 0,
        1 => 1,
        2..=5 => prng.between(2, 256),
        6 | 7 => beside_a_power(prng, 1, most),
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
            beside(prng, threshold)
        }
        10 => prng.below(most.min(8 << 10) + 1),
        _ => prng.below(most + 1),
    };
    bytes.min(most)
}

/// A random length from `least` to `most`, half of the time near a power of two.
pub fn long(prng: &mut Prng, least: usize, most: usize) -> usize {
    let bytes = if prng.chance(2) {
        beside_a_power(prng, least, most)
    } else {
        prng.between(least, most)
    };
    bytes.clamp(least, most)
}

fn beside_a_power(prng: &mut Prng, least: usize, most: usize) -> usize {
    let exponents = (least.max(1).ilog2() as usize, most.max(1).ilog2() as usize);
    let exponent = prng.between(exponents.0, exponents.1);
    beside(prng, 1 << exponent)
}

/// `bytes` minus or plus one of the distances.
fn beside(prng: &mut Prng, bytes: usize) -> usize {
    let distance = prng.pick(&DISTANCES);
    if prng.chance(2) {
        bytes + distance
    } else {
        bytes.saturating_sub(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn around(edge: usize) -> impl Iterator<Item = usize> {
        DISTANCES
            .into_iter()
            .flat_map(move |distance| [edge.saturating_sub(distance), edge + distance])
    }

    #[test]
    fn all_interesting_lengths_appear() {
        let mut prng = Prng::new(1);
        let most = 1 << 20;
        let seen: HashSet<usize> = (0..40_000).map(|_| random(&mut prng, most)).collect();
        let powers = (0..=20).map(|exponent| 1 << exponent);
        for edge in powers.chain(THRESHOLDS) {
            for bytes in around(edge) {
                assert!(seen.contains(&bytes) || bytes > most, "{bytes}");
            }
        }
        assert!(seen.iter().all(|&bytes| bytes <= most));
    }

    #[test]
    fn long_lengths_keep_between_their_ends() {
        let mut prng = Prng::new(3);
        let (least, most) = (1 << 20, 8 << 20);
        let seen: HashSet<usize> = (0..4000).map(|_| long(&mut prng, least, most)).collect();
        for bytes in [1 << 20, 2 << 20, 4 << 20, 8 << 20]
            .into_iter()
            .flat_map(around)
        {
            let is_possible = (least..=most).contains(&bytes);
            assert_eq!(seen.contains(&bytes), is_possible, "{bytes}");
        }
        assert!(seen.iter().all(|bytes| (least..=most).contains(bytes)));
        assert_eq!(long(&mut prng, 5, 5), 5);
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
