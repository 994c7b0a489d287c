//! A disk in memory with faults. The same seed produces the same faults.
//!
//! What survives: after the death of the process, names, and content whose writes have ended; after
//! a loss of power, synced content and synced names. Everything else is random: any of its sectors
//! is there or not, each change of a name or length has happened or not, and a sector that was to
//! be written at the loss of power may have any content.

mod node;

use crate::engine::{Bytes, Ended, Engine, Memory, Stage, Transfer};
use node::Node;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Listing the names.
    Names,
    /// Creating a file.
    Create,
    /// Changing a file's length, or taking room.
    Resize,
    /// A transfer to a file; a part of it is written.
    Write,
    /// A write that blocks; a part of it is written.
    WriteAt,
    /// Reading, or opening a file for reading.
    Read,
    /// Syncing a file: content that was not synced may be lost, and no later sync saves it.
    Sync,
    /// Renaming; the name stays unchanged.
    Rename,
    /// Syncing the names.
    SyncNames,
    /// Removing a file.
    Remove,
}

/// The error of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The user's quota is used up (EDQUOT).
    Quota,
    /// The disk was made read-only (EROFS).
    ReadOnly,
    /// Not allowed (EACCES).
    Forbidden,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::from(match failure {
            Failure::Io => Errno::IO,
            Failure::NoSpace => Errno::NOSPC,
            Failure::Quota => Errno::DQUOT,
            Failure::ReadOnly => Errno::ROFS,
            Failure::Forbidden => Errno::ACCESS,
        })
    }
}

/// A reproducible sequence of random numbers (SplitMix64).
#[derive(Clone, Debug, Default)]
pub struct Dice(u64);

impl Dice {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end as u64) as usize
    }

    /// True with this chance, in percent.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }
}

/// The index of the file for each name.
type Names = BTreeMap<String, usize>;

/// A change of names that is not synced.
#[derive(Clone, Debug)]
enum Renaming {
    Link(String, usize),
    Rename(String, String, usize),
    Unlink(String),
}

/// A write that was begun.
#[derive(Clone, Debug)]
struct UnderWay {
    number: u64,
    file: usize,
    place: u64,
    bytes: Vec<u8>,
    /// The write has ended, and its sync is in progress.
    is_written: bool,
}

/// Called before each change; returns whether the process lives.
type Gate = Box<dyn FnMut() -> bool + Send>;
/// Called with the bytes of each transfer that has succeeded.
type Witness = Box<dyn FnMut(&[u8]) + Send>;

#[derive(Default)]
struct DiskState {
    dice: Dice,
    files: Vec<Node>,
    names: Names,
    synced_names: Names,
    unsynced: Vec<Renaming>,
    under_way: Vec<UnderWay>,
    next_number: u64,
    faults: Vec<(Kind, Failure, u32)>,
    room_bytes: u64,
    late_percent: u32,
    is_stalled: bool,
    read_bytes: u64,
    steps: u64,
    stop_at: Option<u64>,
    gate: Option<Gate>,
    has_stopped: bool,
    witness: Option<Witness>,
}

