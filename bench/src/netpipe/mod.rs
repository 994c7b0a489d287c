//! `refrain netpipe`: a NetPIPE-style sweep between two ranks.
//!
//! After Q. O. Snell, A. R. Mikler, J. L. Gustafson, "NetPIPE: A Network
//! Protocol Independent Performance Evaluator" (1996): messages of growing size go back and forth
//! between two processes; half the time of a round trip is the latency of a size, its bytes over
//! that time the bandwidth. With `--receive any` the receiving side posts a receive from any
//! source and waits with `wait_any`, as Bouteiller, Ropars, Bosilca, Morin and Dongarra changed
//! NetPIPE to measure the cost of logging non-deterministic events.
//!
//! # How figures are measured
//!
//! * One job of two ranks per fabric and protocol. All jobs run at the same time, but only one
//!   measures; the ranks of the others sleep on their command pipes. Each size has several rounds,
//!   and each job has a turn in each round, in rotating order, so that a disturbance of the
//!   machine affects all jobs. Overheads are medians of ratios within a round, relative to `none`
//!   on the same fabric.
//! * A rank that has done its part of a round makes progress until the other rank has done so,
//!   too: the last messages may still need it.
//! * Ping-pong: each side sends from and receives into **the same buffer**, as in NetPIPE: a rank
//!   sends what it has received. Buffers begin on a page and have been written before the clock
//!   runs. The content is verified after each round, outside the timed part.
//! * Bidirectional: both sides send at the same time and wait for both transfers; two buffers are
//!   exchanged. The time is that of one exchange, the bandwidth the sum of both directions.
//! * Stream: rank 0 sends windows of up to 64 messages (64 MiB), rank 1 acknowledges each window.
//!   The time is that of a window divided by its messages.
//! * If a round trip takes less than 2 µs, reading the clock would disturb it: a sample is then
//!   the mean of a batch of round trips that take 5 µs together. `batch` in the JSON is their
//!   number; percentiles are over such samples.
//! * Each round begins with an untimed warm-up, which also determines how many round trips fit in
//!   the round.
//! * Protocols that keep payload have to free it (`publish_horizon`) before more than a quarter of
//!   the log's memory was sent, between timed segments; with `--spill-dir` after four times that
//!   memory (`--log-times`), so that most of the log is written to disk.
//! * With `--spill-dir` the disk alone has a turn in each round, as long as those of the jobs: two
//!   files, one for each rank, written past the page cache, with eight blocks of 256 KiB in flight
//!   in each, to files that are preallocated before the clock runs. The target of a round is the
//!   lower of `none` and the payload rate that this disk could log; both sides of `÷ target` are
//!   means, since only few messages wait for a disk. At each horizon the part of the log in memory
//!   is freed without a write: a log of four times its memory may therefore reach four thirds of
//!   the speed of its disk (`log_part_on_disk` is the written part). Rounds must be long: a round
//!   in which less than twice the log's memory was sent measures the memory, not the disk, and is
//!   listed below the table.

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
pub(crate) mod peers;
mod plot;
mod protocols;
mod rank;
mod ranks;
mod result;
mod sizes;
mod table;

pub use arguments::Arguments;
pub use check::{CheckArguments, check};
pub(crate) use log_budget::message_cost_bytes;
pub use rank::rank_main;

use crate::error::status;
use std::process::ExitCode;

/// Exit status for invalid options.
const USAGE: u8 = 2;

/// Runs the sweep and prints its table. Explains an invalid option; the status is then 2.
///
/// # Errors
/// A job cannot be started or fails, or a file cannot be written. The records made until then have
/// been printed.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    match arguments.check() {
        Ok(settings) => status(driver::run(&settings)),
        Err(error) => {
            eprintln!("{:?}", miette::Report::new(error));
            Ok(ExitCode::from(USAGE))
        }
    }
}
