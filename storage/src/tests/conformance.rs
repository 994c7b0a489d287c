//! One suite for all engines and directories: each check proves a part of the contract
//! of [`Engine`], [`Directory`] and [`File`].

use crate::{AlignedBuffer, BLOCK_BYTES, Bytes, Directory, Ended, Engine, File, Memory, Transfer};
use std::collections::BTreeMap;
use std::io;

/// Bytes of a transfer of the checks.
const BYTES: usize = 3 * BLOCK_BYTES;

/// Memory of a transfer: its direction and number.
#[derive(Debug)]
pub struct Block {
    is_read: bool,
    number: u64,
    buffer: AlignedBuffer,
}

impl Memory for Block {
    fn bytes(&mut self) -> Bytes<'_> {
        match self.is_read {
            true => Bytes::Read(self.buffer.bytes_mut()),
            false => Bytes::Write(self.buffer.bytes()),
        }
    }
}

impl Block {
    /// Memory for a read; contains other bytes than any file.
    pub fn empty(number: u64) -> Self {
        let mut buffer = AlignedBuffer::new(BYTES);
        buffer.bytes_mut().fill(0xee);
        Self {
            is_read: true,
            number,
            buffer,
        }
    }

    /// Memory for a write; the bytes depend on the number.
    pub fn full(number: u64) -> Self {
        let mut block = Self::empty(number);
        block.is_read = false;
        for (at, byte) in block.buffer.bytes_mut().iter_mut().enumerate() {
            *byte = (number as usize * 31 + at / 7) as u8 | 1;
        }
        block
    }

    /// The present bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    fn transfer(self, file: &File, slot: u64, sync: bool) -> Transfer<Self> {
        Transfer::new(file.clone(), slot * BYTES as u64, BYTES, sync, self)
    }
}

/// A directory without files and an engine for it.
pub struct Subject {
    /// The directory.
    pub directory: Directory,
    /// Its engine.
    pub engine: Box<dyn Engine<Block>>,
}

impl Subject {
    /// Carries out all transfers, many at a time; each comes back once.
    fn carry_out(&mut self, mut transfers: Vec<Transfer<Block>>) -> BTreeMap<u64, Block> {
        let count = transfers.len();
        let mut done = BTreeMap::new();
        let mut ended = Vec::new();
        while done.len() < count {
            while self.engine.room() > 0
                && let Some(transfer) = transfers.pop()
            {
                self.engine.begin(transfer);
            }
            self.engine.collect(true, &mut ended).expect("news");
            for ended in ended.drain(..) {
                if let Ended::Done { memory, result } = ended {
                    result.unwrap_or_else(|error| panic!("block {}: {error:?}", memory.number));
                    done.insert(memory.number, memory);
                }
            }
        }
        assert_eq!(self.engine.under_way(), 0);
        self.engine.collect(true, &mut ended).expect("no news");
        assert!(ended.is_empty(), "more than was begun: {ended:?}");
        done
    }

    fn create(&self, name: &str, slots: u64) -> File {
        let file = self.directory.create(name).expect("a new file");
        file.take_room(slots * BYTES as u64).expect("room");
        file
    }
}

