//! The contents of messages: a stamp, and bytes that follow from it, so that every changed byte is
//! detected; and a few arbitrary bytes.

use crate::plan::STAMP_BYTES;
use core::ops::Range;
use refrain_ring::{Incarnation, Rank};
use thiserror::Error;

/// The beginning of each message; it identifies the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its sender.
    pub source: Rank,
    /// Its receiver.
    pub destination: Rank,
    /// Number of the message in this pair of ranks, from 0.
    pub number: u64,
    /// A hash of all answers that the sender's program has got.
    pub state: u64,
}

/// The arbitrary bytes of a message that is long enough: no program sets or reads them, and they
/// differ between lives of the sender. REC-8
const GARBAGE: Range<usize> = STAMP_BYTES..STAMP_BYTES + 4;

/// Sets the arbitrary bytes of a message to those of this life.
pub fn litter(payload: &mut [u8], incarnation: Incarnation) {
    if let Some(garbage) = payload.get_mut(GARBAGE) {
        garbage
            .iter_mut()
            .for_each(|byte| *byte ^= incarnation.0 as u8);
    }
}

/// The received part of a message's arbitrary bytes.
pub fn garbage(payload: &[u8]) -> &[u8] {
    let behind = payload.get(GARBAGE.start..).unwrap_or_default();
    &behind[..behind.len().min(GARBAGE.len())]
}

/// A copy of a message with zeros as arbitrary bytes.
pub fn without_garbage(payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    let end = payload.len().min(GARBAGE.end);
    if let Some(garbage) = payload.get_mut(GARBAGE.start..end) {
        garbage.fill(0);
    }
    payload
}

/// Whether `part` equals the bytes that were sent at `offset`, except arbitrary bytes.
pub fn is_part(sent: &[u8], offset: usize, part: &[u8]) -> bool {
    let Some(sent) = sent.get(offset..offset + part.len()) else {
        return false;
    };
    let mut bytes = (offset..).zip(sent.iter().zip(part));
    bytes.all(|(at, (one, other))| one == other || GARBAGE.contains(&at))
}

/// A payload that differs from what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// The payload is shorter than a stamp.
    #[error("{0} bytes are less than a stamp")]
    Short(usize),
    /// The first byte that does not follow from the stamp and the length.
    #[error("byte {0} is not what its stamp says")]
    Byte(usize),
}

impl Stamp {
    /// The stamp as bytes.
    pub fn encode(&self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[0..4].copy_from_slice(&self.source.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.destination.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state.to_le_bytes());
        bytes
    }

    /// The stamp at the beginning of a payload; `None`: the payload is too short.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let ranks = word(0)?;
        Some(Self {
            source: Rank(ranks as u32),
            destination: Rank((ranks >> 32) as u32),
            number: word(8)?,
            state: word(16)?,
        })
    }
}

/// The payload of a message of `bytes` bytes (at least [`STAMP_BYTES`])
/// with this stamp.
pub fn payload(stamp: &Stamp, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes + 8);
    payload.extend_from_slice(&stamp.encode());
    let mut words = Words::new(stamp, bytes as u64);
    while payload.len() < bytes {
        payload.extend_from_slice(&words.next().to_le_bytes());
    }
    payload.truncate(bytes.max(STAMP_BYTES));
    payload
}

/// Verifies a payload and returns its stamp. `bytes`: length of the sent message; a truncated
/// payload is verified as far as it goes.
///
/// # Errors
/// When a byte differs from what was sent.
pub fn verify(payload: &[u8], bytes: u64) -> Result<Stamp, Damage> {
    let stamp = Stamp::decode(payload).ok_or(Damage::Short(payload.len()))?;
    let mut words = Words::new(&stamp, bytes);
    for (index, chunk) in payload[STAMP_BYTES..].chunks(8).enumerate() {
        let expected = words.next().to_le_bytes();
        if *chunk != expected[..chunk.len()] {
            let begin = STAMP_BYTES + 8 * index;
            let mut bytes = (begin..).zip(chunk.iter().zip(expected));
            let wrong = bytes.find(|(at, (one, other))| *one != other && !GARBAGE.contains(at));
            if let Some((at, _)) = wrong {
                return Err(Damage::Byte(at));
            }
        }
    }
    Ok(stamp)
}

/// Folds a word into a hash.
pub(super) fn fold(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The words after a stamp.
struct Words(u64);

impl Words {
    fn new(stamp: &Stamp, bytes: u64) -> Self {
        let pair = u64::from(stamp.source.0) << 32 | u64::from(stamp.destination.0);
        let of_stamp = [pair, stamp.number, stamp.state, bytes];
        Self(of_stamp.into_iter().fold(0, fold))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ word >> 27
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let stamp = Stamp {
            source: Rank(3),
            destination: Rank(1),
            number: 1 << 40,
            state: 77,
        };
        for bytes in [24, 25, 31, 32, 100] {
            let whole = payload(&stamp, bytes);
            assert_eq!(whole.len(), bytes);
            assert_eq!(verify(&whole, bytes as u64), Ok(stamp));
            assert_eq!(verify(&whole[..24], bytes as u64), Ok(stamp));
            let mut littered = whole.clone();
            litter(&mut littered, Incarnation(3));
            assert_eq!(littered == whole, bytes < GARBAGE.end);
            assert_eq!(verify(&littered, bytes as u64), Ok(stamp));
            for at in (0..bytes).filter(|at| !GARBAGE.contains(at)) {
                let mut other = whole.clone();
                other[at] ^= 1;
                // A message that is only a stamp has no bytes to verify the stamp.
                let found = verify(&other, bytes as u64);
                assert_ne!(found, Ok(stamp), "byte {at} of {bytes}");
                assert!(bytes < 32 || found.is_err(), "byte {at} of {bytes}");
            }
        }
        assert_eq!(verify(&[0; 23], 23), Err(Damage::Short(23)));
    }
}
