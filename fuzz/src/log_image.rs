//! Folders of segment files, read as a log (docs/formats/log-format.md).

use crate::input::Input;
use crate::originals::{CHUNKS, JOB, ORIGINALS, RECORDS, accident};
use refrain_logging::image::{LogImage, Selection, Verdict};
use refrain_logging::segment::{Channel, FileHeader, slot_offset};
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank, Ssn};

/// Maximum number of files in a folder and of slots in a file: more are slow and find no more
/// errors.
const FILES_MAX: u8 = 3;
const SLOTS_MAX: u8 = 4;

/// Builds a folder from the bytes and reads all its logs.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut forged = false;
    let files: Vec<(String, Vec<u8>)> = (0..1 + input.u8() % FILES_MAX)
        .map(|number| {
            let name = match input.u8() % 3 {
                0 => input.text(),
                1 => format!("r0i1-to-r1-{number:012}.log"),
                _ => format!("refrain-1-2-r0i1-to-r1-{number:012}.log"),
            };
            (name, file(&mut input, &mut forged))
        })
        .collect();
    let from = Ssn(input.u8().into());
    read(
        &LogImage::of_contents(files, Selection::default()),
        from,
        forged,
    );
}

/// A file of any bytes, or a file with a header and slots.
fn file(input: &mut Input<'_>, forged: &mut bool) -> Vec<u8> {
    if input.u8().is_multiple_of(8) {
        *forged = true;
        return input.bytes();
    }
    let slots = 1 + input.u8() % SLOTS_MAX;
    let destination = 1 + u32::from(input.u8() % 2);
    let first_sequence = match input.u8() {
        255 => input.u64(),
        small => u64::from(small % CHUNKS as u8),
    };
    let header = FileHeader {
        job: JOB,
        channel: Channel {
            source: Rank(0),
            incarnation: Incarnation(1),
            destination: Rank(destination),
        },
        first_sequence,
        slots: slots.into(),
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(header.file_bytes() as usize, 0);
    for slot in 0..slots {
        let at = slot_offset(slot.into()) as usize;
        let chunk = match input.u8() % 8 {
            0 => Vec::new(),
            1 => {
                *forged = true;
                input.bytes()
            }
            // Mostly the original chunk for the slot.
            2 => accident(&ORIGINALS[usize::from(input.u8()) % ORIGINALS.len()], input),
            _ => match original(&header, slot) {
                Some(chunk) => accident(chunk, input),
                None => Vec::new(),
            },
        };
        bytes[at..at + chunk.len()].copy_from_slice(&chunk);
    }
    if input.u8() >= 200 {
        let length = bytes.len() as u64;
        bytes.truncate((u64::from(input.u32()) % length) as usize);
    }
    bytes
}

fn original(header: &FileHeader, slot: u8) -> Option<&'static Vec<u8>> {
    let sequence = header.first_sequence.checked_add(slot.into())?;
    let sequence = usize::try_from(sequence).ok().filter(|n| *n < CHUNKS)?;
    let channel = header.channel.destination.index() - 1;
    Some(&ORIGINALS[channel * CHUNKS + sequence])
}

fn read(image: &LogImage, from: Ssn, forged: bool) {
    let verification = image.verify();
    for (key, _) in image.logs() {
        let extent = image.extent(&key).expect("the log is listed");
        let mut records = image.records(&key, from).expect("the log is listed");
        let mut position = None;
        let mut failed = false;
        loop {
            match records.next() {
                Ok(Some(record)) => {
                    assert!(!failed, "nothing comes behind an error");
                    assert!(record.header.ssn >= from);
                    assert!(position < Some(record.position), "records come in order");
                    position = Some(record.position);
                    let chunk = record.position.0 / CHUNK_BYTES as u64;
                    assert!(extent.chunks.contains(&chunk));
                    let channel = key.channel.destination.index().wrapping_sub(1);
                    let originals = || {
                        RECORDS[channel * CHUNKS + chunk as usize].iter().any(
                            |(header, payload)| {
                                *header == record.header && Some(&**payload) == record.payload
                            },
                        )
                    };
                    assert!(forged || originals(), "a record that was never written");
                }
                Ok(None) => break,
                Err(failure) => {
                    assert!(!failure.to_string().is_empty());
                    failed = true;
                }
            }
        }
        let log = &verification.logs[&key];
        let damaged = log.with(Verdict::Damaged).count() + log.with(Verdict::Unwritten).count();
        assert!(
            !failed || damaged > 0 || forged,
            "what cannot be read is damaged"
        );
        let mut messages = image.messages(&key, from).expect("the log is listed");
        while let Ok(Some(message)) = messages.next() {
            assert!(message.ssn >= from);
        }
    }
}

/// One file in order; one with two generations; two files of one log; a truncated file.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = [3, 5, 3, 5, 3, 5, 0, 0];
    let one = [&[0, 1, 1, 2, 0, 0][..], &whole].concat();
    let reused = [&[0, 1, 1, 2, 0, 1][..], &[3, 5, 2, 4, 5, 2, 1, 5, 0, 0]].concat();
    let two = [
        &[1, 1, 1, 1, 0, 0][..],
        &[3, 5, 3, 0, 0, 100, 0, 0],
        &[2, 1, 1, 0, 1],
        &[3, 5, 3, 5, 0, 3],
    ]
    .concat();
    let cut = [
        &[0, 2, 1, 2, 0, 0][..],
        &[3, 5, 3, 5, 3, 5, 255, 0, 32, 4, 0, 1],
    ]
    .concat();
    let raw = [&[0, 0, 3][..], b"abc", &[0, 5], b"rfrnseg"].concat();
    vec![one, reused, two, cut, raw]
}
