//! The measured loop: a rank of `refrain bench collectives`, started as
//! `refrain-workload collective-loop`.
//!
//! `bench/peers/collectives.c` is the same loop over MPI, with the same arguments and output.

use super::arguments::{Operation, Point, log_bytes};
use crate::summary::median;
use crate::workload::error::{WorkloadError, ensure};
use refrain::collective::{self, Collective, Operator, Prefix};
use refrain::{Error, Group, World};
use std::fmt::Display;
use std::hint::black_box;
use std::time::Instant;

/// Number of batches of a measurement. It stops earlier when it takes `LATE` times the planned time.
const BATCHES: usize = 32;
const BATCHES_MIN: usize = 3;
const LATE: f64 = 10.0;
/// Buffers begin on a page.
const PAGE_BYTES: usize = 4096;

/// Options of `collective-loop`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The collective.
    #[arg(value_enum)]
    operation: Operation,
    /// Time of each measurement.
    seconds: f64,
    /// Tests of a collective that is under way, in a computation.
    tests: u32,
    /// Also measure the non-blocking collective, alone and with a computation.
    #[arg(action = clap::ArgAction::Set)]
    overlap: bool,
    /// Bytes of the vector or block, and maximum number of operations between barriers.
    #[arg(required = true, value_name = "SIZE:BATCH")]
    points: Vec<Point>,
    /// Log bytes that may be in use before they are freed.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    between_horizons: u64,
}

/// Runs the loop on this rank; rank 0 gets the lines to print.
///
/// # Errors
/// Those of the library, and a wrong result.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    let largest = options.points.iter().map(|point| point.bytes).max();
    let elements = largest.unwrap_or(0) as usize / size_of::<f32>() * world.size() as usize;
    let mut bench = Bench {
        group: world.all(),
        rank: world.rank().0,
        world,
        options,
        input: Buffer::new(elements),
        output: Buffer::new(elements),
        count: 0,
        iterations: 0,
        used_bytes: 0,
        logged_bytes: 0,
        lines: Vec::new(),
    };
    let own = bench.rank as f32 + 1.0;
    bench.input.all().fill(own);
    let rate = match options.overlap {
        true => bench.iterations_per_s()?,
        false => 0.0,
    };
    for point in &options.points {
        bench.point(point, rate)?;
    }
    Ok((bench.rank == 0).then(|| bench.lines.join("\n")))
}

/// What is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blocking,
    /// Begun, and waited for.
    NonBlocking,
    /// A computation alone.
    Computation,
    /// A computation between the begin and the wait.
    Both,
}

/// Of one operation, in seconds.
struct Times {
    /// Median over batches of the mean time in a batch.
    median: f64,
    /// Mean over all.
    mean: f64,
    /// Number of operations, with the warm-up.
    operations: u64,
}

struct Bench<'w> {
    world: &'w mut World,
    group: Group,
    rank: u32,
    options: &'w Options,
    input: Buffer,
    output: Buffer,
    /// Elements of the vector or block.
    count: usize,
    /// Iterations of the computation.
    iterations: u64,
    /// Log bytes since the last horizon, at most.
    used_bytes: u64,
    /// Log bytes of this rank's batches.
    logged_bytes: u64,
    lines: Vec<String>,
}

