//! Topologies of communicators (MPI-5.0, chapter 8): who neighbours whom.

use super::exports as abi;
use super::failure::{Failure, Result};
use core::ffi::c_int;
use std::sync::Arc;

/// A topology. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Topology {
    Cartesian(Arc<Grid>),
    /// Neighbours of each place: ends of its list, and all lists.
    Graph(Arc<(Vec<c_int>, Vec<c_int>)>),
    Distributed(Arc<Edges>),
}

/// A grid of processes; the last dimension varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    pub sizes: Vec<c_int>,
    pub wraps: Vec<bool>,
}

/// The edges of one place, with their weights, if they have some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    pub sources: Vec<c_int>,
    pub source_weights: Vec<c_int>,
    pub destinations: Vec<c_int>,
    pub destination_weights: Vec<c_int>,
    pub is_weighted: bool,
}

impl Grid {
    /// Number of places.
    pub fn places(&self) -> Option<c_int> {
        self.sizes
            .iter()
            .try_fold(1, |all: c_int, size| all.checked_mul(*size))
    }

    pub fn coordinates(&self, place: c_int) -> Vec<c_int> {
        let mut rest = place;
        let mut coordinates: Vec<c_int> = (self.sizes.iter().rev())
            .map(|size| {
                let coordinate = rest % size;
                rest /= size;
                coordinate
            })
            .collect();
        coordinates.reverse();
        coordinates
    }

    /// The place at these coordinates; `None` beyond an end that does not wrap.
    pub fn place(&self, coordinates: &[c_int]) -> Option<c_int> {
        let dimensions = self.sizes.iter().zip(&self.wraps).zip(coordinates);
        dimensions
            .into_iter()
            .try_fold(0, |place, ((size, wraps), coordinate)| {
                let inside = match wraps {
                    true => coordinate.rem_euclid(*size),
                    false if (0..*size).contains(coordinate) => *coordinate,
                    false => return None,
                };
                Some(place * size + inside)
            })
    }

    /// The places from which and to which a shift goes; `MPI_PROC_NULL` beyond an end.
    pub fn shift(&self, place: c_int, dimension: usize, by: c_int) -> (c_int, c_int) {
        let at = |by: i64| {
            let mut coordinates = self.coordinates(place);
            let size = i64::from(self.sizes[dimension]);
            let moved = i64::from(coordinates[dimension]) + by;
            coordinates[dimension] = match self.wraps[dimension] {
                true => moved.rem_euclid(size) as c_int,
                false => c_int::try_from(moved).unwrap_or(-1),
            };
            self.place(&coordinates).unwrap_or(abi::PROC_NULL)
        };
        (at(-i64::from(by)), at(i64::from(by)))
    }

    /// The neighbours in the order of the standard: for each dimension, the one before and the one
    /// after.
    fn neighbours(&self, place: c_int) -> Vec<c_int> {
        let shifts = (0..self.sizes.len()).map(|dimension| self.shift(place, dimension, 1));
        shifts.flat_map(|(before, after)| [before, after]).collect()
    }

    /// The grid of the dimensions that remain, the number of the part of the whole grid, and the
    /// place in it.
    pub fn part(&self, place: c_int, remains: &[bool]) -> (Self, c_int, c_int) {
        let coordinates = self.coordinates(place);
        let pick = |which: bool| {
            let chosen = |(index, _): &(usize, &c_int)| remains[*index] == which;
            let sizes = self.sizes.iter().enumerate().filter(chosen);
            let sizes: Vec<(usize, c_int)> = sizes.map(|(index, size)| (index, *size)).collect();
            let number = sizes.iter().fold(0, |number, (index, size)| {
                number * size + coordinates[*index]
            });
            (sizes, number)
        };
        let ((kept, key), (_, color)) = (pick(true), pick(false));
        let grid = Self {
            wraps: kept.iter().map(|(index, _)| self.wraps[*index]).collect(),
            sizes: kept.into_iter().map(|(_, size)| size).collect(),
        };
        (grid, color, key)
    }
}

impl Topology {
    /// Sources and destinations of the edges of a place.
    pub fn edges(&self, place: c_int) -> (Vec<c_int>, Vec<c_int>) {
        match self {
            Self::Cartesian(grid) => {
                let neighbours = grid.neighbours(place);
                (neighbours.clone(), neighbours)
            }
            Self::Graph(_) => {
                let neighbours = self.of_graph(place).unwrap_or_default().to_vec();
                (neighbours.clone(), neighbours)
            }
            Self::Distributed(edges) => (edges.sources.clone(), edges.destinations.clone()),
        }
    }

    /// The neighbours of a place of a graph.
    pub fn of_graph(&self, place: c_int) -> Option<&[c_int]> {
        let Self::Graph(graph) = self else {
            return None;
        };
        let (ends, all) = &**graph;
        let place = usize::try_from(place).ok()?;
        let end = *ends.get(place)?;
        let begin = place.checked_sub(1).map_or(0, |before| ends[before]);
        all.get(begin as usize..end as usize)
    }
}

