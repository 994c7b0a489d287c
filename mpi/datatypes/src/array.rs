//! Parts of arrays: one block (MPI-5.0, 5.1.3), and distributed ones (5.1.4).

use crate::contents::{Arguments, Combiner};
use crate::datatype::Datatype;
use crate::error::{TypeError, at_least};
use crate::shape::{Part, Shape};
use std::sync::Arc;

/// Which dimension of an array is contiguous; the values are those of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one.
    C = 12,
    /// The first one.
    Fortran = 15,
}

/// How a dimension is distributed over processes; the values are those of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not at all.
    None = 16,
    /// One block for each process.
    Block = 17,
    /// Blocks in turn.
    Cyclic = 18,
}

/// MPI_DISTRIBUTE_DFLT_DARG.
const DEFAULT_ARGUMENT: i32 = 19;

/// One dimension of a part of an array, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Length of the array.
    pub size: i64,
    /// Length of the part.
    pub subsize: i64,
    /// Where the part begins.
    pub start: i64,
}

/// One dimension of a distributed array.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// Length of the array, in elements.
    pub size: i64,
    /// How it is distributed.
    pub distribution: Distribution,
    /// Elements of a block; `None`: the default.
    pub block: Option<i32>,
    /// Number of processes.
    pub processes: i32,
}

/// Some elements of one dimension: blocks of one length at a stride, then one that is shorter.
struct Selection {
    start: i64,
    blocks: i64,
    block: i64,
    stride: i64,
    rest: i64,
}

impl Slice {
    fn selection(&self) -> Result<Selection, TypeError> {
        at_least(1, "a size of an array", self.size, "1 or more")?;
        at_least(1, "a size of a part of an array", self.subsize, "1 or more")?;
        let room = self.size - self.subsize;
        at_least(
            0,
            "the array behind its part",
            room,
            "a part that is not longer than the array",
        )?;
        let allowed = "0 or more, and so that the part ends within the array";
        at_least(
            0,
            "a start in an array",
            self.start.min(room.saturating_sub(self.start)),
            allowed,
        )?;
        Ok(Selection {
            start: self.start,
            blocks: 1,
            block: self.subsize,
            stride: 0,
            rest: 0,
        })
    }
}

impl Dimension {
    /// What a process has.
    fn selection(&self, process: i64) -> Result<Selection, TypeError> {
        let processes = i64::from(self.processes);
        at_least(1, "a size of an array", self.size, "1 or more")?;
        at_least(1, "a dimension of the process grid", processes, "1 or more")?;
        if let Some(block) = self.block {
            at_least(
                1,
                "a distribution argument",
                block.into(),
                "1 or more, or the default",
            )?;
        }
        let block = match (self.distribution, self.block) {
            (Distribution::None, _) => {
                let allowed = "1 for a dimension that is not distributed";
                at_least(
                    -1,
                    "a dimension of the process grid, negated,",
                    -processes,
                    allowed,
                )?;
                self.size
            }
            (_, Some(block)) => i64::from(block),
            (Distribution::Block, None) => (self.size - 1) / processes + 1,
            (Distribution::Cyclic, None) => 1,
        };
        // Each process has a block before one has a second.
        let round = block.checked_mul(processes).ok_or(TypeError::TooLarge)?;
        if self.distribution == Distribution::Block && round < self.size {
            return Err(TypeError::Argument {
                what: "a distribution argument",
                value: block,
                allowed: "blocks that cover the dimension",
            });
        }
        let start = process * block;
        let left = (self.size - start).max(0);
        let (blocks, behind) = (left / round, left % round);
        let has_whole = behind >= block;
        Ok(Selection {
            start,
            blocks: blocks + i64::from(has_whole),
            block,
            stride: round,
            rest: if has_whole { 0 } else { behind },
        })
    }
}

impl Selection {
    /// The selected ones of `of`, which are `pitch` bytes apart.
    fn shape(&self, of: Arc<Shape>, pitch: i64) -> Result<Shape, TypeError> {
        let bytes = |elements: i64| elements.checked_mul(pitch).ok_or(TypeError::TooLarge);
        let block = Shape::repeat(self.block, pitch, Arc::clone(&of))?;
        let blocks = Shape::repeat(self.blocks, bytes(self.stride)?, Arc::new(block))?;
        let mut parts = vec![Part {
            offset: bytes(self.start)?,
            count: 1,
            of: Arc::new(blocks),
        }];
        if self.rest > 0 {
            let behind = (self.blocks.checked_mul(self.stride)).ok_or(TypeError::TooLarge)?;
            parts.push(Part {
                offset: bytes(self.start + behind)?,
                count: 1,
                of: Arc::new(Shape::repeat(self.rest, pitch, of)?),
            });
        }
        Shape::list(parts.into())
    }
}

