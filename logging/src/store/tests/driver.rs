//! Submits to a store and waits for what comes back.

use super::chunks::Place;
use crate::segment::{Channel, FileHeader};
use crate::store::{Completion, FileNumber, Operation, ReadToken, Store, StoreError};
use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{Incarnation, LentChunk, Rank};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A store that does not answer by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The job of all checks.
pub const JOB: u64 = 0x0123_4567_89ab_cdef;

/// A store under check, with what it has told.
pub struct Driver {
    /// The store.
    pub store: Box<dyn Store>,
    /// Where its chunks lie.
    pub place: Place,
    next_file: u64,
    next_token: u64,
    completions: Vec<Completion>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({})", self.store.describe())
    }
}

/// The header of a file of `slots` chunks, from `first_sequence` on.
pub fn header(incarnation: u32, first_sequence: u64, slots: u32) -> FileHeader {
    FileHeader {
        job: JOB,
        channel: Channel {
            source: Rank(0),
            incarnation: Incarnation(incarnation),
            destination: Rank(1),
        },
        first_sequence,
        slots,
    }
}

impl Driver {
    /// For chunks that lie anywhere or on pages.
    pub fn new(store: Box<dyn Store>, place: Place) -> Self {
        Self {
            store,
            place,
            next_file: 0,
            next_token: 0,
            completions: Vec::new(),
        }
    }

    /// Waits for the one completion that is meant.
    fn wait<T>(&mut self, meant: impl Fn(&Completion) -> bool, open: fn(Completion) -> T) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.completions.iter().position(&meant) {
                return open(self.completions.swap_remove(at));
            }
            match self.store.poll() {
                Some(completion) => self.completions.push(completion),
                None => std::thread::yield_now(),
            }
            assert!(
                Instant::now() < deadline,
                "no answer; there are {:?}",
                self.completions
            );
        }
    }

    /// A file, with the answer.
    pub fn try_open(
        &mut self,
        header: FileHeader,
        reuse: Option<FileNumber>,
    ) -> (FileNumber, Result<(), StoreError>) {
        let file = FileNumber(self.next_file);
        self.next_file += 1;
        self.store.submit(Operation::Open {
            file,
            header,
            reuse,
        });
        let result = self.wait(
            |completion| matches!(completion, Completion::Opened { file: other, .. } if *other == file),
            |completion| match completion {
                Completion::Opened { result, .. } => result,
                _ => unreachable!("the completion that was meant"),
            },
        );
        (file, result)
    }

    /// A file that is there.
    pub fn open(&mut self, header: FileHeader, reuse: Option<FileNumber>) -> FileNumber {
        let (file, result) = self.try_open(header, reuse);
        result.expect("a file can be made");
        file
    }

    /// Begins to write.
    pub fn submit_write(&mut self, file: FileNumber, slot: u32, chunk: LentChunk) {
        self.store.submit(Operation::Write { file, slot, chunk });
    }

    /// Waits for one write of `file`, any.
    pub fn written(&mut self, file: FileNumber) -> (LentChunk, Result<(), StoreError>) {
        self.wait(
            |completion| matches!(completion, Completion::Written { file: other, .. } if *other == file),
            |completion| match completion {
                Completion::Written { chunk, result, .. } => (chunk, result),
                _ => unreachable!("the completion that was meant"),
            },
        )
    }

    /// Writes one chunk.
    pub fn write(&mut self, file: FileNumber, slot: u32, chunk: LentChunk) -> LentChunk {
        self.submit_write(file, slot, chunk);
        let (chunk, result) = self.written(file);
        result.expect("a chunk can be written");
        chunk
    }

    /// Writes chunks into the slots from 0 on, all at once; gives them back in
    /// order.
    pub fn write_all(&mut self, file: FileNumber, chunks: Vec<LentChunk>) -> Vec<LentChunk> {
        let count = chunks.len();
        for (slot, chunk) in chunks.into_iter().enumerate() {
            self.submit_write(file, slot as u32, chunk);
        }
        let mut written = BTreeMap::new();
        for _ in 0..count {
            let (chunk, result) = self.written(file);
            result.expect("a chunk can be written");
            written.insert(chunk.sequence(), chunk);
        }
        assert_eq!(written.len(), count, "each chunk comes back once");
        written.into_values().collect()
    }

    /// Begins to read.
    pub fn submit_read(&mut self, file: FileNumber, slot: u32) -> ReadToken {
        let token = ReadToken(self.next_token);
        self.next_token += 1;
        self.store.submit(Operation::Read { file, slot, token });
        token
    }

    /// Waits for a read.
    pub fn was_read(&mut self, token: ReadToken) -> Result<ChunkBytes, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let is_meant = |completion: &Completion| matches!(completion, Completion::Read { token: other, .. } if *other == token);
            if let Some(at) = self.completions.iter().position(is_meant)
                && let Completion::Read { result, .. } = self.completions.swap_remove(at)
            {
                return result;
            }
            match self.store.poll() {
                Some(completion) => self.completions.push(completion),
                None => std::thread::yield_now(),
            }
            assert!(Instant::now() < deadline, "no answer to a read");
        }
    }

    /// Reads one slot.
    pub fn read(&mut self, file: FileNumber, slot: u32) -> ChunkBytes {
        let token = self.submit_read(file, slot);
        self.was_read(token).expect("a slot can be read")
    }

    /// Removes a file.
    pub fn delete(&mut self, file: FileNumber) -> Result<(), StoreError> {
        self.store.submit(Operation::Delete { file });
        self.wait(
            |completion| matches!(completion, Completion::Deleted { file: other, .. } if *other == file),
            |completion| match completion {
                Completion::Deleted { result, .. } => result,
                _ => unreachable!("the completion that was meant"),
            },
        )
    }

    /// Checks that no unexpected completion has come.
    pub fn assert_quiet(&mut self) {
        let more = self.store.poll();
        assert!(
            more.is_none() && self.completions.is_empty(),
            "answers twice: {more:?} {:?}",
            self.completions
        );
    }
}
