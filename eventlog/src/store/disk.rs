//! What a store needs of the world: a folder of numbered files, and one write
//! under way at a time.

use core::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Looks at the files.
pub trait ReadFiles: fmt::Debug {
    /// Numbers of the files that are there, in any order.
    ///
    /// # Errors
    /// Of the system.
    fn files(&self) -> io::Result<Vec<u64>>;

    /// Bytes of a file.
    ///
    /// # Errors
    /// Of the system.
    fn length(&self, file: u64) -> io::Result<u64>;

    /// Reads at a place, as far as the file goes; says how many bytes.
    ///
    /// # Errors
    /// Of the system.
    fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Number of the last group that was stored, as a file of its own says; `None`:
    /// there is none.
    ///
    /// # Errors
    /// Of the system, or when the file is damaged.
    fn watermark(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// What a file is called.
    fn path(&self, file: u64) -> PathBuf;

    /// What the folder is called.
    fn folder(&self) -> PathBuf;
}

/// Something to be written.
#[derive(Debug)]
pub struct Write {
    /// In which file.
    pub file: u64,
    /// Where.
    pub place: u64,
    /// What.
    pub bytes: Vec<u8>,
    /// Whether the file's data are to be synced after it.
    pub sync: bool,
}

/// What a write failed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Writing: nothing is known of what is there now.
    Write,
    /// Syncing: whatever was written and not synced counts as lost.
    Sync,
}

/// Of the write under way.
#[derive(Debug)]
pub enum Ended {
    /// It is written; the sync is under way. Only where a sync was asked for.
    Written,
    /// It is over.
    Done {
        /// What was written, to be used again.
        bytes: Vec<u8>,
        /// How it went.
        result: Result<(), (Stage, io::Error)>,
    },
}

/// Changes the files.
pub trait Disk: ReadFiles + Send {
    /// Makes a file of that many bytes which begins with `header` and goes on
    /// with zeros; takes the room for all of it if that goes. With `sync`, no
    /// loss of power makes it vanish from here on. Where it fails, no such file
    /// is left.
    ///
    /// # Errors
    /// Of the system.
    fn create(&mut self, file: u64, bytes: u64, header: &[u8], sync: bool) -> io::Result<()>;

    /// Syncs a file and its name.
    ///
    /// # Errors
    /// Of the system.
    fn sync(&mut self, file: u64) -> io::Result<()>;

    /// Overwrites bytes at once, without a sync: to take something back.
    ///
    /// # Errors
    /// Of the system.
    fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives back the room behind so many bytes.
    ///
    /// # Errors
    /// Of the system.
    fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()>;

    /// Removes a file. With `sync`, no loss of power brings it back.
    ///
    /// # Errors
    /// Of the system.
    fn remove(&mut self, file: u64, sync: bool) -> io::Result<()>;

    /// Says that groups up to this one are stored. Without a sync: the loss of power
    /// may leave an earlier one.
    ///
    /// # Errors
    /// Of the system.
    fn set_watermark(&mut self, group: u64) -> io::Result<()>;

    /// Begins a write; only when none is under way.
    fn begin(&mut self, write: Write);

    /// What has become of the write under way; with `wait`, waits for news.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>>;

    /// Readable when there is news; `None` if there always is right after
    /// [`Disk::begin`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// For people: "io_uring".
    fn name(&self) -> String;
}
