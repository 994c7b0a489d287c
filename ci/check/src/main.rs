//! Checks of the source tree that no compiler makes, run by `ci/test`.
//!
//! Each check is a pure function of a [`Tree`] in memory with its tests beside
//! it; only `tree.rs` and this file touch the disk or start a process. Knows
//! nothing of the crates that it checks.

mod arrows;
mod experiment_output;
mod hosts;
mod lengths;
mod links;
mod list_file;
mod measure;
mod names;
mod netpipe_output;
mod report;
mod rules;
mod rust_source;
mod tree;
mod unsafe_code;
mod versions;

use netpipe_output::Expected;
use report::Report;
use std::path::Path;
use std::process::{Command, ExitCode};
use tree::Tree;

const USAGE: &str = "usage: refrain-check tree ROOT
       refrain-check measure ROOT
       refrain-check netpipe-output FILE PROTOCOL... [--fabric FABRIC]... [--peer NAME]...
       refrain-check experiment-output FILE EXPERIMENT

tree            checks the source tree at ROOT
measure         prints lines, files, functions and circles between files, by crate
netpipe-output  checks the JSON lines that `refrain netpipe --json` wrote: each
                fabric with each protocol, and the peers, are there
experiment-output
                checks the JSON that `refrain bench EXPERIMENT --json` wrote";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tree", root] => check_tree(Path::new(root)),
        ["measure", root] => {
            return match Tree::read(Path::new(root)).and_then(|tree| measure::table(&tree)) {
                Ok(table) => {
                    print!("{table}");
                    ExitCode::SUCCESS
                }
                Err(error) => refused(&error),
            };
        }
        ["netpipe-output", file, expected @ ..] => match Expected::parse(expected) {
            Some(expected) => check_netpipe_output(Path::new(file), &expected),
            None => Err(USAGE.to_owned()),
        },
        ["experiment-output", file, experiment] => {
            check_experiment_output(Path::new(file), experiment)
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(report) => {
            print!("{report}");
            if report.failed() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => refused(&error),
    }
}

fn refused(why: &str) -> ExitCode {
    eprintln!("refrain-check: {why}");
    ExitCode::from(2)
}

fn check_tree(root: &Path) -> Result<Report, String> {
    let tree = Tree::read(root)?;
    let metadata = cargo_metadata(root)?;
    let mut report = Report::default();
    report.section(
        "unsafe code has reasons and a place",
        unsafe_code::check(&tree),
    );
    report.section(
        "every rule of docs/design/protocol.md has code and a test",
        rules::check(&tree),
    );
    report.section("names say something", names::check(&tree));
    report.section("files fit their limits", lengths::check(&tree));
    report.section("links lead somewhere", links::check(&tree));
    report.section(
        "documents say the versions of the code",
        versions::check(&tree),
    );
    report.section(
        "no hosts of registries, no private paths",
        hosts::check(&tree),
    );
    report.section(
        "crates depend only downwards",
        arrows::check(&tree, &metadata),
    );
    Ok(report)
}

fn check_netpipe_output(file: &Path, expected: &Expected<'_>) -> Result<Report, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut report = Report::default();
    report.section(
        "netpipe writes what it promises",
        netpipe_output::check(&text, expected),
    );
    Ok(report)
}

fn check_experiment_output(file: &Path, experiment: &str) -> Result<Report, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut report = Report::default();
    report.section(
        "an experiment writes what it promises",
        experiment_output::check(&text, experiment),
    );
    Ok(report)
}

fn cargo_metadata(root: &Path) -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}
