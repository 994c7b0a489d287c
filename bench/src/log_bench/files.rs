//! The files of a measured log, which are removed at its end.

use crate::disk;
use crate::error::BenchError;
use refrain_launch::leftovers;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Space for files and headers beyond the log's length, as a fraction of that length.
const SLACK_PART: u64 = 16;
/// Minimum of that space: files that are begun.
const SLACK_BYTES: u64 = 192 << 20;

/// Number of the next log of this process.
static LOGS: AtomicU64 = AtomicU64::new(0);

/// The names of a log's files. Dropping it removes the files. If this process is killed, `refrain
/// clean` recognises the files by their names.
#[derive(Debug)]
pub struct BenchFiles {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Prefix of their names.
    pub prefix: String,
    /// The job number in their headers.
    pub job: u64,
    /// Maximum number of bytes of the files.
    pub disk_bytes: u64,
}

impl BenchFiles {
    /// Names for a log of `log_bytes`, with a file of the same length for the disk alone.
    ///
    /// # Errors
    /// The folder does not have enough space.
    pub fn new(folder: &Path, log_bytes: u64) -> Result<Self, BenchError> {
        let disk_bytes = log_bytes + (log_bytes / SLACK_PART).max(SLACK_BYTES);
        let needed_bytes = disk_bytes.saturating_add(log_bytes);
        let free_bytes = disk::free_bytes(folder)?;
        if needed_bytes > free_bytes {
            let (needed, free) = (needed_bytes >> 20, free_bytes >> 20);
            let folder = folder.display();
            return Err(BenchError::option(
                "--size",
                format!("{needed} MiB are needed in {folder}, {free} MiB are free"),
                "lower --size: more than twice as much must be free",
            ));
        }
        let process = std::process::id();
        let number = LOGS.fetch_add(1, Ordering::Relaxed);
        let owner =
            leftovers::file_prefix(process).unwrap_or_else(|| format!("refrain-{process}-0-"));
        Ok(Self {
            folder: folder.into(),
            prefix: format!("{owner}b{number}-"),
            job: u64::from(process) << 32 | number,
            disk_bytes,
        })
    }
}

impl Drop for BenchFiles {
    fn drop(&mut self) {
        for (path, error) in leftovers::remove_with_prefix(&self.folder, &self.prefix).failed {
            eprintln!("cannot remove {}: {error}", path.display());
        }
    }
}
