use super::*;

fn options(dimensions: u32, size: usize, iterations: u64) -> Options {
    Options {
        dimensions,
        size,
        iterations,
        reduce_every: 3,
        persistent: false,
        any: false,
        verify: false,
        print_grid_hash: false,
        coordinated: Coordinated::never(),
        horizon: Horizon::never(),
    }
}

/// The bytes of a face, piece by piece.
fn bytes_of(face: Face, grid: &Grid) -> Vec<u8> {
    let slice = face.slice(grid);
    let pieces = face.shape(grid).pieces().into_iter();
    pieces
        .flat_map(|(offset, bytes)| slice[offset..offset + bytes].to_vec())
        .collect()
}

/// Computes with all ranks in one thread: faces are copied byte by byte as their layouts describe.
fn decomposed(options: &Options, ranks: usize) -> Outcome {
    let decomposition = Decomposition::new(options.cells(), ranks).unwrap();
    let parts: Vec<_> = (0..ranks).map(|rank| decomposition.part(rank)).collect();
    let mut grids: Vec<_> = parts
        .iter()
        .map(|&(first, count)| Grid::new(first, count))
        .collect();
    let mut checksum = 0;
    for iteration in 0..options.iterations {
        let before = grids.clone();
        for (rank, grid) in grids.iter_mut().enumerate() {
            let mut full = before[rank].clone();
            for &axis in options.axes() {
                for upper in [false, true] {
                    let neighbour = &before[decomposition.neighbour(rank, axis, upper)];
                    let face = Face {
                        axis,
                        upper: !upper,
                    };
                    let bytes = bytes_of(face, neighbour);
                    assert_eq!(bytes.len(), face.cells(neighbour) * CELL_BYTES);
                    full.set_ghosts(axis, upper, &bytes);
                }
            }
            full.step_into(grid, options.axes());
        }
        if options.reduces_after(iteration) {
            let sum = grids
                .iter()
                .fold(0u64, |sum, grid| sum.wrapping_add(grid.sum()));
            checksum = combine(&[checksum, sum]);
        }
    }
    let grid_hash = grids.iter().zip(&parts).fold(0u64, |sum, (grid, part)| {
        sum.wrapping_add(grid.hash(part.0))
    });
    Outcome {
        grid_hash,
        checksum: combine(&[checksum, grid_hash]),
    }
}

#[test]
fn every_decomposition_computes_what_one_rank_computes() {
    for (dimensions, size) in [(2, 13), (3, 7)] {
        let options = options(dimensions, size, 7);
        let expected = serial(&options);
        for ranks in [1, 2, 3, 4, 5, 6, 8, 12] {
            assert_eq!(
                decomposed(&options, ranks),
                expected,
                "{dimensions}-D on {ranks} ranks"
            );
        }
    }
}

#[test]
fn a_step_is_the_rule_written_out() {
    // One cell that is its own neighbour in all directions.
    let options = options(2, 1, 1);
    let mut grid = Grid::new([0; AXES], options.cells());
    let before = grid.sum();
    wrap_around(&mut grid, options.axes());
    let mut next = grid.clone();
    grid.step_into(&mut next, options.axes());
    let value = before.wrapping_mul(5 + (9 + 25) + (11 + 27));
    assert_eq!(next.sum(), value ^ (value >> 29));
}

#[test]
fn each_side_counts() {
    for axis in 0..AXES {
        let grid = {
            let mut grid = Grid::new([0; AXES], [2, 2, 2]);
            wrap_around(&mut grid, &[0, 1, 2]);
            grid
        };
        let mut swapped = grid.clone();
        let faces: Vec<_> = [false, true]
            .map(|upper| bytes_of(Face { axis, upper }, &grid))
            .into();
        swapped.set_ghosts(axis, false, &faces[0]);
        swapped.set_ghosts(axis, true, &faces[1]);
        let step = |grid: &Grid| {
            let mut next = grid.clone();
            grid.step_into(&mut next, &[0, 1, 2]);
            next.hash([0; AXES])
        };
        assert_ne!(step(&grid), step(&swapped), "axis {axis}");
    }
}
