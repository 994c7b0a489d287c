//! The determinants of a dead rank, from the ranks that hold them.

use super::batch::Batch;
use super::floor::Floor;
use super::row::Row;
use crate::determinant::EventIndex;
use crate::determinant::record::varint::Bytes;
use core::cmp::Reverse;
use refrain_ring::{Incarnation, Rank};
use thiserror::Error;

/// Why what a rank says that it holds cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("what rank {holder} holds cannot be read: {why}")]
pub struct HeldError {
    /// The holder.
    pub holder: Rank,
    /// What is wrong.
    pub why: &'static str,
}

/// What a rank holds of another, as bytes.
pub(crate) fn answer(floor: Floor, row: &Row) -> Vec<u8> {
    let mut answer = Vec::new();
    floor.put(&mut answer);
    answer.extend_from_slice(row.as_bytes());
    answer
}

/// A rank's determinants after its checkpoints, as far as they follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The first determinant that was not trimmed.
    pub floor: EventIndex,
    /// Its batches in order.
    pub row: Row,
    /// The holders of each.
    pub holders: Vec<Vec<Rank>>,
    /// One past the last determinant.
    pub end: EventIndex,
}

impl Collected {
    /// Orders the answers of all holders.
    ///
    /// A batch behind a missing one was never stable, because nothing is that has an unstable one
    /// before it: no emission followed. It is left out, and so is a batch of an earlier life behind
    /// one of a later life, which began without it, also if that one was trimmed. TICKET-3
    ///
    /// # Errors
    /// When an answer is damaged.
    pub fn of<'a>(answers: impl IntoIterator<Item = (Rank, &'a [u8])>) -> Result<Self, HeldError> {
        Self::behind((EventIndex(0), Incarnation(0)), answers)
    }

    /// As [`Collected::of`], where event loggers have the determinants before a number; a life made the last of
    /// these. CAUSAL-5
    ///
    /// # Errors
    /// When an answer is damaged.
    pub fn behind<'a>(
        (first, life): (EventIndex, Incarnation),
        answers: impl IntoIterator<Item = (Rank, &'a [u8])>,
    ) -> Result<Self, HeldError> {
        let mut rows = Vec::new();
        let mut floor = Floor { first, life };
        for (holder, answer) in answers {
            let mut bytes = Bytes(answer);
            let its_floor = Floor::take(&mut bytes);
            let read = its_floor.and_then(|floor| Ok((floor, Row::read(bytes.0)?)));
            let (its_floor, row) = read.map_err(|why| HeldError { holder, why })?;
            floor = floor.max(its_floor);
            rows.push((holder, row));
        }
        let mut batches: Vec<(Batch<'_>, Rank)> = Vec::new();
        for (holder, row) in &rows {
            batches.extend(row.batches().map(|batch| (batch, *holder)));
        }
        batches.sort_by_key(|(batch, holder)| (batch.first, Reverse(batch.incarnation), *holder));
        let mut collected = Self {
            floor: floor.first,
            end: floor.first,
            ..Self::default()
        };
        let mut life = floor.life;
        for (batch, holder) in batches {
            if batch.first == collected.end && batch.incarnation >= life {
                life = batch.incarnation;
                collected.end = batch.end();
                collected.row.push(&batch);
                collected.holders.push(vec![holder]);
            } else if batch.end() == collected.end
                && batch.incarnation == life
                && let Some(holders) = collected.holders.last_mut()
            {
                holders.push(holder);
            }
        }
        Ok(collected)
    }

    /// The batches as loggers store them.
    pub fn sealed(&self, job: u64, rank: Rank) -> Vec<Vec<u8>> {
        self.row
            .batches()
            .map(|batch| batch.sealed(job, rank))
            .collect()
    }
}
