//! A disk controlled by the test: it performs operations when the test tells it to, in any
//! order, with success or failure, and checks that the log requests nothing that the contract
//! of [`Store`] forbids.

use refrain_logging::segment::{FILE_HEADER_BYTES, FileHeader};
use refrain_logging::store::{Completion, FileNumber, Operation, ReadToken, Store, StoreError};
use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{CHUNK_BYTES, LentChunk, Ssn};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::rc::Rc;

pub const JOB: u64 = 0x000b_0b0b;

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    InputOutputError,
    NoSpace,
}

impl Outcome {
    fn error(self, attempted: &str) -> Result<(), StoreError> {
        let error = match self {
            Self::Success => return Ok(()),
            // The error that the standard library makes of EIO.
            Self::InputOutputError => std::io::Error::from_raw_os_error(5),
            Self::NoSpace => ErrorKind::StorageFull.into(),
        };
        Err(StoreError {
            attempted: attempted.to_owned(),
            error,
        })
    }
}

/// Bugs of a store, to show that the oracle sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskBug {
    FlipsABit,
    ForgetsToSeal,
    CutsTheWrite,
    WritesIntoTheNextSlot,
    ReadsTheNextSlot,
    SaysWrittenThoughItFailed,
    KeepsTheChunk,
}

struct File {
    header: FileHeader,
    is_open: bool,
    slots: Vec<Vec<u8>>,
    /// Chunks that were written successfully: (sequence, end of their messages).
    written: Vec<(u64, Ssn)>,
}

#[derive(Default)]
pub struct Platter {
    files: BTreeMap<FileNumber, File>,
    /// Operations requested and not done yet.
    pub asked: Vec<Operation>,
    done: VecDeque<Completion>,
    newest: Option<FileNumber>,
    /// Bytes of the files that exist, including those that are being made or deleted.
    pub bytes: u64,
    pub bytes_max: u64,
    pub bug: Option<DiskBug>,
    /// By destination: messages below it are not needed.
    pub horizons: Vec<Ssn>,
    /// No new file is allowed.
    pub is_given_up: bool,
    /// Files that could not be removed.
    pub undeleted: u64,
    /// Failed writes and opens that were reported.
    pub failures: u64,
    /// Failures that were not for lack of space.
    pub hard_failures: u64,
}

#[derive(Clone)]
pub struct Disk(Rc<RefCell<Platter>>);

impl Disk {
    pub fn new(bytes_max: u64, channels: usize, bug: Option<DiskBug>) -> Self {
        Self(Rc::new(RefCell::new(Platter {
            bytes_max,
            horizons: vec![Ssn(0); channels],
            bug,
            ..Platter::default()
        })))
    }

    pub fn platter(&self) -> RefMut<'_, Platter> {
        self.0.borrow_mut()
    }
}

impl Store for Disk {
    fn submit(&mut self, operation: Operation) {
        self.platter().take(operation);
    }

    fn poll(&mut self) -> Option<Completion> {
        let mut platter = self.platter();
        let completion = platter.done.pop_front()?;
        platter.count_failure(&completion);
        Some(completion)
    }

    fn describe(&self) -> String {
        "on a leash".to_owned()
    }
}

fn file_of(operation: &Operation) -> FileNumber {
    match operation {
        Operation::Open { file, .. }
        | Operation::Write { file, .. }
        | Operation::Read { file, .. }
        | Operation::Delete { file } => *file,
    }
}

impl Platter {
    /// Whether anything on a file is under way.
    fn is_busy(&self, file: FileNumber) -> bool {
        let is_its = |operation: &Operation| {
            file_of(operation) == file
                || matches!(operation, Operation::Open { reuse, .. } if *reuse == Some(file))
        };
        // What is done and not told yet is under way for the log.
        let is_told = |completion: &Completion| match completion {
            Completion::Opened { file: of, .. }
            | Completion::Written { file: of, .. }
            | Completion::Read { file: of, .. }
            | Completion::Deleted { file: of, .. } => *of == file,
        };
        self.asked.iter().any(is_its) || self.done.iter().any(is_told)
    }

    fn take(&mut self, operation: Operation) {
        match &operation {
            Operation::Open {
                file,
                header,
                reuse,
            } => self.check_open(*file, header, *reuse),
            Operation::Write { file, slot, chunk } => self.check_write(*file, *slot, chunk),
            Operation::Read { file, .. } => {
                let opened = self
                    .files
                    .get(file)
                    .expect("a read of a file that is there");
                assert!(opened.is_open, "a read before the file is open");
            }
            Operation::Delete { file } => self.check_unneeded(*file),
        }
        self.asked.push(operation);
    }

    fn check_open(&mut self, file: FileNumber, header: &FileHeader, reuse: Option<FileNumber>) {
        assert!(!self.is_given_up, "a file is made after it was given up");
        assert!(self.newest < Some(file), "file numbers are used once");
        self.newest = Some(file);
        assert_eq!(FileHeader::decode(&header.encode()).as_ref(), Ok(header));
        assert_eq!(header.job, JOB);
        let mut slots = vec![Vec::new(); header.slots as usize];
        match reuse {
            Some(old) => {
                self.check_unneeded(old);
                let old = self.files.remove(&old).expect("it is there");
                assert_eq!(old.header.slots, header.slots);
                // The old contents stay until they are overwritten.
                slots = old.slots;
            }
            None => self.bytes += header.file_bytes(),
        }
        assert!(self.bytes <= self.bytes_max, "LOG-3: beyond the budget");
        let made = File {
            header: *header,
            is_open: false,
            slots,
            written: Vec::new(),
        };
        self.files.insert(file, made);
    }