impl DiskState {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            room_bytes: u64::MAX,
            late_percent: 30,
            ..Self::default()
        }
    }

    /// Checks an operation that changes nothing: it fails after the stop, or by an injected fault.
    fn look(&mut self, kind: Kind) -> io::Result<()> {
        if self.stop_at.is_some_and(|stop| self.steps >= stop) {
            return Err(self.stop());
        }
        let Some(at) = self.faults.iter().position(|fault| fault.0 == kind) else {
            return Ok(());
        };
        let (_, failure, times) = &mut self.faults[at];
        let failure = *failure;
        *times -= 1;
        if *times == 0 {
            self.faults.remove(at);
        }
        Err(failure.into())
    }

    fn stop(&mut self) -> io::Error {
        self.has_stopped = true;
        io::Error::other("the machine has stopped")
    }

    /// Counts a change as the next step. When the gate has ended this process, others may still
    /// read the disk.
    fn step(&mut self, kind: Kind) -> io::Result<()> {
        if self.has_stopped || self.gate.as_mut().is_some_and(|gate| !gate()) {
            return Err(self.stop());
        }
        self.look(kind)?;
        self.steps += 1;
        Ok(())
    }

    fn check_room(&self, file: usize, length: u64) -> io::Result<()> {
        let grows = length.saturating_sub(self.files[file].cache.length);
        let files = self.names.values().map(|file| &self.files[*file]);
        let used: u64 = files.map(|file| file.cache.length).sum();
        match grows == 0 || used + grows <= self.room_bytes {
            true => Ok(()),
            false => Err(Failure::NoSpace.into()),
        }
    }

    /// Writes each sector with a chance of `percent`.
    fn write_some(&mut self, file: usize, place: u64, bytes: &[u8], percent: u32) {
        let dice = &mut self.dice;
        self.files[file].write(place, bytes, || percent == 100 || dice.percent(percent));
    }

    /// Writes all sectors; on a fault, writes some and fails.
    fn write(&mut self, kind: Kind, file: usize, place: u64, bytes: &[u8]) -> io::Result<()> {
        let result = self
            .step(kind)
            .and_then(|()| self.check_room(file, place + bytes.len() as u64));
        if result.is_ok() {
            self.write_some(file, place, bytes, 100);
        } else if !self.has_stopped {
            let percent = self.dice.below(100) as u32;
            self.write_some(file, place, bytes, percent);
        }
        result
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        let result = self.step(Kind::Sync);
        let percent = if result.is_ok() { 100 } else { 50 };
        if !self.has_stopped {
            let dice = &mut self.dice;
            self.files[file].flush(|| percent == 100 || dice.percent(percent));
        }
        result
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        let file = self.names.get(name).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The disk as the next process finds it.
    fn after_death(&mut self, seed: u64) -> Self {
        let mut after = Self::new(seed ^ self.dice.any());
        after.files = self.files.clone();
        after.names = self.names.clone();
        after.synced_names = self.synced_names.clone();
        after.unsynced = self.unsynced.clone();
        after.room_bytes = self.room_bytes;
        after.late_percent = self.late_percent;
        for write in self.under_way.iter().filter(|write| !write.is_written) {
            let percent = after.dice.below(101) as u32;
            after.write_some(write.file, write.place, &write.bytes, percent);
        }
        after
    }

    /// The disk after a loss of power.
    fn after_power_loss(mut self) -> Self {
        let mut names = core::mem::take(&mut self.synced_names);
        for renaming in core::mem::take(&mut self.unsynced) {
            if self.dice.percent(50) {
                continue;
            }
            match renaming {
                Renaming::Link(name, file) => drop(names.insert(name, file)),
                Renaming::Unlink(name) => drop(names.remove(&name)),
                Renaming::Rename(from, to, file) => {
                    names.remove(&from);
                    names.insert(to, file);
                }
            }
        }
        for file in &mut self.files {
            file.lose_power(&mut self.dice);
        }
        self.synced_names = names.clone();
        self.names = names;
        self
    }
}

/// The disk; clones refer to the same disk. See the [module](self).
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<DiskState>>,
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedDisk({} files)", self.state().names.len())
    }
}

