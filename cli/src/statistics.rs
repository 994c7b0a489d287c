//! `refrain run --stats`: statistics of ranks, as tables and as JSON.

use crate::table::{self, Column};
use refrain_job::Statistics;
use refrain_job::statistics::GateWaits;
use refrain_launch::size::Size;
use refrain_launch::{CheckpointCounts, Outcome, Recovery};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Content of the JSON file.
#[derive(Serialize)]
struct File<'a> {
    /// By rank; `null` for a rank that did not report its statistics.
    ranks: &'a [Option<Statistics>],
    /// Sums; maxima where the name has `max` or `peak`.
    total: &'a Statistics,
    /// Deaths of ranks that were restarted.
    recoveries: &'a [Recovery],
    /// By rank; empty if no checkpoint was requested or taken.
    checkpoints: &'a [CheckpointCounts],
    /// Logged events per message (table I of Bouteiller, Bosilca, Dongarra 2007).
    events_per_message: f64,
}

/// The name of the file in a job's `--event-dir`.
pub const STATISTICS_FILE: &str = "statistics.json";

/// Number of messages that each rank sent, from a file that [`write()`] has written.
pub fn messages_of(path: &Path) -> Option<Vec<u64>> {
    let file: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let sent = |rank: &serde_json::Value| rank["messages_sent"].as_u64().unwrap_or(0);
    Some(file["ranks"].as_array()?.iter().map(sent).collect())
}

/// The sum over all ranks that have reported statistics.
pub fn total(ranks: &[Option<Statistics>]) -> Statistics {
    let mut total = Statistics::default();
    ranks.iter().flatten().for_each(|rank| total.add(rank));
    total
}

/// Writes the file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, outcome: &Outcome) -> std::io::Result<()> {
    let ranks = outcome.statistics.as_slice();
    let total = total(ranks);
    let file = File {
        ranks,
        recoveries: &outcome.recoveries,
        checkpoints: &outcome.checkpoints,
        events_per_message: per_message(&total),
        total: &total,
    };
    fs::write(path, serde_json::to_vec_pretty(&file)?)
}

/// Summary of recoveries in one line; `None`: there were none.
pub fn recoveries(all: &[Recovery]) -> Option<String> {
    let times = || all.iter().filter_map(|recovery| recovery.total_us);
    let longest_us = times().max()?;
    let finished = times().count();
    Some(format!(
        "{} deaths of ranks, {finished} recoveries: {:.1} ms in the mean, {:.1} at most",
        all.len(),
        times().sum::<u64>() as f64 / finished as f64 / 1e3,
        longest_us as f64 / 1e3
    ))
}

/// Summary of checkpoints in one line; `None`: there were none.
pub fn checkpoints(all: &[CheckpointCounts]) -> Option<String> {
    let sum = |of: fn(&CheckpointCounts) -> u64| all.iter().map(of).sum::<u64>();
    (!all.is_empty()).then(|| {
        format!(
            "{} checkpoints, {}; ranks were asked for {}",
            sum(|counts| counts.stable),
            Size(sum(|counts| counts.bytes)),
            sum(|counts| counts.orders)
        )
    })
}

const MESSAGES: [Column<Statistics>; 7] = [
    ("sent", |it| it.messages_sent.to_string()),
    ("bytes", |it| Size(it.bytes_sent).to_string()),
    ("receives", |it| it.receives.to_string()),
    ("unexpected", |it| it.unexpected.to_string()),
    ("log now", |it| Size(it.log_bytes).to_string()),
    ("log peak", |it| Size(it.log_bytes_peak).to_string()),
    ("log on disk", |it| Size(it.log_bytes_spilled).to_string()),
];

const EVENTS: [Column<Statistics>; 13] = [
    ("events", |it| it.logged.events().to_string()),
    ("match", |it| it.logged.matches.to_string()),
    ("merged", |it| it.logged.merged.to_string()),
    ("complete", |it| it.logged.completions.to_string()),
    ("probe", |it| it.logged.probes.to_string()),
    ("cancel", |it| it.logged.cancelled.to_string()),
    ("given", |it| it.logged.given.to_string()),
    ("nothing", |it| it.logged.nothing.to_string()),
    ("B/event", |it| {
        ratio(it.logged.payload_bytes, it.logged.events())
    }),
    ("commits", |it| it.logged.commits.to_string()),
    ("per commit", |it| {
        ratio(it.logged.events(), it.logged.commits)
    }),
    ("waited", |it| it.logged.waits.count().to_string()),
    ("at once", |it| it.logged.waits.at_once.to_string()),
];

