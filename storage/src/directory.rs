//! A [`Directory`] and its [`File`]s, of the system or of a simulated disk. All calls block;
//! transfers that do not block go through an [`Engine`].
//!
//! Only their owner can access files, whatever the umask. A name is one component of a path.
//! Nothing is stable before its sync: content after [`File::sync`], names after
//! [`Directory::sync`].

use crate::engine::{Bytes, Engine, Inline, Io, Memory};
#[cfg(any(test, feature = "test-doubles"))]
use crate::simulated::{SimulatedDisk, SimulatedFile};
use crate::system::{SystemDirectory, SystemFile};
use crate::thread::Threaded;
use crate::uring::Uring;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// A directory of files. Clones refer to the same directory.
#[derive(Clone, Debug)]
pub struct Directory(DirectoryKind);

#[derive(Clone, Debug)]
enum DirectoryKind {
    System(SystemDirectory),
    #[cfg(any(test, feature = "test-doubles"))]
    Simulated(SimulatedDisk),
}

/// An open file. Clones refer to the same file.
#[derive(Clone, Debug)]
pub struct File(FileKind);

#[derive(Clone, Debug)]
enum FileKind {
    System(SystemFile),
    #[cfg(any(test, feature = "test-doubles"))]
    Simulated(SimulatedFile),
}

/// Calls the same method of the system's or the simulated type.
macro_rules! either {
    ($kind:ident, $this:expr, $inner:ident => $call:expr) => {
        match &$this.0 {
            $kind::System($inner) => $call,
            #[cfg(any(test, feature = "test-doubles"))]
            $kind::Simulated($inner) => $call,
        }
    };
}

#[cfg(any(test, feature = "test-doubles"))]
impl From<SimulatedDisk> for Directory {
    fn from(disk: SimulatedDisk) -> Self {
        Self(DirectoryKind::Simulated(disk))
    }
}

impl From<SystemFile> for File {
    fn from(file: SystemFile) -> Self {
        Self(FileKind::System(file))
    }
}

#[cfg(any(test, feature = "test-doubles"))]
impl From<SimulatedFile> for File {
    fn from(file: SimulatedFile) -> Self {
        Self(FileKind::Simulated(file))
    }
}

impl Directory {
    /// Opens an existing directory; the process may change its working directory afterwards.
    ///
    /// # Errors
    /// Errors of the system; `NotADirectory` if the path names something else.
    pub fn open(path: &Path) -> io::Result<Self> {
        SystemDirectory::open(path).map(|directory| Self(DirectoryKind::System(directory)))
    }

    /// As this directory, with files that bypass the page cache if the file system supports it:
    /// then offsets, lengths and addresses of transfers must be multiples of
    /// [`BLOCK_BYTES`](crate::BLOCK_BYTES). Writes a probe file, which does not remain.
    ///
    /// # Errors
    /// When no file can be created and written there.
    pub fn past_the_page_cache(self) -> io::Result<Self> {
        match self.0 {
            DirectoryKind::System(directory) => Ok(Self(DirectoryKind::System(directory.probe()?))),
            #[cfg(any(test, feature = "test-doubles"))]
            DirectoryKind::Simulated(_) => Ok(self),
        }
    }

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn names(&self) -> io::Result<Vec<String>> {
        either!(DirectoryKind, self, directory => directory.names())
    }

    /// Creates an empty file, for writing and reading.
    ///
    /// # Errors
    /// Errors of the system; `AlreadyExists` if the name is taken.
    pub fn create(&self, name: &str) -> io::Result<File> {
        either!(DirectoryKind, self, directory => directory.create(name).map(File::from))
    }

