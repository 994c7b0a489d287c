//! `refrain log verify`.

use super::ls;
use super::reading::{Failure, Listing, Output, is_running, open};
use refrain_launch::size::{Size, count};
use refrain_logging::image::{Finding, LogImage, LogKey, Selection, Verdict, Verification};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// A running job writes several chunks at once, so a chunk may be complete before the previous one
/// is. What looks damaged is therefore checked again: this number of times, with this delay.
const LOOKS: u32 = 5;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

pub fn run(listing: &Listing, out: &mut Output<'_>) -> Result<ExitCode, Failure> {
    let (image, verification) = look(listing)?;
    if listing.json {
        print_json(&image, &verification, out)?;
    } else {
        print(listing, &image, &verification, out)?;
    }
    Ok(match verification.is_damaged() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn look(listing: &Listing) -> Result<(LogImage, Verification), Failure> {
    let mut looks = 1;
    loop {
        let image = open(&listing.folder, Selection::default())?;
        let verification = image.verify();
        let running = || {
            let mut launchers = image.files().iter().filter_map(|file| file.launcher);
            launchers.any(is_running)
        };
        if looks == LOOKS || !verification.is_damaged() || !running() {
            return Ok((image, verification));
        }
        sleep(LOOK_AGAIN_AFTER);
        looks += 1;
    }
}

fn print_json(
    image: &LogImage,
    verification: &Verification,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for (key, log) in &verification.logs {
        let with = |verdict| log.with(verdict).map(finding).collect::<Vec<_>>();
        let line = json!({
            "job": format!("{:016x}", key.job),
            "source": key.channel.source.0,
            "incarnation": key.channel.incarnation.0,
            "destination": key.channel.destination.0,
            "whole_chunks": log.whole_chunks,
            "records": log.records,
            "payload_bytes": log.payload_bytes,
            "empty_slots": log.empty_slots,
            "stale_slots": log.stale_slots,
            "missing_chunks": log.missing_chunks,
            "torn": with(Verdict::Torn),
            "unwritten": with(Verdict::Unwritten),
            "replaced": with(Verdict::Replaced),
            "damaged": with(Verdict::Damaged),
        });
        writeln!(out, "{line}")?;
    }
    for file in image.strange_files() {
        let line = json!({
            "strange_file": file.path,
            "why": file.why.to_string(),
            "damaged": file.why.is_damage(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn finding(found: &Finding) -> serde_json::Value {
    json!({
        "chunk": found.sequence,
        "place": found.place.to_string(),
        "why": found.why.to_string(),
    })
}

fn print(
    listing: &Listing,
    image: &LogImage,
    verification: &Verification,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut totals = [0_u64; 4];
    for (key, log) in &verification.logs {
        for found in &log.findings {
            totals[found.verdict as usize] += 1;
            print_finding(key, found, out)?;
        }
        if log.missing_chunks > 0 {
            let missing = count(log.missing_chunks, "chunk");
            writeln!(
                out,
                "{key}\n  {missing} missing between others: freed before"
            )?;
        }
    }
    ls::print_strange(image, out)?;
    if verification.logs.is_empty() && image.strange_files().is_empty() {
        writeln!(out, "no logs are in {}", listing.folder.display())?;
        return Ok(());
    }
    print_summary(image, verification, totals, out)
}

fn print_finding(key: &LogKey, found: &Finding, out: &mut Output<'_>) -> Result<(), Failure> {
    let verdict = match found.verdict {
        Verdict::Damaged => "is damaged",
        Verdict::Torn => "is torn: it was being written when the rank or its host died, or is now",
        Verdict::Unwritten => "is missing: the rank or its host died before it was written",
        Verdict::Replaced => "is not whole, but another copy is",
    };
    writeln!(
        out,
        "{key}\n  chunk {} {verdict}\n  {}\n  {}",
        found.sequence, found.place, found.why
    )?;
    Ok(())
}

fn print_summary(
    image: &LogImage,
    verification: &Verification,
    [replaced, torn, unwritten, damaged]: [u64; 4],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let sum = |of: fn(&refrain_logging::image::LogVerification) -> u64| -> u64 {
        verification.logs.values().map(of).sum()
    };
    let files = image.strange_files().iter();
    let damaged_files = files.filter(|file| file.why.is_damage()).count() as u64;
    writeln!(
        out,
        "\nwhole     {} with {} ({} of payload), in {}",
        count(sum(|log| log.whole_chunks), "chunk"),
        count(sum(|log| log.records), "record"),
        Size(sum(|log| log.payload_bytes)),
        ls::extent(image),
    )?;
    let (damaged, damaged_files) = (count(damaged, "chunk"), count(damaged_files, "file"));
    writeln!(out, "damaged   {damaged}, {damaged_files}")?;
    writeln!(out, "torn      {}", count(torn, "chunk"))?;
    if unwritten > 0 {
        writeln!(out, "missing   {}", count(unwritten, "chunk"))?;
    }
    if replaced > 0 {
        let copies = if replaced == 1 { "copy" } else { "copies" };
        writeln!(
            out,
            "replaced  {replaced} {copies} that are not whole, by others that are"
        )?;
    }
    Ok(())
}
