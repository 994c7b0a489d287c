//! A disk in memory on which everything goes wrong that can, each time in the
//! same way for the same seed.
//!
//! What must survive: after the death of the process, names, and content whose
//! writing has ended; after a loss of power, content that was synced, and names
//! that were synced. What may happen to the rest: any sector of it is there or
//! not, each renaming and removal has happened or not, and a sector that was to
//! be written when the power went may hold anything.

mod file;
mod output;
mod state;

use crate::disk::{Disk, Input, Output};
use output::FaultyOutput;
use state::State;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Looking into the folder.
    Names,
    /// Making a file.
    Create,
    /// Writing a strip: some of it is there.
    Write,
    /// Syncing a file: what was not synced may be lost, and no later sync saves it.
    Sync,
    /// Renaming: it has not happened.
    Rename,
    /// Syncing names.
    SyncNames,
    /// Removing a file.
    Remove,
    /// Reading.
    Read,
}

/// With what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// Somebody has made it read-only (EROFS).
    ReadOnly,
    /// Not allowed (EACCES).
    Forbidden,
}

/// Which file a name is of.
type Names = BTreeMap<String, usize>;

/// The disk; clones are the same one.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self::with(State::new(seed))
    }

    fn with(state: State) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The next operations of that kind fail, so many.
    pub fn fail(&self, kind: Kind, failure: Failure, times: u32) {
        self.state().faults.push((kind, failure, times));
    }

    /// Everything fails from that step on: the process is dead.
    pub fn stop_at(&self, step: u64) {
        self.state().stop_at = Some(step);
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Room for all files together from now on, in bytes.
    pub fn set_room(&self, room_bytes: usize) {
        self.state().room_bytes = room_bytes;
    }

    /// Changes a bit of a file, in memory and on the disk.
    ///
    /// # Panics
    /// When there is no such file, or byte.
    pub fn damage(&self, name: &str, place: usize) {
        self.state().change(name, |bytes| bytes[place] ^= 0x10);
    }

    /// Gives a file other bytes.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn replace(&self, name: &str, content: &[u8]) {
        self.state().change(name, |bytes| *bytes = content.to_vec());
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let file = state.names.get(name)?;
        Some(state.files[*file].cache.clone())
    }

    /// What the next process finds after the death of this one. What was under
    /// way may have gone on, or not.
    #[must_use]
    pub fn after_death(&self, seed: u64) -> Self {
        Self::with(self.state().after_death(seed))
    }

    /// What is found after a loss of power.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        Self::with(self.state().after_death(seed).after_power_loss())
    }
}

impl Disk for FaultyDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.look(Kind::Names)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        let file = self.state().create(name)?;
        Ok(Box::new(FaultyOutput::new(self.state.clone(), file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Input>> {
        let mut state = self.state();
        state.look(Kind::Read)?;
        let file = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FaultyInput {
            state: self.state.clone(),
            file,
            place: 0,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.state().sync_names()
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("faulty/{name}").into()
    }

    fn describe(&self) -> String {
        "a disk in memory".into()
    }
}

#[derive(Debug)]
struct FaultyInput {
    state: Arc<Mutex<State>>,
    file: usize,
    place: usize,
}

impl Input for FaultyInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = lock(&self.state);
        state.look(Kind::Read)?;
        let bytes = &state.files[self.file].cache;
        let rest = bytes.get(self.place..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.place += count;
        Ok(count)
    }
}
