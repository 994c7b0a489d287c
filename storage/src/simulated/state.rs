//! The state of the simulated disk, and what a fault, a death or a loss of power does to it.

use super::dice::Dice;
use super::fault::{Failure, Kind};
use super::node::Node;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The index of the file for each name.
type Names = BTreeMap<String, usize>;

/// A change of names that is not synced.
#[derive(Clone, Debug)]
pub enum Renaming {
    Link(String, usize),
    Rename(String, String, usize),
    Unlink(String),
}

/// A write that was begun.
#[derive(Clone, Debug)]
pub struct UnderWay {
    pub number: u64,
    pub file: usize,
    pub place: u64,
    pub bytes: Vec<u8>,
    /// The write has ended, and its sync is in progress.
    pub is_written: bool,
}

/// Called before each change; returns whether the process lives.
type Gate = Box<dyn FnMut() -> bool + Send>;
/// Called with the bytes of each transfer that has succeeded.
type Witness = Box<dyn FnMut(&[u8]) + Send>;

/// The disk. [`after_death`](Self::after_death) and
/// [`after_power_loss`](Self::after_power_loss) decide what survives.
#[derive(Default)]
pub struct DiskState {
    pub dice: Dice,
    pub files: Vec<Node>,
    pub names: Names,
    pub synced_names: Names,
    pub unsynced: Vec<Renaming>,
    pub under_way: Vec<UnderWay>,
    pub next_number: u64,
    pub faults: Vec<(Kind, Failure, u32)>,
    pub room_bytes: u64,
    pub late_percent: u32,
    pub is_stalled: bool,
    pub read_bytes: u64,
    pub steps: u64,
    pub stop_at: Option<u64>,
    pub gate: Option<Gate>,
    pub has_stopped: bool,
    pub witness: Option<Witness>,
}

impl DiskState {
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            room_bytes: u64::MAX,
            late_percent: 30,
            ..Self::default()
        }
    }

    /// Checks an operation that changes nothing: it fails after the stop, or by an injected fault.
    pub fn look(&mut self, kind: Kind) -> io::Result<()> {
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
    pub fn step(&mut self, kind: Kind) -> io::Result<()> {
        if self.has_stopped || self.gate.as_mut().is_some_and(|gate| !gate()) {
            return Err(self.stop());
        }
        self.look(kind)?;
        self.steps += 1;
        Ok(())
    }

    pub fn check_room(&self, file: usize, length: u64) -> io::Result<()> {
        let grows = length.saturating_sub(self.files[file].cache.length);
        let files = self.names.values().map(|file| &self.files[*file]);
        let used: u64 = files.map(|file| file.cache.length).sum();
        match grows == 0 || used + grows <= self.room_bytes {
            true => Ok(()),
            false => Err(Failure::NoSpace.into()),
        }
    }

    /// Writes each sector with a chance of `percent`.
    pub fn write_some(&mut self, file: usize, place: u64, bytes: &[u8], percent: u32) {
        let dice = &mut self.dice;
        self.files[file].write(place, bytes, || percent == 100 || dice.percent(percent));
    }

    /// Writes all sectors; on a fault, writes some and fails.
    pub fn write(&mut self, kind: Kind, file: usize, place: u64, bytes: &[u8]) -> io::Result<()> {
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

    pub fn sync(&mut self, file: usize) -> io::Result<()> {
        let result = self.step(Kind::Sync);
        let percent = if result.is_ok() { 100 } else { 50 };
        if !self.has_stopped {
            let dice = &mut self.dice;
            self.files[file].flush(|| percent == 100 || dice.percent(percent));
        }
        result
    }

    pub fn find(&self, name: &str) -> io::Result<usize> {
        let file = self.names.get(name).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The disk as the next process finds it.
    pub fn after_death(&mut self, seed: u64) -> Self {
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
    pub fn after_power_loss(mut self) -> Self {
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

/// Ignores poisoning: after a panic the test has failed, but the disk can still be examined.
pub fn lock(state: &Mutex<DiskState>) -> MutexGuard<'_, DiskState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