/// Ignores poisoning: after a panic the test has failed, but the disk can still be examined.
fn lock(state: &Mutex<DiskState>) -> MutexGuard<'_, DiskState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimulatedDisk {
    /// An empty disk; all random choices follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self::with(DiskState::new(seed))
    }

    fn with(state: DiskState) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.state)
    }

    /// Makes the next `times` operations of that kind fail.
    pub fn fail(&self, kind: Kind, failure: Failure, times: u32) {
        if times > 0 {
            self.state().faults.push((kind, failure, times));
        }
    }

    /// Removes all injected faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Makes all operations fail from that step on, as if the process were dead.
    pub fn stop_at(&self, step: u64) {
        self.state().stop_at = Some(step);
    }

    /// Number of steps so far: each change is a step.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Calls `gate` before each change to ask whether the process lives. After the first `false`,
    /// all changes fail.
    pub fn gate(&self, gate: impl FnMut() -> bool + Send + 'static) {
        let mut state = self.state();
        state.gate = Some(Box::new(gate));
        state.has_stopped = false;
    }

    /// Passes the bytes of each transfer that was written to `witness`.
    pub fn show(&self, witness: impl FnMut(&[u8]) + Send + 'static) {
        self.state().witness = Some(Box::new(witness));
    }

    /// Sets the chance, in percent (below 100), that an engine has nothing to collect yet.
    pub fn set_late(&self, percent: u32) {
        self.state().late_percent = percent;
    }

    /// With `true`, transfers end only for callers that wait.
    pub fn stall(&self, is_stalled: bool) {
        self.state().is_stalled = is_stalled;
    }

    /// Bytes read so far by calls that block.
    pub fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    /// Sets the room for all files together, in bytes. Existing files stay.
    pub fn set_room(&self, room_bytes: u64) {
        self.state().room_bytes = room_bytes;
    }

    /// Flips a bit of a file, in memory and on the disk.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn damage(&self, name: &str, place: usize) {
        let mut bytes = self.bytes(name).expect("a file");
        bytes[place] ^= 0x10;
        self.put(name, &bytes);
    }

    /// Creates or replaces a file with these bytes, in memory and on the disk.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut node = Node::default();
        node.write(0, bytes, || true);
        node.flush(|| true);
        let state = &mut *self.state();
        match state.names.get(name) {
            Some(file) => state.files[*file] = node,
            None => {
                let file = state.files.len();
                state.files.push(node);
                state.names.insert(name.into(), file);
                state.synced_names.insert(name.into(), file);
            }
        }
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let file = *state.names.get(name)?;
        Some(state.files[file].cache.bytes())
    }

    /// All files, by name.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.state();
        let bytes = |file: &usize| state.files[*file].cache.bytes();
        let names = state.names.iter();
        names
            .map(|(name, file)| (name.clone(), bytes(file)))
            .collect()
    }

    /// The disk that the next process finds after the death of this one: writes in progress may
    /// have continued, or not.
    #[must_use]
    pub fn after_death(&self, seed: u64) -> Self {
        Self::with(self.state().after_death(seed))
    }

    /// The disk that is found after a loss of power.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        Self::with(self.state().after_death(seed).after_power_loss())
    }

    fn file(&self, file: usize) -> SimulatedFile {
        SimulatedFile {
            state: self.state.clone(),
            file,
            handles: Arc::default(),
        }
    }

    pub(crate) fn engine<M>(&self, under_way_max: usize) -> Simulated<M> {
        Simulated {
            state: self.state.clone(),
            transfers: BTreeMap::new(),
            under_way_max,
        }
    }

    /// The names, in order.
    ///
    /// # Errors
    /// When an injected fault makes the listing fail.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.look(Kind::Names)?;
        Ok(state.names.keys().cloned().collect())
    }

    pub(crate) fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        state.step(Kind::Create)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        state.files.push(Node::default());
        state.names.insert(name.into(), file);
        state.unsynced.push(Renaming::Link(name.into(), file));
        drop(state);
        Ok(self.file(file))
    }

    pub(crate) fn open_file(&self, name: &str) -> io::Result<SimulatedFile> {
        let file = self.state().find(name)?;
        Ok(self.file(file))
    }

    pub(crate) fn open_to_read(&self, name: &str) -> io::Result<SimulatedFile> {
        self.state().look(Kind::Read)?;
        self.open_file(name)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step(Kind::Rename)?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), file);
        let renaming = Renaming::Rename(from.into(), to.into(), file);
        state.unsynced.push(renaming);
        Ok(())
    }

    pub(crate) fn rename_to_new(&self, from: &str, to: &str) -> io::Result<()> {
        if self.state().names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step(Kind::Remove)?;
        if state.names.remove(name).is_some() {
            state.unsynced.push(Renaming::Unlink(name.into()));
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.step(Kind::SyncNames)?;
        state.synced_names = state.names.clone();
        state.unsynced.clear();
        Ok(())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        format!("simulated/{name}").into()
    }

    pub(crate) fn is_memory(&self) -> bool {
        false
    }

    pub(crate) fn is_direct(&self) -> bool {
        false
    }
}

/// An open file of the disk.
#[derive(Clone)]
pub(crate) struct SimulatedFile {
    state: Arc<Mutex<DiskState>>,
    file: usize,
    handles: Arc<()>,
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedFile({})", self.file)
    }
}

impl SimulatedFile {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.state)
    }

    pub fn is_direct(&self) -> bool {
        false
    }

    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.handles) > 1
    }

    pub fn length(&self) -> io::Result<u64> {
        Ok(self.state().files[self.file].cache.length)
    }

    pub fn set_length(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.step(Kind::Resize)?;
        state.files[self.file].cache.set_length(bytes);
        Ok(())
    }

    pub fn take_room(&self, bytes: u64) -> io::Result<()> {
        self.state().check_room(self.file, bytes)?;
        let length = self.length()?;
        self.set_length(length.max(bytes))
    }

    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.look(Kind::Read)?;
        let moved = state.files[self.file].cache.get(place, into);
        state.read_bytes += moved as u64;
        Ok(moved)
    }

    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.state().write(Kind::WriteAt, self.file, place, bytes)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.state().sync(self.file)
    }

    pub fn read_ahead(&self, _place: u64, _bytes: u64) {}
}

