//! `refrain bench checkpoint-policies`: compares policies that choose the next rank for a
//! checkpoint on patterns of traffic, as in MPICH-V2 (section 4.6.2).
//!
//! Simulated: each run gives the same figures. Policies differ only in the order of ranks; the
//! rate of checkpoints follows from the bandwidth.

mod plot;
mod report;

use crate::error::BenchError;
use crate::report::{print, save};
use refrain_checkpoint::policy::{Settings, compare};
use refrain_launch::size;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// Parameters of the simulation.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Ranks of the job.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=512))]
    pub ranks: u32,
    /// Number of turns; in each, all messages of the pattern are sent once.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub turns: u64,
    /// Bytes of a message.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
    pub message: u64,
    /// Memory of a rank, part of each checkpoint beside the log.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub state: u64,
    /// Checkpoint bytes that can be written per turn.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size::parse)]
    pub bandwidth: u64,
    /// Turns between two checkpoints of a rank, with the policy interval.
    #[arg(long, value_name = "TURNS", default_value_t = 400)]
    pub interval: u64,
    /// Write the figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot the figures.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            ranks: self.ranks as usize,
            turns: self.turns,
            message_bytes: self.message,
            state_bytes: self.state,
            bandwidth_bytes: self.bandwidth,
            interval_turns: self.interval,
        }
    }
}

/// Runs the simulation and prints the table.
///
/// # Errors
/// When a file cannot be written, or the drawing library refuses.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let report = Report::of(&compare(arguments.settings()));
    print(&report.table())?;
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report);
        save(&json.map_err(BenchError::write(path))?, path)?;
    }
    if let Some(path) = &arguments.svg {
        save(&plot::draw(&report)?, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The documented defaults are those of the simulator.
    #[test]
    fn the_defaults_are_those_of_the_simulator() {
        let line = Line::try_parse_from(["refrain"]).expect("nothing has to be said");
        assert_eq!(line.arguments.settings(), Settings::default());
    }

    #[test]
    fn files_have_the_figures_and_the_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let (json, svg) = (folder.path().join("a.json"), folder.path().join("a.svg"));
        let of = |path: &Path| path.to_str().expect("text").to_owned();
        let line = ["refrain", "-n", "4", "--turns", "300"].map(str::to_owned);
        let files = ["--json".into(), of(&json), "--svg".into(), of(&svg)];
        let line = Line::try_parse_from(line.into_iter().chain(files)).expect("a good line");
        run(&line.arguments).expect("all of it");
        let json = fs::read(json).expect("a file");
        let read: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(read["rows"].as_array().expect("rows").len(), 20);
        assert_eq!(read["ranks"], 4);
        let drawing = fs::read_to_string(svg).expect("a file");
        assert!(drawing.contains("</svg>") && drawing.contains("broadcast"));
        let mut line = line;
        line.arguments.json = Some(folder.path().join("no/such/folder"));
        let error = run(&line.arguments).expect_err("there is no such folder");
        assert!(error.to_string().contains("no/such/folder"), "{error}");
    }
}
