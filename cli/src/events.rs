//! `refrain events`: events of event loggers.

mod show;
mod source;
mod stats;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `refrain events`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the events of a rank, one per line.
    Show(show::Arguments),
    /// Count events by rank and kind, and per message.
    Stats(stats::Arguments),
    /// Measure the event rate of an event logger with many clients.
    Bench(refrain_bench::event_bench::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Bench(arguments) => refrain_bench::event_bench::run(arguments),
    }
}
