//! `refrain bench collectives`: the time of collectives, with each protocol and over MPI libraries.
//!
//! # How figures are measured
//!
//! * A measurement is a job, or a start of `mpirun`, for one collective: it measures all sizes. In
//!   each repetition every contestant has its turn at each collective, and each repetition begins
//!   with another one, so that a disturbance of the machine affects all. Tables have the median and
//!   the quartiles over repetitions; ratios are taken within a repetition.
//! * Refrain's ranks and the peers run the same loop (`rank`, `bench/peers/collectives.c`) with the
//!   same plan. The time of an operation is the mean over operations between two barriers, at the
//!   slowest rank, and the median of this over up to 32 such batches: what happens in less than
//!   half of them, to another process's turn on the core or to a log, does not count. Ranks may
//!   run ahead within a batch: the root of a bcast does not wait for the others.
//! * Each measurement begins with an untimed warm-up, which also determines how many operations are
//!   in a batch. A batch is never longer than what the payload log holds between two horizons.
//!   Horizons are published between batches, before the barrier.
//! * The size is that of the vector of bcast, reduce, allreduce and scan, and of one block of the
//!   others. Elements are floats of four bytes, which are summed. Buffers begin on a page, do not
//!   change from operation to operation, and the root is rank 0. Refrain's ranks check the last
//!   result of each measurement.
//! * Overlap: the non-blocking collective alone takes t₁, a computation of about this length alone
//!   takes t₂, and both, with the computation between the begin and the wait, take t₃. The part of
//!   the collective that the computation hides is (t₁ + t₂ − t₃) / t₁, as the OSU
//!   micro-benchmarks define it. The computation makes no call of the library, except for
//!   `--tests`.
//! * Ranks have a core each if there are enough cores, and are not pinned otherwise, also those of
//!   peers.

mod figures;
mod peers;
pub(crate) mod rank;
mod report;

use crate::error::BenchError;
use crate::experiments::jobs::Jobs;
use crate::experiments::{Common, repeat};
use crate::job::Job;
use crate::netpipe::message_cost_bytes;
use crate::report::{format_size, print};
use clap::ValueEnum;
use figures::{Run, figures};
use peers::Peer;
use refrain_job::choice::check_protocol;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Maximum size; larger ones are typing errors.
const SIZE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of an element.
const ELEMENT_BYTES: u64 = 4;
/// Part of the log's memory that is used between two horizons.
const HORIZONS_PART: u64 = 4;

/// Parameters of the measurement of collectives.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Number of ranks.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,
    /// Collectives to measure, separated by commas [default: all].
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_enum, hide_default_value = true,
          default_values_t = Operation::value_variants().to_vec())]
    operations: Vec<Operation>,
    /// Sizes of the vector or block, multiples of 4 bytes, separated by commas.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = refrain_launch::size::parse,
          default_value = "4,8,16,32,64,128,256,512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M")]
    sizes: Vec<u64>,
    /// Protocols to compare.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "none,pessimist"
    )]
    protocol: Vec<String>,
    /// Time of each measurement: of one size, blocking, non-blocking, computation, or both.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.01)]
    time: f64,
    /// Measure blocking collectives only.
    #[arg(long)]
    blocking: bool,
    /// Tests of a collective that is under way, in a computation.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    tests: u32,
    /// Memory of the payload log of each rank.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = refrain_launch::size::parse)]
    log_memory: u64,
    /// Also measure Open MPI and MPICH, with a program that is compiled at the start.
    #[arg(long)]
    peers: bool,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// A collective that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no variant is skipped");
        f.pad(value.get_name())
    }
}

/// A size, and how many operations of it may be between two barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    bytes: u64,
    batch: u64,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bytes, self.batch)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bytes, batch) = text.split_once(':').unwrap_or((text, "1"));
        match (bytes.parse(), batch.parse()) {
            (Ok(bytes), Ok(batch)) if batch > 0 && bytes % ELEMENT_BYTES == 0 => {
                Ok(Self { bytes, batch })
            }
            _ => Err(format!(
                "{text:?} is no SIZE:BATCH: give a multiple of {ELEMENT_BYTES}, and at least 1"
            )),
        }
    }
}

/// Upper bound of the log bytes of a rank for an operation with this size.
fn log_bytes(bytes: u64, ranks: u32) -> u64 {
    2 * u64::from(ranks - 1) * message_cost_bytes(bytes)
}

