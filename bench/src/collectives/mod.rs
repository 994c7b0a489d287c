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

mod arguments;
mod figures;
pub(crate) mod rank;
mod report;

pub use arguments::Arguments;

use crate::error::BenchError;
use crate::experiments::jobs::Jobs;
use crate::experiments::{Common, repeat};
use crate::mpi_libraries::{self, Compiled};
use crate::report::print;
use arguments::Operation;
use figures::{Run, figures};

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
        true => mpi_libraries::find(arguments.source(), jobs.interrupt())?,
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
    Peer(&'a Compiled),
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
            Self::Peer(peer) => peer.run(&[], &words)?,
            Self::LeftOut => return Ok(Vec::new()),
        };
        let sizes: Vec<u64> = arguments.points(operation).map(|it| it.bytes).collect();
        figures(&text, &sizes, !arguments.blocking).map_err(|problem| {
            BenchError::failed(format!("{operation}, {}: {problem}", self.name()))
        })
    }
}

#[cfg(test)]
mod tests;
