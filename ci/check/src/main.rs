//! Checks of the source tree that no compiler does, run by `ci/test`.
//!
//! Each check is a pure function of a [`Tree`] in memory, with its tests in the same file; only
//! `tree.rs` and this file access the disk or start a process. This crate does not depend on the
//! crates that it checks.

mod arrows;
mod circles;
mod draw;
mod hosts;
mod lengths;
mod links;
mod list_file;
mod measure;
mod names;
mod paths;
mod report;
mod rules;
mod rust_source;
mod sources;
mod tree;
mod unsafe_code;
mod versions;

use report::Report;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Command, ExitCode};
use tree::Tree;

const USAGE: &str = "usage: refrain-check tree ROOT
       refrain-check measure ROOT
       refrain-check draw ROOT [SEED]

tree     checks the source tree at ROOT
measure  prints lines, files, functions and circles between files, by crate
draw     prints 40 comments, 20 error texts and 20 help lines, drawn at random";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tree", root] => check_tree(Path::new(root)).map(|it| (it.to_string(), it.failed())),
        ["measure", root] => Tree::read(Path::new(root))
            .and_then(|tree| measure::table(&tree))
            .map(|table| (table, false)),
        ["draw", root, seed @ ..] if seed.len() < 2 => draw_texts(Path::new(root), seed.first()),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok((text, failed)) => {
            print!("{text}");
            ExitCode::from(u8::from(failed))
        }
        Err(error) => {
            eprintln!("refrain-check: {error}");
            ExitCode::from(2)
        }
    }
}

fn draw_texts(root: &Path, seed: Option<&&str>) -> Result<(String, bool), String> {
    let seed = match seed {
        Some(seed) => seed
            .parse()
            .map_err(|error| format!("seed {seed} is not a number: {error}"))?,
        None => RandomState::new().hash_one(root),
    };
    Ok((draw::texts(&Tree::read(root)?, seed)?, false))
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
    report.section("documents name code that exists", paths::check(&tree));
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
    report.section("circles of files have reasons", circles::check(&tree));
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
