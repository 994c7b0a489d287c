//! How a buffer is divided into one block for each place.

use crate::schedule::{Buffer, Part};

/// Blocks of a buffer, numbered from 0, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks<'a> {
    /// Each block has this many elements; block `i` begins where block `i − 1` ends.
    Even(u64),
    /// `total` elements in `parts` blocks whose counts differ by at most one.
    Split {
        /// Elements of all blocks.
        total: u64,
        /// Number of blocks.
        parts: u32,
    },
    /// Any counts, anywhere.
    Listed {
        /// Elements of each block.
        counts: &'a [u64],
        /// First element of each block.
        starts: &'a [u64],
    },
}

impl Blocks<'_> {
    /// Elements of each block, if [`Self::Even`].
    pub fn even(&self) -> Option<u64> {
        match self {
            Self::Even(count) => Some(*count),
            _ => None,
        }
    }

    /// Elements of block `index`.
    pub fn count(&self, index: u32) -> u64 {
        match *self {
            Self::Even(count) => count,
            Self::Split { total, parts } => {
                total / u64::from(parts) + u64::from(u64::from(index) < total % u64::from(parts))
            }
            Self::Listed { counts, .. } => counts[index as usize],
        }
    }

    /// First element of block `index`.
    pub fn start(&self, index: u32) -> u64 {
        let index_wide = u64::from(index);
        match *self {
            Self::Even(count) => index_wide * count,
            Self::Split { total, parts } => {
                let parts = u64::from(parts);
                total / parts * index_wide + index_wide.min(total % parts)
            }
            Self::Listed { starts, .. } => starts[index as usize],
        }
    }

    /// Block `index` of `buffer`.
    pub fn part(&self, buffer: Buffer, index: u32) -> Part {
        Part {
            buffer,
            start: self.start(index),
            count: self.count(index),
        }
    }

    /// Elements of `number` blocks from `first` on.
    pub fn sum(&self, first: u32, number: u32) -> u64 {
        match self {
            Self::Even(count) => u64::from(number) * count,
            Self::Split { .. } => self.start(first + number) - self.start(first),
            Self::Listed { counts, .. } => {
                let first = first as usize;
                counts[first..first + number as usize].iter().sum()
            }
        }
    }

    /// The part of `buffer` with `number` blocks from `first` on, each of which begins where the
    /// one before it ends.
    pub fn parts(&self, buffer: Buffer, first: u32, number: u32) -> Part {
        Part {
            buffer,
            start: if number == 0 { 0 } else { self.start(first) },
            count: self.sum(first, number),
        }
    }

    /// Whether each of the first `number` blocks begins where the one before it ends, the first
    /// at 0.
    pub fn is_dense(&self, number: u32) -> bool {
        let Self::Listed { counts, starts } = self else {
            return true;
        };
        let ends = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        let expected = std::iter::once(0).chain(ends);
        starts
            .iter()
            .copied()
            .zip(expected)
            .take(number as usize)
            .all(|(is, expected)| is == expected)
    }
}

/// The lists of [`Blocks::Listed`] whose blocks lie one behind the other.
#[derive(Clone, Debug)]
pub struct DenseBlocks {
    counts: Vec<u64>,
    starts: Vec<u64>,
}

impl DenseBlocks {
    /// Blocks with these elements.
    pub fn of(counts: impl Iterator<Item = u64>) -> Self {
        let counts: Vec<u64> = counts.collect();
        let starts = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end - count)
        });
        Self {
            starts: starts.collect(),
            counts,
        }
    }

    /// The blocks.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks::Listed {
            counts: &self.counts,
            starts: &self.starts,
        }
    }

    /// Elements of all blocks.
    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }
}
