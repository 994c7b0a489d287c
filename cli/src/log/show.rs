//! `refrain log show`.

use super::reading::{Failure, Output, open};
use crate::job_number;
use clap::Args;
use miette::{Report, miette};
use refrain_logging::image::{LogExtent, LogImage, LogKey, Message, Selection, Wanted};
use refrain_ring::{Frontier, Incarnation, Position, Rank, RecordHeader, RecordKind, Ssn};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `refrain log show`.
#[derive(Args)]
pub struct Arguments {
    /// Folder of the logs (--spill-dir).
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Rank that sent the messages.
    #[arg(long, value_name = "RANK")]
    source: u32,
    /// Rank that the messages were sent to.
    #[arg(long, value_name = "RANK")]
    destination: u32,
    /// Incarnation of the source, from 0; required if there are several.
    #[arg(long, value_name = "N")]
    incarnation: Option<u32>,
    /// Number of the job, as `ls` prints it; required if there are several.
    #[arg(long, value_name = "JOB", value_parser = job_number::parse)]
    job: Option<u64>,
    /// SSN of the first message printed; above 0, internal messages are omitted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_ssn: u64,
    /// Maximum number of records or messages printed [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print messages instead of records, in the order of completion.
    #[arg(long)]
    messages: bool,
    /// Print the payload.
    #[arg(long)]
    payload: bool,
}

