//! [`MemoryStore`]: a store on a simulated disk with faults.
//!
//! For tests and the simulator: no clock, no thread, no file; its behaviour follows from
//! its seed and from calls of its [`MemoryDisk`]. Completions come late and in any
//! order; operations fail temporarily or permanently; the disk gets full; it stalls; and
//! [`MemoryDisk::crash`] gives the bytes that a killed process could leave. It also
//! checks the log's side of the contract, and panics when the log violates it.

use super::disk::files::Files;
use super::disk::pool::Pool;
use super::disk::worker::{Disk, written_bytes};
use super::{Completion, FileNumber, Operation, Store};
use crate::segment::slot_offset;
use refrain_storage::simulated::{Dice, Kind, SimulatedDisk};
use refrain_storage::{Directory, Ended, Io, Transfer};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use refrain_storage::simulated::Failure;

/// Settings of a store in memory.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Prefix of file names.
    pub file_prefix: String,
    /// The job that chunks are sealed with.
    pub job: u64,
    /// The order and delay of completions.
    pub delivery: Delivery,
    /// Room for all files together, in bytes.
    pub room_bytes: u64,
}

/// The order and delay of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once, in order.
    InOrder,
    /// In any order; some polls give none.
    Shuffled {
        /// Probability that a poll gives none, in percent (below 100).
        late_percent: u32,
    },
}

/// A file as found on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    /// Its name.
    pub name: String,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct MemoryState {
    options: MemoryOptions,
    stalled: bool,
    /// All writes fail with this.
    write_failure: Option<Failure>,
    numbers: BTreeSet<FileNumber>,
    under_way: VecDeque<Operation>,
    ended: VecDeque<Completion>,
    dice: Dice,
    simulated: SimulatedDisk,
    disk: Disk,
}

/// A store in memory; see the [module](self).
#[derive(Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
}

/// Controls the disk of a [`MemoryStore`]: injects faults and reads its files.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    state: Arc<Mutex<MemoryState>>,
}

/// Locks the state even after a panic: a failing test may still read the disk.
fn lock(state: &Mutex<MemoryState>) -> MutexGuard<'_, MemoryState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty store.
    ///
    /// # Panics
    /// Never: a simulated disk always has an engine.
    pub fn new(options: MemoryOptions) -> Self {
        let simulated = SimulatedDisk::new(options.seed);
        simulated.set_room(options.room_bytes);
        let directory = Directory::from(simulated.clone());
        let state = MemoryState {
            stalled: false,
            write_failure: None,
            numbers: BTreeSet::new(),
            under_way: VecDeque::new(),
            ended: VecDeque::new(),
            dice: Dice::new(options.seed),
            disk: Disk {
                engine: directory.engine(Io::Auto, 1).expect("an engine"),
                files: Files::new(directory, options.file_prefix.clone(), usize::MAX),
                is_direct: false,
                pool: Pool::new(1),
            },
            simulated,
            options,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The control of its disk, which stays usable while a log owns the store.
    pub fn disk(&self) -> MemoryDisk {
        let state = self.state.clone();
        MemoryDisk { state }
    }
}

impl Store for MemoryStore {
    /// # Panics
    /// When the caller breaks the contract.
    fn submit(&mut self, operation: Operation) {
        lock(&self.state).submit(operation);
    }

    fn poll(&mut self) -> Option<Completion> {
        lock(&self.state).poll()
    }

    fn describe(&self) -> String {
        "in memory".into()
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut state = lock(&self.state);
            while !state.under_way.is_empty() {
                state.end(0);
            }
            state.ended.clear();
        }
    }
}

impl MemoryState {
    fn submit(&mut self, mut operation: Operation) {
        self.check_contract(&operation);
        if let Operation::Write { chunk, .. } = &mut operation {
            chunk.seal(self.options.job);
        }
        self.under_way.push_back(operation);
    }

    fn check_contract(&mut self, operation: &Operation) {
        match operation {
            Operation::Open {
                file,
                header,
                reuse,
            } => {
                assert!(self.numbers.insert(*file), "{file:?} was used before");
                if let Some(old) = reuse {
                    self.check_idle(*old);
                    let slots = self.disk.files.slots(*old);
                    assert_eq!(slots, Some(header.slots), "a file of another length");
                }
            }
            Operation::Write { file, slot, .. } | Operation::Read { file, slot, .. } => {
                assert!(!self.is_leaving(*file), "{file:?} is being taken away");
                let slots = self.disk.files.slots(*file);
                let slots = slots.unwrap_or_else(|| panic!("{file:?} is not there"));
                assert!(*slot < slots, "{file:?} has no slot {slot}");
            }
            Operation::Delete { file } => self.check_idle(*file),
        }
    }