/// Measures and prints.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let Common {
        repetitions,
        reporting,
        ..
    } = &arguments.common;
    arguments.check()?;
    reporting.check()?;
    let jobs = Jobs::new()?;
    let (found, missing) = match arguments.peers {
        true => peers::find(arguments.ranks, jobs.interrupt())?,
        false => Default::default(),
    };
    for reason in missing {
        eprintln!("{reason}");
    }
    let own = arguments.protocol.iter().map(|it| Contestant::Own(it));
    let mut contestants: Vec<Contestant> = own.chain(found.iter().map(Contestant::Peer)).collect();
    let names: Vec<String> = contestants.iter().map(|it| it.name().to_owned()).collect();
    let cases: Vec<(Operation, usize)> = (arguments.operations.iter())
        .flat_map(|operation| (0..names.len()).map(|index| (*operation, index)))
        .collect();
    let mut left_out = Vec::new();
    let runs = repeat(
        &cases,
        *repetitions,
        reporting,
        |(operation, index)| format!("{operation}, {}", names[index]),
        |repetition, (operation, index)| {
            let measured = contestants[index].measure(arguments, operation, &jobs);
            let measured = match (&contestants[index], measured) {
                (Contestant::Peer(peer), Err(error)) if !is_interrupted(&error) => {
                    left_out.push(format!("{} is left out: {error}", peer.name()));
                    contestants[index] = Contestant::LeftOut;
                    Vec::new()
                }
                (_, measured) => measured?,
            };
            let run = |figures| Run {
                repetition,
                operation,
                contestant: names[index].clone(),
                figures,
            };
            Ok(measured.into_iter().map(run).collect::<Vec<_>>())
        },
    )?;
    let runs = runs.concat();
    reporting.write("collectives", arguments, &runs, || {
        report::chart(arguments, &runs, &names)
    })?;
    print(&report::text(arguments, &runs, &names))?;
    left_out.iter().try_for_each(|reason| print(reason))
}

fn is_interrupted(error: &BenchError) -> bool {
    matches!(error, BenchError::Interrupted)
}

/// A participant that has a turn at each collective.
enum Contestant<'a> {
    /// Refrain with this protocol.
    Own(&'a str),
    Peer(&'a Peer),
    /// A peer that has failed.
    LeftOut,
}

impl Contestant<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Own(protocol) => protocol,
            Self::Peer(peer) => peer.name(),
            Self::LeftOut => "",
        }
    }

    fn measure(
        &self,
        arguments: &Arguments,
        operation: Operation,
        jobs: &Jobs,
    ) -> Result<Vec<figures::Figures>, BenchError> {
        let words = arguments.words(operation);
        let text = match self {
            Self::Own(protocol) => {
                let job = arguments.job(protocol, &words);
                jobs.run(&job, None)?.ended.out
            }
            Self::Peer(peer) => peer.run(&words)?,
            Self::LeftOut => return Ok(Vec::new()),
        };
        let sizes: Vec<u64> = arguments.points(operation).map(|it| it.bytes).collect();
        figures(&text, &sizes, !arguments.blocking).map_err(|problem| {
            BenchError::failed(format!("{operation}, {}: {problem}", self.name()))
        })
    }
}

impl Arguments {
    fn check(&self) -> Result<(), BenchError> {
        let wrong = |bytes: &&u64| {
            !bytes.is_multiple_of(ELEMENT_BYTES) || !(1..=SIZE_BYTES_MAX).contains(*bytes)
        };
        if let Some(bytes) = self.sizes.iter().find(wrong) {
            let problem = format!("{bytes} bytes are no elements of {ELEMENT_BYTES} bytes");
            let help = "give multiples of 4 from 4 to 1G";
            return Err(BenchError::option("--sizes", problem, help));
        }
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        if 2 * log_bytes(largest, self.ranks) > self.log_memory {
            let problem = format!(
                "two operations of {} ranks with {} do not fit in a payload log of {}",
                self.ranks,
                format_size(largest),
                format_size(self.log_memory)
            );
            let help = "raise --log-memory, or lower --sizes";
            return Err(BenchError::option("--sizes", problem, help));
        }
        for name in &self.protocol {
            check_protocol(name).map_err(|error| {
                BenchError::option("--protocol", error, "`refrain info` lists them")
            })?;
        }
        if !(self.time > 0.0 && self.time <= 60.0) {
            let problem = format!("{} seconds cannot be measured", self.time);
            let help = "give more than 0 and at most 60";
            return Err(BenchError::option("--time", problem, help));
        }
        Ok(())
    }

    fn between_horizons(&self) -> u64 {
        self.log_memory / HORIZONS_PART
    }

    /// The sizes of an operation: a barrier has only 0.
    fn points(&self, operation: Operation) -> impl Iterator<Item = Point> {
        let sizes = match operation {
            Operation::Barrier => &[0],
            _ => &self.sizes[..],
        };
        sizes.iter().map(|&bytes| Point {
            bytes,
            batch: (self.between_horizons() / log_bytes(bytes, self.ranks)).max(1),
        })
    }

    /// Arguments of the loop.
    fn words(&self, operation: Operation) -> Vec<String> {
        let mut words = vec![
            operation.to_string(),
            self.time.to_string(),
            self.tests.to_string(),
            (!self.blocking).to_string(),
        ];
        words.extend(self.points(operation).map(|point| point.to_string()));
        words
    }

    /// Clocks are not recorded: reading them would be an event before the first message.
    fn job(&self, protocol: &str, words: &[String]) -> Job {
        let options = format!(
            "--protocol {protocol} --fabric {} --log-memory {} --log-prefault --record-clocks off",
            self.common.fabric, self.log_memory
        );
        let mut job = Job::new(self.ranks, &options, "collective-loop");
        job.workload.extend_from_slice(words);
        let horizons = self.between_horizons().to_string();
        job.workload.extend(["--between-horizons".into(), horizons]);
        job
    }
}

#[cfg(test)]
mod tests;
