//! The content of frames: everything follows from sender, receiver and number, so that a receiver
//! can verify each bit.

use refrain_ring::{Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;

/// Names one frame of one lane.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub source: Rank,
    pub incarnation: Incarnation,
    pub destination: Rank,
    pub number: u64,
}

impl Name {
    fn mixed(self, salt: u64) -> u64 {
        let identity = u64::from(self.source.0) << 40
            | u64::from(self.incarnation.0) << 20
            | u64::from(self.destination.0);
        let mut mixed = identity ^ self.number.rotate_left(32) ^ salt.wrapping_mul(0x9e37_79b9);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The frame's header. Every field has its own value, near the ends of its range.
    pub fn header(self, payload_bytes: usize) -> RecordHeader {
        let chance = self.mixed(1);
        let kind = match chance % 3 {
            0 => RecordKind::Eager,
            1 => RecordKind::Fragment,
            _ if payload_bytes == 0 => RecordKind::Rendezvous,
            _ => RecordKind::Eager,
        };
        RecordHeader {
            payload_bytes: payload_bytes as u32,
            kind,
            flags: (chance >> 8) as u16 & RecordHeader::WANT_ACK,
            incarnation: self.incarnation,
            source: self.source,
            ssn: Ssn(self.number),
            context: (chance >> 16) as u32,
            tag: (chance >> 32) as i32,
            extent: payload_bytes as u64 + (chance >> 1),
        }
    }

    pub fn fill(self, payload: &mut [u8]) {
        let seed = self.mixed(2);
        for (index, bytes) in payload.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&word(seed, index)[..bytes.len()]);
        }
    }

    pub fn is_filled(self, payload: &[u8]) -> bool {
        let seed = self.mixed(2);
        payload
            .chunks(8)
            .enumerate()
            .all(|(index, bytes)| *bytes == word(seed, index)[..bytes.len()])
    }

    /// The control frame of this number; it carries its incarnation, which
    /// control frames do not show.
    pub fn control(self) -> Control {
        let ssn = Ssn(u64::from(self.incarnation.0) << 32 | self.number);
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

/// Incarnation that a control frame made by [`Name::control`] carries.
pub fn incarnation_of(control: Control) -> Incarnation {
    let (Control::ClearToSend { ssn } | Control::Matched { ssn } | Control::Horizon { ssn }) =
        control
    else {
        panic!("{control:?} arrived, which was never sent");
    };
    Incarnation((ssn.0 >> 32) as u32)
}
