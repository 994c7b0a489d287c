//! Logs with records that refer to payload in the memory of their rank.

use crate::written::{Writing, file, key, name, payload};
use refrain_logging::image::{LogImage, Selection};
use refrain_ring::{CHUNK_BYTES, LoanEnd, RecordKind, SharedPayload, Ssn};

const LONG: usize = 5000;

/// Message 0 and 2 in the log, and message 1 in two parts elsewhere.
struct Published {
    writing: Writing,
    shared: SharedPayload,
}

impl Published {
    fn new() -> Self {
        let mut writing = Writing::new(key(1), 8);
        let channel = writing.key.channel;
        let bytes = 2 * CHUNK_BYTES as u64;
        let mut shared = SharedPayload::new(channel.source, channel.incarnation, bytes);
        writing.message(0, &payload(0, 0));
        for (part, kind) in [RecordKind::Eager, RecordKind::Fragment]
            .into_iter()
            .enumerate()
        {
            let fill = |place: &mut [u8]| place.fill(part as u8 + 1);
            let put = shared.put(&mut writing.arena, LONG, fill);
            let extent = [2 * LONG, LONG][part] as u64;
            writing.reference(kind, 1, extent, &put.expect("room"));
        }
        writing.message(2, &payload(2, 0));
        Self { writing, shared }
    }

    /// The memory is freed, and used for other payload.
    fn reuse(&mut self) {
        let arena = &mut self.writing.arena;
        while self.shared.put(arena, CHUNK_BYTES, |_| {}).is_some() {}
        self.shared.trim(arena, |_| true);
        while self.shared.put(arena, CHUNK_BYTES, |_| {}).is_some() {}
    }
}

/// The messages of an image by SSN, and how many records have payload that is gone.
fn read(image: &LogImage) -> (Vec<(u64, Vec<u8>)>, usize) {
    let mut messages = image.messages(&key(1), Ssn(0)).expect("a log");
    let mut found = Vec::new();
    while let Some(message) = messages.next().expect("sound") {
        assert_eq!(message.flags, 0);
        found.push((message.ssn.0, message.bytes));
    }
    assert_eq!(messages.incomplete().count(), 0);
    let mut records = image.records(&key(1), Ssn(0)).expect("a log");
    let mut gone = 0;
    while let Some(record) = records.next().expect("sound") {
        gone += usize::from(record.payload.is_none());
        let bytes = record.payload.map_or(LONG, <[u8]>::len);
        assert_eq!(record.header.payload_bytes as usize, bytes);
    }
    (found, gone)
}

fn long() -> Vec<u8> {
    [[1; LONG], [2; LONG]].concat()
}

fn check_all(image: &LogImage) {
    let expected = [(0, payload(0, 0)), (1, long()), (2, payload(2, 0))];
    assert_eq!(read(image), (expected.into(), 0));
    assert_eq!(image.logs().count(), 1, "shared payload is no log");
}

fn check_without(image: &LogImage) {
    let expected = [(0, payload(0, 0)), (2, payload(2, 0))];
    assert_eq!(read(image), (expected.into(), 2));
}

// LOG-2 LOG-6
#[test]
fn payload_is_found_in_the_memory_of_its_rank() {
    let mut published = Published::new();
    let mut image = LogImage::empty(Selection::default());
    image.add_memory(published.writing.memory());
    check_all(&image);
    published.reuse();
    check_without(&image);
}

/// Also if the records are on disk; without the memory, or with that of another life, the message
/// is left out.
// LOG-6
#[test]
fn records_on_disk_refer_to_memory() {
    let mut published = Published::new();
    published.writing.end_chunk();
    let chunks = published.writing.seal(1, LoanEnd::OnDisk);
    let files = || [(name(key(1), 0), file(key(1), 0, 1, &chunks))];
    check_without(&LogImage::of_contents(files(), Selection::default()));
    let memory = published.writing.memory();
    for (is_own, life) in [(true, memory.incarnation.0), (false, 1)] {
        let mut image = LogImage::of_contents(files(), Selection::default());
        let mut memory = memory.clone();
        memory.incarnation.0 = life;
        image.add_memory(memory);
        match is_own {
            true => check_all(&image),
            false => check_without(&image),
        }
    }
    assert!(
        !LogImage::of_contents(files(), Selection::default())
            .verify()
            .is_damaged()
    );
}
