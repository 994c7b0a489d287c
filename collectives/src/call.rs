//! What a place asks for: a collective with its arguments.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::hosts::Hosts;
use crate::schedule::{Buffer, Part};
use std::fmt;

pub use crate::algorithms::scan::Prefix;

/// A call of a collective at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The group and the place.
    pub group: Group,
    /// Where the places are; the same at all places and in all lives.
    pub hosts: Hosts<'a>,
    /// The collective.
    pub arguments: Arguments<'a>,
    /// Whether this place's contribution is in its output, where MPI puts it for `MPI_IN_PLACE`.
    /// Has no meaning for barrier, bcast and neighbourhoods, nor for gather, scatter and reduce
    /// at other places than the root. Same at all places for the others.
    pub in_place: bool,
    /// Bytes of an element; at least 1, the same at all places.
    pub element_bytes: u64,
}

/// A collective and what it needs to know. Counts are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments<'a> {
    /// No place leaves before all have come.
    Barrier,
    /// The output of the root goes to the output of all places.
    Bcast {
        /// The root.
        root: u32,
        /// Elements.
        count: u64,
    },
    /// The inputs of all places go to the output of the root.
    Gather {
        /// The root.
        root: u32,
        /// Elements of this place's block.
        count: u64,
        /// The root's output: [`Blocks::Even`] at all places or at none; read by the root alone
        /// if it is not.
        blocks: Blocks<'a>,
    },
    /// The input of the root goes to the outputs of all places.
    Scatter {
        /// The root.
        root: u32,
        /// Elements of this place's block.
        count: u64,
        /// The root's input: as for [`Self::Gather`].
        blocks: Blocks<'a>,
    },
    /// The inputs of all places go to the output of all places.
    Allgather {
        /// The output; counts are the same at all places.
        blocks: Blocks<'a>,
    },
    /// Block `b` of the input of place `a` goes to block `a` of the output of place `b`. Where
    /// each block has a layout of its own, an element is a byte of the dense form.
    Alltoall {
        /// The input; not read in place.
        send: Blocks<'a>,
        /// The output. [`Blocks::Even`] for both at all places, or at none.
        receive: Blocks<'a>,
    },
    /// The combination of all inputs goes to the output of the root.
    Reduce {
        /// The root.
        root: u32,
        /// Elements.
        count: u64,
    },
    /// The combination of all inputs goes to the output of all places.
    Allreduce {
        /// Elements.
        count: u64,
        /// Whether the operator commutes.
        commutative: bool,
    },
    /// Block `i` of the combination of all inputs goes to the beginning of the output of place
    /// `i`.
    ReduceScatter {
        /// The input: dense; the same at all places.
        blocks: Blocks<'a>,
    },
    /// The combination of the inputs of all places up to this one.
    Scan {
        /// Elements.
        count: u64,
        /// With or without this place's input.
        prefix: Prefix,
    },
    /// The input goes along all edges.
    NeighbourAllgather {
        /// Places from which edges come.
        sources: &'a [u32],
        /// Places to which edges go.
        destinations: &'a [u32],
        /// Elements of the input.
        count: u64,
        /// A block of the output for each source.
        receive: Blocks<'a>,
    },
    /// A block of the input goes along each edge.
    NeighbourAlltoall {
        /// Places from which edges come.
        sources: &'a [u32],
        /// Places to which edges go.
        destinations: &'a [u32],
        /// A block of the input for each destination.
        send: Blocks<'a>,
        /// A block of the output for each source.
        receive: Blocks<'a>,
    },
}

/// A kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Arguments::Barrier`]
    Barrier,
    /// [`Arguments::Bcast`]
    Bcast,
    /// [`Arguments::Gather`]
    Gather,
    /// [`Arguments::Scatter`]
    Scatter,
    /// [`Arguments::Allgather`]
    Allgather,
    /// [`Arguments::Alltoall`]
    Alltoall,
    /// [`Arguments::Reduce`]
    Reduce,
    /// [`Arguments::Allreduce`]
    Allreduce,
    /// [`Arguments::ReduceScatter`]
    ReduceScatter,
    /// [`Arguments::Scan`], inclusive
    Scan,
    /// [`Arguments::Scan`], exclusive
    Exscan,
    /// [`Arguments::NeighbourAllgather`]
    NeighbourAllgather,
    /// [`Arguments::NeighbourAlltoall`]
    NeighbourAlltoall,
}

impl Operation {
    /// All collectives.
    pub const ALL: [Self; 13] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::NeighbourAllgather,
        Self::NeighbourAlltoall,
    ];

    /// Whether it combines operands.
    pub fn combines(self) -> bool {
        matches!(
            self,
            Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan | Self::Exscan
        )
    }
}

/// The results that a collective leaves at the members of its group, where they can stand for its
/// messages. The others leave no less than they send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// The same at all places: these parts of the output, one behind the other.
    Same(Vec<Part>),
    /// Of each place its own, at the beginning of its output.
    Own(OwnResults),
}

/// Elements of the result of each place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnResults {
    /// All have this many.
    Each(u64),
    /// All but place 0.
    AllButFirst(u64),
    /// Only this place has a result.
    Root(u32, u64),
    /// By place.
    Listed(Vec<u64>),
}

impl OwnResults {
    /// Elements of the result of a place.
    pub fn count(&self, place: u32) -> u64 {
        match self {
            Self::Each(count) => *count,
            Self::AllButFirst(count) => u64::from(place > 0) * count,
            Self::Root(root, count) => u64::from(place == *root) * count,
            Self::Listed(counts) => counts[place as usize],
        }
    }
}

