//! A batch as ranks hold it and tell it to each other: without what they know otherwise.

use crate::determinant::EventIndex;
use crate::determinant::batch::{BatchHeader, COUNT_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX, job_tag};
use crate::determinant::record::varint::{Bytes, put, unzigzag, zigzag};
use refrain_ring::{Clock, Incarnation, Rank};

/// A batch of determinants without the checksum, job and rank of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The incarnation that made it.
    pub incarnation: Incarnation,
    /// Number of the first determinant.
    pub first: EventIndex,
    /// Number of determinants.
    pub count: u16,
    /// Clock of the first determinant.
    pub first_clock: Clock,
    /// Clock of the last determinant.
    pub last_clock: Clock,
    /// The determinants.
    pub payload: &'a [u8],
}

/// What the next batch of a sequence is encoded against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Previous {
    incarnation: u32,
    end: u64,
    clock: u64,
}

impl Previous {
    /// The clock of the last determinant.
    pub fn clock(&self) -> Clock {
        Clock(self.clock)
    }
}

impl<'a> Batch<'a> {
    /// The batch with this header. `batch`: header and payload.
    ///
    /// # Panics
    /// When `batch` is shorter than its header says.
    pub fn of(header: &BatchHeader, batch: &'a [u8]) -> Self {
        Self {
            incarnation: header.incarnation,
            first: header.first,
            count: header.count,
            first_clock: header.first_clock,
            last_clock: header.last_clock,
            payload: &batch[HEADER_BYTES..header.batch_bytes()],
        }
    }

    /// One past the number of the last determinant.
    pub fn end(&self) -> EventIndex {
        EventIndex(self.first.0 + u64::from(self.count))
    }

    /// The batch as loggers store it.
    pub fn sealed(&self, job: u64, rank: Rank) -> Vec<u8> {
        self.sealed_by(self.incarnation, job, rank).1
    }

    /// As [`Batch::sealed`], written by this life or a later one. CAUSAL-5
    pub(super) fn sealed_by(
        &self,
        by: Incarnation,
        job: u64,
        rank: Rank,
    ) -> (BatchHeader, Vec<u8>) {
        let lives = by.0.saturating_sub(self.incarnation.0);
        let header = BatchHeader {
            job_tag: job_tag(job),
            rank,
            incarnation: by,
            lives_before: lives.try_into().unwrap_or(u16::MAX),
            first: self.first,
            count: self.count,
            first_clock: self.first_clock,
            last_clock: self.last_clock,
            payload_bytes: self.payload.len() as u32,
        };
        let mut batch = vec![0; HEADER_BYTES];
        batch.extend_from_slice(self.payload);
        header.seal(&mut batch);
        (header, batch)
    }

    /// Appends it to a sequence.
    pub(crate) fn put(&self, previous: &mut Previous, out: &mut Vec<u8>) {
        let lives = self.incarnation.0.wrapping_sub(previous.incarnation) as i32;
        let numbers = [
            zigzag(self.first.0.wrapping_sub(previous.end)),
            zigzag(i64::from(lives) as u64),
            self.count.into(),
            zigzag(self.first_clock.0.wrapping_sub(previous.clock)),
            self.last_clock.0 - self.first_clock.0,
            self.payload.len() as u64,
        ];
        if numbers.iter().all(|number| *number < 0x80) {
            // One byte each: the common case.
            out.extend_from_slice(&numbers.map(|number| number as u8));
        } else {
            numbers.iter().for_each(|number| put(out, *number));
        }
        out.extend_from_slice(self.payload);
        *previous = self.as_previous();
    }

    /// Reads the next batch of a sequence.
    pub(crate) fn take(
        from: &mut Bytes<'a>,
        previous: &mut Previous,
    ) -> Result<Self, &'static str> {
        let first = previous.end.wrapping_add(unzigzag(from.number()?));
        let lives = unzigzag(from.number()?) as u32;
        let count = u16::try_from(from.number()?).ok();
        let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
        let count = count.ok_or("a batch has a wrong number of determinants")?;
        let first_clock = previous.clock.wrapping_add(unzigzag(from.number()?));
        let last_clock = first_clock.checked_add(from.number()?);
        let payload_bytes = from.number()?;
        if !(1..=PAYLOAD_BYTES_MAX as u64).contains(&payload_bytes) {
            return Err("a batch has a wrong length");
        }
        if first.checked_add(count.into()).is_none() {
            return Err("a batch has a wrong number");
        }
        let batch = Self {
            incarnation: Incarnation(previous.incarnation.wrapping_add(lives)),
            first: EventIndex(first),
            count,
            first_clock: Clock(first_clock),
            last_clock: Clock(last_clock.ok_or("a batch has a wrong clock")?),
            payload: from.take(payload_bytes as usize)?,
        };
        *previous = batch.as_previous();
        Ok(batch)
    }

    fn as_previous(&self) -> Previous {
        Previous {
            incarnation: self.incarnation.0,
            end: self.end().0,
            clock: self.last_clock.0,
        }
    }
}
