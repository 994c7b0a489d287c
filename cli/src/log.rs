//! `refrain log`: payload logs in a folder.

mod ls;
mod show;
mod verify;

use clap::{Args, Subcommand};
use miette::miette;
use refrain_launch::leftovers;
use refrain_logging::image::{Launcher, LogImage, Selection};
use std::io::{self, BufWriter, ErrorKind, StdoutLock, stdout};
use std::path::{Path, PathBuf};
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

/// Arguments of `ls` and `verify`.
#[derive(Args)]
struct Listing {
    /// Folder of the logs (--spill-dir).
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
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

type Output<'a> = BufWriter<StdoutLock<'a>>;

/// Why a command ends early.
enum Failure {
    Output(io::Error),
    Report(miette::Report),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<miette::Report> for Failure {
    fn from(report: miette::Report) -> Self {
        Self::Report(report)
    }
}

/// The logs in a folder.
fn open(folder: &Path, selection: Selection) -> Result<LogImage, Failure> {
    let shown = folder.display();
    LogImage::open(folder, selection).map_err(|error| {
        Failure::Report(match error.error.kind() {
            ErrorKind::NotFound => {
                miette!("folder {shown} does not exist: name that of --spill-dir")
            }
            ErrorKind::NotADirectory => {
                miette!("{shown} is not a folder: name the folder that it is in")
            }
            _ => miette!("{error}"),
        })
    })
}

/// Whether the launcher of a job is running.
fn is_running(launcher: Launcher) -> bool {
    let Launcher {
        process,
        start_time,
    } = launcher;
    leftovers::file_prefix(process) == Some(format!("refrain-{process}-{start_time}-"))
}