/// The engine of a simulated disk: carries out one step of a random transfer at a time, with random
/// delays.
pub(crate) struct Simulated<M> {
    state: Arc<Mutex<DiskState>>,
    transfers: BTreeMap<u64, Transfer<M>>,
    under_way_max: usize,
}

impl<M> fmt::Debug for Simulated<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulated({} transfers)", self.transfers.len())
    }
}

impl<M: Memory> Simulated<M> {
    /// Carries out one step of a transfer.
    fn advance(&mut self, state: &mut DiskState, number: u64) -> Ended<M> {
        let is_this = |write: &UnderWay| write.number == number;
        let Some(at) = state.under_way.iter().position(is_this) else {
            return self.read(state, number);
        };
        let mut write = state.under_way.swap_remove(at);
        let sync = self.transfers[&number].sync;
        let result = match write.is_written {
            true => state.sync(write.file).map_err(|error| (Stage::Sync, error)),
            false => state
                .write(Kind::Write, write.file, write.place, &write.bytes)
                .map_err(|error| (Stage::Transfer, error)),
        };
        if result.is_ok() && sync && !write.is_written {
            write.is_written = true;
            state.under_way.push(write);
            return Ended::Written;
        }
        match &mut state.witness {
            Some(witness) if result.is_ok() => witness(&write.bytes),
            _ => {}
        }
        if state.has_stopped {
            // The write may continue after this process.
            state.under_way.push(write);
        }
        self.done(number, result)
    }

    fn read(&mut self, state: &mut DiskState, number: u64) -> Ended<M> {
        let result = state.look(Kind::Read);
        let transfer = self.transfers.get_mut(&number).expect("under way");
        let file = transfer.file.simulated().file;
        let (place, rest) = transfer.rest();
        if let (Ok(()), Bytes::Read(into)) = (&result, rest) {
            let moved = state.files[file].cache.get(place, into);
            into[moved..].fill(0);
        }
        self.done(number, result.map_err(|error| (Stage::Transfer, error)))
    }

    fn done(&mut self, number: u64, result: Result<(), (Stage, io::Error)>) -> Ended<M> {
        let transfer = self.transfers.remove(&number).expect("under way");
        let memory = transfer.memory;
        Ended::Done { memory, result }
    }
}

impl<M: Memory + Send> Engine<M> for Simulated<M> {
    fn room(&self) -> usize {
        self.under_way_max - self.transfers.len()
    }

    fn begin(&mut self, mut transfer: Transfer<M>) {
        assert!(
            self.room() > 0,
            "more transfers than the engine has room for"
        );
        let mut state = lock(&self.state);
        let number = state.next_number;
        state.next_number += 1;
        let file = transfer.file.simulated().file;
        if let (place, Bytes::Write(bytes)) = transfer.rest() {
            let bytes = bytes.to_vec();
            state.under_way.push(UnderWay {
                number,
                file,
                place,
                bytes,
                is_written: false,
            });
        }
        drop(state);
        self.transfers.insert(number, transfer);
    }

    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()> {
        if self.transfers.is_empty() {
            return Ok(());
        }
        let state = self.state.clone();
        let mut state = lock(&state);
        let late = state.late_percent;
        if !wait && (state.is_stalled || state.dice.percent(late)) {
            return Ok(());
        }
        let at = state.dice.below(self.transfers.len());
        let number = self.transfers.keys().nth(at).copied().expect("below");
        ended.push(self.advance(&mut state, number));
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.transfers.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        "a simulated disk".into()
    }
}

impl<M> Drop for Simulated<M> {
    fn drop(&mut self) {
        let state = &mut *lock(&self.state);
        // Writes in progress end first, unless the process is dead.
        let is_dead = state.has_stopped || state.gate.as_mut().is_some_and(|gate| !gate());
        let mine = |write: &UnderWay| self.transfers.contains_key(&write.number);
        if is_dead {
            return;
        }
        let (mine, others) = core::mem::take(&mut state.under_way)
            .into_iter()
            .partition(mine);
        state.under_way = others;
        let mine: Vec<UnderWay> = mine;
        for write in mine.iter().filter(|write| !write.is_written) {
            state.write_some(write.file, write.place, &write.bytes, 100);
        }
    }
}
