//! Bytes made from a seed, and hashes of bytes.

use super::prng::{mix, nth};

/// Fills `bytes` with the payload of `seed`. A shorter payload is a prefix of a longer one of the
/// same seed.
pub fn fill(seed: u64, bytes: &mut [u8]) {
    let mut index = 0;
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&nth(seed, index).to_le_bytes());
        index += 1;
    }
    let rest = words.into_remainder();
    let last = nth(seed, index).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// The payload of `seed`.
#[must_use]
pub fn make(seed: u64, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    fill(seed, &mut payload);
    payload
}

/// A hash of `bytes` that depends on their order and number.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut hash = mix(bytes.len() as u64 ^ 0x5265_6672_6169_6e00);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
        hash = mix(hash.rotate_left(5) ^ word);
    }
    for &byte in words.remainder() {
        hash = mix(hash.rotate_left(5) ^ u64::from(byte));
    }
    hash
}

/// The first offset at which two byte strings differ.
#[must_use]
pub fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    let common = left.iter().zip(right).position(|(a, b)| a != b);
    Some(common.unwrap_or(left.len().min(right.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_payload_is_the_beginning_of_a_longer_one() {
        let long = make(5, 100);
        for bytes in 0..100 {
            assert_eq!(make(5, bytes), &long[..bytes]);
        }
        assert_ne!(make(6, 100), long);
    }

    #[test]
    fn hash_sees_length_order_and_every_bit() {
        let bytes = make(1, 37);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(hash(&changed), hash(&bytes), "byte {at}");
        }
        assert_ne!(hash(&[0; 3]), hash(&[0; 4]));
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
    }

    #[test]
    fn first_difference_finds_place_and_length() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"axc"), Some(1));
        assert_eq!(first_difference(b"abc", b"ab"), Some(2));
    }
}
