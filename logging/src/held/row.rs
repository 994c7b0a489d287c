//! A sequence of batches in memory, in the order in which they came.

use super::batch::{Batch, Previous};
use crate::determinant::EventIndex;
use crate::determinant::record::varint::Bytes;
use refrain_ring::Clock;

/// Batches of one rank, in about 6 bytes each besides their payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    bytes: Vec<u8>,
    last: Previous,
    count: usize,
}

/// Where a batch begins in a row.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Place {
    offset: usize,
    previous: Previous,
}

impl Row {
    /// Appends a batch.
    pub fn push(&mut self, batch: &Batch<'_>) {
        batch.put(&mut self.last, &mut self.bytes);
        self.count += 1;
    }

    /// The batches, in the order in which they came.
    pub fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        self.batches_from(Place::default())
    }

    /// The place of the next batch that is appended.
    pub(crate) fn end(&self) -> Place {
        Place {
            offset: self.bytes.len(),
            previous: self.last,
        }
    }

    /// The batches from this place on.
    pub(crate) fn batches_from(&self, place: Place) -> impl Iterator<Item = Batch<'_>> {
        let mut rest = Bytes(&self.bytes[place.offset..]);
        let mut previous = place.previous;
        // Only `push` and `read` make rows: there is nothing else in them.
        core::iter::from_fn(move || Batch::take(&mut rest, &mut previous).ok())
    }

    /// The clock of the last determinant.
    pub fn last_clock(&self) -> Option<Clock> {
        (self.count > 0).then(|| self.last.clock())
    }

    /// Number of batches.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Drops all batches, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.last, self.count) = (Previous::default(), 0);
    }

    /// The row as bytes, for [`Row::read`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The row with these bytes.
    ///
    /// # Errors
    /// When no row has them.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut row = Self::default();
        let mut rest = Bytes(bytes);
        let mut previous = Previous::default();
        while rest.left() > 0 {
            row.push(&Batch::take(&mut rest, &mut previous)?);
        }
        match row.bytes == bytes {
            true => Ok(row),
            false => Err("a batch is not encoded as this version encodes it"),
        }
    }

    /// Drops the batches of which `keeps` does not hold.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Batch<'_>) -> bool) {
        let mut kept = Self::default();
        for batch in self.batches().filter(|batch| keeps(batch)) {
            kept.push(&batch);
        }
        *self = kept;
    }

    /// Drops the batches whose determinants all come before this one. GC-1, CAUSAL-5
    pub fn trim(&mut self, first: EventIndex) {
        self.retain(|batch| batch.end() > first);
    }
}
