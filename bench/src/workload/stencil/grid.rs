//! One rank's cells with a layer of ghost cells around them, and the rule by which cells change.

use super::decomposition::AXES;
use crate::workload::prng::combine;

/// Length of a cell in bytes.
pub const CELL_BYTES: usize = 8;

/// Cells of one part of the grid. They are stored as bytes, since messages consist of bytes. The
/// ghost layer has copies of the neighbours' cells.
#[derive(Clone, Debug)]
pub struct Grid {
    bytes: Vec<u8>,
    count: [usize; AXES],
}

impl Grid {
    /// The part that begins at `first`, in its initial state.
    #[must_use]
    pub fn new(first: [usize; AXES], count: [usize; AXES]) -> Self {
        let with_ghosts: usize = count.iter().map(|count| count + 2).product();
        let mut grid = Self {
            bytes: vec![0; with_ghosts * CELL_BYTES],
            count,
        };
        grid.fill(|at| {
            combine(&[
                (first[0] + at[0]) as u64,
                (first[1] + at[1]) as u64,
                (first[2] + at[2]) as u64,
            ])
        });
        grid
    }

    /// Number of own cells along each axis.
    #[must_use]
    pub fn count(&self) -> [usize; AXES] {
        self.count
    }

    /// All cells, with the ghost cells, in the order of memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As [`Grid::bytes`], for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Distance to the next cell along each axis, in cells.
    #[must_use]
    pub fn strides(&self) -> [usize; AXES] {
        let [_, rows, columns] = self.count;
        [(rows + 2) * (columns + 2), columns + 2, 1]
    }

    /// Index of a cell. Coordinates count from 1; 0 and `count + 1` are ghosts.
    #[must_use]
    pub fn index(&self, at: [usize; AXES]) -> usize {
        let strides = self.strides();
        at[0] * strides[0] + at[1] * strides[1] + at[2]
    }

    fn cell(&self, index: usize) -> u64 {
        let at = index * CELL_BYTES;
        u64::from_le_bytes(
            self.bytes[at..at + CELL_BYTES]
                .try_into()
                .expect("a cell of 8 bytes"),
        )
    }

    fn set(&mut self, index: usize, value: u64) {
        let at = index * CELL_BYTES;
        self.bytes[at..at + CELL_BYTES].copy_from_slice(&value.to_le_bytes());
    }

    fn fill(&mut self, mut value: impl FnMut([usize; AXES]) -> u64) {
        for x in 0..self.count[0] {
            for y in 0..self.count[1] {
                for z in 0..self.count[2] {
                    let index = self.index([x + 1, y + 1, z + 1]);
                    self.set(index, value([x, y, z]));
                }
            }
        }
    }

    /// Writes the cells of a neighbour's face to the ghost cells on that side of `axis`, in the
    /// order of memory.
    pub fn set_ghosts(&mut self, axis: usize, upper: bool, face: &[u8]) {
        let layer = if upper { self.count[axis] + 1 } else { 0 };
        let (outer, inner) = match axis {
            0 => (1, 2),
            1 => (0, 2),
            _ => (0, 1),
        };
        let mut cells = face.chunks_exact(CELL_BYTES);
        for i in 1..=self.count[outer] {
            for j in 1..=self.count[inner] {
                let mut at = [0; AXES];
                (at[axis], at[outer], at[inner]) = (layer, i, j);
                let begin = self.index(at) * CELL_BYTES;
                let cell = cells.next().expect("a face has a cell for each ghost");
                self.bytes[begin..begin + CELL_BYTES].copy_from_slice(cell);
            }
        }
    }

    /// One Jacobi step: computes every cell from its own value and its neighbours' in `self`. The
    /// integers wrap, so that the result does not depend on the decomposition; each direction has
    /// its own weight, so that a halo on the wrong side changes the result.
    pub fn step_into(&self, next: &mut Grid, axes: &[usize]) {
        let strides = self.strides();
        next.fill(|at| {
            let index = self.index([at[0] + 1, at[1] + 1, at[2] + 1]);
            let mut value = self.cell(index).wrapping_mul(5);
            for &axis in axes {
                let weight = 2 * axis as u64 + 7;
                value = value
                    .wrapping_add(self.cell(index - strides[axis]).wrapping_mul(weight))
                    .wrapping_add(self.cell(index + strides[axis]).wrapping_mul(weight + 16));
            }
            value ^ (value >> 29)
        });
    }

    /// Wrapping sum of the own cells.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.fold(|value, _| value)
    }

    /// A hash of the own cells with their positions in the whole grid; the wrapping sum over all
    /// parts does not depend on the decomposition.
    #[must_use]
    pub fn hash(&self, first: [usize; AXES]) -> u64 {
        self.fold(|value, at| {
            combine(&[
                (first[0] + at[0]) as u64,
                (first[1] + at[1]) as u64,
                (first[2] + at[2]) as u64,
                value,
            ])
        })
    }

    fn fold(&self, contribution: impl Fn(u64, [usize; AXES]) -> u64) -> u64 {
        let mut total = 0u64;
        for x in 0..self.count[0] {
            for y in 0..self.count[1] {
                for z in 0..self.count[2] {
                    let value = self.cell(self.index([x + 1, y + 1, z + 1]));
                    total = total.wrapping_add(contribution(value, [x, y, z]));
                }
            }
        }
        total
    }
}
