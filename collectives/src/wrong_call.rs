//! Calls that cannot be done, as far as one place sees it.

use crate::blocks::Blocks;
use crate::call::{Arguments, Call};

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongCall {
    /// The place, the root or a neighbour is not in the group.
    #[error("place {place} is not in a group of {size}: places are numbered from 0")]
    Place {
        /// The place.
        place: u32,
        /// Places of the group.
        size: u32,
    },
    /// A list of blocks is too short.
    #[error(
        "{listed} blocks are listed and {needed} are needed: give a count and a start for each"
    )]
    Blocks {
        /// The shorter one of counts and starts.
        listed: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Blocks of a reduce-scatter with gaps.
    #[error("blocks of a reduce-scatter begin where the one before ends, the first at 0")]
    Gaps,
    /// More bytes than an address can count.
    #[error("{elements} elements of {element_bytes} bytes are more than a memory can hold")]
    TooLarge {
        /// The number of elements; the largest number if it overflows.
        elements: u64,
        /// Bytes of an element.
        element_bytes: u64,
    },
    /// Elements without bytes.
    #[error("elements have 0 bytes: an element has at least one")]
    EmptyElement,
}

impl Call<'_> {
    /// Finds what [`crate::choice::Table::schedule`] must not be asked for.
    pub fn check(&self) -> Result<(), WrongCall> {
        let size = self.group.size;
        let in_group = |place| match place < size {
            true => Ok(()),
            false => Err(WrongCall::Place { place, size }),
        };
        let all_in_group = |places: &[u32]| places.iter().try_for_each(|place| in_group(*place));
        in_group(self.group.me)?;
        if self.element_bytes == 0 {
            return Err(WrongCall::EmptyElement);
        }
        let fits = |elements| self.fits_memory(elements);
        let has_blocks = |blocks: &Blocks, needed| self.has_blocks(blocks, needed);
        let places = size as usize;
        match &self.arguments {
            Arguments::Barrier => Ok(()),
            Arguments::Allreduce { count, .. } | Arguments::Scan { count, .. } => fits(*count),
            Arguments::Bcast { root, count } | Arguments::Reduce { root, count } => {
                in_group(*root).and(fits(*count))
            }
            Arguments::Gather {
                root,
                count,
                blocks,
            }
            | Arguments::Scatter {
                root,
                count,
                blocks,
            } => {
                in_group(*root).and(fits(*count))?;
                has_blocks(blocks, if self.group.me == *root { places } else { 0 })
            }
            Arguments::Allgather { blocks } => has_blocks(blocks, places),
            Arguments::Alltoall { send, receive } => {
                let sent = if self.in_place { 0 } else { places };
                has_blocks(send, sent).and(has_blocks(receive, places))
            }
            Arguments::ReduceScatter { blocks } => {
                has_blocks(blocks, places)?;
                blocks.is_dense(size).then_some(()).ok_or(WrongCall::Gaps)
            }
            Arguments::NeighbourAllgather {
                sources,
                destinations,
                count,
                receive,
            } => {
                all_in_group(sources).and(all_in_group(destinations))?;
                fits(*count).and(has_blocks(receive, sources.len()))
            }
            Arguments::NeighbourAlltoall {
                sources,
                destinations,
                send,
                receive,
            } => {
                all_in_group(sources).and(all_in_group(destinations))?;
                has_blocks(send, destinations.len()).and(has_blocks(receive, sources.len()))
            }
        }
    }

    /// Some algorithms keep a few vectors in one scratch: their sum must not overflow either.
    fn fits_memory(&self, elements: u64) -> Result<(), WrongCall> {
        let element_bytes = self.element_bytes;
        match elements.checked_mul(element_bytes) {
            Some(bytes) if bytes <= u64::MAX >> 4 => Ok(()),
            _ => Err(WrongCall::TooLarge {
                elements,
                element_bytes,
            }),
        }
    }

    fn has_blocks(&self, blocks: &Blocks, needed: usize) -> Result<(), WrongCall> {
        let listed = match blocks {
            Blocks::Even(count) => {
                let number = needed.max(self.group.size as usize);
                return self.fits_memory(count.saturating_mul(number as u64));
            }
            Blocks::Split { total, parts } => {
                self.fits_memory(*total)?;
                *parts as usize
            }
            Blocks::Listed { counts, starts } => {
                let add = |sum: u64, it: &u64| sum.saturating_add(*it);
                let counted = counts.iter().take(needed).fold(0, add);
                let last = starts.iter().take(needed).max().copied().unwrap_or(0);
                self.fits_memory(last.saturating_add(counted))?;
                counts.len().min(starts.len())
            }
        };
        match listed >= needed {
            true => Ok(()),
            false => Err(WrongCall::Blocks { listed, needed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;

    fn check(me: u32, arguments: Arguments) -> Result<(), WrongCall> {
        let group = Group { size: 3, me };
        Call {
            hosts: crate::Hosts::APART,
            group,
            arguments,
            in_place: false,
            element_bytes: 8,
        }
        .check()
    }

    #[test]
    fn wrong_calls_are_found() {
        let outside = Err(WrongCall::Place { place: 3, size: 3 });
        assert_eq!(check(3, Arguments::Barrier), outside);
        assert_eq!(check(0, Arguments::Bcast { root: 3, count: 1 }), outside);
        let (counts, starts) = (&[1, 2, 3], &[0, 1]);
        let blocks = Blocks::Listed { counts, starts };
        let short = Err(WrongCall::Blocks {
            listed: 2,
            needed: 3,
        });
        assert_eq!(check(0, Arguments::Allgather { blocks }), short);
        let gather = Arguments::Gather {
            root: 1,
            count: 1,
            blocks,
        };
        assert_eq!((check(0, gather), check(1, gather)), (Ok(()), short));
        let gaps = Blocks::Listed {
            counts,
            starts: &[0, 1, 4],
        };
        assert_eq!(
            check(0, Arguments::ReduceScatter { blocks: gaps }),
            Err(WrongCall::Gaps)
        );
        let dense = Blocks::Listed {
            counts,
            starts: &[0, 1, 3],
        };
        assert_eq!(check(0, Arguments::ReduceScatter { blocks: dense }), Ok(()));
        let absurd = |elements| {
            Err(WrongCall::TooLarge {
                elements,
                element_bytes: 8,
            })
        };
        let even = Blocks::Even(1 << 57);
        let count = 1 << 60;
        assert_eq!(check(0, Arguments::Bcast { root: 0, count }), absurd(count));
        assert_eq!(
            check(0, Arguments::Allgather { blocks: even }),
            absurd(3 << 57)
        );
        let blocks_far = Blocks::Listed {
            counts,
            starts: &[0, u64::MAX, 0],
        };
        assert_eq!(
            check(0, Arguments::Allgather { blocks: blocks_far }),
            absurd(u64::MAX)
        );
        let (sources, destinations, receive) = (&[1, 1, 0], &[3], blocks);
        let neighbours = |destinations| Arguments::NeighbourAllgather {
            sources,
            destinations,
            count: 1,
            receive,
        };
        assert_eq!(check(0, neighbours(destinations)), outside);
        assert_eq!(check(0, neighbours(&[2])), short);
    }
}
