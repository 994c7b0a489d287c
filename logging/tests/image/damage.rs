//! Damage is detected, distinguished from a torn tail, and never read.

use crate::written::{
    Writing, chunks_of, chunks_with, file, key, memory_with, name, payload, small_chunk,
};
use refrain_logging::image::{
    ChunkFault, ChunkPlace, LogImage, Message, RankMemory, ReadFailure, Selection, Verdict,
};
use refrain_logging::segment::slot_offset;
use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader};
use refrain_ring::{Incarnation, LoanEnd, Rank, RecordKind, Ssn};

/// Length that disks write atomically.
const SECTOR_BYTES: usize = 512;

fn image_of(first_sequence: u64, bytes: Vec<u8>) -> LogImage {
    let name = name(key(1), first_sequence);
    LogImage::of_contents([(name, bytes)], Selection::default())
}

fn read(image: &LogImage, from: u64) -> (Vec<Message>, Option<ReadFailure>) {
    let mut messages = image
        .messages(&key(1), Ssn(from))
        .expect("the log is there");
    let mut read = Vec::new();
    loop {
        match messages.next() {
            Ok(Some(message)) => read.push(message),
            Ok(None) => return (read, None),
            Err(failure) => return (read, Some(failure)),
        }
    }
}

fn ssns(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.ssn.0).collect()
}

/// LOG-2: a record that differs in one bit is never given out.
#[test]
fn every_flipped_bit_of_a_chunk_is_found() {
    let chunk = small_chunk(key(1), 0, 0);
    assert!(chunk.len() < 1200, "so that every bit can be tried");
    let whole = file(key(1), 0, 1, std::slice::from_ref(&chunk));
    let (read_whole, failure) = read(&image_of(0, whole.clone()), 0);
    assert_eq!((ssns(&read_whole), failure), (vec![0, 1, 2], None));
    // Bytes that belong to no record: from the end of a payload to the end of its line.
    let mut unused = 0;
    for bit in 0..chunk.len() * 8 {
        let mut damaged = whole.clone();
        damaged[slot_offset(0) as usize + bit / 8] ^= 1 << (bit % 8);
        let image = image_of(0, damaged);
        let (messages, failure) = read(&image, 0);
        assert_eq!(failure, None, "the last chunk is torn, no more");
        if !messages.is_empty() {
            assert_eq!(messages, read_whole, "bit {bit}: nothing wrong is read");
            assert!(is_unused(&chunk, bit / 8), "byte {} of a record", bit / 8);
            unused += 1;
            continue;
        }
        let found = &image.verify().logs[&key(1)];
        assert_eq!(found.whole_chunks, 0);
        assert_eq!(found.with(Verdict::Torn).count(), 1, "bit {bit}");
    }
    assert!(unused < chunk.len() * 8 / 4, "{unused} bits mean nothing");
}

/// Whether a byte lies between the end of a payload and the next record.
fn is_unused(chunk: &[u8], byte: usize) -> bool {
    let mut at = CHUNK_HEAD_BYTES;
    for ssn in 0..3 {
        let payload_bytes = payload(ssn, 0).len();
        let begin = at + refrain_ring::payload_offset(payload_bytes);
        let end = at + refrain_ring::record_bytes(payload_bytes);
        if (begin + payload_bytes..end).contains(&byte)
            || payload_bytes > 16 && (at + 48..begin).contains(&byte)
        {
            return true;
        }
        at = end;
    }
    assert_eq!(at, chunk.len());
    false
}

