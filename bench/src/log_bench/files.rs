//! The files of a measured log, which are gone at its end.

use crate::disk;
use crate::error::BenchError;
use refrain_launch::leftovers;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of the log's length that files and headers may take beyond it.
const SLACK_PART: u64 = 16;
/// The same at least: files that are begun.
const SLACK_BYTES: u64 = 192 << 20;

/// Number of the next log of this process.
static LOGS: AtomicU64 = AtomicU64::new(0);

/// The names of a log's files; whatever has one is removed when this is dropped.
/// When this process is killed, `refrain clean` knows them by their names.
#[derive(Debug)]
pub struct BenchFiles {
    /// Where they are.
    pub folder: PathBuf,
    /// The beginning of their names.
    pub prefix: String,
    /// The job that their headers name.
    pub job: u64,
    /// The most that they may take.
    pub disk_bytes: u64,
}

impl BenchFiles {
    /// For a log of `log_bytes`, beside a file of the same length.
    ///
    /// # Errors
    /// When the folder has no room for them.
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
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let is_own = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&self.prefix));
            if is_own && let Err(error) = fs::remove_file(entry.path()) {
                eprintln!("cannot remove {}: {error}", entry.path().display());
            }
        }
    }
}