impl Bench<'_> {
    /// Iterations of the computation per second, with all ranks at work.
    fn iterations_per_s(&mut self) -> Result<f64, WorkloadError> {
        self.iterations = 1000;
        loop {
            let seconds = self.batch(Kind::Computation, 1, 0)?;
            if seconds >= self.options.seconds / 2.0 {
                return Ok(self.iterations as f64 / seconds);
            }
            self.iterations *= 2;
        }
    }

    fn point(&mut self, point: &Point, rate: f64) -> Result<(), WorkloadError> {
        let bytes = point.bytes;
        self.count = bytes as usize / size_of::<f32>();
        // A bcast sends the output.
        let before = match (self.options.operation, self.rank) {
            (Operation::Bcast, 0) => 1.0,
            _ => -1.0,
        };
        self.output.all().fill(before);
        let algorithm = self.algorithm()?;
        self.line(bytes, "algorithm", algorithm);
        self.logged_bytes = 0;
        let blocking = self.measure(Kind::Blocking, point)?;
        self.line(bytes, "blocking", blocking.median);
        self.line(bytes, "mean", blocking.mean);
        let logged = [self.logged_bytes];
        let mut all = [0];
        let sum = collective::allreduce(self.group, Operator::Sum, &logged, &mut all);
        self.world.collective(sum)?;
        self.line(
            bytes,
            "log-bytes",
            all[0] as f64 / blocking.operations as f64,
        );
        self.verify()?;
        if self.options.overlap {
            let alone = self.measure(Kind::NonBlocking, point)?.median;
            self.iterations = (alone * rate) as u64;
            let computation = self.measure(Kind::Computation, point)?.median;
            let both = self.measure(Kind::Both, point)?.median;
            self.line(bytes, "non-blocking", alone);
            self.line(bytes, "computation", computation);
            self.line(bytes, "both", both);
            self.verify()?;
        }
        Ok(())
    }

    fn line(&mut self, bytes: u64, name: &str, value: impl Display) {
        self.lines.push(format!("figure {bytes} {name} {value}"));
    }

    /// All ranks know the same times, and so plan the same.
    fn measure(&mut self, kind: Kind, point: &Point) -> Result<Times, WorkloadError> {
        let time = self.options.seconds / BATCHES as f64;
        // The least: other processes may have the core meanwhile.
        let mut least = self.batch(kind, 1, point.bytes)?;
        let (mut repeats, mut warm_up) = (1, 1);
        while least * (repeats as f64) < time && repeats < point.batch {
            repeats = (2 * repeats).min(point.batch);
            warm_up += repeats;
            least = least.min(self.batch(kind, repeats, point.bytes)? / repeats as f64);
        }
        let repeats = ((time / least) as u64).clamp(1, point.batch);
        let mut means = Vec::with_capacity(BATCHES);
        let mut total = 0.0;
        let late = LATE * self.options.seconds;
        while means.len() < BATCHES && (means.len() < BATCHES_MIN || total < late) {
            let seconds = self.batch(kind, repeats, point.bytes)?;
            total += seconds;
            means.push(seconds / repeats as f64);
        }
        let operations = means.len() as u64 * repeats;
        Ok(Times {
            mean: total / operations as f64,
            operations: warm_up + operations,
            median: median(means).unwrap_or_default(),
        })
    }

    /// Time between barriers, of the slowest rank. The log is freed before the first barrier, so
    /// that no horizon is in the time.
    fn batch(&mut self, kind: Kind, repeats: u64, bytes: u64) -> Result<f64, WorkloadError> {
        let needed = log_bytes(bytes, self.group.size()) * repeats;
        if self.used_bytes > 0 && self.used_bytes + needed > self.options.between_horizons {
            self.world.publish_horizon()?;
            self.used_bytes = 0;
        }
        self.used_bytes += needed;
        let logged_before = self.world.statistics().log_bytes_appended;
        self.world.barrier()?;
        let began = Instant::now();
        for _ in 0..repeats {
            self.once(kind)?;
        }
        let own = [began.elapsed().as_secs_f64()];
        self.logged_bytes += self.world.statistics().log_bytes_appended - logged_before;
        let mut most = [0.0];
        let slowest = collective::allreduce(self.group, Operator::Max, &own, &mut most);
        self.world.collective(slowest)?;
        Ok(most[0])
    }

    fn once(&mut self, kind: Kind) -> Result<(), Error> {
        let tests = self.options.tests;
        let slice = self.iterations / u64::from(tests + 1);
        if kind == Kind::Computation {
            (0..=tests).for_each(|_| compute(slice));
            return Ok(());
        }
        let (input, output) = (self.input.all(), self.output.all());
        let call = call(
            self.options.operation,
            self.group,
            self.count,
            input,
            output,
        );
        if kind == Kind::Blocking {
            return self.world.collective(call);
        }
        self.world.scope(|scope| {
            let mut request = scope.icollective(call)?;
            if kind == Kind::Both {
                for done in 0..=tests {
                    compute(slice);
                    if done < tests {
                        scope.test(&mut request)?;
                    }
                }
            }
            scope.wait(&mut request).map(drop)
        })
    }

    /// The algorithm of the table of choice.
    fn algorithm(&mut self) -> Result<collective::Algorithm, Error> {
        let (input, output) = (self.input.all(), self.output.all());
        let call = call(
            self.options.operation,
            self.group,
            self.count,
            input,
            output,
        );
        self.world.algorithm(call)
    }

    /// Checks the results of the last operation, if this rank has any: the input of each rank
    /// consists of its number, counted from 1.
    fn verify(&mut self) -> Result<(), WorkloadError> {
        let (rank, size, count) = (self.rank, self.group.size(), self.count);
        let up_to = |ranks: u32| (ranks * (ranks + 1) / 2) as f32;
        let of_all: Vec<f32> = (1..=size).map(|rank| rank as f32).collect();
        let is_root = rank == 0;
        let blocks = match self.options.operation {
            Operation::Barrier => Vec::new(),
            Operation::Gather | Operation::Reduce if !is_root => Vec::new(),
            Operation::Bcast | Operation::Scatter => vec![1.0],
            Operation::Gather | Operation::Allgather | Operation::Alltoall => of_all,
            Operation::Reduce | Operation::Allreduce | Operation::ReduceScatter => {
                vec![up_to(size)]
            }
            Operation::Scan => vec![up_to(rank + 1)],
        };
        for (block, expected) in blocks.iter().enumerate() {
            let found = &self.output.all()[block * count..][..count];
            let wrong = found.iter().find(|value| *value != expected);
            ensure!(
                wrong.is_none(),
                "rank {rank}: block {block} of {count} elements has {wrong:?}, not {expected}"
            );
        }
        Ok(())
    }
}