/// A reused file of whose new chunk only some sectors arrived:
/// every combination. The old chunk is of the same channel, then of another, with
/// records of the same lengths at the same places.
#[test]
fn no_mixture_of_two_generations_is_taken_for_a_chunk() {
    let second = |key, generation| chunks_with(key, 2, 12, 0, generation).remove(1);
    let new = second(key(1), 0);
    let old_ones = [
        chunks_with(key(1), 1, 12, 12, 0x55).remove(0),
        chunks_with(key(2), 1, 12, 12, 0x55).remove(0),
        second(key(2), 0x55),
        vec![0; new.len()],
    ];
    for (which, mut old) in old_ones.into_iter().enumerate() {
        let mut new = new.clone();
        let sectors = new.len().div_ceil(SECTOR_BYTES);
        new.resize(sectors * SECTOR_BYTES, 0);
        old.resize(sectors * SECTOR_BYTES, 0);
        assert!((3..10).contains(&sectors), "so that all can be tried");
        for arrived in 0..1_u32 << sectors {
            let mut mixed = old.clone();
            for sector in (0..sectors).filter(|sector| arrived >> sector & 1 == 1) {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                mixed[range.clone()].copy_from_slice(&new[range]);
            }
            let image = image_of(1, file(key(1), 1, 1, &[mixed.clone()]));
            let found = &image.verify().logs[&key(1)];
            let read = read(&image, 0).0;
            if mixed == new {
                assert_eq!(ssns(&read), (12..24).collect::<Vec<_>>());
                continue;
            }
            assert_eq!(read, [], "old {which}, sectors {arrived:b}");
            assert_eq!(found.whole_chunks, 0);
            // Without its first sector it still has the old chunk's header.
            let is_begun = arrived & 1 == 1;
            assert_eq!(found.findings.len(), usize::from(is_begun), "{arrived:b}");
        }
    }
}

#[test]
fn damage_in_the_middle_is_an_error_that_says_where() {
    let mut bytes = file(key(1), 0, 8, &chunks_of(key(1), 4, 0, 0));
    // The second record of chunk 2.
    let at = slot_offset(2) as usize + CHUNK_HEAD_BYTES + 64 + 100;
    bytes[at] ^= 1;
    let image = image_of(0, bytes);
    let (messages, failure) = read(&image, 0);
    assert_eq!(ssns(&messages), (0..6).collect::<Vec<_>>());
    let failure = failure.expect("no silent gap");
    for words in [
        "chunk 2",
        "to-r1-000000000000.log, slot 2",
        "record 1 (at byte 128)",
    ] {
        assert!(failure.to_string().contains(words), "{words} in {failure}");
    }
    let (behind, failure) = read(&image, 9);
    assert_eq!(
        (ssns(&behind), failure),
        (vec![9, 10, 11], None),
        "behind it all is well"
    );

    let verification = image.verify();
    assert!(verification.is_damaged());
    let found = &verification.logs[&key(1)];
    assert_eq!(
        (found.whole_chunks, found.records, found.empty_slots),
        (3, 9, 4)
    );
    let damaged: Vec<_> = found.with(Verdict::Damaged).collect();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].sequence, 2);
    assert!(matches!(
        damaged[0].why,
        ChunkFault::Chunk(ChunkError::Record {
            index: 1,
            offset: 128,
            ..
        })
    ));
}

/// Chunks behind damage seem to continue those before it.
#[test]
fn nothing_comes_behind_an_error() {
    let mut bytes = file(key(1), 0, 4, &chunks_of(key(1), 4, 0, 0));
    bytes[slot_offset(1) as usize + 300] ^= 1;
    let image = image_of(0, bytes);
    let mut records = image.records(&key(1), Ssn(0)).unwrap();
    for _ in 0..3 {
        assert!(records.next().unwrap().is_some());
    }
    assert!(records.next().is_err());
    assert!(records.next().unwrap().is_none());
    assert!(records.next().unwrap().is_none());
}

/// Chunks of another rank or another life in the memory are not this
/// rank's logs.
#[test]
fn memory_gives_only_its_rank_s_logs() {
    let chunk = small_chunk(key(1), 0, 0);
    let logs_of = |change: fn(&mut RankMemory)| {
        let mut memory = memory_with(key(1), &chunk);
        change(&mut memory);
        let mut image = LogImage::empty(Selection::default());
        image.add_memory(memory);
        image.logs().count()
    };
    assert_eq!(logs_of(|_| ()), 1);
    assert_eq!(logs_of(|memory| memory.source = Rank(1)), 0);
    assert_eq!(logs_of(|memory| memory.incarnation = Incarnation(3)), 0);
    assert_eq!(logs_of(|memory| memory.job = 1), 0);
    assert_eq!(
        logs_of(|memory| memory.arena.end -= 64),
        0,
        "no whole chunk"
    );
    assert_eq!(logs_of(|memory| memory.arena.start = usize::MAX), 0);
}

