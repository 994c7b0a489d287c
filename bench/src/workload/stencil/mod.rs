//! A halo exchange: a periodic 2-D or 3-D grid of integers, divided into blocks, whose cells
//! change with their neighbours. The checksum is the same for every number of ranks.

mod decomposition;
mod face;
mod grid;

use super::coordinated::Coordinated;
use super::error::{WorkloadError, ensure};
use super::horizon::Horizon;
use super::prng::combine;
use super::total;
use decomposition::{AXES, Decomposition};
use face::Face;
use grid::{CELL_BYTES, Grid};
use refrain::{Layout, Outgoing, Scope, Status, World, from, from_any, to};
use std::sync::Arc;

const CONTEXT: u32 = 1;
/// Sections of a checkpoint: iterations with checksum, and cells with ghost cells.
const STATE: u64 = 1;
const CELLS: u64 = 2;

/// Options of `stencil`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Dimensions of the grid, 2 or 3.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=3))]
    dimensions: u32,
    /// Cells along each dimension.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Number of iterations, in each of which all cells change.
    #[arg(long, default_value_t = 100)]
    iterations: u64,
    /// Iterations between two sums of the grid over all ranks; 0: no sums. The sums are part
    /// of the checksum.
    #[arg(long, value_name = "ITERATIONS", default_value_t = 10)]
    reduce_every: u64,
    /// Use persistent requests instead of isend and irecv.
    #[arg(long)]
    persistent: bool,
    /// Receive faces from any source, by their tags: each receive is an event.
    #[arg(long)]
    any: bool,
    /// Compute the same on rank 0 alone at the end and compare.
    #[arg(long)]
    verify: bool,
    /// Print a hash of the final grid too, on a line of its own.
    #[arg(long)]
    print_grid_hash: bool,
    #[command(flatten)]
    coordinated: Coordinated,
    #[command(flatten)]
    horizon: Horizon,
}

/// The result over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    grid_hash: u64,
    checksum: u64,
}

impl Options {
    fn cells(&self) -> [usize; AXES] {
        [
            if self.dimensions == 3 { self.size } else { 1 },
            self.size,
            self.size,
        ]
    }

    fn axes(&self) -> &'static [usize] {
        if self.dimensions == 3 {
            &[0, 1, 2]
        } else {
            &[1, 2]
        }
    }

    fn reduces_after(&self, iteration: u64) -> bool {
        self.reduce_every > 0 && (iteration + 1).is_multiple_of(self.reduce_every)
    }
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, wrong halos, more ranks than the grid has cells for.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    let ranks = world.size() as usize;
    let decomposition = Decomposition::new(options.cells(), ranks).ok_or_else(|| {
        WorkloadError::Options(format!(
            "{ranks} ranks cannot share a grid of {} cells along each of {} dimensions: give a larger --size",
            options.size, options.dimensions
        ))
    })?;
    let outcome = iterate(world, options, &decomposition)?;
    if world.rank().0 > 0 {
        return Ok(None);
    }
    if options.verify {
        let expected = serial(options);
        ensure!(
            outcome == expected,
            "the ranks computed {outcome:x?}, one alone computes {expected:x?}"
        );
    }
    let mut line = format!(
        "stencil: dimensions {} size {} iterations {} checksum {:016x}",
        options.dimensions, options.size, options.iterations, outcome.checksum
    );
    if options.print_grid_hash {
        line = format!("stencil: grid hash {:016x}\n{line}", outcome.grid_hash);
    }
    Ok(Some(line))
}

fn iterate(
    world: &mut World,
    options: &Options,
    decomposition: &Decomposition,
) -> Result<Outcome, WorkloadError> {
    let rank = world.rank().index();
    let (first, count) = decomposition.part(rank);
    let mut grid = Grid::new(first, count);
    let mut next = grid.clone();
    let halo = Halo::new(&grid, decomposition, rank, options)?;
    let (mut begin, mut checksum) = (0, 0);
    if let Some(mut restored) = world.restored()? {
        (begin, checksum) = restored.value(STATE)?;
        restored.memory(CELLS, grid.bytes_mut())?;
    } else if let Some(state) = options.coordinated.newest(world, grid.bytes_mut())? {
        (begin, checksum) = state;
    }
    for iteration in begin..options.iterations {
        halo.exchange(world, &mut grid)?;
        grid.step_into(&mut next, options.axes());
        std::mem::swap(&mut grid, &mut next);
        if options.reduces_after(iteration) {
            checksum = combine(&[checksum, total::sum(world, grid.sum())?]);
        }
        let state = (iteration + 1, checksum);
        options.coordinated.after(world, state, grid.bytes())?;
        options.horizon.after(world, iteration, |image| {
            image.protect_value(STATE, &state)?;
            image.protect(CELLS, grid.bytes())
        })?;
    }
    let grid_hash = total::sum(world, grid.hash(first))?;
    Ok(Outcome {
        grid_hash,
        checksum: combine(&[checksum, grid_hash]),
    })
}