impl Call<'_> {
    /// The results, where they can stand for the messages. A scatter, gather or alltoall sends each
    /// byte of its results once, or little more often; and where blocks are listed, a member does
    /// not know the length of its neighbour's.
    pub(crate) fn results(&self) -> Option<Results> {
        let size = self.group.size;
        Some(match &self.arguments {
            Arguments::Barrier => Results::Same(Vec::new()),
            Arguments::Bcast { count, .. } | Arguments::Allreduce { count, .. } => {
                Results::Same(vec![Buffer::Output.first(*count)])
            }
            Arguments::Allgather { blocks } if blocks.is_dense(size) => {
                Results::Same(vec![blocks.parts(Buffer::Output, 0, size)])
            }
            Arguments::Allgather { blocks } => {
                let parts = (0..size).map(|place| blocks.part(Buffer::Output, place));
                Results::Same(parts.collect())
            }
            Arguments::Reduce { root, count } => Results::Own(OwnResults::Root(*root, *count)),
            Arguments::ReduceScatter { blocks } => Results::Own(match blocks.even() {
                Some(count) => OwnResults::Each(count),
                None => OwnResults::Listed((0..size).map(|place| blocks.count(place)).collect()),
            }),
            Arguments::Scan { count, prefix } => Results::Own(match prefix {
                Prefix::Inclusive => OwnResults::Each(*count),
                Prefix::Exclusive => OwnResults::AllButFirst(*count),
            }),
            Arguments::Gather { .. }
            | Arguments::Scatter { .. }
            | Arguments::Alltoall { .. }
            | Arguments::NeighbourAllgather { .. }
            | Arguments::NeighbourAlltoall { .. } => return None,
        })
    }

    /// The kind of collective.
    pub fn operation(&self) -> Operation {
        match self.arguments {
            Arguments::Barrier => Operation::Barrier,
            Arguments::Bcast { .. } => Operation::Bcast,
            Arguments::Gather { .. } => Operation::Gather,
            Arguments::Scatter { .. } => Operation::Scatter,
            Arguments::Allgather { .. } => Operation::Allgather,
            Arguments::Alltoall { .. } => Operation::Alltoall,
            Arguments::Reduce { .. } => Operation::Reduce,
            Arguments::Allreduce { .. } => Operation::Allreduce,
            Arguments::ReduceScatter { .. } => Operation::ReduceScatter,
            Arguments::Scan { prefix, .. } => match prefix {
                Prefix::Inclusive => Operation::Scan,
                Prefix::Exclusive => Operation::Exscan,
            },
            Arguments::NeighbourAllgather { .. } => Operation::NeighbourAllgather,
            Arguments::NeighbourAlltoall { .. } => Operation::NeighbourAlltoall,
        }
    }

    /// Bytes by which an algorithm is chosen, if all places know them: of the vector, or of a
    /// block (their mean) where each place has one.
    pub fn bytes(&self) -> Option<u64> {
        let mean = |blocks: &Blocks| {
            let size = self.group.size;
            blocks.sum(0, size) / u64::from(size)
        };
        let elements = match &self.arguments {
            Arguments::Barrier => 0,
            Arguments::Bcast { count, .. }
            | Arguments::Reduce { count, .. }
            | Arguments::Allreduce { count, .. }
            | Arguments::Scan { count, .. } => *count,
            Arguments::Allgather { blocks } | Arguments::ReduceScatter { blocks } => mean(blocks),
            Arguments::Gather { blocks, .. } | Arguments::Scatter { blocks, .. } => {
                blocks.even()?
            }
            Arguments::Alltoall { receive, .. } => receive.even()?,
            Arguments::NeighbourAllgather { .. } | Arguments::NeighbourAlltoall { .. } => {
                return None;
            }
        };
        Some(elements.saturating_mul(self.element_bytes))
    }
}

/// What must be the same at all members: the text of two members differs if their calls do not fit
/// each other, as far as one member can know.
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.operation())?;
        match &self.arguments {
            Arguments::Barrier => return Ok(()),
            Arguments::Bcast { root, count } | Arguments::Reduce { root, count } => {
                write!(f, " with root {root} and {count} elements")
            }
            Arguments::Gather { root, blocks, .. } | Arguments::Scatter { root, blocks, .. } => {
                write!(f, " with root {root} and {}", Pairs(blocks))
            }
            Arguments::Allgather { blocks } | Arguments::ReduceScatter { blocks } => {
                let size = self.group.size;
                let elements = blocks.sum(0, size);
                write!(
                    f,
                    " with {elements} elements in blocks {:08x}",
                    hash(blocks, size)
                )
            }
            Arguments::Alltoall { receive, .. } => write!(f, " with {}", Pairs(receive)),
            Arguments::Allreduce { count, .. } | Arguments::Scan { count, .. } => {
                write!(f, " with {count} elements")
            }
            Arguments::NeighbourAllgather { .. } | Arguments::NeighbourAlltoall { .. } => {
                write!(f, " with edges")
            }
        }?;
        write!(f, " of {} bytes", self.element_bytes)
    }
}

/// Blocks whose counts each pair of places knows for itself, unless they are even.
struct Pairs<'a>(&'a Blocks<'a>);

impl fmt::Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0.even() {
            Some(count) => write!(f, "even blocks of {count} elements"),
            None => write!(f, "listed blocks of elements"),
        }
    }
}

/// FNV-1a of the counts.
fn hash(blocks: &Blocks, size: u32) -> u32 {
    let bytes = (0..size).flat_map(|index| blocks.count(index).to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
