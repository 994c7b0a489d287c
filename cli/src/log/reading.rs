//! Reads the logs of a folder.

use clap::Args;
use miette::miette;
use refrain_launch::leftovers;
use refrain_logging::image::{Launcher, LogImage, Selection};
use std::io::{self, BufWriter, ErrorKind, StdoutLock};
use std::path::{Path, PathBuf};

/// Arguments of `ls` and `verify`.
#[derive(Args)]
pub struct Listing {
    /// Folder of the logs (--spill-dir).
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// Standard output.
pub type Output<'a> = BufWriter<StdoutLock<'a>>;

/// Why a command ends early.
pub enum Failure {
    /// The output cannot be written.
    Output(io::Error),
    /// The report for people.
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

/// Opens the logs in a folder.
pub fn open(folder: &Path, selection: Selection) -> Result<LogImage, Failure> {
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
pub fn is_running(launcher: Launcher) -> bool {
    let Launcher {
        process,
        start_time,
    } = launcher;
    leftovers::file_prefix(process) == Some(format!("refrain-{process}-{start_time}-"))
}