    fn check_idle(&self, file: FileNumber) {
        assert!(
            self.disk.files.slots(file).is_some(),
            "{file:?} is not there"
        );
        let busy = self.under_way.iter().any(|other| match other {
            Operation::Write { file: used, .. } | Operation::Read { file: used, .. } => {
                *used == file
            }
            _ => false,
        });
        assert!(
            !busy && !self.is_leaving(file),
            "something is under way on {file:?}"
        );
    }

    fn is_leaving(&self, file: FileNumber) -> bool {
        self.under_way.iter().any(|other| match other {
            Operation::Open { reuse, .. } => *reuse == Some(file),
            Operation::Delete { file: left } => *left == file,
            _ => false,
        })
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.ended.is_empty() && !self.stalled && !self.under_way.is_empty() {
            match self.options.delivery {
                Delivery::InOrder => self.end(0),
                Delivery::Shuffled { late_percent } => {
                    if !self.dice.percent(late_percent) {
                        let index = self.dice.below(self.under_way.len());
                        self.end(index);
                    }
                }
            }
        }
        self.ended.pop_front()
    }

    fn end(&mut self, index: usize) {
        let operation = self.under_way.remove(index);
        let completion = self.carry_out(operation.expect("an operation under way"));
        self.ended.push_back(completion);
    }

    fn carry_out(&mut self, operation: Operation) -> Completion {
        let failure = match operation {
            Operation::Write { .. } => self.write_failure,
            _ => None,
        };
        if let Some(failure) = failure {
            self.simulated.fail(Kind::Write, failure, 1);
        }
        let completion = self.disk.begin(operation);
        let completion = completion.unwrap_or_else(|| {
            let mut ended = Vec::new();
            let collected = self.disk.engine.collect(true, &mut ended);
            collected.expect("a simulated disk tells of every transfer");
            match ended.pop() {
                Some(Ended::Done { memory, result }) => memory.ended(&self.disk.files, result),
                _ => panic!("a transfer without a sync has one end"),
            }
        });
        self.simulated.heal();
        completion
    }

    fn crash(&mut self) -> Vec<LeftFile> {
        let mut dice = self.dice.clone();
        let mut disk = self.simulated.after_death(dice.any());
        let mut files = self.disk.files.in_copy(disk.clone().into());
        for operation in &self.under_way {
            // Not started, done in part, done completely.
            let progress = dice.below(3);
            if progress == 0 {
                continue;
            }
            if progress == 1 {
                disk.stop_at(disk.steps() + dice.below(3) as u64);
            }
            match operation {
                Operation::Open {
                    file,
                    header,
                    reuse: Some(old),
                } => drop(files.reuse(*file, header, *old)),
                Operation::Open { file, header, .. } => drop(files.make(*file, header)),
                Operation::Write { file, slot, chunk } => {
                    let bytes = chunk.chunk_bytes()[..written_bytes(chunk)].to_vec();
                    let mut engine = Directory::from(disk.clone()).engine(Io::Auto, 1);
                    if let (Ok(file), Ok(engine)) = (files.open(*file), &mut engine) {
                        let place = slot_offset(*slot);
                        engine.begin(Transfer::new(file, place, bytes.len(), false, bytes));
                        drop(engine.collect(true, &mut Vec::new()));
                    }
                }
                Operation::Read { .. } => {}
                Operation::Delete { file } => drop(files.delete(*file)),
            }
            if progress == 1 {
                disk = disk.after_death(dice.any());
                files = files.in_copy(disk.clone().into());
            }
        }
        self.dice = dice;
        left(&disk)
    }
}

fn left(disk: &SimulatedDisk) -> Vec<LeftFile> {
    let files = disk.files().into_iter();
    files
        .map(|(name, bytes)| LeftFile { name, bytes })
        .collect()
}

impl MemoryDisk {
    /// Number of operations that have not ended.
    pub fn under_way(&self) -> usize {
        lock(&self.state).under_way.len()
    }

    /// With `true` no operation ends; with `false` they end again.
    pub fn stall(&self, stalled: bool) {
        lock(&self.state).stalled = stalled;
    }

    /// Makes all writes fail from now on; `None`: they succeed again.
    pub fn fail_writes(&self, failure: Option<Failure>) {
        lock(&self.state).write_failure = failure;
    }

    /// The current files.
    pub fn files(&self) -> Vec<LeftFile> {
        left(&lock(&self.state).simulated)
    }

    /// The files as they could be found if the process were killed, or its host reset,
    /// now: each operation that is under way has not happened, has happened, or has
    /// happened in part; of a write, any of its sectors of 512 bytes. The store is not
    /// changed; another call may give another outcome.
    pub fn crash(&self) -> Vec<LeftFile> {
        lock(&self.state).crash()
    }
}
