//! Folders of a job, and the prefix of the names of its files.

use crate::leftovers;
use refrain_job::JobError;
use refrain_job::stderr::report;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Prefix of the names of a job's files and folders; the job's launcher or agent is this process.
///
/// # Errors
/// [`JobError::Config`]: `/proc` is missing.
pub fn prefix(job: u64) -> Result<String, JobError> {
    let launcher = leftovers::file_prefix(std::process::id()).ok_or_else(|| {
        JobError::Config("/proc is missing, which names of a job's files need: mount it".into())
    })?;
    Ok(format!("{launcher}{job:016x}"))
}

/// The absolute path of a folder that `option` names.
///
/// # Errors
/// [`JobError::Config`]: it does not exist.
pub fn existing(option: &str, path: &Path) -> Result<PathBuf, JobError> {
    let wrong = |why: String| JobError::Config(format!("{option} {}: {why}", path.display()));
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(wrong("not a folder".into())),
        Err(error) => Err(wrong(format!("{error}: create the folder"))),
    }
}

/// A folder of a job. Dropping it removes the folder, unless it is kept.
#[derive(Debug)]
pub struct JobFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// `None`: the folder is kept. The launcher holds the lock, since `refrain clean` in another
    /// container does not see this process.
    lock: Option<File>,
}

impl JobFolder {
    /// A folder that is kept after the job; created with its parents if missing.
    ///
    /// # Errors
    /// Of the system.
    pub fn kept(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        Ok(Self { path, lock: None })
    }

    /// A new folder in `parent` for `content`; the user can name another folder with `option`.
    ///
    /// # Errors
    /// [`JobError::Config`]: it cannot be created.
    pub fn temporary(
        parent: &Path,
        job: u64,
        suffix: &str,
        (content, option): (&str, &str),
    ) -> Result<Self, JobError> {
        let path = parent.join(prefix(job)? + suffix);
        let made = DirBuilder::new().mode(0o700).create(&path);
        let locked = made.and_then(|()| {
            leftovers::lock(&path).inspect_err(|_| {
                // The folder is empty; if it stays, `refrain clean` removes it.
                let _ = fs::remove_dir_all(&path);
            })
        });
        let lock = locked.map_err(|error| {
            JobError::Config(format!(
                "the folder {} of {content} cannot be created: {error}: name one with {option}",
                path.display()
            ))
        })?;
        Ok(Self {
            path,
            lock: Some(lock),
        })
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        if self.lock.is_some()
            && let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            let path = self.path.display();
            report(format_args!("{path} cannot be removed: {error}"));
        }
    }
}
