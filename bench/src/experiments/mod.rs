//! Experiments with jobs that lose ranks (`refrain bench`): what recovery takes, and
//! what it costs the others.
//!
//! | module | question | after |
//! |---|---|---|
//! | `re_execution` | how fast is the replay of a rank? | MPICH-V2, figure 10 |
//! | `faults` | how much longer does a run with 1 … 9 faults take? | MPICH-V2, figure 11 |
//! | `rollback` | restart one rank, or all of them? | user-level message logging, table 2 |
//! | `survivors` | what do ranks lose that do not need the dead one? | |
//!
//! Each runs whole jobs of this very executable, in turn, several times, and shows
//! medians with quartiles. Every job must end with the line of one in which nothing
//! fails, or the experiment fails.

mod check;
pub mod faults;
mod jobs;
pub mod re_execution;
pub mod rollback;
pub mod survivors;

pub use check::{CheckArguments, check};

use crate::drawing::chart::Chart;
use crate::error::BenchError;
use crate::machine;
use crate::report::{Progress, save};
use serde::Serialize;
use std::fs::File;
use std::path::PathBuf;

/// Where results go.
#[derive(Clone, Debug, clap::Args)]
pub struct Reporting {
    /// Write all measurements to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Plot them to a file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print no progress.
    #[arg(long)]
    quiet: bool,
}

/// The content of the JSON file.
#[derive(Serialize)]
struct Document<'a, Settings, Run> {
    experiment: &'a str,
    machine: String,
    settings: &'a Settings,
    runs: &'a [Run],
}

impl Reporting {
    /// Finds out at the beginning whether the files can be written.
    fn check(&self) -> Result<(), BenchError> {
        for path in self.json.iter().chain(&self.svg) {
            let mut options = File::options();
            let file = options.create(true).append(true).open(path);
            file.map_err(BenchError::write(path))?;
        }
        Ok(())
    }

    /// Writes the files that were asked for.
    fn write(
        &self,
        experiment: &str,
        settings: &impl Serialize,
        runs: &[impl Serialize],
        chart: impl FnOnce() -> Chart,
    ) -> Result<(), BenchError> {
        if let Some(path) = &self.json {
            let document = Document {
                experiment,
                machine: machine::describe(),
                settings,
                runs,
            };
            let text = serde_json::to_string_pretty(&document);
            save(
                &format!("{}\n", text.map_err(BenchError::write(path))?),
                path,
            )?;
        }
        match &self.svg {
            Some(path) => chart().save(path),
            None => Ok(()),
        }
    }
}

/// Runs each case in each repetition. Every repetition begins with the next case, so that
/// no case is always the first.
fn repeat<Case: Copy, Run>(
    cases: &[Case],
    repetitions: u32,
    reporting: &Reporting,
    name: impl Fn(Case) -> String,
    mut run: impl FnMut(u32, Case) -> Result<Run, BenchError>,
) -> Result<Vec<Run>, BenchError> {
    let mut runs = Vec::new();
    let progress = Progress::new("job", cases.len() * repetitions as usize, reporting.quiet);
    for repetition in 0..repetitions {
        for index in 0..cases.len() {
            let case = cases[(index + repetition as usize) % cases.len()];
            progress.begin(name(case));
            runs.push(run(repetition, case)?);
            progress.step();
        }
    }
    Ok(runs)
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}
