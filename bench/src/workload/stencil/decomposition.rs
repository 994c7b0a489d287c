//! The parts of a grid and their ranks: a cartesian grid of ranks, as close to a cube as their
//! number allows.

/// Highest number of dimensions.
pub const AXES: usize = 3;

/// Distribution of a periodic grid over ranks. A 2-D grid is a 3-D grid whose first axis has one
/// cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decomposition {
    /// Number of cells of the whole grid, per axis.
    pub cells: [usize; AXES],
    /// Number of ranks, per axis.
    pub ranks: [usize; AXES],
}

impl Decomposition {
    /// Distributes a grid over `ranks` with the smallest surface between them; `None` if not every
    /// rank can have a cell.
    #[must_use]
    pub fn new(cells: [usize; AXES], ranks: usize) -> Option<Self> {
        factorizations(ranks)
            .into_iter()
            .filter(|factors| {
                factors
                    .iter()
                    .zip(cells)
                    .all(|(&factor, cells)| factor <= cells)
            })
            .map(|ranks| Self { cells, ranks })
            .min_by_key(|decomposition| decomposition.surface_cells())
    }

    /// Number of cells at the cuts between ranks.
    fn surface_cells(&self) -> usize {
        let volume: usize = self.cells.iter().product();
        (0..AXES)
            .map(|axis| (self.ranks[axis] - 1) * volume / self.cells[axis])
            .sum()
    }

    /// The coordinates of a rank.
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> [usize; AXES] {
        let [_, rows, columns] = self.ranks;
        [
            rank / (rows * columns),
            rank / columns % rows,
            rank % columns,
        ]
    }

    /// The neighbour of `rank` along `axis`, periodically.
    #[must_use]
    pub fn neighbour(&self, rank: usize, axis: usize, upward: bool) -> usize {
        let mut at = self.coordinates(rank);
        let along = self.ranks[axis];
        at[axis] = (at[axis] + if upward { 1 } else { along - 1 }) % along;
        (at[0] * self.ranks[1] + at[1]) * self.ranks[2] + at[2]
    }

    /// The first cell of a rank and its number of cells, per axis. If an axis does not divide
    /// evenly, its first ranks have one more cell.
    #[must_use]
    pub fn part(&self, rank: usize) -> ([usize; AXES], [usize; AXES]) {
        let at = self.coordinates(rank);
        let mut first = [0; AXES];
        let mut count = [0; AXES];
        for axis in 0..AXES {
            let (each, over) = (
                self.cells[axis] / self.ranks[axis],
                self.cells[axis] % self.ranks[axis],
            );
            first[axis] = at[axis] * each + at[axis].min(over);
            count[axis] = each + usize::from(at[axis] < over);
        }
        (first, count)
    }
}

/// All ways to write `number` as an ordered product of three factors.
fn factorizations(number: usize) -> Vec<[usize; AXES]> {
    let divisors =
        |number: usize| (1..=number).filter(move |&factor| number.is_multiple_of(factor));
    divisors(number)
        .flat_map(|first| {
            divisors(number / first).map(move |second| [first, second, number / first / second])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_grid_exactly_once() {
        for ranks in 1..=30 {
            for cells in [[1, 40, 37], [31, 32, 33]] {
                let decomposition = Decomposition::new(cells, ranks).unwrap();
                assert_eq!(decomposition.ranks.iter().product::<usize>(), ranks);
                let mut owners = vec![0u8; cells.iter().product()];
                for rank in 0..ranks {
                    let (first, count) = decomposition.part(rank);
                    assert!(count.iter().all(|&count| count > 0));
                    for x in first[0]..first[0] + count[0] {
                        for y in first[1]..first[1] + count[1] {
                            for z in first[2]..first[2] + count[2] {
                                owners[(x * cells[1] + y) * cells[2] + z] += 1;
                            }
                        }
                    }
                }
                assert!(
                    owners.iter().all(|&owners| owners == 1),
                    "{decomposition:?}"
                );
            }
        }
    }

    #[test]
    fn factors_are_close_to_cubic() {
        let factors = |cells, ranks| {
            let mut factors = Decomposition::new(cells, ranks).unwrap().ranks;
            factors.sort_unstable();
            factors
        };
        assert_eq!(factors([64, 64, 64], 8), [2, 2, 2]);
        assert_eq!(factors([64, 64, 64], 12), [2, 2, 3]);
        assert_eq!(factors([1, 64, 64], 16), [1, 4, 4]);
        assert_eq!(factors([1, 64, 64], 5), [1, 1, 5]);
    }

    #[test]
    fn neighbours_know_each_other() {
        let decomposition = Decomposition::new([9, 9, 9], 12).unwrap();
        for rank in 0..12 {
            for axis in 0..AXES {
                let up = decomposition.neighbour(rank, axis, true);
                assert_eq!(decomposition.neighbour(up, axis, false), rank);
                assert_eq!(up == rank, decomposition.ranks[axis] == 1);
            }
        }
    }

    #[test]
    fn too_many_ranks_are_refused() {
        assert_eq!(Decomposition::new([1, 2, 2], 5), None);
        assert!(Decomposition::new([1, 2, 2], 4).is_some());
    }
}
