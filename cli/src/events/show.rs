//! `refrain events show`.

use super::source::{Source, Where};
use miette::{IntoDiagnostic, miette};
use refrain_job::stderr::report;
use refrain_logging::determinant::{Determinant, EventIndex, Matched};
use refrain_ring::Rank;
use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Arguments of `refrain events show`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Where,
    /// Rank whose events are printed; required if there are several.
    #[arg(long, value_name = "R")]
    rank: Option<u32>,
    /// Number of the first event printed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Maximum number of events printed [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Prints the events.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let source = Source::new(&arguments.place)?;
    let holdings = source.of_job(arguments.place.job)?;
    let holding = match (arguments.rank, holdings.as_slice()) {
        (None, [holding]) => holding,
        (rank, _) => {
            let found = rank.and_then(|rank| holdings.iter().find(|of| of.rank == rank));
            found.ok_or_else(|| {
                let ranks: Vec<String> = holdings.iter().map(|of| of.rank.to_string()).collect();
                miette!(
                    "choose a rank with --rank: {}",
                    if ranks.is_empty() {
                        "none has events".into()
                    } else {
                        ranks.join(", ")
                    }
                )
            })?
        }
    };
    if arguments.from < holding.first {
        report(format_args!(
            "events before number {} were dropped: a checkpoint covers them",
            holding.first
        ));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut failed = Ok(());
    source.read(holding, EventIndex(arguments.from), &mut |batch| {
        for (index, determinant) in (batch.header.first.0..).zip(&batch.determinants) {
            if index < arguments.from {
                continue;
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            failed = writeln!(
                out,
                "{index:>8}  life {}  clock {:>10}  {}",
                batch.header.incarnation,
                determinant.at().0,
                words(determinant)
            );
            if failed.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    match failed.and_then(|()| out.flush()) {
        // The reader has closed its end, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written.into_diagnostic().map(|()| ExitCode::SUCCESS),
    }
}

/// The text of an event, for people.
fn words(determinant: &Determinant) -> String {
    match determinant {
        Determinant::Match(it) => {
            let Matched {
                request,
                source: Rank(source),
                ssn,
            } = it.matched;
            let named = if it.is_named { ", named" } else { "" };
            let completed = if it.is_completed { ", completed" } else { "" };
            format!(
                "match     receive {request} ← message {ssn} of rank {source}{named}{completed}"
            )
        }
        Determinant::Probe {
            source,
            ssn,
            tag,
            bytes,
            ..
        } => format!("probe     message {ssn} of rank {source}, tag {tag}, {bytes} bytes"),
        Determinant::Completion {
            requests,
            continues,
            ..
        } => {
            let requests: Vec<String> = requests.iter().map(ToString::to_string).collect();
            let more = if *continues { " …" } else { "" };
            format!("complete  {}{more}", requests.join(", "))
        }
        Determinant::Cancelled { request, .. } => format!("cancel    receive {request}"),
        Determinant::Number { series, value, .. } => format!("given     number {series}: {value}"),
        Determinant::Bytes { bytes, .. } => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("given     {} bytes: {digits}", bytes.len())
        }
        Determinant::Nothing { first, count, .. } => {
            format!("nothing   {count} times since clock {first}")
        }
    }
}
