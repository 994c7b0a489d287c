//! Which bytes of a grid make up one of its faces.

use super::decomposition::AXES;
use super::grid::{CELL_BYTES, Grid};
use refrain::Layout;
use std::sync::Arc;

/// The outermost own cells on one side of an axis, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The axis it is perpendicular to.
    pub axis: usize,
    /// The side with the higher coordinates.
    pub upper: bool,
}

/// How the bytes of a face lie in a grid, in units of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceBytes {
    /// Equal blocks at equal distances.
    Vector {
        /// How many.
        count: usize,
        /// Length of each.
        block_bytes: usize,
        /// From the beginning of one to that of the next.
        stride_bytes: usize,
    },
    /// One column of cells, again and again.
    Structure {
        /// Cells of the column.
        pieces: Vec<(usize, usize)>,
        /// From one column to the next.
        extent_bytes: usize,
        /// How many columns.
        count: usize,
    },
}

impl Face {
    /// Cells of this face.
    #[must_use]
    pub fn cells(self, grid: &Grid) -> usize {
        let count = grid.count();
        count.iter().product::<usize>() / count[self.axis]
    }

    /// The grid's bytes from the first cell of this face on.
    #[must_use]
    pub fn slice(self, grid: &Grid) -> &[u8] {
        let mut at = [1; AXES];
        at[self.axis] = if self.upper {
            grid.count()[self.axis]
        } else {
            1
        };
        &grid.bytes()[grid.index(at) * CELL_BYTES..]
    }

    /// Where its bytes lie, counted from the beginning of [`Face::slice`].
    #[must_use]
    pub fn bytes(self, grid: &Grid) -> FaceBytes {
        let count = grid.count();
        let [plane, row, cell] = grid.strides().map(|stride| stride * CELL_BYTES);
        match self.axis {
            0 => FaceBytes::Vector {
                count: count[1],
                block_bytes: count[2] * cell,
                stride_bytes: row,
            },
            1 => FaceBytes::Vector {
                count: count[0],
                block_bytes: count[2] * cell,
                stride_bytes: plane,
            },
            _ if count[0] == 1 => FaceBytes::Vector {
                count: count[1],
                block_bytes: CELL_BYTES,
                stride_bytes: row,
            },
            _ => FaceBytes::Structure {
                pieces: (0..count[1]).map(|y| (y * row, CELL_BYTES)).collect(),
                extent_bytes: plane,
                count: count[0],
            },
        }
    }
}

impl FaceBytes {
    /// As the library wants to have it.
    ///
    /// # Errors
    /// None that a grid in memory can cause.
    pub fn layout(&self) -> Result<Arc<Layout>, refrain::Error> {
        match self {
            Self::Vector {
                count,
                block_bytes,
                stride_bytes,
            } => Layout::vector(*count, *block_bytes, *stride_bytes),
            Self::Structure {
                pieces,
                extent_bytes,
                count,
            } => Layout::structure(pieces, *extent_bytes, *count),
        }
        .map(Arc::new)
        .map_err(refrain::Error::from)
    }

    /// The bytes that it picks.
    #[cfg(test)]
    pub fn pick(&self, slice: &[u8]) -> Vec<u8> {
        let pieces: Vec<(usize, usize)> = match self {
            Self::Vector {
                count,
                block_bytes,
                stride_bytes,
            } => (0..*count)
                .map(|i| (i * stride_bytes, *block_bytes))
                .collect(),
            Self::Structure {
                pieces,
                extent_bytes,
                count,
            } => (0..*count)
                .flat_map(|i| {
                    pieces
                        .iter()
                        .map(move |&(offset, bytes)| (i * extent_bytes + offset, bytes))
                })
                .collect(),
        };
        pieces
            .iter()
            .flat_map(|&(offset, bytes)| slice[offset..offset + bytes].to_vec())
            .collect()
    }
}
