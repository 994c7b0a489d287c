//! `refrain-workload`: programs for the ranks of a job, which verify the data that they exchange.
//! `refrain run -n N -- refrain-workload …` runs them.
//!
//! Each workload prints one line on rank 0 at its end, which is the same in every run with the
//! same options, and exits with a failure if its verification fails.

mod all_to_all;
mod any_source;
mod chaos;
mod collectives;
mod coordinated;
pub(crate) mod error;
pub(crate) mod horizon;
pub(crate) mod pairs;
pub(crate) mod payload;
pub(crate) mod prng;
mod record;
pub(crate) mod ring;
mod shape;
mod stencil;
mod token_ring;
mod total;
mod watchdog;

use clap::{Parser, Subcommand};
use error::WorkloadError;
use refrain::World;
use std::process::ExitCode;

/// Workloads that verify every byte they exchange.
///
/// Start them with `refrain run -n N -- refrain-workload …`; without a
/// launcher they run as a job of one rank.
#[derive(Debug, Parser)]
#[command(name = "refrain-workload", version)]
struct Arguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// A token with a counter and a running hash goes round the ranks.
    TokenRing(token_ring::Options),
    /// Tokens go round the ranks; some ranks die at the end and replay everything.
    Ring(ring::Options),
    /// Two pairs of ranks that exchange no messages with each other.
    Pairs(pairs::Options),
    /// A 2-D or 3-D halo exchange on a periodic grid; the checksum is the same
    /// for every number of ranks.
    Stencil(stencil::Options),
    /// A master sends tasks to workers and receives their results from any source.
    AnySource(any_source::Options),
    /// Each rank sends to each other rank, and receives from any source.
    AllToAll(all_to_all::Options),
    /// A seeded random mix of collectives of all kinds on several groups.
    Collectives(collectives::Options),
    /// Measures a collective; for `refrain bench collectives`.
    #[command(hide = true)]
    CollectiveLoop(crate::collectives::rank::Options),
    /// A seeded random mix of every operation, with verification of every byte.
    Chaos(chaos::Options),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.workload) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refrain-workload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(workload: &Workload) -> Result<(), WorkloadError> {
    let mut world = World::init()?;
    let line = match workload {
        Workload::TokenRing(options) => token_ring::run(&mut world, options),
        Workload::Ring(options) => ring::run(&mut world, options),
        Workload::Pairs(options) => pairs::run(&mut world, options),
        Workload::Stencil(options) => stencil::run(&mut world, options),
        Workload::AnySource(options) => any_source::run(&mut world, options),
        Workload::AllToAll(options) => all_to_all::run(&mut world, options),
        Workload::Collectives(options) => collectives::run(&mut world, options),
        Workload::CollectiveLoop(options) => crate::collectives::rank::run(&mut world, options),
        Workload::Chaos(options) => chaos::run(&mut world, options),
    }?;
    world.finalize()?;
    // After finalize: the line also shows that the job ended well.
    if let Some(line) = line {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
