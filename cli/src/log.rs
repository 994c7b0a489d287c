//! `refrain log`: payload logs in a folder.

mod ls;
mod reading;
mod show;
mod verify;

use clap::{Args, Subcommand};
use miette::miette;
use reading::{Failure, Listing};
use std::io::{self, BufWriter, ErrorKind, stdout};
use std::process::ExitCode;

/// Arguments of `refrain log`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List logs: channel, size, and whether their job is running.
    Ls(Listing),
    /// Print the records or messages of one log.
    Show(show::Arguments),
    /// Verify checksums; exit status 1 if a chunk is damaged.
    Verify(Listing),
    /// Measure a disk, and the log on it: written, spilled, read back.
    Bench(refrain_bench::log_bench::Arguments),
}

/// Runs one of the commands.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let mut out = BufWriter::new(stdout().lock());
    let result = match &arguments.command {
        Command::Ls(listing) => ls::run(listing, &mut out),
        Command::Show(arguments) => show::run(arguments, &mut out),
        Command::Verify(listing) => verify::run(listing, &mut out),
        Command::Bench(arguments) => return refrain_bench::log_bench::run(arguments),
    };
    let status = result.and_then(|status| {
        io::Write::flush(&mut out)?;
        Ok(status)
    });
    match status {
        Ok(status) => Ok(status),
        // The reader has closed its end.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Err(Failure::Output(error)) => Err(miette!("writing the output: {error}")),
        Err(Failure::Report(report)) => Err(report),
    }
}
