//! The segment files, with the chunks in use of each, and the free files.

use crate::segment::FileHeader;
use crate::store::{FileNumber, Operation, Store};
use refrain_ring::LentChunk;
use std::collections::BTreeMap;

/// Maximum number of free files kept for reuse; further ones are deleted.
const FREE_MAX: usize = 8;

#[derive(Debug)]
struct File {
    header: FileHeader,
    /// Chunks that wait for the creation of the file; `None` once it exists.
    waiting: Option<Vec<LentChunk>>,
    /// A channel still fills the file.
    open: bool,
    /// Number of chunks that may be requested.
    live: u32,
    writes: u32,
    reads: u32,
}

#[derive(Debug)]
pub(super) struct Files {
    files: BTreeMap<FileNumber, File>,
    /// Files of which no chunk is needed, and on which no operation is under way.
    free: Vec<(FileNumber, FileHeader)>,
    /// Number of files that are being deleted or could not be: they still take room.
    leaving: usize,
    next: u64,
    files_max: u64,
}

impl Files {
    pub fn new(files_max: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            free: Vec::new(),
            leaving: 0,
            next: 0,
            files_max,
        }
    }

    /// Number of files that take room on the disk.
    pub fn count(&self) -> usize {
        self.files.len() + self.free.len() + self.leaving
    }

    pub fn may_open(&self) -> bool {
        !self.free.is_empty() || (self.count() as u64) < self.files_max
    }

    pub fn header(&self, file: FileNumber) -> &FileHeader {
        &self.files[&file].header
    }

    /// The slot of a chunk in a file.
    pub fn slot(&self, file: FileNumber, sequence: u64) -> Option<u32> {
        self.files.get(&file)?.header.slot_of(sequence)
    }

    /// Begins a file; reuses a free one, if there is one.
    pub fn open(&mut self, header: FileHeader) -> (FileNumber, Operation) {
        assert!(self.may_open(), "the files use all of the disk budget");
        let file = FileNumber(self.next);
        self.next += 1;
        let reuse = self.take_free(&header);
        self.files.insert(
            file,
            File {
                header,
                waiting: Some(Vec::new()),
                open: true,
                live: 0,
                writes: 0,
                reads: 0,
            },
        );
        let operation = Operation::Open {
            file,
            header,
            reuse,
        };
        (file, operation)
    }

    /// Takes a free file for reuse: preferably the file that has a place for the new file's
    /// first chunk. Otherwise that place would stay empty, and a reader of the files
    /// would conclude that the chunk was never written.
    fn take_free(&mut self, new: &FileHeader) -> Option<FileNumber> {
        let has_place = |(_, old): &(FileNumber, FileHeader)| {
            old.channel == new.channel && old.slot_of(new.first_sequence).is_some()
        };
        let last = self.free.len().checked_sub(1)?;
        let at = self.free.iter().position(has_place).unwrap_or(last);
        Some(self.free.remove(at).0)
    }

    /// Adds a chunk to a file; returns the operation to submit if the file exists.
    pub fn write(&mut self, file: FileNumber, chunk: LentChunk) -> Option<Operation> {
        let entry = self.entry(file);
        entry.writes += 1;
        match &mut entry.waiting {
            Some(waiting) => {
                waiting.push(chunk);
                None
            }
            None => Some(write(file, &entry.header, chunk)),
        }
    }

    pub fn opened(&mut self, file: FileNumber, store: &mut impl Store) {
        let entry = self.entry(file);
        let waiting = entry.waiting.take().unwrap_or_default();
        let header = entry.header;
        for chunk in waiting {
            store.submit(write(file, &header, chunk));
        }
        // All of its chunks may be free by now.
        self.settle(file, store);
    }

    /// Removes a file that could not be made; returns the chunks that waited for it.
    pub fn gave_up_opening(&mut self, file: FileNumber) -> Vec<LentChunk> {
        let entry = self.files.remove(&file).expect("a file that was begun");
        entry.waiting.unwrap_or_default()
    }

    /// Counts one more chunk of the file as needed.
    pub fn keeps(&mut self, file: FileNumber) {
        self.entry(file).live += 1;
    }

    /// Counts one chunk of the file less.
    pub fn releases(&mut self, file: FileNumber, store: &mut impl Store) {
        self.entry(file).live -= 1;
        self.settle(file, store);
    }

    /// Whether no chunk of the file is needed, and none is being written to it.
    pub fn is_idle(&self, file: FileNumber) -> bool {
        let entry = &self.files[&file];
        entry.live == 0 && entry.writes == 0 && entry.waiting.is_none()
    }

    /// Closes a file: no channel fills it any more.
    pub fn close(&mut self, file: FileNumber, store: &mut impl Store) {
        self.entry(file).open = false;
        self.settle(file, store);
    }

    pub fn write_ended(&mut self, file: FileNumber, store: &mut impl Store) {
        self.entry(file).writes -= 1;
        self.settle(file, store);
    }

    pub fn read_began(&mut self, file: FileNumber) {
        self.entry(file).reads += 1;
    }

    pub fn read_ended(&mut self, file: FileNumber, store: &mut impl Store) {
        self.entry(file).reads -= 1;
        self.settle(file, store);
    }

    /// Notes that a file has been deleted.
    pub fn deleted(&mut self) {
        self.leaving -= 1;
    }

    /// Frees the file if it is not needed.
    fn settle(&mut self, file: FileNumber, store: &mut impl Store) {
        let entry = self.entry(file);
        let needed = entry.open
            || entry.live > 0
            || entry.writes > 0
            || entry.reads > 0
            || entry.waiting.is_some();
        if needed {
            return;
        }
        let header = entry.header;
        self.files.remove(&file);
        if self.free.len() < FREE_MAX {
            self.free.push((file, header));
        } else {
            self.leaving += 1;
            store.submit(Operation::Delete { file });
        }
    }

    fn entry(&mut self, file: FileNumber) -> &mut File {
        self.files.get_mut(&file).expect("a file in use")
    }
}

fn write(file: FileNumber, header: &FileHeader, chunk: LentChunk) -> Operation {
    let slot = header
        .slot_of(chunk.sequence())
        .expect("the file was begun or chosen for this chunk");
    Operation::Write { file, slot, chunk }
}
