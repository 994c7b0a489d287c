//! `refrain`: starts and measures jobs, and shows what a machine supports.

mod bench;
mod checkpointd;
mod clean;
mod doctor;
mod eventlogger;
mod events;
mod fabrics;
mod info;
mod install;
mod job_number;
mod log;
mod mpiexec;
mod ports;
mod providers;
mod run;
mod secret;
mod serving;
mod statistics;
mod table;
mod task;
mod verbs;

use clap::{CommandFactory as _, Parser, Subcommand};
use miette::IntoDiagnostic;
use std::ffi::OsString;
use std::process::ExitCode;

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
    reason = "the program has one value, and reads it once"
)]
enum Command {
    /// Run a job.
    Run(run::Arguments),
    /// Run an MPI program, as `mpiexec` does: see `refrain mpiexec --help`.
    #[command(disable_help_flag = true)]
    Mpiexec {
        /// Options and programs.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<OsString>,
    },
    /// Install MPI for programs: mpiexec, mpicc, mpifort, their headers and libraries.
    Install(install::Arguments),
    /// Serve a launcher on another host; started by `run --host`.
    #[command(hide = true)]
    Agent,
    /// Be a task that another launcher has started; started by the MPI library.
    #[command(hide = true)]
    Task {
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<OsString>,
    },
    /// Show the fabrics, devices and limits of this machine.
    Info(info::Arguments),
    /// Check whether jobs can run on this machine, and say what to do.
    Doctor(doctor::Arguments),
    /// Remove files of jobs that were killed.
    Clean(clean::Arguments),
    /// Run a checkpoint server.
    #[command(name = "checkpointd")]
    CheckpointServer(checkpointd::Arguments),
    /// Run an event logger.
    #[command(name = "eventlogger")]
    EventLogger(eventlogger::Arguments),
    /// List, print or verify payload logs in a folder.
    Log(log::Arguments),
    /// Print or count the events of event loggers.
    Events(events::Arguments),
    /// Run experiments and long jobs with faults.
    Bench(bench::Arguments),
    /// Measure latency and bandwidth between two ranks, with each protocol.
    Netpipe(refrain_bench::netpipe::Arguments),
    /// Serve as a measuring rank; started by `netpipe`.
    #[command(hide = true)]
    NetpipeRank,
}

/// Turns wrapping of report lines off, so that commands in them can be copied.
fn leave_lines_whole() {
    let handler = || miette::MietteHandlerOpts::new().wrap_lines(false).build();
    // Fails only if there is a hook already.
    let _ = miette::set_hook(Box::new(move |_| Box::new(handler())));
}

fn main() -> ExitCode {
    leave_lines_whole();
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let result = match mpiexec::is_name_of(&name) {
        true => mpiexec::run(&words.collect::<Vec<_>>()),
        false => run_command(CommandLine::parse().command),
    };
    result.unwrap_or_else(|report| {
        refrain_job::stderr::print(format_args!("{report:?}"));
        ExitCode::FAILURE
    })
}

fn run_command(command: Command) -> miette::Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Install(arguments) => install::run(&arguments, CommandLine::command()),
        Command::Mpiexec { words } => mpiexec::run(&words),
        Command::Agent => refrain_launch::agent::run()
            .into_diagnostic()
            .map(|()| ExitCode::SUCCESS),
        Command::Task { words } => task::run(&words),
        Command::Info(arguments) => info::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Clean(arguments) => clean::run(arguments),
        Command::CheckpointServer(arguments) => checkpointd::run(arguments),
        Command::EventLogger(arguments) => eventlogger::run(arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Netpipe(arguments) => refrain_bench::netpipe::run(arguments),
        Command::NetpipeRank => refrain_bench::netpipe::rank_main(),
    }
}