/// Computes the result on this rank alone.
fn serial(options: &Options) -> Outcome {
    let mut grid = Grid::new([0; AXES], options.cells());
    let mut next = grid.clone();
    let mut checksum = 0;
    for iteration in 0..options.iterations {
        wrap_around(&mut grid, options.axes());
        grid.step_into(&mut next, options.axes());
        std::mem::swap(&mut grid, &mut next);
        if options.reduces_after(iteration) {
            checksum = combine(&[checksum, grid.sum()]);
        }
    }
    let grid_hash = grid.hash([0; AXES]);
    Outcome {
        grid_hash,
        checksum: combine(&[checksum, grid_hash]),
    }
}

/// Fills the ghost cells of a grid that is its own neighbour, cell by cell.
fn wrap_around(grid: &mut Grid, axes: &[usize]) {
    let count = grid.count();
    for &axis in axes {
        for upper in [false, true] {
            let mut cells = Vec::new();
            for x in 1..=count[0] {
                for y in 1..=count[1] {
                    for z in 1..=count[2] {
                        let at = [x, y, z];
                        if at[axis] == if upper { 1 } else { count[axis] } {
                            let begin = grid.index(at) * CELL_BYTES;
                            cells.extend_from_slice(&grid.bytes()[begin..begin + CELL_BYTES]);
                        }
                    }
                }
            }
            grid.set_ghosts(axis, upper, &cells);
        }
    }
}

/// One face, and the rank on the other side of it.
struct Side {
    face: Face,
    neighbour: u32,
    layout: Option<Arc<Layout>>,
    bytes: usize,
    send_tag: i32,
    receive_tag: i32,
}

/// The exchange of all faces of one rank.
struct Halo {
    sides: Vec<Side>,
    persistent: bool,
    any: bool,
}

impl Halo {
    fn new(
        grid: &Grid,
        decomposition: &Decomposition,
        rank: usize,
        options: &Options,
    ) -> Result<Self, refrain::Error> {
        let mut sides = Vec::new();
        for &axis in options.axes() {
            for upper in [false, true] {
                let face = Face { axis, upper };
                // The tag identifies the face of the sender: with two ranks along an axis both
                // sides have the same neighbour.
                let tag = |upper: bool| 2 * axis as i32 + i32::from(upper);
                sides.push(Side {
                    face,
                    neighbour: decomposition.neighbour(rank, axis, upper) as u32,
                    layout: face.shape(grid).layout()?,
                    bytes: face.cells(grid) * CELL_BYTES,
                    send_tag: tag(upper),
                    receive_tag: tag(!upper),
                });
            }
        }
        Ok(Self {
            sides,
            persistent: options.persistent,
            any: options.any,
        })
    }

    /// Sends all faces, and receives the neighbours' faces into the ghost cells.
    fn exchange(&self, world: &mut World, grid: &mut Grid) -> Result<(), WorkloadError> {
        let mut ghosts: Vec<Vec<u8>> = self.sides.iter().map(|side| vec![0; side.bytes]).collect();
        let statuses = world.scope(|scope| self.transfer(scope, grid, &mut ghosts))?;
        for ((side, ghosts), status) in self.sides.iter().zip(&ghosts).zip(statuses) {
            let (bytes, source) = (status.bytes, status.source.0);
            ensure!(
                bytes == side.bytes as u64
                    && source == side.neighbour
                    && status.tag == side.receive_tag,
                "{:?}: got {status:?}, expected {} bytes from rank {}",
                side.face,
                side.bytes,
                side.neighbour
            );
            grid.set_ghosts(side.face.axis, side.face.upper, ghosts);
        }
        Ok(())
    }

    /// The messages of one exchange; returns the statuses of the receives.
    fn transfer<'env>(
        &'env self,
        scope: &mut Scope<'_, 'env>,
        grid: &'env Grid,
        ghosts: &'env mut [Vec<u8>],
    ) -> Result<Vec<Status>, refrain::Error> {
        let mut requests = Vec::with_capacity(2 * self.sides.len());
        for (side, ghosts) in self.sides.iter().zip(ghosts) {
            // A face has one sender, also if any is asked for.
            let source = match self.any {
                true => from_any(),
                false => from(side.neighbour),
            };
            let from = source.tag(side.receive_tag).context(CONTEXT);
            requests.push(if self.persistent {
                scope.recv_init(ghosts, from)?
            } else {
                scope.irecv(ghosts, from)?
            });
        }
        for side in &self.sides {
            let layout = side.layout.as_ref().expect("a face is no plain slice");
            let face = Outgoing::with_layout(side.face.slice(grid), layout)?;
            let to = to(side.neighbour).tag(side.send_tag).context(CONTEXT);
            requests.push(if self.persistent {
                scope.send_init(face, to)?
            } else {
                scope.isend(face, to)?
            });
        }
        if self.persistent {
            for request in &mut requests {
                scope.start(request)?;
            }
        }
        let mut statuses = scope.wait_all(&mut requests)?;
        statuses.truncate(self.sides.len());
        Ok(statuses)
    }
}

#[cfg(test)]
mod tests;
