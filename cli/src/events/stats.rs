//! `refrain events stats`.

use super::source::{Source, Where};
use crate::statistics::{STATISTICS_FILE, messages_of, ratio};
use crate::table::{self, Column};
use refrain_eventlog::message::Holding;
use refrain_job::statistics::EventStatistics;
use refrain_logging::determinant::{Determinant, EventIndex};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `refrain events stats`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Where,
    /// The job's --stats-file, for events per message [default: that in the folder of the job].
    #[arg(long, value_name = "FILE")]
    stats_file: Option<PathBuf>,
}

const COUNTS: [Column<EventStatistics>; 11] = [
    ("events", |it| it.events().to_string()),
    ("match", |it| it.matches.to_string()),
    ("merged", |it| it.merged.to_string()),
    ("named", |it| it.named.to_string()),
    ("complete", |it| it.completions.to_string()),
    ("cancel", |it| it.cancelled.to_string()),
    ("probe", |it| it.probes.to_string()),
    ("given", |it| it.given.to_string()),
    ("nothing", |it| it.nothing.to_string()),
    ("batches", |it| it.commits.to_string()),
    ("B/event", |it| ratio(it.payload_bytes, it.events())),
];

fn count(counts: &mut EventStatistics, determinant: &Determinant) {
    match determinant {
        Determinant::Match(it) => {
            counts.matches += u64::from(!it.is_completed);
            counts.merged += u64::from(it.is_completed);
            counts.named += u64::from(it.is_named);
        }
        Determinant::Completion { .. } => counts.completions += 1,
        Determinant::Probe { .. } => counts.probes += 1,
        Determinant::Cancelled { .. } => counts.cancelled += 1,
        Determinant::Number { .. } | Determinant::Bytes { .. } => counts.given += 1,
        Determinant::Nothing { .. } => counts.nothing += 1,
    }
}

/// Prints the table.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let source = Source::new(&arguments.place)?;
    let holdings = source.of_job(arguments.place.job)?;
    let default = || Path::new(&arguments.place.source).join(STATISTICS_FILE);
    let file = arguments.stats_file.clone().unwrap_or_else(default);
    let messages = messages_of(&file);
    if let (Some(path), None) = (&arguments.stats_file, &messages) {
        return Err(miette::miette!(
            "--stats-file {}: not a file of `refrain run --stats-file`",
            path.display()
        ));
    }
    let mut rows = Vec::new();
    let mut total = EventStatistics::default();
    for holding in &holdings {
        let counts = counts(&source, holding)?;
        total.add(&counts);
        let sent = messages.as_ref();
        let sent = sent.and_then(|messages| messages.get(holding.rank as usize).copied());
        let names = [
            holding.rank.to_string(),
            (holding.incarnation + 1).to_string(),
        ];
        rows.push(row(names, holding.first.to_string(), &counts, sent));
    }
    let sent = messages.as_ref().map(|messages| messages.iter().sum());
    rows.push(row(
        ["all".into(), String::new()],
        String::new(),
        &total,
        sent,
    ));
    let header = ["rank", "lives", "first"].into_iter();
    let header = header.chain(COUNTS.iter().map(|(name, _)| *name));
    println!("{}", table::numbers(header.chain(["events/message"]), rows));
    if messages.is_none() {
        println!("events/message: unknown without the --stats-file of the job");
    }
    Ok(ExitCode::SUCCESS)
}

fn counts(source: &Source, holding: &Holding) -> miette::Result<EventStatistics> {
    let mut counts = EventStatistics::default();
    source.read(holding, EventIndex(0), &mut |batch| {
        counts.commits += 1;
        counts.payload_bytes += u64::from(batch.header.payload_bytes);
        batch
            .determinants
            .iter()
            .for_each(|it| count(&mut counts, it));
        ControlFlow::Continue(())
    })?;
    Ok(counts)
}

fn row(
    [rank, lives]: [String; 2],
    first: String,
    counts: &EventStatistics,
    messages: Option<u64>,
) -> Vec<String> {
    let per_message = messages.filter(|messages| *messages > 0).map_or_else(
        || "-".to_owned(),
        |messages| format!("{:.4}", counts.events() as f64 / messages as f64),
    );
    let counts = COUNTS.iter().map(|(_, cell)| cell(counts));
    let begin = [rank, lives, first].into_iter();
    begin.chain(counts).chain([per_message]).collect()
}
