//! `refrain`: starts jobs, measures, and says what a machine can do.

mod bench;
mod checkpointd;
mod clean;
mod eventlogger;
mod events;
mod info;
mod log;
mod ports;
mod providers;
mod run;
mod secret;
mod statistics;
mod verbs;
mod voice;

use clap::{Parser, Subcommand};
use miette::IntoDiagnostic;
use std::process::ExitCode;

/// Serves a launcher on another host.
fn agent() -> miette::Result<ExitCode> {
    refrain_launch::agent::run().into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// RDMA-native message passing with message logging.
#[derive(Parser)]
#[command(name = "refrain", version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and it is read once"
)]
enum Command {
    /// Start the ranks of a job, on this host or on others.
    Run(run::Arguments),
    /// The part of `run --host` on another host; started by it.
    #[command(hide = true)]
    Agent,
    /// Say what this machine offers, what is chosen and why.
    Info(info::Arguments),
    /// Remove what killed jobs have left behind.
    Clean(clean::Arguments),
    /// Keep checkpoints for the ranks of jobs.
    #[command(name = "checkpointd")]
    CheckpointServer(checkpointd::Arguments),
    /// Keep determinants for the ranks of jobs.
    #[command(name = "eventlogger")]
    EventLogger(eventlogger::Arguments),
    /// List, print or check logs that ranks have spilled to a folder.
    Log(log::Arguments),
    /// Show what event loggers have.
    Events(events::Arguments),
    /// Let jobs run for long, with faults.
    Bench(bench::Arguments),
    /// Measure latency and bandwidth between two ranks, protocol beside protocol.
    Netpipe(refrain_bench::netpipe::Arguments),
    /// A measuring rank; started by `netpipe`.
    #[command(hide = true)]
    NetpipeRank,
}

/// Lines of reports are as long as they are: terminals wrap them, and a command that is
/// to be tried stays in one piece.
fn leave_lines_whole() {
    let handler = || miette::MietteHandlerOpts::new().wrap_lines(false).build();
    // Refused only when there is a hook already.
    let _ = miette::set_hook(Box::new(move |_| Box::new(handler())));
}

fn main() -> ExitCode {
    leave_lines_whole();
    let result = match CommandLine::parse().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Agent => agent(),
        Command::Info(arguments) => info::run(&arguments),
        Command::Clean(arguments) => clean::run(arguments),
        Command::CheckpointServer(arguments) => checkpointd::run(arguments),
        Command::EventLogger(arguments) => eventlogger::run(arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Netpipe(arguments) => refrain_bench::netpipe::run(arguments),
        Command::NetpipeRank => refrain_bench::netpipe::rank_main(),
    };
    result.unwrap_or_else(|report| {
        voice::tell(format_args!("{report:?}"));
        ExitCode::FAILURE
    })
}