/// Chooses the sizes that are 0, as equal as possible and falling, so that all have `places` places.
///
/// # Errors
/// The given sizes do not divide the number of places.
pub fn divide(places: c_int, sizes: &mut [c_int]) -> Result {
    let given = sizes.iter().filter(|size| **size != 0);
    let given = given.fold(1i64, |all, size| all.saturating_mul(i64::from(*size)));
    let wrong = sizes.iter().any(|size| *size < 0);
    if wrong || places < 1 || given < 1 || i64::from(places) % given != 0 {
        return Err(Failure::new(
            abi::ERR_DIMS,
            format_args!("{places} places cannot be divided into dimensions of {sizes:?}"),
        ));
    }
    let open = sizes.iter().filter(|size| **size == 0).count();
    let left = i64::from(places) / given;
    if open == 0 {
        return match left {
            1 => Ok(()),
            _ => Err(Failure::new(
                abi::ERR_DIMS,
                format_args!("dimensions of {sizes:?} do not have {places} places"),
            )),
        };
    }
    let divisors: Vec<i64> = divisors(left);
    let chosen = most_equal(&divisors, left, open, left);
    let mut chosen = chosen.unwrap_or_default().into_iter();
    for size in sizes.iter_mut().filter(|size| **size == 0) {
        *size = chosen.next().unwrap_or(1) as c_int;
    }
    Ok(())
}

/// The divisors of a number, rising.
fn divisors(number: i64) -> Vec<i64> {
    let small = (1..).take_while(|divisor| divisor * divisor <= number);
    let small: Vec<i64> = small.filter(|divisor| number % divisor == 0).collect();
    let large = small.iter().rev().map(|divisor| number / divisor);
    let mut all: Vec<i64> = small.iter().copied().chain(large).collect();
    all.dedup();
    all
}

/// Falling factors of a number, none above `most`, whose first and last one are as close to each
/// other as possible. `divisors` are those of a multiple of the number.
fn most_equal(divisors: &[i64], number: i64, factors: usize, most: i64) -> Option<Vec<i64>> {
    if factors == 1 {
        return (number <= most).then(|| vec![number]);
    }
    let enough = |first: i64| {
        let all = first.checked_pow(factors as u32);
        all.is_none_or(|all| all >= number)
    };
    let mut best: Option<Vec<i64>> = None;
    for first in divisors.iter().copied().filter(|first| number % first == 0) {
        // The last one is at most the root of the rest, so no larger first one is better.
        let spread = best.as_ref().map(|best| best[0] - best[factors - 1]);
        if first > most
            || spread.is_some_and(|spread| first - number / first > spread && factors == 2)
        {
            break;
        }
        if !enough(first) {
            continue;
        }
        let Some(rest) = most_equal(divisors, number / first, factors - 1, first) else {
            continue;
        };
        if spread.is_none_or(|spread| first - rest[factors - 2] < spread) {
            best = Some([vec![first], rest].concat());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(sizes: &[c_int], wraps: &[bool]) -> Grid {
        Grid {
            sizes: sizes.into(),
            wraps: wraps.into(),
        }
    }

    #[test]
    fn places_and_coordinates_fit() {
        let of = grid(&[3, 1, 4], &[true, false, false]);
        assert_eq!(of.places(), Some(12));
        for place in 0..12 {
            assert_eq!(of.place(&of.coordinates(place)), Some(place));
        }
        assert_eq!(of.coordinates(7), [1, 0, 3]);
        assert_eq!(of.place(&[-1, 0, 0]), of.place(&[2, 0, 0]));
        assert_eq!(of.place(&[0, 1, 0]), None);
    }

    #[test]
    fn a_shift_ends_or_wraps() {
        let of = grid(&[3, 2], &[true, false]);
        assert_eq!(of.shift(0, 0, 1), (4, 2));
        assert_eq!(of.shift(0, 1, 1), (abi::PROC_NULL, 1));
        assert_eq!(of.shift(0, 0, 4), (4, 2));
        assert_eq!(of.shift(3, 1, c_int::MAX), (abi::PROC_NULL, abi::PROC_NULL));
        assert_eq!(of.neighbours(0), [4, 2, abi::PROC_NULL, 1]);
    }

    #[test]
    fn parts_keep_their_dimensions() {
        let of = grid(&[3, 2, 4], &[true, false, true]);
        let (part, color, key) = of.part(of.place(&[2, 1, 3]).unwrap(), &[true, false, true]);
        assert_eq!(part, grid(&[3, 4], &[true, true]));
        assert_eq!((color, key), (1, 11));
    }

    #[test]
    fn dimensions_are_as_equal_as_possible() {
        for (places, sizes, expected) in [
            (6, &[0, 0][..], &[3, 2][..]),
            (7, &[0, 0], &[7, 1]),
            (6, &[0, 3, 0], &[2, 3, 1]),
            (12, &[0, 0, 0], &[3, 2, 2]),
            (1, &[0, 0], &[1, 1]),
            (64, &[0, 0, 0], &[4, 4, 4]),
            (36, &[0, 0], &[6, 6]),
            (24624, &[0, 0, 0], &[38, 27, 24]),
        ] {
            let mut divided = sizes.to_vec();
            divide(places, &mut divided).unwrap();
            assert_eq!(divided, expected, "{places} {sizes:?}");
        }
        for (places, sizes) in [(7, &[0, 3, 0][..]), (6, &[2, 2]), (6, &[-1, 0]), (0, &[0])] {
            assert!(divide(places, &mut sizes.to_vec()).is_err());
        }
    }
}
