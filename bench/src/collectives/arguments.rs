//! The options of `refrain bench collectives`, and what they mean for the loop.

use crate::error::BenchError;
use crate::experiments::{Common, check_loop};
use crate::job::Job;
use crate::mpi_libraries::Source;
use crate::netpipe::message_cost_bytes;
use crate::report::format_size;
use clap::ValueEnum;
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
    pub(super) ranks: u32,
    /// Collectives to measure, separated by commas [default: all].
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_enum, hide_default_value = true,
          default_values_t = Operation::value_variants().to_vec())]
    pub(super) operations: Vec<Operation>,
    /// Sizes of the vector or block, multiples of 4 bytes, separated by commas.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = refrain_launch::size::parse,
          default_value = "4,8,16,32,64,128,256,512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M")]
    pub(super) sizes: Vec<u64>,
    /// Protocols to compare; with `+whole`, results are kept instead of messages.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "none,pessimist"
    )]
    pub(super) protocol: Vec<String>,
    /// Time of each measurement: of one size, blocking, non-blocking, computation, or both.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.01)]
    time: f64,
    /// Measure blocking collectives only.
    #[arg(long)]
    pub(super) blocking: bool,
    /// Tests of a collective that is under way, in a computation.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) tests: u32,
    /// Memory of the payload log of each rank.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = refrain_launch::size::parse)]
    log_memory: u64,
    /// Also measure Open MPI and MPICH, with a program that is compiled at the start.
    #[arg(long)]
    pub(super) peers: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) common: Common,
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
    pub bytes: u64,
    pub batch: u64,
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
pub fn log_bytes(bytes: u64, ranks: u32) -> u64 {
    2 * u64::from(ranks - 1) * message_cost_bytes(bytes)
}

/// A protocol, and what is kept of collectives.
fn split(protocol: &str) -> (&str, &str) {
    match protocol.strip_suffix("+whole") {
        Some(protocol) => (protocol, "whole"),
        None => (protocol, "messages"),
    }
}

impl Arguments {
    pub(super) fn check(&self) -> Result<(), BenchError> {
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
        check_loop(self.protocol.iter().map(|it| split(it).0), self.time)
    }

    fn between_horizons(&self) -> u64 {
        self.log_memory / HORIZONS_PART
    }

    /// The sizes of an operation: a barrier has only 0.
    pub(super) fn points(&self, operation: Operation) -> impl Iterator<Item = Point> {
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
    pub(super) fn words(&self, operation: Operation) -> Vec<String> {
        let mut words = vec![
            operation.to_string(),
            self.time.to_string(),
            self.tests.to_string(),
            (!self.blocking).to_string(),
        ];
        words.extend(self.points(operation).map(|point| point.to_string()));
        words
    }

    /// The loop in C.
    pub(super) fn source(&self) -> Source {
        Source {
            name: "collectives.c",
            text: include_str!("../../peers/collectives.c"),
            ranks: self.ranks,
        }
    }

    /// Clocks are not recorded: reading them would be an event before the first message.
    pub(super) fn job(&self, protocol: &str, words: &[String]) -> Job {
        let (protocol, collectives) = split(protocol);
        let options = format!(
            "--protocol {protocol} --collectives {collectives} --fabric {} --log-memory {} --log-prefault --record-clocks off",
            self.common.fabric, self.log_memory
        );
        let mut job = Job::new(self.ranks, &options, "collective-loop");
        job.workload.extend_from_slice(words);
        let horizons = self.between_horizons().to_string();
        job.workload.extend(["--between-horizons".into(), horizons]);
        job
    }
}
