//! What a folder of checkpoints needs of the world, and the real one.

mod engine;
mod input;
mod output;
mod real;
mod threaded;
mod uring;

pub use engine::DiskIo;
pub use real::FolderDisk;

use crate::buffer::Strip;
use std::io;
use std::path::PathBuf;

/// A file that is written, strip by strip.
///
/// Contract: strips come in order and without a gap, all but the last whole. An
/// error may come with any later call. Dropped: what is under way ends first.
pub trait Output: Send {
    /// Takes the first `bytes` bytes of a strip, to be written at `place`, and puts
    /// another one there instead, with any bytes in it.
    ///
    /// # Errors
    /// Of the system; the file cannot be used then.
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()>;

    /// Waits until all is written, makes the file that many bytes long, and syncs
    /// it: its content survives the loss of power from here on. Its name need not.
    ///
    /// # Errors
    /// Of the system; the file cannot be used then.
    fn finish(&mut self, bytes: u64) -> io::Result<()>;
}

/// A file that is read, from its beginning to its end.
pub trait Input: Send {
    /// Reads on, as far as the file goes; says how many bytes.
    ///
    /// # Errors
    /// Of the system.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;
}

/// A folder.
pub trait Disk: Send + Sync {
    /// Names of the files in it, in any order.
    ///
    /// # Errors
    /// Of the system.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes a file that is not there.
    ///
    /// # Errors
    /// Of the system.
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>>;

    /// Opens a file for reading from its beginning.
    ///
    /// # Errors
    /// Of the system.
    fn open(&self, name: &str) -> io::Result<Box<dyn Input>>;

    /// Gives a file another name, at once: whoever looks sees the old name or the
    /// new one. A file of that name is gone then.
    ///
    /// # Errors
    /// Of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; it may be gone already.
    ///
    /// # Errors
    /// Of the system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the names: what was renamed and removed survives the loss of power
    /// from here on.
    ///
    /// # Errors
    /// Of the system.
    fn sync_names(&self) -> io::Result<()>;

    /// What a file is called, with its folder.
    fn path(&self, name: &str) -> PathBuf;

    /// How files are written, for people: "io_uring, direct".
    fn describe(&self) -> String;
}