#[test]
fn what_was_being_written_at_the_end_is_a_torn_tail() {
    let mut bytes = file(key(1), 0, 8, &chunks_of(key(1), 5, 0, 0));
    for chunk in [3, 4] {
        let at = slot_offset(chunk) as usize;
        bytes[at + SECTOR_BYTES..at + 4096].fill(0);
    }
    let image = image_of(0, bytes);
    let (messages, failure) = read(&image, 0);
    assert_eq!((ssns(&messages), failure), ((0..9).collect(), None));
    let extent = image.extent(&key(1)).unwrap();
    assert_eq!((extent.chunks, extent.torn_chunks), (0..3, vec![3, 4]));
    let verification = image.verify();
    assert!(!verification.is_damaged());
    assert_eq!(verification.logs[&key(1)].with(Verdict::Torn).count(), 2);
}

/// Garbage far behind the log hides no part of it.
#[test]
fn a_slot_full_of_garbage_is_no_log_of_its_own() {
    let mut bytes = file(key(1), 0, 16, &chunks_of(key(1), 2, 0, 0));
    bytes[slot_offset(12) as usize..][..100].fill(0xa5);
    let image = image_of(0, bytes);
    assert_eq!(ssns(&read(&image, 0).0), (0..6).collect::<Vec<_>>());
    assert_eq!(image.extent(&key(1)).unwrap().torn_chunks, [12]);
}

#[test]
fn a_log_begins_behind_a_gap() {
    let chunks = chunks_of(key(1), 6, 0, 0);
    let old = file(key(1), 0, 2, &chunks[..2]);
    let new = file(key(1), 4, 2, &chunks[4..]);
    let image = LogImage::of_contents(
        [(name(key(1), 0), old), (name(key(1), 4), new)],
        Selection::default(),
    );
    assert_eq!(ssns(&read(&image, 0).0), (12..18).collect::<Vec<_>>());
    let extent = image.extent(&key(1)).unwrap();
    assert_eq!((extent.chunks, extent.chunks_before_gap), (4..6, 2));
    assert_eq!(image.verify().logs[&key(1)].missing_chunks, 2);
}

/// Two files, the first with `slots` slots of which two are written; the second
/// begins with chunk `second`.
fn two_files(slots: u32, second: usize) -> LogImage {
    let chunks = chunks_of(key(1), 8, 0, 0);
    let mut first = file(key(1), 0, slots, &chunks[..2]);
    if slots > 3 {
        // From before the file was reused.
        let stale = small_chunk(key(2), 0, 0);
        let at = slot_offset(3) as usize;
        first[at..at + stale.len()].copy_from_slice(&stale);
    }
    let rest = file(key(1), second as u64, 8, &chunks[second..]);
    LogImage::of_contents(
        [
            (name(key(1), 0), first),
            (name(key(1), second as u64), rest),
        ],
        Selection::default(),
    )
}

/// The write of a file's last chunks failed, those behind them are in the next
/// file, and the rank died before it tried again.
#[test]
fn chunks_left_out_at_the_end_of_a_file_were_not_freed() {
    for slots in [3, 4] {
        let left_out = slots as usize - 2;
        let mut image = two_files(slots, slots as usize);
        let (messages, failure) = read(&image, 0);
        assert_eq!(ssns(&messages), (0..6).collect::<Vec<_>>());
        let failure = failure.expect("no silent gap").to_string();
        assert!(
            failure.contains("chunk 2") && failure.contains("never written"),
            "{failure}"
        );
        assert_eq!(image.extent(&key(1)).unwrap().chunks, 0..8);
        let behind = 3 * u64::from(slots) + 3;
        let behind_it_all_is_well = ((behind..24).collect(), None);
        let (messages, failure) = read(&image, behind);
        assert_eq!((ssns(&messages), failure), behind_it_all_is_well);
        let verification = image.verify();
        assert!(!verification.is_damaged());
        let log = &verification.logs[&key(1)];
        assert_eq!(log.with(Verdict::Unwritten).count(), left_out);
        assert_eq!((log.findings.len(), log.missing_chunks), (left_out, 0));
        assert_eq!(image.logs().next().unwrap().1.chunks, 8 - left_out as u64);
        if left_out == 1 {
            let chunks = chunks_of(key(1), 3, 0, 0);
            image.add_memory(memory_with(key(1), &chunks[2]));
            assert_eq!(ssns(&read(&image, 0).0), (0..24).collect::<Vec<_>>());
            assert_eq!(image.verify().logs[&key(1)].findings, []);
            let summary = image.logs().next().unwrap().1;
            assert_eq!((summary.chunks, summary.disk_chunks), (8, 7));
        }
    }
}

