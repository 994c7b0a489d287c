//! The disk of a store in memory: what is under way, and what goes wrong.

use super::dice::Dice;
use super::file::{File, LeftFile};
use crate::segment::FileHeader;
use crate::store::{ChunkBuffer, Completion, FileNumber, Operation, StoreError};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// Settings of a store in memory.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// What all chance follows from.
    pub seed: u64,
    /// What names of files begin with.
    pub file_prefix: String,
    /// The job that chunks are sealed with.
    pub job: u64,
    /// How completions come.
    pub delivery: Delivery,
    /// Room for all files together, in bytes.
    pub room_bytes: u64,
}

/// How completions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once, in order.
    InOrder,
    /// In any order; a poll gives none with this chance, in percent (below 100).
    Shuffled {
        /// Of polls in vain.
        late_percent: u32,
    },
    /// When [`MemoryDisk::end`](super::MemoryDisk::end) says so.
    ByHand,
}

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Making a file, or using one again.
    Open,
    /// Writing a chunk.
    Write,
    /// Reading one.
    Read,
    /// Removing a file.
    Delete,
}

/// What operations fail with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The user's quota is used up (EDQUOT).
    Quota,
}

/// How often they fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The next ones, so many.
    Next(u32),
    /// With this chance, in percent.
    Percent(u32),
    /// All of them.
    Always,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// With which operations.
    pub on: Kind,
    /// With what.
    pub failure: Failure,
    /// How often.
    pub how: How,
}