    fn check_write(&self, file: FileNumber, slot: u32, chunk: &LentChunk) {
        let opened = self
            .files
            .get(&file)
            .expect("a write to a file that is there");
        assert!(opened.is_open, "a write before the file is open");
        let channel = &opened.header.channel;
        assert_eq!(opened.header.slot_of(chunk.sequence()), Some(slot));
        assert_eq!(
            (chunk.source(), chunk.incarnation(), chunk.destination()),
            (channel.source, channel.incarnation, channel.destination)
        );
        assert!(
            !self.asked.iter().any(|other| matches!(other,
                Operation::Write { file: to, slot: at, .. } if (*to, *at) == (file, slot))),
            "two writes to one slot"
        );
        assert!(
            !opened
                .written
                .iter()
                .any(|(known, _)| *known == chunk.sequence()),
            "a chunk that is there is written again"
        );
    }

    /// Checks that no chunk of a file is needed when the file goes. LOG-4
    fn check_unneeded(&self, file: FileNumber) {
        assert!(
            !self.is_busy(file),
            "something is under way on a file that goes"
        );
        let gone = self.files.get(&file).expect("only what is there can go");
        assert!(gone.is_open, "a file that goes was there");
        let horizon = self.horizons[gone.header.channel.destination.index()];
        for (sequence, ssn_end) in &gone.written {
            assert!(*ssn_end <= horizon, "chunk {sequence} is needed");
        }
    }

    fn count_failure(&mut self, completion: &Completion) {
        let (Completion::Opened { result, .. } | Completion::Written { result, .. }) = completion
        else {
            return;
        };
        if let Err(error) = result {
            self.failures += 1;
            self.hard_failures += u64::from(!error.is_lack_of_space());
        }
    }

    /// Index of a read in `asked`.
    pub fn place_of_read(&self, wanted: ReadToken) -> Option<usize> {
        let is_it = |operation: &Operation| matches!(operation, Operation::Read { token, .. } if *token == wanted);
        self.asked.iter().position(is_it)
    }

    /// Performs one of the requested operations.
    pub fn act(&mut self, index: usize, outcome: Outcome) {
        let operation = self.asked.swap_remove(index);
        let file = file_of(&operation);
        let done = match operation {
            Operation::Open { header, .. } => self.open(file, &header, outcome),
            Operation::Write { slot, chunk, .. } => match self.write(file, slot, chunk, outcome) {
                Some(done) => done,
                None => return,
            },
            Operation::Read { slot, token, .. } => self.read(file, slot, token, outcome),
            Operation::Delete { .. } => {
                let gone = self.files.remove(&file).expect("it is there");
                // LOG-3: a file that cannot be removed still takes room.
                match outcome {
                    Outcome::Success => self.bytes -= gone.header.file_bytes(),
                    _ => self.undeleted += 1,
                }
                Completion::Deleted {
                    file,
                    result: outcome.error("delete"),
                }
            }
        };
        self.done.push_back(done);
    }

    fn open(&mut self, file: FileNumber, header: &FileHeader, outcome: Outcome) -> Completion {
        if outcome == Outcome::Success {
            self.files.get_mut(&file).expect("it was begun").is_open = true;
        } else {
            self.files.remove(&file);
            self.bytes -= header.file_bytes();
        }
        Completion::Opened {
            file,
            result: outcome.error("open"),
        }
    }

    fn write(
        &mut self,
        file: FileNumber,
        slot: u32,
        mut chunk: LentChunk,
        outcome: Outcome,
    ) -> Option<Completion> {
        let bug = self.bug;
        let has_bug = |which| bug == Some(which);
        if !has_bug(DiskBug::ForgetsToSeal) {
            chunk.seal(JOB);
        }
        let block_bytes = chunk.used_bytes().next_multiple_of(FILE_HEADER_BYTES);
        let mut bytes = chunk.chunk_bytes()[..block_bytes.min(CHUNK_BYTES)].to_vec();
        if has_bug(DiskBug::FlipsABit) {
            bytes[chunk.used_bytes() / 2] ^= 4;
        }
        let is_written = match outcome {
            Outcome::Success => !has_bug(DiskBug::CutsTheWrite),
            // A part of it may be there.
            _ => false,
        };
        if !is_written {
            bytes.truncate(bytes.len() / 2);
        }
        let entry = self.files.get_mut(&file).expect("it was open");
        let shift = usize::from(has_bug(DiskBug::WritesIntoTheNextSlot));
        let at = (slot as usize + shift) % entry.slots.len();
        let place = &mut entry.slots[at];
        if place.len() < bytes.len() {
            place.resize(bytes.len(), 0);
        }
        place[..bytes.len()].copy_from_slice(&bytes);
        if has_bug(DiskBug::KeepsTheChunk) {
            return None;
        }
        let outcome = match outcome {
            _ if has_bug(DiskBug::SaysWrittenThoughItFailed) => Outcome::Success,
            other => other,
        };
        if outcome == Outcome::Success {
            entry.written.push((chunk.sequence(), chunk.ends().program));
        }
        Some(Completion::Written {
            file,
            chunk,
            result: outcome.error("write"),
        })
    }

    fn read(
        &mut self,
        file: FileNumber,
        slot: u32,
        token: ReadToken,
        outcome: Outcome,
    ) -> Completion {
        let entry = self
            .files
            .get(&file)
            .expect("a file stays while it is read");
        let shift = usize::from(self.bug == Some(DiskBug::ReadsTheNextSlot));
        let mut bytes = entry.slots[(slot as usize + shift) % entry.slots.len()].clone();
        // Bytes behind the written ones are arbitrary.
        bytes.resize(CHUNK_BYTES, 0x5a);
        Completion::Read {
            token,
            file,
            result: outcome.error("read").map(|()| ChunkBytes::new(bytes)),
        }
    }
}