pub fn run(arguments: &Arguments, out: &mut Output<'_>) -> Result<ExitCode, Failure> {
    let selection = Selection {
        job: arguments.job,
        source: Some(Rank(arguments.source)),
        incarnation: arguments.incarnation.map(Incarnation),
        destination: Some(Rank(arguments.destination)),
    };
    let image = open(&arguments.folder, selection)?;
    let key = the_one(&image, arguments)?;
    let extent = if arguments.messages {
        show_messages(&image, &key, arguments, out)?
    } else {
        show_records(&image, &key, arguments, out)?
    };
    if let Some(extent) = extent {
        writeln!(out, "{}", end_of(&extent))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The log that the options select.
fn the_one(image: &LogImage, arguments: &Arguments) -> Result<LogKey, Failure> {
    let keys: Vec<LogKey> = image.logs().map(|(key, _)| key).collect();
    let Arguments {
        source,
        destination,
        folder,
        ..
    } = arguments;
    match keys[..] {
        [key] => Ok(key),
        [] => Err(miette!(
            "no such log of rank {source} to rank {destination} in {folder}: list the logs with `refrain log ls {folder}`",
            folder = folder.display()
        )
        .into()),
        _ => {
            let keys: Vec<String> = keys
                .iter()
                .map(|key| {
                    let life = key.channel.incarnation;
                    format!("--job {:016x} --incarnation {life}", key.job)
                })
                .collect();
            Err(miette!(
                "there are {} logs of rank {source} to rank {destination}; choose one with\n{}",
                keys.len(),
                keys.join("\n")
            )
            .into())
        }
    }
}

/// All records from the beginning, or the program's messages from an SSN on (without internal
/// messages).
fn wanted(arguments: &Arguments) -> Wanted {
    match arguments.from_ssn {
        0 => Frontier::default().into(),
        from => Ssn(from).into(),
    }
}

/// Prints the records. Returns the extent of the log if its end was reached.
fn show_records(
    image: &LogImage,
    key: &LogKey,
    arguments: &Arguments,
    out: &mut Output<'_>,
) -> Result<Option<LogExtent>, Failure> {
    let records = image.records(key, wanted(arguments));
    let mut records = records.map_err(Report::msg)?;
    print_header(out)?;
    let mut shown = 0;
    while arguments.limit.is_none_or(|limit| shown < limit) {
        let Some(record) = or_flush(records.next(), out)? else {
            return Ok(Some(records.extent().clone()));
        };
        let bytes = match record.header {
            RecordHeader {
                kind: RecordKind::Fragment,
                payload_bytes,
                extent,
                ..
            } => format!("{payload_bytes} at {extent}"),
            header if header.attached_bytes() > 0 => {
                format!("{} and {} attached", header.extent, header.attached_bytes())
            }
            header if u64::from(header.payload_bytes) == header.extent => header.extent.to_string(),
            header => format!("{} of {}", header.payload_bytes, header.extent),
        };
        let (header, payload) = (record.header, record.payload);
        let bytes = match payload {
            Some(_) => bytes,
            None => format!("{bytes} (gone)"),
        };
        let fields = (header.ssn, header.kind, header.context, header.tag);
        print_line(out, record.position, fields, &bytes)?;
        if let (true, Some(payload)) = (arguments.payload, payload) {
            print_bytes(out, payload)?;
        }
        shown += 1;
    }
    Ok(None)
}

fn show_messages(
    image: &LogImage,
    key: &LogKey,
    arguments: &Arguments,
    out: &mut Output<'_>,
) -> Result<Option<LogExtent>, Failure> {
    let messages = image.messages(key, wanted(arguments));
    let mut messages = messages.map_err(Report::msg)?;
    print_header(out)?;
    let mut shown = 0;
    while arguments.limit.is_none_or(|limit| shown < limit) {
        let Some(message) = or_flush(messages.next(), out)? else {
            for message in messages.incomplete() {
                let bytes = format!("{} so far", message.bytes.len());
                print_message(out, message, &bytes)?;
            }
            return Ok(Some(messages.extent().clone()));
        };
        print_message(out, &message, &message.bytes.len().to_string())?;
        if arguments.payload {
            print_bytes(out, &message.bytes)?;
        }
        shown += 1;
    }
    Ok(None)
}

/// On an error, flushes the output that comes before the error.
fn or_flush<T, E: core::fmt::Display>(
    result: Result<T, E>,
    out: &mut Output<'_>,
) -> Result<T, Failure> {
    if result.is_err() {
        out.flush()?;
    }
    result.map_err(|error| miette!("{error}").into())
}

fn print_header(out: &mut Output<'_>) -> Result<(), Failure> {
    let (position, ssn, kind) = ("position", "SSN", "kind");
    let (context, tag, bytes) = ("context", "tag", "bytes");
    writeln!(
        out,
        "{position:>14} {ssn:>10}  {kind:<10} {context:>7} {tag:>11}  {bytes}"
    )?;
    Ok(())
}

fn print_message(out: &mut Output<'_>, message: &Message, bytes: &str) -> Result<(), Failure> {
    let fields = (message.ssn, message.kind, message.context, message.tag);
    print_line(out, message.position, fields, bytes)
}

fn print_line(
    out: &mut Output<'_>,
    position: Position,
    (ssn, kind, context, tag): (Ssn, RecordKind, u32, i32),
    bytes: &str,
) -> Result<(), Failure> {
    let kind = match kind {
        RecordKind::Eager => "eager",
        RecordKind::Rendezvous => "rendezvous",
        RecordKind::Fragment => "fragment",
        RecordKind::Link => "link",
    };
    writeln!(
        out,
        "{:>14} {:>10}  {kind:<10} {context:>7} {tag:>11}  {bytes}",
        position.0, ssn.0
    )?;
    Ok(())
}

/// Prints sixteen bytes per line, in 78 columns.
fn print_bytes(out: &mut Output<'_>, bytes: &[u8]) -> Result<(), Failure> {
    for (number, line) in bytes.chunks(16).enumerate() {
        write!(out, "  {:08x} ", number * 16)?;
        let digits: String = line.iter().map(|byte| format!(" {byte:02x}")).collect();
        let printable = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let text: String = line.iter().map(printable).collect();
        writeln!(out, "{digits:<48}  |{text}|")?;
    }
    Ok(())
}

fn end_of(extent: &LogExtent) -> String {
    let mut text = match extent.chunks.is_empty() {
        true => "the log has no whole chunk".to_owned(),
        false => format!(
            "the log ends with chunk {}, it begins with chunk {}",
            extent.chunks.end - 1,
            extent.chunks.start
        ),
    };
    if !extent.torn_chunks.is_empty() {
        let torn: Vec<String> = extent.torn_chunks.iter().map(u64::to_string).collect();
        text += &format!(
            "\nchunks after its end were being written: {}",
            torn.join(", ")
        );
    }
    text
}