type Check = (&'static str, fn(Subject));

const CHECKS: [Check; 8] = [
    ("what is written is read back", written_is_read_back),
    ("a place is written again", a_place_is_written_again),
    ("what was never written is zeros", never_written_is_zeros),
    ("a sync follows its write", a_sync_follows_its_write),
    ("a failed transfer comes back", a_failed_transfer_comes_back),
    ("dropping ends what is under way", dropping_ends_transfers),
    ("files have lengths", files_have_lengths),
    ("files have names", files_have_names),
];

/// Runs every check on a new subject.
///
/// # Panics
/// When a check fails.
pub fn run_all(mut make: impl FnMut() -> Subject) {
    for (what, check) in CHECKS {
        let subject = make();
        eprintln!("{}: {what}", subject.engine.name());
        check(subject);
    }
}

/// Several files, with and without syncs.
fn written_is_read_back(mut subject: Subject) {
    let files = ["a", "b", "c"].map(|name| subject.create(name, 20));
    let place = |number: u64| (&files[number as usize % 3], number / 3);
    let writes = (0..60).map(|number| {
        let (file, slot) = place(number);
        Block::full(number).transfer(file, slot, number % 5 == 0)
    });
    let written = subject.carry_out(writes.collect());
    let reads = (0..60).map(|number| {
        let (file, slot) = place(number);
        Block::empty(number).transfer(file, slot, false)
    });
    for (number, block) in subject.carry_out(reads.collect()) {
        assert!(block.bytes() == written[&number].bytes(), "block {number}");
    }
    let reader = subject.directory.open_to_read("b").unwrap();
    let mut bytes = vec![0; BYTES];
    assert_eq!(reader.read_at(BYTES as u64, &mut bytes).unwrap(), BYTES);
    assert!(bytes == written[&4].bytes(), "as another reader sees it");
}

fn a_place_is_written_again(mut subject: Subject) {
    let file = subject.create("a", 2);
    for number in 0..4 {
        subject.carry_out(vec![Block::full(number).transfer(&file, 1, false)]);
        let read = subject.carry_out(vec![Block::empty(number).transfer(&file, 1, false)]);
        assert!(read[&number].bytes() == Block::full(number).bytes());
    }
}

fn never_written_is_zeros(mut subject: Subject) {
    let file = subject.create("a", 3);
    subject.carry_out(vec![Block::full(1).transfer(&file, 2, false)]);
    // Also beyond the end of the file.
    for slot in [0, 1, 3, 9] {
        let read = subject.carry_out(vec![Block::empty(7).transfer(&file, slot, false)]);
        assert!(read[&7].bytes().iter().all(|byte| *byte == 0), "{slot}");
    }
}

fn a_sync_follows_its_write(mut subject: Subject) {
    let file = subject.create("a", 1);
    for sync in [false, true] {
        let transfer = Block::full(3).transfer(&file, 0, sync);
        subject.engine.begin(transfer);
        let mut ended = Vec::new();
        while subject.engine.under_way() > 0 {
            subject.engine.collect(true, &mut ended).expect("news");
        }
        let written = ended.iter().filter(|news| matches!(news, Ended::Written));
        assert_eq!(written.count(), usize::from(sync));
        let last = ended.pop();
        assert!(matches!(last, Some(Ended::Done { result: Ok(()), .. })));
    }
    assert!(!file.is_shared(), "the engine holds no file");
}

/// A file that was opened for reading cannot be written.
fn a_failed_transfer_comes_back(mut subject: Subject) {
    if subject.engine.name() == "a simulated disk" {
        return;
    }
    drop(subject.create("a", 1));
    let file = subject.directory.open_to_read("a").expect("it is there");
    subject
        .engine
        .begin(Block::full(9).transfer(&file, 0, true));
    let mut ended = Vec::new();
    while subject.engine.under_way() > 0 {
        subject.engine.collect(true, &mut ended).expect("news");
    }
    let [Ended::Done { memory, result }] = &ended[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(memory.number, 9);
    assert!(result.is_err());
}

/// The memory is freed then, and no bytes are lost.
fn dropping_ends_transfers(mut subject: Subject) {
    let file = subject.create("a", 40);
    let mut begun = 0;
    while begun < 40 && subject.engine.room() > 0 {
        subject
            .engine
            .begin(Block::full(begun).transfer(&file, begun, false));
        begun += 1;
    }
    drop(subject.engine);
    let file = subject.directory.open_to_read("a").unwrap();
    let mut bytes = vec![0; BYTES];
    for number in 0..begun {
        file.read_at(number * BYTES as u64, &mut bytes).unwrap();
        assert!(bytes == Block::full(number).bytes(), "block {number}");
    }
}

fn files_have_lengths(subject: Subject) {
    let file = subject.create("a", 2);
    assert_eq!(file.length().unwrap(), 2 * BYTES as u64);
    file.take_room(1).unwrap();
    assert_eq!(file.length().unwrap(), 2 * BYTES as u64);
    let block = Block::full(1);
    file.write_at(0, block.bytes()).unwrap();
    file.set_length(5000).unwrap();
    file.set_length(BYTES as u64).unwrap();
    let reader = subject.directory.open_to_read("a").unwrap();
    let mut bytes = vec![0xee; 2 * BYTES];
    assert_eq!(reader.read_at(0, &mut bytes).unwrap(), BYTES);
    assert!(bytes[..5000] == block.bytes()[..5000]);
    assert!(bytes[5000..BYTES].iter().all(|byte| *byte == 0));
    assert_eq!(reader.read_at(BYTES as u64, &mut bytes).unwrap(), 0);
    file.sync().unwrap();
}

fn files_have_names(subject: Subject) {
    let directory = &subject.directory;
    let kind = |result: io::Result<File>| result.expect_err("no such file").kind();
    assert_eq!(kind(directory.open_file("a")), io::ErrorKind::NotFound);
    assert_eq!(kind(directory.open_to_read("a")), io::ErrorKind::NotFound);
    for name in ["a", "b", "c"] {
        subject
            .create(name, 1)
            .write_at(0, Block::full(7).bytes())
            .unwrap();
    }
    assert_eq!(kind(directory.create("a")), io::ErrorKind::AlreadyExists);
    let taken = directory.rename_to_new("a", "b").expect_err("it is there");
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    directory.rename_to_new("a", "d").unwrap();
    directory.rename("b", "c").unwrap();
    directory.sync().unwrap();
    let mut names = directory.names().unwrap();
    names.sort();
    assert_eq!(names, ["c", "d"]);
    let mut bytes = vec![0; BYTES];
    directory
        .open_to_read("c")
        .unwrap()
        .read_at(0, &mut bytes)
        .unwrap();
    assert!(bytes == Block::full(7).bytes());
    directory.remove("c").unwrap();
    directory.remove("c").expect("gone already");
    assert_eq!(directory.names().unwrap(), ["d"]);
}
