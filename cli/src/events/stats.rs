//! `refrain events stats`.

use super::Where;
use super::source::Source;
use crate::statistics::{STATISTICS_FILE, messages_of};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use refrain_eventlog::message::Holding;
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

/// Of one rank, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    events: u64,
    matches: u64,
    merged: u64,
    named: u64,
    completions: u64,
    cancelled: u64,
    given: u64,
    probes: u64,
    nothing: u64,
    batches: u64,
    payload_bytes: u64,
}

impl Tally {
    fn count(&mut self, determinant: &Determinant) {
        self.events += 1;
        match determinant {
            Determinant::Match(it) => {
                self.matches += u64::from(!it.is_completed);
                self.merged += u64::from(it.is_completed);
                self.named += u64::from(it.is_named);
            }
            Determinant::Completion { .. } => self.completions += 1,
            Determinant::Probe { .. } => self.probes += 1,
            Determinant::Cancelled { .. } => self.cancelled += 1,
            Determinant::Number { .. } | Determinant::Bytes { .. } => self.given += 1,
            Determinant::Nothing { .. } => self.nothing += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.matches += other.matches;
        self.merged += other.merged;
        self.named += other.named;
        self.completions += other.completions;
        self.cancelled += other.cancelled;
        self.given += other.given;
        self.probes += other.probes;
        self.nothing += other.nothing;
        self.batches += other.batches;
        self.payload_bytes += other.payload_bytes;
    }
}

/// Prints the table.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let source = Source::new(&arguments.place)?;
    let holdings = source.of_job(arguments.place.job)?;
    let file = arguments
        .stats_file
        .clone()
        .unwrap_or_else(|| Path::new(&arguments.place.source).join(STATISTICS_FILE));
    let messages = messages_of(&file);
    if let (Some(path), None) = (&arguments.stats_file, &messages) {
        return Err(miette::miette!(
            "--stats-file {}: not a file of `refrain run --stats-file`",
            path.display()
        ));
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        "rank",
        "lives",
        "first",
        "events",
        "match",
        "merged",
        "named",
        "complete",
        "cancel",
        "probe",
        "given",
        "nothing",
        "batches",
        "B/event",
        "events/message",
    ]);
    let mut total = Tally::default();
    for holding in &holdings {
        let tally = tally(&source, holding)?;
        total.add(&tally);
        let sent = messages
            .as_ref()
            .and_then(|messages| messages.get(holding.rank as usize).copied());
        table.add_row(row(
            &holding.rank.to_string(),
            &(holding.incarnation + 1).to_string(),
            &holding.first.to_string(),
            &tally,
            sent,
        ));
    }
    let sent = messages.as_ref().map(|messages| messages.iter().sum());
    table.add_row(row("all", "", "", &total, sent));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{}", table.trim_fmt());
    if messages.is_none() {
        println!("events/message: unknown without the --stats-file of the job");
    }
    Ok(ExitCode::SUCCESS)
}

fn tally(source: &Source, holding: &Holding) -> miette::Result<Tally> {
    let mut tally = Tally::default();
    source.read(holding, EventIndex(0), &mut |batch| {
        tally.batches += 1;
        tally.payload_bytes += u64::from(batch.header.payload_bytes);
        batch.determinants.iter().for_each(|it| tally.count(it));
        ControlFlow::Continue(())
    })?;
    Ok(tally)
}

fn row(name: &str, lives: &str, first: &str, tally: &Tally, messages: Option<u64>) -> Vec<String> {
    let ratio = |of: u64, digits: usize| match of {
        0 => "-".to_owned(),
        of => format!("{:.digits$}", tally.payload_bytes as f64 / of as f64),
    };
    let per_message = messages.filter(|messages| *messages > 0).map_or_else(
        || "-".to_owned(),
        |messages| format!("{:.4}", tally.events as f64 / messages as f64),
    );
    [name, lives, first]
        .into_iter()
        .map(str::to_owned)
        .chain(
            [
                tally.events,
                tally.matches,
                tally.merged,
                tally.named,
                tally.completions,
                tally.cancelled,
                tally.probes,
                tally.given,
                tally.nothing,
                tally.batches,
            ]
            .map(|count| count.to_string()),
        )
        .chain([ratio(tally.events, 2), per_message])
        .collect()
}
