//! The newest batches of a rank, where messages carry them: as they were made, so that the next messages can
//! carry them at once. They go into the row of own batches later, when there is time.

use super::batch::Batch;
use crate::determinant::batch::BatchHeader;
use crate::determinant::record::ALONE_BYTES_MAX;
use crate::determinant::{EventIndex, Match};
use refrain_ring::Rank;
use std::collections::VecDeque;

/// A batch of this rank.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Made {
    header: BatchHeader,
    payload: Payload,
    /// Its only determinant, if that is a match.
    pub alone: Option<Match>,
    /// The rank that has confirmed it.
    pub holder: Option<Rank>,
}

#[derive(Clone, Debug, Hash)]
enum Payload {
    Short([u8; ALONE_BYTES_MAX]),
    Long(Box<[u8]>),
}

impl Made {
    /// The batch with this header and payload.
    #[inline]
    pub fn new(header: &BatchHeader, payload: &[u8], alone: Option<Match>) -> Self {
        let payload = match payload.len() {
            bytes @ ..=ALONE_BYTES_MAX => {
                let mut short = [0; ALONE_BYTES_MAX];
                short[..bytes].copy_from_slice(payload);
                Payload::Short(short)
            }
            _ => Payload::Long(payload.into()),
        };
        Self {
            header: *header,
            payload,
            alone,
            holder: None,
        }
    }

    /// The batch.
    #[inline]
    pub fn batch(&self) -> Batch<'_> {
        let payload = match &self.payload {
            Payload::Short(short) => &short[..self.header.payload_bytes as usize],
            Payload::Long(long) => long,
        };
        Batch {
            incarnation: self.header.incarnation,
            first: self.header.first,
            count: self.header.count,
            first_clock: self.header.first_clock,
            last_clock: self.header.last_clock,
            payload,
        }
    }

    /// One past the number of its last determinant.
    #[inline]
    pub fn end(&self) -> EventIndex {
        self.header.end()
    }
}

/// The newest batches in their order.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Recent {
    made: VecDeque<Made>,
    /// How many of them, from the first, are stable.
    stable: usize,
}

impl Recent {
    #[inline]
    pub fn push(&mut self, made: Made) {
        self.made.push_back(made);
    }

    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// The last one.
    #[inline]
    pub fn last(&self) -> Option<&Made> {
        self.made.back()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Made> {
        self.made.iter()
    }

    /// Those that are not stable, and that end behind `until`.
    #[inline]
    pub fn unstable_behind(&self, until: EventIndex) -> impl Iterator<Item = &Made> {
        let unstable = self.made.range(self.stable..);
        unstable.skip_while(move |made| made.end() <= until)
    }

    /// Another rank holds all that are not stable and end before `end`, or there.
    #[inline]
    pub fn confirm(&mut self, end: EventIndex, by: Rank) {
        let mut at = self.stable;
        while let Some(made) = self.made.get_mut(at)
            && made.end() <= end
        {
            made.holder.get_or_insert(by);
            at += 1;
        }
    }

    /// Counts those that are held, up to the first that is not, as stable. Returns one past the last of them.
    #[inline]
    pub fn settle(&mut self) -> Option<EventIndex> {
        let mut end = None;
        while let Some(made) = self.made.get(self.stable)
            && made.holder.is_some()
        {
            end = Some(made.end());
            self.stable += 1;
        }
        end
    }

    /// Removes the first one, if it is stable, or if `any`. Returns whether it is stable, too.
    pub fn pop(&mut self, any: bool) -> Option<(Made, bool)> {
        let is_stable = self.stable > 0;
        if !(is_stable || any) {
            return None;
        }
        self.stable -= usize::from(is_stable);
        Some((self.made.pop_front()?, is_stable))
    }
}
