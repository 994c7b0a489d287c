//! The files of a measured log, which are gone at its end.

use super::LogBenchError;
use crate::disk;
use refrain_launch::leftovers;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of the log's length that files and headers may take beyond it.
const SLACK_PART: u64 = 16;
/// The same at least: files that are begun.
const SLACK_BYTES: u64 = 192 << 20;

/// Tells the logs of this process apart.
static LOGS: AtomicU64 = AtomicU64::new(0);

/// The names of a log's files; whatever has one is removed when this is dropped.
/// When this process is killed, `refrain clean` knows them by their names.
#[derive(Debug)]
pub struct BenchFiles {
    folder: PathBuf,
    prefix: String,
    job: u64,
    disk_bytes: u64,
}

impl BenchFiles {
    /// For a log of `log_bytes`, beside a file of the same length.
    ///
    /// # Errors
    /// When the folder has no room for them.
    pub fn new(folder: &Path, log_bytes: u64) -> Result<Self, LogBenchError> {
        let disk_bytes = log_bytes + (log_bytes / SLACK_PART).max(SLACK_BYTES);
        let needed_bytes = disk_bytes.saturating_add(log_bytes);
        let free_bytes = disk::free_bytes(folder)?;
        if needed_bytes > free_bytes {
            return Err(LogBenchError::Room {
                folder: folder.into(),
                needed_bytes,
                free_bytes,
            });
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

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What their names begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The job that their headers name.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// What they may take.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
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
