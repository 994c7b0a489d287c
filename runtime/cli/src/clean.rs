//! `refrain clean`.

use miette::IntoDiagnostic;
use refrain::leftovers::{self, Removal};
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Removes the files of jobs whose launcher is dead, and says which.
pub fn run() -> miette::Result<ExitCode> {
    let folders = leftovers::folders();
    let Removal { removed, failed } = leftovers::remove(&folders);
    let mut out = stdout().lock();
    for (path, bytes) in &removed {
        writeln!(out, "removed {} ({bytes} bytes)", path.display()).into_diagnostic()?;
    }
    for (path, error) in &failed {
        eprintln!("refrain: {} cannot be removed: {error}", path.display());
    }
    if removed.is_empty() && failed.is_empty() {
        let names: Vec<String> = folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        writeln!(out, "nothing is left over in {}", names.join(" and ")).into_diagnostic()?;
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
