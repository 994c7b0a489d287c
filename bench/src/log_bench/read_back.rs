//! Reads the whole log back, as after the death of its rank.

use super::append::{Appended, DESTINATION, SOURCE};
use super::files::BenchFiles;
use crate::disk::Transferred;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::machine::resident_bytes;
use refrain_logging::image::{LogImage, LogKey, ReadFailure, Selection};
use refrain_logging::segment::Channel;
use refrain_ring::{Incarnation, RecordKind, Ssn, record_bytes};
use std::time::Instant;

/// Number of records between two checks of the memory and for Ctrl-C.
const LOOK_RECORDS: u64 = 1024;

/// Measurements of reading back.
#[derive(Clone, Copy, Debug)]
pub struct ReadBack {
    /// Log bytes, and the time from the opening of the files to the last record.
    pub read: Transferred,
    /// The part of that time in which the files were opened and indexed.
    pub opening_seconds: f64,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Maximum growth of resident memory meanwhile.
    pub memory_growth_bytes: u64,
}

/// Reads every record, with every checksum, and counts the messages.
///
/// # Errors
/// The log cannot be read, or differs from what was written.
pub fn read_all(
    files: &BenchFiles,
    appended: &Appended,
    interrupt: &Interrupt,
) -> Result<ReadBack, BenchError> {
    let before_bytes = resident_bytes("self").unwrap_or(0);
    let mut most_bytes = before_bytes;
    let began = Instant::now();
    let selection = Selection {
        job: Some(files.job),
        ..Selection::default()
    };
    let image = LogImage::open(&files.folder, selection)
        .map_err(|error| BenchError::failed(error.to_string()))?;
    let key = LogKey {
        job: files.job,
        channel: Channel {
            source: SOURCE,
            incarnation: Incarnation(0),
            destination: DESTINATION,
        },
    };
    let unreadable =
        |error: ReadFailure| BenchError::failed(format!("the log cannot be read back: {error}"));
    let mut records = image.records(&key, Ssn(0)).map_err(unreadable)?;
    let opening_seconds = began.elapsed().as_secs_f64();
    let (mut bytes, mut payload_bytes, mut count) = (0, 0, 0);
    let mut next_ssn = Ssn(0);
    while let Some(record) = records.next().map_err(unreadable)? {
        let header = record.header;
        if header.kind == RecordKind::Eager {
            if header.ssn != next_ssn {
                return Err(wrong(format!(
                    "message {} was read in place of {}",
                    header.ssn.0, next_ssn.0
                )));
            }
            next_ssn = next_ssn.next();
        }
        let record_payload_bytes = record.header.payload_bytes;
        bytes += record_bytes(record_payload_bytes as usize) as u64;
        payload_bytes += u64::from(record_payload_bytes);
        count += 1;
        if count % LOOK_RECORDS == 0 {
            interrupt.check()?;
            most_bytes = most_bytes.max(resident_bytes("self").unwrap_or(0));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    most_bytes = most_bytes.max(resident_bytes("self").unwrap_or(0));
    if next_ssn != appended.on_disk_end {
        let (found, written) = (next_ssn.0, appended.on_disk_end.0);
        return Err(wrong(format!("{found} messages of {written}")));
    }
    Ok(ReadBack {
        read: Transferred { bytes, seconds },
        opening_seconds,
        payload_bytes,
        memory_growth_bytes: most_bytes - before_bytes,
    })
}

fn wrong(what: String) -> BenchError {
    BenchError::failed(format!(
        "the log was not read back as it was written: {what}"
    ))
}