/// Dimensions from the contiguous one on.
fn from_contiguous<T>(order: Order, dimensions: &[T]) -> Box<dyn Iterator<Item = &T> + '_> {
    match order {
        Order::C => Box::new(dimensions.iter().rev()),
        Order::Fortran => Box::new(dimensions.iter()),
    }
}

/// The selected elements of an array whose dimensions are given from the contiguous one on, each
/// with its length. The extent is that of the array.
fn array(
    of: &Datatype,
    dimensions: impl Iterator<Item = Result<(i64, Selection), TypeError>>,
) -> Result<Shape, TypeError> {
    let (mut shape, mut pitch) = (Arc::clone(of.shape()), of.extent());
    for dimension in dimensions {
        let (size, selection) = dimension?;
        shape = Arc::new(selection.shape(shape, pitch)?);
        pitch = pitch.checked_mul(size).ok_or(TypeError::TooLarge)?;
    }
    Shape::resized(shape, 0, pitch)
}

impl Datatype {
    /// One block of an array of any number of dimensions.
    ///
    /// # Errors
    /// [`TypeError::Argument`] for an array without dimensions and a part that is empty or leaves
    /// the array; others as all constructors.
    pub fn subarray(slices: &[Slice], order: Order, of: &Self) -> Result<Self, TypeError> {
        dimensions_of(slices.len())?;
        let dimensions = from_contiguous(order, slices);
        let selected = dimensions.map(|slice| Ok((slice.size, slice.selection()?)));
        let shape = array(of, selected)?;
        let arguments = [
            Arguments::integers([slices.len() as i32]),
            Arguments::counts(slices.iter().map(|slice| slice.size)),
            Arguments::counts(slices.iter().map(|slice| slice.subsize)),
            Arguments::counts(slices.iter().map(|slice| slice.start)),
            Arguments::integers([order as i32]),
        ];
        Ok(of.with(shape, Combiner::Subarray, arguments))
    }

    /// What process `rank` of `processes` has of a distributed array. Processes are numbered as the
    /// elements of an array in C's order.
    ///
    /// # Errors
    /// [`TypeError::Argument`] for arguments that MPI-5.0, 5.1.4 does not allow; others as all
    /// constructors.
    pub fn darray(
        processes: i32,
        rank: i32,
        dimensions: &[Dimension],
        order: Order,
        of: &Self,
    ) -> Result<Self, TypeError> {
        dimensions_of(dimensions.len())?;
        let places = places(processes, rank, dimensions)?;
        let placed: Vec<_> = dimensions.iter().zip(places).collect();
        let selected = from_contiguous(order, &placed)
            .map(|(dimension, place)| Ok((dimension.size, dimension.selection(*place)?)));
        let shape = array(of, selected)?;
        let argument = |dimension: &Dimension| dimension.block.unwrap_or(DEFAULT_ARGUMENT);
        let arguments = [
            Arguments::integers([processes, rank, dimensions.len() as i32]),
            Arguments::counts(dimensions.iter().map(|it| it.size)),
            Arguments::integers(dimensions.iter().map(|it| it.distribution as i32)),
            Arguments::integers(dimensions.iter().map(argument)),
            Arguments::integers(dimensions.iter().map(|it| it.processes)),
            Arguments::integers([order as i32]),
        ];
        Ok(of.with(shape, Combiner::Darray, arguments))
    }
}

fn dimensions_of(dimensions: usize) -> Result<(), TypeError> {
    let dimensions = dimensions as i64;
    at_least(1, "the number of dimensions", dimensions, "1 or more")
}

/// The place of a process in each dimension of the grid.
fn places(processes: i32, rank: i32, dimensions: &[Dimension]) -> Result<Vec<i64>, TypeError> {
    let in_range = rank.min(processes.saturating_sub(rank).saturating_sub(1));
    let allowed = "0 or more, and less than the number of processes";
    at_least(
        0,
        "the rank in a distributed array",
        in_range.into(),
        allowed,
    )?;
    let (mut places, mut left, mut grid) = (Vec::new(), i64::from(rank), 1_i64);
    for dimension in dimensions.iter().rev() {
        let processes = i64::from(dimension.processes).max(1);
        places.push(left % processes);
        left /= processes;
        grid = grid.saturating_mul(processes);
    }
    places.reverse();
    match grid == i64::from(processes) {
        true => Ok(places),
        false => Err(TypeError::Argument {
            what: "the number of processes in the grid",
            value: grid,
            allowed: "as many as the distributed array has",
        }),
    }
}
