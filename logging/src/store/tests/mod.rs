//! One suite for every store: each check proves a clause of the contract in the
//! [parent module](super).
//!
//! A store brings a [`Harness`]; [`run_all`] runs every check on a fresh one.
//! Properties of real disks (no room, lost directories, limits of the
//! process) are tested in `disk`.

mod chunks;
mod disk;
mod driver;
mod faulty;

pub use chunks::{Chunks, Place};
pub use driver::{Driver, JOB, header};

use super::Store;
use super::faulty::LeftFile;
use crate::segment::{FileHeader, slot_offset};
use refrain_ring::LentChunk;
use refrain_ring::chunk::{ChunkError, ChunkReader};

/// A kind of store, as the suite needs it.
pub trait Harness {
    /// For reports.
    fn name(&self) -> String;

    /// A store without files, for [`JOB`].
    fn store(&mut self) -> Box<dyn Store>;

    /// The files of all stores, as another process sees them.
    fn files(&mut self) -> Vec<LeftFile>;

    /// The alignment of the chunks that it is given.
    fn place(&self) -> Place;
}

type Check = (&'static str, fn(&mut dyn Harness));

const CHECKS: [Check; 8] = [
    ("what is written is read back", written_is_read_back),
    ("files have the format", files_have_the_format),
    ("an empty slot is empty", an_empty_slot_is_empty),
    ("a slot is written again", a_slot_is_written_again),
    ("reuse hides old chunks", reuse_hides_old_chunks),
    ("files of one name", files_of_one_name),
    ("deleted files are gone", deleted_files_are_gone),
    (
        "dropping ends what is under way",
        dropping_ends_what_is_under_way,
    ),
];

/// Runs every check on a fresh harness.
///
/// # Panics
/// When one fails.
pub fn run_all<H: Harness>(make: impl Fn() -> H) {
    for (what, check) in CHECKS {
        let mut harness = make();
        eprintln!("{}: {what}", harness.name());
        check(&mut harness);
    }
}

fn driver(harness: &mut dyn Harness) -> Driver {
    let place = harness.place();
    Driver::new(harness.store(), place)
}

/// The bytes of a slot are a chunk, whole and checked.
fn assert_holds(bytes: &[u8], chunk: &LentChunk) {
    let used_bytes = chunk.used_bytes();
    assert!(
        bytes[..used_bytes] == *chunk.bytes(),
        "other bytes than those of chunk {}",
        chunk.sequence()
    );
    let mut reader = ChunkReader::sealed(bytes).expect("a sealed chunk");
    assert_eq!(reader.header().sequence, chunk.sequence());
    assert_eq!(reader.header().seal.map(|seal| seal.job), Some(JOB));
    while reader.next_record().expect("whole records").is_some() {}
    assert_eq!(reader.offset(), used_bytes);
}

/// Many at once, in several files, in any order.
fn written_is_read_back(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut files = Vec::new();
    for incarnation in 0..3 {
        let mut chunks = Chunks::new(u64::from(incarnation) + 7, incarnation, 40, driver.place);
        let file = driver.open(header(incarnation, 0, 40), None);
        let lent = chunks.take(40);
        files.push((file, chunks, lent));
    }
    let mut originals = Vec::new();
    for (file, _, lent) in &mut files {
        for (slot, chunk) in lent.drain(..).enumerate() {
            driver.submit_write(*file, slot as u32, chunk);
        }
    }
    for (file, ..) in &files {
        for _ in 0..40 {
            let (chunk, result) = driver.written(*file);
            result.expect("a chunk can be written");
            originals.push((*file, chunk));
        }
    }
    let tokens: Vec<_> = originals
        .iter()
        .map(|(file, chunk)| driver.submit_read(*file, chunk.sequence() as u32))
        .collect();
    for (token, (_, chunk)) in tokens.into_iter().zip(&originals) {
        let buffer = driver.was_read(token).expect("a slot can be read");
        assert_holds(buffer.bytes(), chunk);
    }
    driver.assert_quiet();
}

/// Another reader finds the header, the slots at their places, and the right length.
fn files_have_the_format(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(3, 0, 8, driver.place);
    let mut lent = chunks.take(8);
    let later = lent.split_off(5);
    let first_sequence = later[0].sequence();
    let head = header(0, first_sequence, 4);
    let file = driver.open(head, None);
    let originals = driver.write_all(file, later);
    let files = harness.files();
    assert_eq!(files.len(), 1);
    assert!(files[0].name.ends_with(&head.name()), "{}", files[0].name);
    let bytes = &files[0].bytes;
    assert_eq!(bytes.len() as u64, head.file_bytes());
    assert_eq!(FileHeader::decode(bytes), Ok(head));
    for (slot, chunk) in originals.iter().enumerate() {
        assert_holds(&bytes[slot_offset(slot as u32) as usize..], chunk);
    }
    let rest = &bytes[slot_offset(3) as usize..];
    assert!(rest.iter().all(|byte| *byte == 0));
}

fn an_empty_slot_is_empty(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(4, 0, 3, driver.place);
    let file = driver.open(header(0, 0, 3), None);
    let mut lent = chunks.take(3);
    lent.remove(1);
    let last = driver.write(file, 2, lent.remove(1));
    for slot in [0, 1] {
        let empty = driver.read(file, slot);
        assert!(empty.bytes().iter().all(|byte| *byte == 0));
        let reader = ChunkReader::sealed(empty.bytes());
        assert!(matches!(reader, Err(ChunkError::Empty)));
    }
    assert_holds(driver.read(file, 2).bytes(), &last);
}

/// Read buffers are reused: none shows the contents of another read.
fn a_slot_is_written_again(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(5, 0, 4, driver.place);
    let file = driver.open(header(0, 0, 2), None);
    let mut held = Vec::new();
    for chunk in chunks.take(4) {
        let chunk = driver.write(file, 1, chunk);
        let buffer = driver.read(file, 1);
        assert_holds(buffer.bytes(), &chunk);
        held.push((buffer, chunk));
    }
    drop(driver);
    for (buffer, chunk) in &held {
        assert_holds(buffer.bytes(), chunk);
    }
}

fn reuse_hides_old_chunks(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(6, 0, 9, driver.place);
    let old = driver.open(header(0, 0, 4), None);
    driver.write_all(old, chunks.take(4));
    let head = header(0, 4, 4);
    let new = driver.open(head, Some(old));
    let fresh = chunks.next_chunk();
    assert_eq!(fresh.sequence(), 4);
    let fresh = driver.write(new, 0, fresh);
    let files = harness.files();
    assert_eq!(files.len(), 1, "the old file is the new one");
    assert!(files[0].name.ends_with(&head.name()), "{}", files[0].name);
    assert_eq!(FileHeader::decode(&files[0].bytes), Ok(head));
    assert_holds(driver.read(new, 0).bytes(), &fresh);
    for slot in 1..4 {
        let stale = driver.read(new, slot);
        if let Ok(reader) = ChunkReader::sealed(stale.bytes()) {
            let sequence = reader.header().sequence;
            assert_ne!(head.slot_of(sequence), Some(slot), "not taken for its own");
        }
    }
    driver.assert_quiet();
}

/// A chunk that could not be written as the first of a file begins another file. The other
/// chunks of the old file still exist.
fn files_of_one_name(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(8, 0, 3, driver.place);
    let mut lent = chunks.take(3);
    let head = header(0, 0, 3);
    let first = driver.open(head, None);
    let kept = driver.write(first, 1, lent.remove(1));
    let second = driver.open(head, None);
    let again = driver.write(second, 0, lent.remove(0));
    assert_holds(driver.read(first, 1).bytes(), &kept);
    assert_holds(driver.read(second, 0).bytes(), &again);
    // And one that is used again may keep its name.
    let third = driver.open(head, Some(second));
    assert_holds(driver.read(third, 0).bytes(), &again);
    let files = harness.files();
    assert_eq!(files.len(), 2);
    assert_ne!(files[0].name, files[1].name);
    driver.delete(third).expect("a file can be removed");
    assert_holds(driver.read(first, 1).bytes(), &kept);
    assert_eq!(harness.files().len(), 1);
}

fn deleted_files_are_gone(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let mut chunks = Chunks::new(9, 0, 2, driver.place);
    let files: Vec<_> = (0..5)
        .map(|first| driver.open(header(0, first * 2, 2), None))
        .collect();
    driver.write_all(files[0], chunks.take(2));
    assert_eq!(harness.files().len(), 5);
    for file in files {
        driver.delete(file).expect("a file can be removed");
    }
    assert_eq!(harness.files(), []);
    driver.assert_quiet();
}

/// No chunk is lost, and the chunks' memory is not read afterwards: it is freed.
fn dropping_ends_what_is_under_way(harness: &mut dyn Harness) {
    let mut driver = driver(harness);
    let file = driver.open(header(0, 0, 40), None);
    let mut chunks = Chunks::new(10, 0, 40, driver.place);
    for (slot, chunk) in chunks.take(40).into_iter().enumerate() {
        driver.submit_write(file, slot as u32, chunk);
    }
    drop(driver);
    drop(chunks);
    // The same log once more.
    let mut chunks = Chunks::new(10, 0, 40, harness.place());
    let files = harness.files();
    for (slot, mut chunk) in chunks.take(40).into_iter().enumerate() {
        chunk.seal(JOB);
        assert_holds(&files[0].bytes[slot_offset(slot as u32) as usize..], &chunk);
    }
}