/// A file that is not full, and behind which no other begins, was left when all
/// in it was free.
#[test]
fn a_file_that_was_left_before_its_end_is_before_a_gap() {
    for (slots, second) in [(8, 4), (3, 5), (4, 6)] {
        let image = two_files(slots, second);
        let begin = second as u64;
        assert_eq!(image.extent(&key(1)).unwrap().chunks, begin..8);
        assert_eq!(
            ssns(&read(&image, 0).0),
            (3 * begin..24).collect::<Vec<_>>()
        );
        let log = &image.verify().logs[&key(1)];
        assert_eq!((log.findings.len(), log.missing_chunks), (0, begin - 2));
    }
}

/// Several chunks are written at once: a rank that is killed leaves out some of the
/// last ones. Chunks before them are not hidden, and nothing is skipped.
#[test]
fn a_chunk_that_was_left_out_breaks_the_log_there() {
    let chunks = chunks_of(key(1), 4, 0, 0);
    let mut bytes = file(key(1), 0, 8, &chunks);
    let slot = slot_offset(2) as usize;
    let stale = small_chunk(key(2), 0, 0);
    for left in [vec![0; chunks[2].len()], stale] {
        bytes[slot..slot + left.len()].copy_from_slice(&left);
        let mut image = image_of(0, bytes.clone());
        let (messages, failure) = read(&image, 0);
        assert_eq!(ssns(&messages), (0..6).collect::<Vec<_>>());
        let failure = failure.expect("no silent gap").to_string();
        assert!(
            failure.contains("chunk 2") && failure.contains("never written"),
            "{failure}"
        );
        // It may have held the beginning of message 9, not of message 12.
        assert!(read(&image, 9).1.is_some());
        assert_eq!(read(&image, 12), (vec![], None));
        let verification = image.verify();
        assert!(!verification.is_damaged());
        let log = &verification.logs[&key(1)];
        assert_eq!(
            (log.with(Verdict::Unwritten).count(), log.findings.len()),
            (1, 1)
        );
        assert_eq!(image.logs().next().unwrap().1.chunks, 3);
        // The chunk is in the rank's memory, from which it was being written.
        image.add_memory(memory_with(key(1), &chunks[2]));
        assert_eq!(ssns(&read(&image, 0).0), (0..12).collect::<Vec<_>>());
        assert_eq!(image.verify().logs[&key(1)].findings, []);
    }
}

#[test]
fn a_whole_copy_is_read_wherever_the_damaged_one_is() {
    let chunks = chunks_of(key(1), 3, 0, 0);
    let mut damaged = chunks.clone();
    damaged[1][200] ^= 1;
    // Disk damaged, memory whole.
    let mut image = image_of(0, file(key(1), 0, 3, &damaged));
    assert!(image.verify().is_damaged());
    image.add_memory(memory_with(key(1), &chunks[1]));
    assert_eq!(ssns(&read(&image, 0).0), (0..9).collect::<Vec<_>>());
    let verification = image.verify();
    assert!(!verification.is_damaged());
    assert_eq!(
        verification.logs[&key(1)].with(Verdict::Replaced).count(),
        1
    );
    // Memory damaged, disk whole.
    let mut image = image_of(0, file(key(1), 0, 3, &chunks));
    image.add_memory(memory_with(key(1), &damaged[1]));
    assert_eq!(read(&image, 0).1, None);
    assert_eq!(ssns(&read(&image, 0).0), (0..9).collect::<Vec<_>>());
    let findings = &image.verify().logs[&key(1)].findings;
    assert!(
        matches!(findings[0].place, ChunkPlace::Memory { .. }),
        "it was found first"
    );
    // Both are damaged: both are reported.
    let mut image = image_of(0, file(key(1), 0, 3, &damaged));
    image.add_memory(memory_with(key(1), &damaged[1]));
    let failure = read(&image, 0).1.expect("no whole copy").to_string();
    assert!(
        failure.contains("slot 1") && failure.contains("memory"),
        "{failure}"
    );
}

