//! The content of frames: everything follows from sender, receiver and number.

use refrain_ring::{Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;

/// One frame of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub source: Rank,
    pub incarnation: Incarnation,
    pub destination: Rank,
    /// The life of the addressee for which the frame is.
    pub to_incarnation: Incarnation,
    pub number: u64,
}

/// A well-mixed number (splitmix64).
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Numbers that look random and follow from a seed.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0) % limit
    }
}

impl Name {
    pub fn chance(self, salt: u64) -> u64 {
        let identity = u64::from(self.source.0) << 48
            | u64::from(self.incarnation.0) << 32
            | u64::from(self.destination.0) << 16
            | u64::from(self.to_incarnation.0);
        mixed(mixed(identity ^ salt.rotate_left(60)) ^ self.number)
    }

    /// Each length of the list comes with each kind of record.
    pub fn payload_bytes(self, sizes: &[usize]) -> usize {
        let count = sizes.len() as u64;
        // Each round through the list begins elsewhere.
        let round = self.number / count;
        sizes[((self.number + round * 5) % count) as usize]
    }

    /// Half of the records are whole messages, which go behind a short header.
    pub fn header(self, payload_bytes: usize) -> RecordHeader {
        let chance = self.chance(1);
        let is_whole = chance.is_multiple_of(2);
        RecordHeader {
            payload_bytes: payload_bytes as u32,
            kind: if is_whole {
                RecordKind::Eager
            } else {
                RecordKind::Fragment
            },
            flags: (chance >> 8) as u16 & RecordHeader::WANT_ACK,
            incarnation: self.incarnation,
            source: self.source,
            ssn: Ssn(self.number),
            context: (chance >> 16) as u32,
            tag: (chance >> 32) as i32,
            extent: payload_bytes as u64 + if is_whole { 0 } else { chance >> 1 },
        }
    }

    pub fn fill(self, payload: &mut [u8]) {
        let seed = self.chance(2);
        for (index, bytes) in payload.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&word(seed, index)[..bytes.len()]);
        }
    }

    pub fn is_filled(self, payload: &[u8]) -> bool {
        let seed = self.chance(2);
        let mut chunks = payload.chunks(8).enumerate();
        chunks.all(|(index, bytes)| *bytes == word(seed, index)[..bytes.len()])
    }

    /// The control frame of this number.
    pub fn control(self) -> Control {
        let ssn = Ssn(u64::from(self.incarnation.0) << 40 | self.number);
        match self.number % 3 {
            0 => Control::ClearToSend { ssn },
            1 => Control::Matched { ssn },
            _ => Control::Horizon { ssn },
        }
    }
}

fn word(seed: u64, index: usize) -> [u8; 8] {
    (seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
}
