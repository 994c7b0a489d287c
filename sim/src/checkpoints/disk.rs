//! The disk of the simulated store: the files of one folder. Without a power loss they contain what
//! was written.

use refrain_ring::Rank;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A file's own name: rank and number. Before the rename a file has a temporary name, which readers
/// ignore.
pub(super) type Name = (Rank, u32);

#[derive(Debug)]
struct File<T> {
    contents: Rc<T>,
    /// The file is complete when all pieces are written.
    pieces: Vec<Synced>,
    has_name: Synced,
}

/// The state of a change: not made, in memory, or on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Synced {
    #[default]
    No,
    InMemory,
    OnDisk,
}

impl Synced {
    fn is_done(self) -> bool {
        self != Self::No
    }

    fn sync(&mut self) {
        if *self == Self::InMemory {
            *self = Self::OnDisk;
        }
    }

    /// Keeps or loses an unsynced change, at random.
    fn lose_power(&mut self, chance: &mut fastrand::Rng) {
        if *self == Self::InMemory {
            *self = if chance.bool() {
                Self::OnDisk
            } else {
                Self::No
            };
        }
    }
}

impl<T> File<T> {
    fn is_whole(&self) -> bool {
        self.pieces.iter().all(|piece| piece.is_done())
    }

    fn sync(&mut self) {
        for piece in &mut self.pieces {
            piece.sync();
        }
    }
}

#[derive(Debug)]
pub(super) struct Disk<T> {
    files: BTreeMap<Name, File<T>>,
    /// Removed files, which can reappear after a power loss.
    removed: BTreeMap<Name, File<T>>,
}

impl<T> Default for Disk<T> {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
        }
    }
}

impl<T> Disk<T> {
    /// Creates a file of `pieces` pieces; replaces an existing one.
    pub fn create(&mut self, name: Name, contents: Rc<T>, pieces: usize) {
        let file = File {
            contents,
            pieces: vec![Synced::No; pieces],
            has_name: Synced::No,
        };
        self.files.insert(name, file);
    }

    /// Writes a piece; false: there is no piece with that number.
    pub fn write(&mut self, name: Name, piece: usize) -> bool {
        let file = self.files.get_mut(&name);
        let piece = file.and_then(|file| file.pieces.get_mut(piece));
        if let Some(piece) = piece {
            *piece = Synced::InMemory;
            return true;
        }
        false
    }

    pub fn sync(&mut self, name: Name) {
        if let Some(file) = self.files.get_mut(&name) {
            file.sync();
        }
    }

    pub fn rename(&mut self, name: Name) {
        if let Some(file) = self.files.get_mut(&name) {
            file.has_name = Synced::InMemory;
        }
    }

    /// Makes names and removals permanent.
    pub fn sync_folder(&mut self) {
        for file in self.files.values_mut() {
            file.has_name.sync();
        }
        self.removed.clear();
    }

    pub fn remove(&mut self, name: Name) {
        if let Some(file) = self.files.remove(&name) {
            self.removed.insert(name, file);
        }
    }

    /// The contents of a file, if it is complete and has its name.
    pub fn read(&self, name: Name) -> Option<Rc<T>> {
        let file = self.files.get(&name)?;
        (file.has_name.is_done() && file.is_whole()).then(|| Rc::clone(&file.contents))
    }

    pub fn lose_power(&mut self, chance: &mut fastrand::Rng) {
        for (name, file) in core::mem::take(&mut self.removed) {
            if chance.bool() {
                self.files.insert(name, file);
            }
        }
        for file in self.files.values_mut() {
            file.has_name.lose_power(chance);
            for piece in &mut file.pieces {
                piece.lose_power(chance);
            }
        }
    }

    /// The recovery of a starting process: removes incomplete files and those without their name,
    /// syncs the others, and returns them by name.
    pub fn recover(&mut self) -> Vec<Name> {
        let is_good = |file: &File<T>| file.has_name.is_done() && file.is_whole();
        self.files.retain(|_, file| is_good(file));
        self.files.values_mut().for_each(File::sync);
        self.sync_folder();
        self.files.keys().copied().collect()
    }
}
