//! Random logs, spread at random over files and memory: the records and messages read are
//! those written. LOG-2

use crate::fixed_seed;
use crate::written::{Writing, Written, file, key, name};
use proptest::prelude::*;
use refrain_logging::image::{LogImage, Selection};
use refrain_ring::{ChannelLog, LoanEnd, Position, RecordKind, Ssn};
use std::collections::BTreeMap;

/// A message to be sent: its bytes, whether it is announced first, and the number of
/// messages before its remaining fragments follow.
#[derive(Clone, Debug)]
struct Send {
    bytes: usize,
    announced: bool,
    delay: usize,
}

fn sends() -> impl Strategy<Value = Vec<Send>> {
    let bytes = prop_oneof![
        6 => 0..200_usize,
        3 => 1000..70_000_usize,
        1 => 200_000..600_000_usize
    ];
    let send = (bytes, any::<bool>(), 0..6_usize).prop_map(|(bytes, announced, delay)| Send {
        bytes,
        announced,
        delay,
    });
    prop::collection::vec(send, 1..40)
}

fn bytes_of(ssn: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at as u8).wrapping_mul(31) ^ ssn as u8)
        .collect()
}

/// Writes all sends, with fragments of several messages interleaved.
fn write(writing: &mut Writing, sends: &[Send]) {
    let mut under_way: Vec<(u64, usize, usize)> = Vec::new();
    for (ssn, send) in sends.iter().enumerate() {
        let ssn = ssn as u64;
        let bytes = bytes_of(ssn, send.bytes);
        let first = match send.announced {
            true => 0,
            false => bytes.len().min(ChannelLog::PAYLOAD_BYTES_MAX / 3),
        };
        let kind = match send.announced {
            true => RecordKind::Rendezvous,
            false => RecordKind::Eager,
        };
        writing.record(kind, ssn, bytes.len() as u64, &bytes[..first]);
        if first < bytes.len() {
            under_way.push((ssn, first, send.delay));
        }
        for (ssn, done, delay) in &mut under_way {
            let bytes = bytes_of(*ssn, sends[*ssn as usize].bytes);
            if *delay == 0 {
                let end = bytes.len().min(*done + 100_000);
                *done +=
                    writing.record(RecordKind::Fragment, *ssn, *done as u64, &bytes[*done..end]);
            }
            *delay = delay.saturating_sub(1);
        }
        under_way.retain(|(ssn, done, _)| *done < sends[*ssn as usize].bytes);
    }
}

/// The sequence number of the chunk in which a record lies.
fn chunk_of(record: &Written) -> u64 {
    record.position / refrain_ring::CHUNK_BYTES as u64
}

proptest! {
    #![proptest_config(fixed_seed::cases(60))]

    #[test]
    fn all_that_was_written_is_read(
        sends in sends(),
        on_disk in 0..20_usize,
        overwritten in 0..20_usize,
        slots in 1..5_usize,
        with_memory in any::<bool>(),
        from in 0..45_u64,
    ) {
        let mut writing = Writing::new(key(1), 64);
        write(&mut writing, &sends);
        let sealed = writing.seal(on_disk, LoanEnd::OnDisk);
        let overwritten = overwritten.min(sealed.len());
        writing.overwrite(overwritten);
        let files = sealed.chunks(slots).enumerate().map(|(number, chunks)| {
            let first = (number * slots) as u64;
            (name(key(1), first), file(key(1), first, slots as u32, chunks))
        });
        let mut image = LogImage::of_contents(files, Selection::default());
        if with_memory {
            image.add_memory(writing.memory());
        }
        let end = if with_memory { u64::MAX } else { sealed.len() as u64 };
        let expected: Vec<&Written> = writing
            .records
            .iter()
            .filter(|record| chunk_of(record) < end && record.ssn >= from)
            .collect();
        if end == 0 {
            prop_assert!(image.records(&key(1), Ssn(0)).is_err());
            return Ok(());
        }

        let mut records = image.records(&key(1), Ssn(from)).expect("a log");
        for expected in &expected {
            let record = records.next().expect("whole").expect("one more");
            prop_assert_eq!(record.header.kind, expected.kind);
            prop_assert_eq!(record.header.ssn.0, expected.ssn);
            prop_assert_eq!(record.header.extent, expected.extent);
            prop_assert_eq!(record.position.0, expected.position);
            prop_assert!(record.payload == Some(&expected.payload[..]), "SSN {}", expected.ssn);
        }
        prop_assert!(records.next().expect("whole").is_none());
        prop_assert!(!image.verify().is_damaged());

        let mut complete: BTreeMap<u64, usize> = BTreeMap::new();
        for record in &expected {
            *complete.entry(record.ssn).or_default() += record.payload.len();
        }
        complete.retain(|ssn, bytes| *bytes == sends[*ssn as usize].bytes);
        let mut messages = image.messages(&key(1), Ssn(from)).expect("a log");
        while let Some(message) = messages.next().expect("whole") {
            let ssn = message.ssn.0;
            prop_assert!(complete.remove(&ssn).is_some(), "message {ssn} is complete");
            prop_assert!(message.bytes == bytes_of(ssn, sends[ssn as usize].bytes));
            prop_assert_eq!((message.context, message.tag), (7, -3));
        }
        prop_assert!(complete.is_empty(), "missing: {:?}", complete);

        // A reader that continues from the beginning of an earlier message misses nothing.
        let begins = |record: &&Written| record.kind != RecordKind::Fragment && record.ssn < from;
        let begun = writing.records.iter().filter(begins).map(|record| record.position).max();
        let begun = Position(begun.unwrap_or(0));
        let mut all = image.messages(&key(1), Ssn(from)).expect("a log");
        let mut behind = image.messages_behind(&key(1), Ssn(from), begun).expect("a log");
        while let Some(message) = all.next().expect("whole") {
            prop_assert_eq!(behind.next().expect("whole"), Some(message));
        }
        prop_assert_eq!(behind.next().expect("whole"), None);
    }
}

/// A continuing reader does not read all earlier chunks again, though no chunk in memory gives
/// its last SSN.
#[test]
fn chunks_before_a_position_are_not_read() {
    let mut writing = Writing::new(key(1), 64);
    for ssn in 0..12 {
        writing.message(ssn, &bytes_of(ssn, 100));
        if ssn % 3 == 2 {
            writing.end_chunk();
        }
    }
    let no_files = Vec::<(String, Vec<u8>)>::new();
    let mut image = LogImage::of_contents(no_files, Selection::default());
    image.add_memory(writing.memory());
    let begun = Position(writing.records[7].position);
    assert_eq!(
        begun.0 / refrain_ring::CHUNK_BYTES as u64,
        2,
        "of four chunks"
    );
    let mut behind = image
        .messages_behind(&key(1), Ssn(0), begun)
        .expect("a log");
    let mut ssns = Vec::new();
    while let Some(message) = behind.next().expect("whole") {
        ssns.push(message.ssn.0);
    }
    assert_eq!(ssns, [6, 7, 8, 9, 10, 11]);
}
