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
    /// Elements without bytes.
    #[error("elements have 0 bytes: an element has at least one")]
    EmptyElement,
}

impl Call<'_> {
    /// Finds what [`crate::Algorithm::schedule`] must not be asked for.
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
        match &self.arguments {
            Arguments::Barrier | Arguments::Allreduce { .. } | Arguments::Scan { .. } => Ok(()),
            Arguments::Bcast { root, .. } | Arguments::Reduce { root, .. } => in_group(*root),
            Arguments::Gather { root, blocks, .. } | Arguments::Scatter { root, blocks, .. } => {
                let needed = if self.group.me == *root {
                    size as usize
                } else {
                    0
                };
                in_group(*root).and(has_blocks(blocks, needed))
            }
            Arguments::Allgather { blocks } => has_blocks(blocks, size as usize),
            Arguments::Alltoall { send, receive } => {
                let sent = if self.in_place { 0 } else { size as usize };
                has_blocks(send, sent).and(has_blocks(receive, size as usize))
            }
            Arguments::ReduceScatter { blocks } => {
                has_blocks(blocks, size as usize)?;
                blocks.is_dense(size).then_some(()).ok_or(WrongCall::Gaps)
            }
            Arguments::NeighbourAllgather {
                sources,
                destinations,
                receive,
                ..
            } => {
                all_in_group(sources).and(all_in_group(destinations))?;
                has_blocks(receive, sources.len())
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
}

fn has_blocks(blocks: &Blocks, needed: usize) -> Result<(), WrongCall> {
    let listed = match blocks {
        Blocks::Even(_) => return Ok(()),
        Blocks::Split { parts, .. } => *parts as usize,
        Blocks::Listed { counts, starts } => counts.len().min(starts.len()),
    };
    match listed >= needed {
        true => Ok(()),
        false => Err(WrongCall::Blocks { listed, needed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;

    fn check(me: u32, arguments: Arguments) -> Result<(), WrongCall> {
        let group = Group { size: 3, me };
        Call {
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
