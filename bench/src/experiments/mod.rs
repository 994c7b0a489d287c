//! Experiments with jobs that lose ranks (`refrain bench`): the duration of recovery, and its cost
//! for other ranks.
//!
//! | module | question | after |
//! |---|---|---|
//! | `re_execution` | how fast is the replay of a rank? | MPICH-V2, figure 10 |
//! | `faults` | how much longer does a run with 1 … 9 faults take? | MPICH-V2, figure 11 |
//! | `rollback` | restart one rank, or all of them? | user-level message logging, table 2 |
//! | `sets` | what do correlated sets cost and save? | correlated sets, figure 3 |
//! | `survivors` | what is the loss of ranks that do not communicate with the dead one? | |
//!
//! Each experiment runs whole jobs of this executable, in turn, several times, and prints medians
//! with quartiles. Every job must print the same line as a job without faults, or the experiment
//! fails.

mod check;
pub mod faults;
pub(crate) mod jobs;
pub mod re_execution;
pub mod rollback;
pub mod sets;
pub mod survivors;

pub use check::{CheckArguments, check};

use crate::drawing::chart::Chart;
use crate::error::BenchError;
use crate::machine;
use crate::report::{Progress, save};
use refrain_job::choice::check_protocol;
use serde::Serialize;
use std::fs::File;
use std::path::PathBuf;

/// Options of experiments with a halo exchange or a ring.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Common {
    /// Number of measurements.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Fabric of messages.
    #[arg(long, default_value = "auto")]
    pub(crate) fabric: String,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) reporting: Reporting,
}

/// Output of results.
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
    /// Checks at the beginning that the files can be written.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        for path in self.json.iter().chain(&self.svg) {
            let mut options = File::options();
            let file = options.create(true).append(true).open(path);
            file.map_err(BenchError::write(path))?;
        }
        Ok(())
    }

    /// Writes the files that were requested.
    pub(crate) fn write(
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

/// Runs each case in each repetition. Every repetition begins with another case, so that no case
/// is always the first.
pub(crate) fn repeat<Case: Copy, Run>(
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

/// Checks the options of a loop that is measured with each protocol.
pub(crate) fn check_loop<'a>(
    protocols: impl IntoIterator<Item = &'a str>,
    time_s: f64,
) -> Result<(), BenchError> {
    for name in protocols {
        check_protocol(name).map_err(|error| {
            BenchError::option("--protocol", error, "`refrain info` lists them")
        })?;
    }
    if !(time_s > 0.0 && time_s <= 60.0) {
        let problem = format!("{time_s} seconds cannot be measured");
        let help = "give more than 0 and at most 60";
        return Err(BenchError::option("--time", problem, help));
    }
    Ok(())
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}
