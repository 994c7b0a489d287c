//! `refrain clean`.

use clap::Args;
use miette::{IntoDiagnostic, WrapErr};
use refrain_job::stderr::report;
use refrain_launch::leftovers::{self, Removal};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `refrain clean`.
#[derive(Args)]
pub struct Arguments {
    /// Folder to search for logs, in addition to /dev/shm and the temporary folder.
    #[arg(long, value_name = "DIR")]
    spill_dir: Vec<PathBuf>,
}

/// Removes the files of jobs whose launcher is dead, and prints their names.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    for folder in &arguments.spill_dir {
        std::fs::read_dir(folder)
            .into_diagnostic()
            .wrap_err_with(|| format!("--spill-dir {}", folder.display()))?;
    }
    let mut folders = leftovers::folders();
    folders.extend(arguments.spill_dir);
    let Removal { removed, failed } = leftovers::remove(&folders);
    let mut out = stdout().lock();
    for (path, bytes) in &removed {
        writeln!(out, "removed {} ({bytes} bytes)", path.display()).into_diagnostic()?;
    }
    for (path, error) in &failed {
        let path = path.display();
        report(format_args!("{path} cannot be removed: {error}"));
    }
    if removed.is_empty() && failed.is_empty() {
        let names: Vec<String> = folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        writeln!(out, "no files of dead jobs in {}", names.join(" and ")).into_diagnostic()?;
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