/// The collective with these buffers; its root is place 0.
fn call<'a>(
    operation: Operation,
    group: Group,
    count: usize,
    input: &'a [f32],
    output: &'a mut [f32],
) -> Collective<'a> {
    let blocks = count * group.size() as usize;
    let is_root = group.place() == 0;
    let at_root = |elements| if is_root { elements } else { 0 };
    let sum = Operator::Sum;
    match operation {
        Operation::Barrier => collective::barrier(group),
        Operation::Bcast => collective::bcast(group, 0, &mut output[..count]),
        Operation::Gather => {
            collective::gather(group, 0, &input[..count], &mut output[..at_root(blocks)])
        }
        Operation::Scatter => {
            collective::scatter(group, 0, &input[..at_root(blocks)], &mut output[..count])
        }
        Operation::Allgather => {
            collective::allgather(group, &input[..count], &mut output[..blocks])
        }
        Operation::Alltoall => collective::alltoall(group, &input[..blocks], &mut output[..blocks]),
        Operation::Reduce => {
            let output = &mut output[..at_root(count)];
            collective::reduce(group, 0, sum, &input[..count], output)
        }
        Operation::Allreduce => {
            collective::allreduce(group, sum, &input[..count], &mut output[..count])
        }
        Operation::ReduceScatter => {
            collective::reduce_scatter_block(group, sum, &input[..blocks], &mut output[..count])
        }
        Operation::Scan => {
            let prefix = Prefix::Inclusive;
            collective::scan(group, sum, prefix, &input[..count], &mut output[..count])
        }
    }
}

/// A chain of dependent operations in registers.
fn compute(iterations: u64) {
    let mut value = black_box(1.0);
    for _ in 0..iterations {
        value = value * 0.999_999 + 1e-6;
    }
    black_box(value);
}

/// Elements from the beginning of a page on, all written once.
struct Buffer {
    storage: Vec<f32>,
    start: usize,
}

impl Buffer {
    fn new(elements: usize) -> Self {
        let mut storage = Vec::with_capacity(elements + PAGE_BYTES / size_of::<f32>());
        // Not `vec![0.0; n]`: the kernel would map its pages at their first access.
        storage.resize(storage.capacity(), 1.0);
        let start = storage.as_ptr().align_offset(PAGE_BYTES);
        Self { storage, start }
    }

    fn all(&mut self) -> &mut [f32] {
        &mut self.storage[self.start..]
    }
}
