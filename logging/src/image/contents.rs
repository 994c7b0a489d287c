//! The bytes of files: on disk, or in memory for tests and fuzzing.

use rustix::fs::Advice;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Access to the bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    path: PathBuf,
    bytes: Option<Arc<[u8]>>,
}

/// A file that is open for reading.
#[derive(Debug)]
pub(super) enum Opened {
    File(File),
    Bytes(Arc<[u8]>),
}

impl Contents {
    pub fn of_path(path: PathBuf) -> Self {
        Self { path, bytes: None }
    }

    pub fn of_bytes(name: String, bytes: Vec<u8>) -> Self {
        Self {
            path: name.into(),
            bytes: Some(bytes.into()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the contents are in memory, without a file.
    pub fn in_memory(&self) -> bool {
        self.bytes.is_some()
    }

    pub fn open(&self) -> io::Result<Opened> {
        Ok(match &self.bytes {
            Some(bytes) => Opened::Bytes(Arc::clone(bytes)),
            None => Opened::File(File::open(&self.path)?),
        })
    }
}

impl Opened {
    pub fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads into `to` from `at` on, up to the file's end; returns the number of bytes.
    pub fn read(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => {
                let mut read = 0;
                while read < to.len() {
                    match file.read_at(&mut to[read..], at + read as u64) {
                        Ok(0) => break,
                        Ok(bytes) => read += bytes,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(read)
            }
            Self::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let read = rest.len().min(to.len());
                to[..read].copy_from_slice(&rest[..read]);
                Ok(read)
            }
        }
    }

    /// Announces a read: the system may fetch the bytes meanwhile.
    pub fn will_read(&self, at: u64, bytes: u64) {
        if let Self::File(file) = self {
            // Only a hint: without it the reads take longer.
            let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(bytes), Advice::WillNeed);
        }
    }

    /// Announces scattered reads: disables the system's read-ahead.
    pub fn reads_are_scattered(&self) {
        if let Self::File(file) = self {
            let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
        }
    }
}
