//! How bytes come into a file.

use crate::buffer::Strip;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskIo {
    /// What is best: io_uring, a thread where there is none, plain writes in
    /// memory (tmpfs).
    #[default]
    Auto,
    /// io_uring, or not at all.
    Uring,
    /// A thread that writes.
    Thread,
    /// Plain writes, while the caller waits.
    Plain,
}

/// Strips under way at once.
pub(super) const UNDER_WAY_MAX: usize = 8;

/// Writes strips of one file, some at once.
pub(super) trait Engine: Send {
    /// Begins to write a strip; waits for another one if too many are under way.
    ///
    /// # Errors
    /// Of this strip, or an earlier one.
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()>;

    /// Waits for all that is under way.
    ///
    /// # Errors
    /// Of any strip.
    fn wait_for_all(&mut self) -> io::Result<()>;
}

/// Writes while the caller waits.
#[derive(Debug)]
pub(super) struct Plain(pub File);

impl Engine for Plain {
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        self.0.write_all_at(&strip.bytes()[..bytes], place)
    }

    fn wait_for_all(&mut self) -> io::Result<()> {
        Ok(())
    }
}
