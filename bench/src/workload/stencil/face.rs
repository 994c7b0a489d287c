//! The bytes of a grid that make up one of its faces.

use super::decomposition::AXES;
use super::grid::{CELL_BYTES, Grid};
use crate::workload::shape::Shape;

/// The outermost own cells on one side of an axis, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The axis that is perpendicular to the face.
    pub axis: usize,
    /// Whether it is the side with the higher coordinates.
    pub upper: bool,
}

impl Face {
    /// Number of cells of this face.
    #[must_use]
    pub fn cells(self, grid: &Grid) -> usize {
        let count = grid.count();
        count.iter().product::<usize>() / count[self.axis]
    }

    /// The grid's bytes from the first cell of this face on.
    #[must_use]
    pub fn slice(self, grid: &Grid) -> &[u8] {
        let mut at = [1; AXES];
        if self.upper {
            at[self.axis] = grid.count()[self.axis];
        }
        &grid.bytes()[grid.index(at) * CELL_BYTES..]
    }

    /// Offsets of its bytes, from the beginning of [`Face::slice`].
    #[must_use]
    pub fn shape(self, grid: &Grid) -> Shape {
        let count = grid.count();
        let [plane, row, cell] = grid.strides().map(|stride| stride * CELL_BYTES);
        let vector = |count, block_bytes, stride_bytes| Shape::Vector {
            count,
            block_bytes,
            stride_bytes,
        };
        match self.axis {
            0 => vector(count[1], count[2] * cell, row),
            1 => vector(count[0], count[2] * cell, plane),
            _ if count[0] == 1 => vector(count[1], CELL_BYTES, row),
            _ => Shape::Structure {
                fields: (0..count[1]).map(|y| (y * row, CELL_BYTES)).collect(),
                extent_bytes: plane,
                count: count[0],
            },
        }
    }
}
