//! `refrain events`: what event loggers have.

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
    /// Print the events of a rank, one a line.
    Show(show::Arguments),
    /// How many events of which kind there are, rank by rank, and how many for
    /// each message.
    Stats(stats::Arguments),
    /// Measure what an event logger takes from many clients here.
    Bench(refrain_bench::event_bench::Arguments),
}

/// Where events are looked for.
#[derive(Args)]
pub struct Where {
    /// The folder of a job (--event-dir) or of one event logger, or the addresses
    /// of the replicas of one shard: unix:PATH or tcp:HOST:PORT, with plus signs
    /// between them.
    #[arg(value_name = "DIR|ADDRESS")]
    source: String,
    /// The file that the loggers of tcp:… were given as --secret.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Which job, as hexadecimal; needed when there are several.
    #[arg(long, value_name = "HEX", value_parser = job)]
    job: Option<u64>,
    /// How long an event logger may take to answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds::milliseconds)]
    timeout: u64,
}

fn job(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("no job's number: {error}"))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Bench(arguments) => refrain_bench::event_bench::run(arguments),
    }
}