/// An operation under way; of a write, the bytes as they were sealed.
#[derive(Debug)]
struct UnderWay {
    operation: Operation,
    image: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Disk {
    pub options: MemoryOptions,
    pub stalled: bool,
    pub faults: Vec<Fault>,
    files: BTreeMap<FileNumber, File>,
    /// Those that were to be deleted, and were not.
    undead: Vec<File>,
    numbers: BTreeSet<FileNumber>,
    under_way: VecDeque<UnderWay>,
    ended: VecDeque<Completion>,
    dice: Dice,
}

impl Disk {
    pub fn new(options: MemoryOptions) -> Self {
        Self {
            dice: Dice::new(options.seed),
            options,
            stalled: false,
            faults: Vec::new(),
            files: BTreeMap::new(),
            undead: Vec::new(),
            numbers: BTreeSet::new(),
            under_way: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }

    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub fn submit(&mut self, mut operation: Operation) {
        self.check_contract(&operation);
        let mut image = Vec::new();
        if let Operation::Write { chunk, .. } = &mut operation {
            chunk.seal(self.options.job);
            image = File::image(chunk);
        }
        self.under_way.push_back(UnderWay { operation, image });
    }

    fn check_contract(&mut self, operation: &Operation) {
        match operation {
            Operation::Open { file, reuse, .. } => {
                assert!(self.numbers.insert(*file), "{file:?} was used before");
                if let Some(old) = reuse {
                    self.check_idle(*old);
                }
            }
            Operation::Write { file, slot, .. } | Operation::Read { file, slot, .. } => {
                assert!(!self.is_leaving(*file), "{file:?} is being taken away");
                let known = self.files.get(file);
                let slots = known.map(|file| file.slots);
                let slots = slots.unwrap_or_else(|| panic!("{file:?} is not there"));
                assert!(*slot < slots, "{file:?} has no slot {slot}");
            }
            Operation::Delete { file } => self.check_idle(*file),
        }
    }

    fn check_idle(&self, file: FileNumber) {
        assert!(self.files.contains_key(&file), "{file:?} is not there");
        let busy = self.under_way.iter().any(|other| match other.operation {
            Operation::Write { file: used, .. } | Operation::Read { file: used, .. } => {
                used == file
            }
            _ => false,
        });
        assert!(
            !busy && !self.is_leaving(file),
            "something is under way on {file:?}"
        );
    }

    fn is_leaving(&self, file: FileNumber) -> bool {
        self.under_way.iter().any(|other| match other.operation {
            Operation::Open { reuse, .. } => reuse == Some(file),
            Operation::Delete { file: left } => left == file,
            _ => false,
        })
    }

    pub fn poll(&mut self) -> Option<Completion> {
        if self.ended.is_empty() && !self.stalled && !self.under_way.is_empty() {
            match self.options.delivery {
                Delivery::InOrder => self.end(0),
                Delivery::Shuffled { late_percent } => {
                    if !self.dice.percent(late_percent) {
                        let index = self.dice.below(self.under_way.len());
                        self.end(index);
                    }
                }
                Delivery::ByHand => {}
            }
        }
        self.ended.pop_front()
    }

    pub fn end(&mut self, index: usize) {
        let under_way = self.under_way.remove(index);
        let UnderWay { operation, image } = under_way.expect("an operation under way");
        let completion = self.carry_out(operation, &image);
        self.ended.push_back(completion);
    }

    /// The store is dropped.
    pub fn finish(&mut self) {
        while !self.under_way.is_empty() {
            self.end(0);
        }
        self.ended.clear();
    }

    fn carry_out(&mut self, operation: Operation, image: &[u8]) -> Completion {
        match operation {
            Operation::Open {
                file,
                header,
                reuse,
            } => Completion::Opened {
                file,
                result: self.open(file, &header, reuse),
            },
            Operation::Write { file, slot, chunk } => Completion::Written {
                file,
                chunk,
                result: self.write(file, slot, image),
            },
            Operation::Read { file, slot, token } => {
                let result = self.fault(Kind::Read, "reading a slot");
                Completion::Read {
                    token,
                    file,
                    result: result.map(|()| ChunkBuffer::new(self.files[&file].read(slot))),
                }
            }
            Operation::Delete { file } => Completion::Deleted {
                file,
                result: self.delete(file),
            },
        }
    }

    fn open(
        &mut self,
        number: FileNumber,
        header: &FileHeader,
        reuse: Option<FileNumber>,
    ) -> Result<(), StoreError> {
        let old = reuse.and_then(|old| self.files.remove(&old));
        self.fault(Kind::Open, "making a file")?;
        let mut file = match old {
            Some(old) => {
                assert_eq!(old.slots, header.slots, "a file of another length");
                old
            }
            None => {
                if self.used_bytes() + header.file_bytes() > self.options.room_bytes {
                    return Err(Failure::NoSpace.tell("making a file"));
                }
                File::new(String::new(), header.slots)
            }
        };
        file.write_header(header);
        file.name = self.name(header);
        self.files.insert(number, file);
        Ok(())
    }

    fn name(&self, header: &FileHeader) -> String {
        let name = header.name();
        let stem = name.trim_end_matches(".log");
        let names = (1..).map(|attempt| match attempt {
            1 => format!("{}{name}", self.options.file_prefix),
            _ => format!("{}{stem}-{attempt}.log", self.options.file_prefix),
        });
        let is_free = |name: &String| self.all_files().all(|file| file.name != *name);
        names.into_iter().find(is_free).unwrap_or_default()
    }

    fn write(&mut self, number: FileNumber, slot: u32, image: &[u8]) -> Result<(), StoreError> {
        let fault = self.fault(Kind::Write, "writing a slot");
        let dice = &mut self.dice;
        let file = self.files.get_mut(&number).expect("checked at submission");
        match fault {
            Ok(()) => file.write(slot, image),
            // Nothing is known of what it left there.
            Err(_) => file.tear(slot, image, dice),
        }
        fault
    }

    fn delete(&mut self, number: FileNumber) -> Result<(), StoreError> {
        let file = self.files.remove(&number).expect("checked at submission");
        let fault = self.fault(Kind::Delete, "removing a file");
        if fault.is_err() {
            self.undead.push(file);
        }
        fault
    }

    /// Whether an operation fails now.
    fn fault(&mut self, kind: Kind, attempted: &str) -> Result<(), StoreError> {
        for fault in self.faults.iter_mut().filter(|fault| fault.on == kind) {
            let fails = match &mut fault.how {
                How::Next(0) => false,
                How::Next(times) => {
                    *times -= 1;
                    true
                }
                How::Percent(percent) => self.dice.percent(*percent),
                How::Always => true,
            };
            if fails {
                return Err(fault.failure.tell(attempted));
            }
        }
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        self.all_files().map(File::bytes).sum()
    }

    fn all_files(&self) -> impl Iterator<Item = &File> {
        self.files.values().chain(&self.undead)
    }

    pub fn files(&self) -> Vec<LeftFile> {
        self.all_files().map(File::left).collect()
    }

    pub fn crash(&mut self) -> Vec<LeftFile> {
        let mut files = self.files.clone();
        let mut dice = self.dice.clone();
        for UnderWay { operation, image } in &self.under_way {
            // Not at all, in part, wholly.
            let progress = dice.below(3);
            if progress == 0 {
                continue;
            }
            match operation {
                Operation::Open {
                    file,
                    header,
                    reuse,
                } => {
                    let old = reuse.and_then(|old| files.remove(&old));
                    let name = self.name(header);
                    let is_new = old.is_none();
                    let mut made = old.unwrap_or_else(|| File::new(name.clone(), header.slots));
                    // A new file is there before its header, one that is used
                    // again has its header before its name.
                    if progress == 2 || !is_new {
                        made.write_header(header);
                    }
                    if progress == 2 {
                        made.name = name;
                    }
                    files.insert(*file, made);
                }
                Operation::Write { file, slot, .. } => {
                    if let Some(file) = files.get_mut(file) {
                        match progress {
                            1 => file.tear(*slot, image, &mut dice),
                            _ => file.write(*slot, image),
                        }
                    }
                }
                Operation::Read { .. } => {}
                Operation::Delete { file } => drop(files.remove(file)),
            }
        }
        self.dice = dice;
        let left = files.values().chain(&self.undead);
        left.map(File::left).collect()
    }
}

impl Failure {
    fn tell(self, attempted: &str) -> StoreError {
        let number = match self {
            Self::Io => Errno::IO,
            Self::NoSpace => Errno::NOSPC,
            Self::Quota => Errno::DQUOT,
        };
        StoreError {
            attempted: attempted.into(),
            error: io::Error::from(number),
        }
    }
}
