//! `refrain netpipe`: a NetPIPE-style sweep between two ranks.
//!
//! After Q. O. Snell, A. R. Mikler, J. L. Gustafson, "NetPIPE: A Network
//! Protocol Independent Performance Evaluator" (1996): messages of growing size
//! go back and forth between two processes; half the time of a round trip is
//! the latency of a size, its bytes over that time the bandwidth. With
//! `--receive any` the receiving side posts a receive from any source and waits
//! with `wait_any`, as Bouteiller, Ropars, Bosilca, Morin and Dongarra changed
//! NetPIPE to see the cost of logging non-deterministic events.
//!
//! # How figures are made
//!
//! * One job of two ranks per fabric and protocol; all jobs are alive at the same
//!   time and exactly one measures. The ranks of the others sleep on their
//!   command pipe. Per size there are some rounds, and in each round every
//!   job has a turn, in rotating order: a disturbance of the machine
//!   meets all of them. Overheads are medians of ratios within a round,
//!   against `none` on the same fabric.
//! * A rank that has done its part of a round makes progress until the other one
//!   has, too: what it sent last may still need it.
//! * Ping-pong: each side sends from and receives into **the same buffer**, as in
//!   NetPIPE: a rank sends what it has received. Buffers begin on a page and
//!   have been written before the clock runs. The content is verified after
//!   each round, outside the timed part.
//! * Bidirectional: both sides send at the same time and wait for both; two
//!   buffers change roles. The time is that of one exchange, the bandwidth the
//!   sum of both directions.
//! * Stream: rank 0 sends windows of up to 64 messages (64 MiB), rank 1
//!   acknowledges each window. The time is that of a window over its messages.
//! * Where a round trip takes less than 2 µs, reading the clock would disturb
//!   it: a sample is the mean of a batch of round trips that take 5 µs together.
//!   `batch` in the JSON is their number; percentiles are over such samples.
//! * Each round begins with an untimed warm-up, which also finds how many round
//!   trips fit in the round.
//! * Protocols that keep payload are asked to free it (`publish_horizon`) before
//!   more than a quarter of the log's memory was sent, between timed segments;
//!   with `--spill-dir` after four times that memory (`--log-times`), so that
//!   most of the log goes to disk.
//! * With `--spill-dir` the disk alone has a turn in each round, as long as those
//!   of the jobs: two files, one for each rank, written past the page cache,
//!   eight blocks of 256 KiB under way in each, to files that are preallocated
//!   before the clock runs. The target of a round is the lesser of `none` and of
//!   what that disk could log; both sides of `÷ target` are of means, as waits for
//!   a disk meet few messages. At each horizon the part of the log in memory is freed
//!   without a write: a log of four times its memory may so reach four thirds of the speed
//!   of its disk (`log_part_on_disk` is the written part). Rounds must be long: one in
//!   which less than twice the log's memory was sent shows the memory, not the disk, and
//!   is named below the table.

mod arguments;
mod check;
mod command;
mod disk_alone;
mod driver;
mod fabrics;
mod log_budget;
mod log_figures;
mod log_use;
mod measure;
mod peers;
mod plot;
mod rank;
mod ranks;
mod result;
mod sizes;
mod table;

pub use arguments::Arguments;
pub use check::{CheckArguments, check};
pub use rank::rank_main;

use crate::error::status;
use std::process::ExitCode;

/// Exit status when what was asked for cannot be.
const USAGE: u8 = 2;

/// Runs the sweep and prints its table. A wrong option is explained, and the
/// status is 2.
///
/// # Errors
/// When a job cannot be started or fails, or a file cannot be written. Records made until
/// then have been printed.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    match arguments.check() {
        Ok(settings) => status(driver::run(&settings)),
        Err(error) => {
            eprintln!("{:?}", miette::Report::new(error));
            Ok(ExitCode::from(USAGE))
        }
    }
}