/// A write that failed is tried again in another file.
#[test]
fn a_chunk_may_be_in_two_files() {
    let chunks = chunks_of(key(1), 3, 0, 0);
    let mut first = file(key(1), 0, 4, &chunks[..2]);
    first[slot_offset(1) as usize + 700] ^= 0xff;
    let second = file(key(1), 1, 4, &chunks[1..]);
    let image = LogImage::of_contents(
        [(name(key(1), 0), first), (name(key(1), 1), second)],
        Selection::default(),
    );
    assert_eq!(ssns(&read(&image, 0).0), (0..9).collect::<Vec<_>>());
    assert!(!image.verify().is_damaged());
}

/// All checksums of a chunk are correct, but its header contradicts the records: a writer's bug.
#[test]
fn a_header_that_contradicts_its_records_is_refused() {
    let mut chunk = small_chunk(key(1), 10, 0);
    let header = ChunkHeader::decode(&chunk).unwrap();
    let mut seal = header.seal.unwrap();
    assert_eq!((seal.ssn_low, seal.ssn_end), (Ssn(10), Ssn(13)));
    seal.ssn_end = Ssn(12);
    let lying = ChunkHeader {
        seal: Some(seal),
        ..header
    };
    chunk[..CHUNK_HEAD_BYTES].copy_from_slice(&lying.encode());
    let image = image_of(0, file(key(1), 0, 1, &[chunk]));
    let found = &image.verify().logs[&key(1)];
    assert_eq!(found.findings[0].why, ChunkFault::Contradiction);
}

/// Unsealed memory has no checksums; a log that ends early in memory is
/// still detected.
#[test]
fn a_log_that_breaks_off_in_memory_is_an_error() {
    let mut writing = Writing::new(key(1), 3);
    writing.message(0, &[1; 100]);
    writing.end_chunk();
    writing.message(1, &[2; 100]);
    let mut image = LogImage::empty(Selection::default());
    image.add_memory(writing.memory());
    assert_eq!(ssns(&read(&image, 0).0), [0, 1]);
    // The same first chunk, but its second line is 0 (no record), so no link.
    let mut bytes = small_chunk(key(1), 0, 0);
    let unsealed = ChunkHeader {
        seal: None,
        ..ChunkHeader::decode(&bytes).unwrap()
    };
    bytes[..CHUNK_HEAD_BYTES].copy_from_slice(&unsealed.encode());
    bytes[CHUNK_HEAD_BYTES + 64..].fill(0);
    let chunks = chunks_of(key(1), 2, 0, 0);
    let mut image = image_of(1, file(key(1), 1, 1, &chunks[1..]));
    image.add_memory(memory_with(key(1), &bytes));
    let (messages, failure) = read(&image, 0);
    assert_eq!(ssns(&messages), [0]);
    assert_eq!(
        failure,
        Some(ReadFailure::BrokenOff {
            key: key(1),
            sequence: 0
        })
    );
}

#[test]
fn fragments_that_make_no_message_are_refused() {
    for (records, words) in [
        (vec![(RecordKind::Fragment, 5)], "before its first record"),
        (
            vec![(RecordKind::Eager, 20), (RecordKind::Eager, 20)],
            "has its first record twice",
        ),
        (
            vec![(RecordKind::Eager, 20), (RecordKind::Fragment, 9)],
            "does not continue",
        ),
        (
            vec![(RecordKind::Eager, 15), (RecordKind::Fragment, 10)],
            "more bytes",
        ),
    ] {
        let mut writing = Writing::new(key(1), 2);
        for (kind, extent) in records {
            writing.record(kind, 0, extent, &[0; 10]);
        }
        writing.end_chunk();
        let image = image_of(0, file(key(1), 0, 1, &writing.seal(1, LoanEnd::OnDisk)));
        let failure = read(&image, 0).1.expect("no message").to_string();
        assert!(failure.contains(words), "{words} in {failure}");
    }
}
