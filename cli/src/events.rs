//! `refrain events`: events of event loggers.

mod show;
mod source;
mod stats;

use clap::{Args, Subcommand};
use refrain_launch::seconds;
use std::path::PathBuf;
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

/// Where events are read from.
#[derive(Args)]
pub struct Where {
    /// Folder of a job (--event-dir) or of an event logger, or addresses of a shard's replicas:
    /// unix:PATH or tcp:HOST:PORT, `+` between them.
    #[arg(value_name = "DIR|ADDRESS")]
    source: String,
    /// File with the --secret of the event loggers at tcp: addresses.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Number of the job, hexadecimal; required if there are several.
    #[arg(long, value_name = "HEX", value_parser = crate::job_number)]
    job: Option<u64>,
    /// Time limit for an event logger to answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds::milliseconds)]
    timeout: u64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Bench(arguments) => refrain_bench::event_bench::run(arguments),
    }
}
