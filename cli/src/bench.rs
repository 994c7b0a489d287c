//! `refrain bench`: what takes its time.

use clap::{Args, Subcommand};
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
    /// Run random jobs whose ranks are killed at random, and compare each with the
    /// same job in which nothing fails. Status 1 when anything differs.
    Soak(refrain_bench::soak::Arguments),
    /// Compare the policies of --checkpoint-policy on patterns of traffic, simulated.
    CheckpointPolicies(refrain_bench::checkpoint_policies::Arguments),
    /// How fast do ranks play again what they have done? (MPICH-V2, figure 10)
    ReExecution(experiments::re_execution::Arguments),
    /// How much longer does a job with 1 to 9 faults take? (MPICH-V2, figure 11)
    Faults(experiments::faults::Arguments),
    /// One rank again, or all of them? (user-level message logging, table 2)
    Rollback(experiments::rollback::Arguments),
    /// What do ranks lose that do not need the dead one?
    Survivors(experiments::survivors::Arguments),
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
        Command::ReExecution(arguments) => experiments::re_execution::run(arguments),
        Command::Faults(arguments) => experiments::faults::run(arguments),
        Command::Rollback(arguments) => experiments::rollback::run(arguments),
        Command::Survivors(arguments) => experiments::survivors::run(arguments),
        Command::CheckNetpipe(arguments) => refrain_bench::netpipe::check(arguments),
        Command::CheckExperiment(arguments) => experiments::check(arguments),
    }
}
