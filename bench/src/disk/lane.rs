//! One rank's file.

use super::{BLOCK_BYTES, DiskError};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::path::Path;

/// How a file is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Past the page cache, where the file system can.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// A preallocated file without a name.
#[derive(Debug)]
pub struct Lane {
    file: File,
    blocks: u64,
    direct: bool,
}

impl Lane {
    /// A file of `bytes` (rounded down to whole blocks, at least one) in `folder`.
    ///
    /// # Errors
    /// When the folder cannot hold it.
    pub fn create(folder: &Path, bytes: u64, way: Way) -> Result<Self, DiskError> {
        let system = |attempted| DiskError::system(attempted, folder);
        let file = tempfile::tempfile_in(folder).map_err(system("cannot make a file"))?;
        let blocks = (bytes / BLOCK_BYTES as u64).max(1);
        match fallocate(
            &file,
            FallocateFlags::empty(),
            0,
            blocks * BLOCK_BYTES as u64,
        ) {
            // Not every file system can.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(system("cannot take room")(error.into())),
        }
        let go_direct = || {
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags | OFlags::DIRECT)
        };
        let direct = way == Way::Direct && go_direct().is_ok();
        Ok(Self {
            file,
            blocks,
            direct,
        })
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Its length in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether it goes past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}
