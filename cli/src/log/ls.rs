//! `refrain log ls`.

use super::reading::{Failure, Listing, Output, is_running, open};
use crate::table;
use refrain_launch::size::{Size, count};
use refrain_logging::image::{Launcher, LogImage, LogKey, LogSummary, Selection};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

/// The files of one log.
#[derive(Default)]
struct Files {
    number: u64,
    bytes: u64,
    launchers: BTreeSet<Launcher>,
}

pub fn run(listing: &Listing, out: &mut Output<'_>) -> Result<ExitCode, Failure> {
    let image = open(&listing.folder, Selection::default())?;
    let mut files: BTreeMap<LogKey, Files> = BTreeMap::new();
    for file in image.files() {
        let entry = files.entry(file.key()).or_default();
        entry.number += 1;
        entry.bytes += file.bytes;
        entry.launchers.extend(file.launcher);
    }
    if listing.json {
        print_json(&image, &files, out)?;
    } else {
        print(listing, &image, &files, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(
    image: &LogImage,
    files: &BTreeMap<LogKey, Files>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for (key, log) in image.logs() {
        let files = &files[&key];
        let launcher = files.launchers.first().copied();
        let line = json!({
            "job": format!("{:016x}", key.job),
            "source": key.channel.source.0,
            "incarnation": key.channel.incarnation.0,
            "destination": key.channel.destination.0,
            "launcher": launcher.map(|launcher| launcher.process),
            "running": launcher.map(is_running),
            "files": files.number,
            "file_bytes": files.bytes,
            "chunks": log.chunks,
            "first_chunk": log.sequences.map(|(first, _)| first),
            "last_chunk": log.sequences.map(|(_, last)| last),
            "ssn_low": log.ssns.as_ref().map(|ssns| ssns.start),
            "ssn_end": log.ssns.as_ref().map(|ssns| ssns.end),
            "log_bytes": log.used_bytes,
        });
        writeln!(out, "{line}")?;
    }
    for file in image.strange_files() {
        let line = json!({"strange_file": file.path, "why": file.why.to_string()});
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn print(
    listing: &Listing,
    image: &LogImage,
    files: &BTreeMap<LogKey, Files>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut jobs: BTreeMap<u64, Vec<(LogKey, LogSummary)>> = BTreeMap::new();
    for (key, log) in image.logs() {
        jobs.entry(key.job).or_default().push((key, log));
    }
    if jobs.is_empty() {
        writeln!(out, "no logs are in {}", listing.folder.display())?;
    }
    for (number, (job, logs)) in jobs.into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let launchers: BTreeSet<Launcher> = logs
            .iter()
            .flat_map(|(key, _)| files[key].launchers.iter().copied())
            .collect();
        writeln!(out, "job {job:016x}{}\n", started_by(&launchers))?;
        let rows = logs.iter().map(|(key, log)| row(key, log, &files[key]));
        let header = [
            "from", "life", "to", "files", "on disk", "chunks", "SSN", "log",
        ];
        writeln!(out, "{}", table::numbers(header, rows.collect()))?;
    }
    print_strange(image, out)
}

/// Prints the files that have names of segment files but cannot be read.
pub fn print_strange(image: &LogImage, out: &mut Output<'_>) -> Result<(), Failure> {
    for (number, file) in image.strange_files().iter().enumerate() {
        if number == 0 {
            writeln!(out, "\nfiles that cannot be read as logs")?;
        }
        writeln!(out, "  {}\n    {}", file.path.display(), file.why)?;
    }
    Ok(())
}

fn row(key: &LogKey, log: &LogSummary, files: &Files) -> Vec<String> {
    let range = |first, last| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    let ssns = log.ssns.as_ref().filter(|ssns| ssns.end > ssns.start);
    vec![
        key.channel.source.to_string(),
        key.channel.incarnation.to_string(),
        key.channel.destination.to_string(),
        files.number.to_string(),
        Size(files.bytes).to_string(),
        log.sequences
            .map_or("none".into(), |(first, last)| range(first, last)),
        ssns.map_or("none".into(), |ssns| range(ssns.start, ssns.end - 1)),
        Size(log.used_bytes).to_string(),
    ]
}

fn started_by(launchers: &BTreeSet<Launcher>) -> String {
    let mut text = String::new();
    for launcher in launchers {
        let state = match is_running(*launcher) {
            true => "runs",
            false => "has ended",
        };
        text += &format!(", started by process {}, which {state}", launcher.process);
    }
    text
}

/// Number of files and logs, such as "3 files of 2 logs".
pub fn extent(image: &LogImage) -> String {
    format!(
        "{} of {}",
        count(image.files().len() as u64, "file"),
        count(image.logs().count() as u64, "log")
    )
}
