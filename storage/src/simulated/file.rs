//! An open file of the simulated disk.

use super::fault::Kind;
use super::state::{DiskState, lock};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// An open file of the disk.
#[derive(Clone)]
pub struct SimulatedFile {
    state: Arc<Mutex<DiskState>>,
    pub file: usize,
    handles: Arc<()>,
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedFile({})", self.file)
    }
}

impl SimulatedFile {
    pub fn new(state: Arc<Mutex<DiskState>>, file: usize) -> Self {
        Self {
            state,
            file,
            handles: Arc::default(),
        }
    }

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
