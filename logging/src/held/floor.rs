//! The floor of a rank's determinants: those before it are not needed any more, or event loggers have them.

use crate::determinant::EventIndex;
use crate::determinant::record::varint::{Bytes, put};
use refrain_ring::Incarnation;

/// The first determinant of a rank that was not trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Floor {
    /// Its number.
    pub first: EventIndex,
    /// The life that made it, or that will: one of an earlier life was never stable. TICKET-3
    pub life: Incarnation,
}

impl Floor {
    pub fn put(&self, out: &mut Vec<u8>) {
        put(out, self.first.0);
        put(out, self.life.0.into());
    }

    pub fn take(from: &mut Bytes<'_>) -> Result<Self, &'static str> {
        Ok(Self {
            first: EventIndex(from.number()?),
            life: Incarnation(from.number_u32()?),
        })
    }
}
