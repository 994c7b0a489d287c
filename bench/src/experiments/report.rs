//! What all experiments share on the way out: options, progress, table, JSON, SVG.

use super::ExperimentError;
use crate::drawing::{self, chart::Chart};
use crate::interrupt::STATUS_INTERRUPTED;
use crate::netpipe::machine;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// comfy-table's order of borders: only those below the header are drawn.
const HEADER_LINE_ONLY: &str = "     ──            ";

/// Where results go.
#[derive(Clone, Debug, clap::Args)]
pub struct Reporting {
    /// Write all measurements to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot them to a file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// What the JSON file has.
#[derive(Serialize)]
struct Document<'a, Settings, Run> {
    experiment: &'a str,
    machine: String,
    settings: &'a Settings,
    runs: &'a [Run],
}

impl Reporting {
    /// Finds out at the beginning whether the files can be written.
    ///
    /// # Errors
    /// When one cannot.
    pub fn check(&self) -> Result<(), ExperimentError> {
        for path in self.json.iter().chain(&self.svg) {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| ExperimentError::Write {
                    path: path.clone(),
                    error,
                })?;
        }
        Ok(())
    }

    /// Writes the JSON file, if there is to be one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_json(
        &self,
        experiment: &str,
        settings: &impl Serialize,
        runs: &[impl Serialize],
    ) -> Result<(), ExperimentError> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let document = Document {
            experiment,
            machine: machine::describe(),
            settings,
            runs,
        };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| unwritten(path)(error.into()))?;
        drawing::save(&format!("{text}\n"), path).map_err(unwritten(path))
    }

    /// Draws to the SVG file, if there is to be one.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    pub fn write_svg(&self, chart: impl FnOnce() -> Chart) -> Result<(), ExperimentError> {
        let Some(path) = &self.svg else {
            return Ok(());
        };
        let drawing = chart().draw().map_err(ExperimentError::Drawing)?;
        drawing::save(&drawing, path).map_err(unwritten(path))
    }
}

fn unwritten(path: &Path) -> impl FnOnce(std::io::Error) -> ExperimentError {
    move |error| ExperimentError::Write {
        path: path.into(),
        error,
    }
}

/// Prints a table; a reader that has gone (`| head`) is no error.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<(), ExperimentError> {
    let mut table = Table::new();
    table
        .load_preset(HEADER_LINE_ONLY)
        .set_header(header.to_vec())
        .add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    say(&table.trim_fmt())
}

/// Prints lines on standard output.
///
/// # Errors
/// As [`print`].
pub fn say(text: &str) -> Result<(), ExperimentError> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(
            ExperimentError::system("cannot write to standard output")(error),
        ),
        _ => Ok(()),
    }
}

/// What an experiment's end means for the command.
///
/// # Errors
/// All but an interruption.
pub fn status(result: Result<(), ExperimentError>) -> miette::Result<ExitCode> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(ExperimentError::Interrupted) => {
            eprintln!("interrupted");
            Ok(ExitCode::from(STATUS_INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

/// The bar, where standard error is a terminal.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// For so many jobs.
    pub fn new(jobs: usize, quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            // Seldom: each drawing takes a core from a rank.
            ProgressDrawTarget::stderr_with_hz(2)
        };
        let style = ProgressStyle::with_template(
            "{bar:30} job {pos} of {len}  {msg:>20}  {elapsed} of about {duration}",
        )
        .expect("a valid template");
        Self(ProgressBar::with_draw_target(Some(jobs as u64), target).with_style(style))
    }

    /// This is measured now.
    pub fn begin(&self, what: String) {
        self.0.set_message(what);
    }

    /// It is done.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