/// The statistics as tables.
pub fn text(ranks: &[Option<Statistics>]) -> String {
    let total = total(ranks);
    let mut rows: Vec<(String, Option<&Statistics>)> = (ranks.iter().enumerate())
        .map(|(rank, figures)| (rank.to_string(), figures.as_ref()))
        .collect();
    rows.push(("all".into(), Some(&total)));
    let mut text = table(&MESSAGES, &rows) + "\n";
    if total.logged.nothing_found + total.logged.events() > 0 {
        let waits = waits(&total.logged.waits);
        let _ = writeln!(text, "\n{}\n\n{waits}", table(&EVENTS, &rows));
    }
    let _ = write!(
        text,
        "{} events logged, {:.4} for each message that was sent; {} operations found nothing",
        total.logged.events(),
        per_message(&total),
        total.logged.nothing_found
    );
    text
}

fn table(columns: &[Column<Statistics>], rows: &[(String, Option<&Statistics>)]) -> String {
    let header = columns.iter().map(|(name, _)| *name);
    let rows = rows.iter().map(|(name, figures)| {
        let cells = match figures {
            Some(figures) => columns.iter().map(|(_, cell)| cell(figures)).collect(),
            None => vec!["did not come to its end".into()],
        };
        std::iter::once(name.clone()).chain(cells).collect()
    });
    table::numbers(std::iter::once("rank").chain(header), rows.collect())
}

/// Durations for which sends waited for their events.
fn waits(waits: &GateWaits) -> String {
    if waits.count() == 0 {
        return format!(
            "no send waited: {} found their events stable at once",
            waits.at_once
        );
    }
    let mut text = format!(
        "{} sends waited for their events, {:.1} µs in the mean, {:.1} at most; {} found them stable at once\n",
        waits.count(),
        waits.total_ns as f64 / waits.count() as f64 / 1e3,
        waits.longest_ns as f64 / 1e3,
        waits.at_once,
    );
    let most = waits.classes.iter().copied().max().unwrap_or(1).max(1);
    let last = waits.classes.iter().rposition(|count| *count > 0);
    let classes = waits.classes.iter().enumerate();
    for (class, count) in classes.take(last.map_or(0, |last| last + 1)) {
        let bar = "#".repeat((count * 40).div_ceil(most) as usize);
        let _ = writeln!(text, "  below {:>8} µs {count:>10} {bar}", 1_u64 << class);
    }
    text.trim_end().to_owned()
}

fn per_message(figures: &Statistics) -> f64 {
    figures.logged.events() as f64 / figures.messages_sent.max(1) as f64
}

/// The text of a ratio.
pub fn ratio(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        of => format!("{:.2}", part as f64 / of as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<Option<Statistics>> {
        let mut one = Statistics {
            messages_sent: 1000,
            bytes_sent: 20_000,
            ..Statistics::default()
        };
        one.logged.merged = 250;
        one.logged.payload_bytes = 300;
        one.logged.commits = 50;
        one.logged
            .waits
            .record(core::time::Duration::from_micros(3));
        vec![Some(one.clone()), None, Some(one)]
    }

    #[test]
    fn the_tables_have_each_rank_and_the_sum() {
        let text = text(&figures());
        assert!(text.contains("did not come to its end"), "{text}");
        let all: Vec<&str> = text
            .lines()
            .filter(|line| line.trim_start().starts_with("all"))
            .collect();
        assert_eq!(all.len(), 2, "{text}");
        assert!(
            all[0].contains("2000") && all[0].contains("39.1 KiB"),
            "{text}"
        );
        assert!(all[1].contains("500") && all[1].contains("1.20"), "{text}");
        assert!(
            text.contains("500 events logged, 0.2500 for each message"),
            "{text}"
        );
        assert!(text.contains("below        4 µs          2 ###"), "{text}");
    }

    #[test]
    fn checkpoints_are_one_line() {
        let one = CheckpointCounts {
            orders: 3,
            stable: 2,
            bytes: 2000,
        };
        assert_eq!(checkpoints(&[]), None);
        let line = "4 checkpoints, 3.9 KiB; ranks were asked for 6";
        assert_eq!(checkpoints(&[one, one]).as_deref(), Some(line));
    }

    #[test]
    fn the_file_has_what_the_tables_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats.json");
        let outcome = Outcome {
            status: 0,
            failure: None,
            statistics: figures(),
            recoveries: Vec::new(),
            checkpoints: vec![CheckpointCounts {
                orders: 3,
                stable: 2,
                bytes: 2000,
            }],
        };
        write(&path, &outcome).unwrap();
        assert_eq!(messages_of(&path), Some(vec![1000, 0, 1000]));
        assert_eq!(messages_of(&folder.path().join("other")), None);
        let read: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(read["ranks"].as_array().unwrap().len(), 3);
        assert!(read["ranks"][1].is_null());
        assert_eq!(read["total"]["logged"]["merged"], 500);
        assert_eq!(read["checkpoints"][0]["orders"], 3);
        assert_eq!(read["events_per_message"], 0.25);
    }
}
