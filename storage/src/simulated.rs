//! A disk in memory with faults. The same seed produces the same faults.
//!
//! What survives: after the death of the process, names, and content whose writes have ended; after
//! a loss of power, synced content and synced names. Everything else is random: any of its sectors
//! is there or not, each change of a name or length has happened or not, and a sector that was to
//! be written at the loss of power may have any content.

mod dice;
mod engine;
mod fault;
mod file;
mod node;
mod state;

pub use dice::Dice;
pub use fault::{Failure, Kind};

pub(crate) use engine::Simulated;
pub(crate) use file::SimulatedFile;
use node::Node;
use state::{DiskState, Renaming, lock};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

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
        SimulatedFile::new(self.state.clone(), file)
    }

    pub(crate) fn engine<M>(&self, under_way_max: usize) -> Simulated<M> {
        Simulated::new(self.state.clone(), under_way_max)
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