    /// Opens a file, for writing and reading.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        either!(DirectoryKind, self, directory => directory.open_file(name).map(File::from))
    }

    /// Opens a file, for reading through the page cache.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_to_read(&self, name: &str) -> io::Result<File> {
        either!(DirectoryKind, self, directory => directory.open_to_read(name).map(File::from))
    }

    /// Renames a file atomically; a file with the new name is replaced.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        either!(DirectoryKind, self, directory => directory.rename(from, to))
    }

    /// Renames a file; refuses to replace another one.
    ///
    /// # Errors
    /// Errors of the system; `AlreadyExists` if the new name is taken.
    pub fn rename_to_new(&self, from: &str, to: &str) -> io::Result<()> {
        either!(DirectoryKind, self, directory => directory.rename_to_new(from, to))
    }

    /// Removes a file. A file that does not exist is no error.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        either!(DirectoryKind, self, directory => directory.remove(name))
    }

    /// Syncs the names: creations, renames and removals so far survive a loss of power.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn sync(&self) -> io::Result<()> {
        either!(DirectoryKind, self, directory => directory.sync())
    }

    /// The path of a name; for "", the path of the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        either!(DirectoryKind, self, directory => directory.path(name))
    }

    /// An engine for files of this directory, with at most `under_way_max` concurrent transfers.
    ///
    /// # Errors
    /// When io_uring is required and not available, or the system gives no thread.
    pub fn engine<M>(&self, io: Io, under_way_max: usize) -> io::Result<Box<dyn Engine<M>>>
    where
        M: Memory + fmt::Debug + Send,
    {
        let is_memory = match &self.0 {
            DirectoryKind::System(directory) => directory.is_memory(),
            #[cfg(any(test, feature = "test-doubles"))]
            DirectoryKind::Simulated(disk) => return Ok(Box::new(disk.engine(under_way_max))),
        };
        let threaded = |reason| Threaded::start(under_way_max, reason);
        Ok(match io {
            Io::Plain => Box::new(Inline::new(None)),
            Io::Thread => Box::new(threaded(None)?),
            Io::Uring => Box::new(Uring::new(under_way_max)?),
            // A write to tmpfs is a copy: io_uring would have another thread make it.
            Io::Auto if is_memory => Box::new(Inline::new(Some("tmpfs".into()))),
            Io::Auto => match Uring::new(under_way_max) {
                Ok(uring) => Box::new(uring),
                // io_uring is not available, or not allowed.
                Err(error) => Box::new(threaded(Some(format!("no io_uring: {error}")))?),
            },
        })
    }

    /// Whether the directory is on tmpfs.
    pub fn is_memory(&self) -> bool {
        either!(DirectoryKind, self, directory => directory.is_memory())
    }

    /// How files are accessed: "direct" or "buffered".
    pub fn access(&self) -> &'static str {
        let is_direct = either!(DirectoryKind, self, directory => directory.is_direct());
        if is_direct { "direct" } else { "buffered" }
    }
}

impl File {
    /// The length in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn length(&self) -> io::Result<u64> {
        either!(FileKind, self, file => file.length())
    }

    /// Sets the length: cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_length(&self, bytes: u64) -> io::Result<()> {
        either!(FileKind, self, file => file.set_length(bytes))
    }

    /// Makes the file at least `bytes` long, and allocates the room now if the file system supports
    /// it.
    ///
    /// # Errors
    /// Errors of the system; `StorageFull` if there is no room.
    pub fn take_room(&self, bytes: u64) -> io::Result<()> {
        either!(FileKind, self, file => file.take_room(bytes))
    }

    /// Reads at offset `place`, up to the end of the file at most; returns the number of bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        either!(FileKind, self, file => file.read_at(place, into))
    }

    /// Writes all bytes at offset `place`.
    ///
    /// # Errors
    /// Errors of the system; the content at this place is unknown then.
    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        either!(FileKind, self, file => file.write_at(place, bytes))
    }

    /// Syncs content and length, so that they survive a loss of power. After an error, everything
    /// that was not synced before counts as lost.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn sync(&self) -> io::Result<()> {
        either!(FileKind, self, file => file.sync())
    }

    /// Asks the system to read these bytes into the page cache in advance.
    pub fn read_ahead(&self, place: u64, bytes: u64) {
        either!(FileKind, self, file => file.read_ahead(place, bytes));
    }

    /// Whether another clone exists, for instance in a transfer.
    pub fn is_shared(&self) -> bool {
        either!(FileKind, self, file => file.is_shared())
    }

    pub(crate) fn is_direct(&self) -> bool {
        either!(FileKind, self, file => file.is_direct())
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            FileKind::System(file) => file.sync_data(),
            #[cfg(any(test, feature = "test-doubles"))]
            FileKind::Simulated(file) => file.sync(),
        }
    }

    /// Moves one part of a transfer by one call.
    pub(crate) fn transfer(&self, place: u64, rest: Bytes<'_>) -> io::Result<usize> {
        self.system().transfer(place, rest)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.system().descriptor()
    }

    fn system(&self) -> &SystemFile {
        match &self.0 {
            FileKind::System(file) => file,
            #[cfg(any(test, feature = "test-doubles"))]
            FileKind::Simulated(_) => panic!("an engine of the system for a simulated file"),
        }
    }

    #[cfg(any(test, feature = "test-doubles"))]
    pub(crate) fn simulated(&self) -> &SimulatedFile {
        match &self.0 {
            FileKind::Simulated(file) => file,
            FileKind::System(_) => panic!("a simulated engine for a file of the system"),
        }
    }
}
