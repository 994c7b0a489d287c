//! `refrain bench`: experiments, and long jobs with faults.

use clap::{Args, Subcommand};
use refrain_bench::error::status;
use refrain_bench::experiments;
use std::process::ExitCode;

/// Arguments of `refrain bench`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run random jobs with and without killed ranks and compare them; status 1 if any differ.
    Soak(refrain_bench::soak::Arguments),
    /// Compare the policies of --checkpoint-policy on simulated traffic.
    CheckpointPolicies(refrain_bench::checkpoint_policies::Arguments),
    /// Measure the speed of replay (MPICH-V2, figure 10).
    ReExecution(experiments::re_execution::Arguments),
    /// Measure the run time of a job with 0 to 9 faults (MPICH-V2, figure 11).
    Faults(experiments::faults::Arguments),
    /// Compare the restart of one rank with that of all (user-level message logging, table 2).
    Rollback(experiments::rollback::Arguments),
    /// Measure checkpoints and log memory of correlated sets.
    Sets(experiments::sets::Arguments),
    /// Measure the loss of ranks that do not communicate with the dead one.
    Survivors(experiments::survivors::Arguments),
    /// Measure collectives, with each protocol and over MPI libraries.
    Collectives(refrain_bench::collectives::Arguments),
    /// Measure MPI's messages on two ranks, beside other MPI libraries.
    Mpi(refrain_bench::mpi::Arguments),
    /// Compute what protocols cost in jobs of up to millions of ranks, by a model (Meneses et al.).
    Family(refrain_bench::family::Arguments),
    /// Check what `refrain netpipe --json` wrote.
    #[command(hide = true)]
    CheckNetpipe(refrain_bench::netpipe::CheckArguments),
    /// Check what `refrain bench EXPERIMENT --json` wrote.
    #[command(hide = true)]
    CheckExperiment(experiments::CheckArguments),
}

/// Runs one of the commands.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    match &arguments.command {
        Command::Soak(arguments) => refrain_bench::soak::run(arguments),
        Command::CheckpointPolicies(arguments) => {
            refrain_bench::checkpoint_policies::run(arguments)
        }
        Command::ReExecution(arguments) => status(experiments::re_execution::run(arguments)),
        Command::Faults(arguments) => status(experiments::faults::run(arguments)),
        Command::Rollback(arguments) => status(experiments::rollback::run(arguments)),
        Command::Sets(arguments) => status(experiments::sets::run(arguments)),
        Command::Survivors(arguments) => status(experiments::survivors::run(arguments)),
        Command::Collectives(arguments) => status(refrain_bench::collectives::run(arguments)),
        Command::Mpi(arguments) => status(refrain_bench::mpi::run(arguments)),
        Command::Family(arguments) => status(refrain_bench::family::run(arguments)),
        Command::CheckNetpipe(arguments) => refrain_bench::netpipe::check(arguments),
        Command::CheckExperiment(arguments) => experiments::check(arguments),
    }
}
