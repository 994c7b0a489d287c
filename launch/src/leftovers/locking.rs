//! Locks on the folders of a job: what is not locked by anybody is left over.

use super::LOCK;
use core::time::Duration;
use rustix::fs::FlockOperation;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A folder without any lock may be of loggers that start just now.
const YOUNG: Duration = Duration::from_secs(60);

/// Locks a folder that was just made, as long as the file is open.
///
/// # Errors
/// Of the system.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    // Its name is there only when it is locked.
    let new = folder.join("new-lock");
    let mut options = OpenOptions::new();
    // Or another user could lock it.
    options.create(true).truncate(true).write(true).mode(0o600);
    let lock = options.open(&new)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(new, folder.join(LOCK))?;
    Ok(lock)
}

/// Whether a logger still writes there, or may be about to: that of a launcher
/// in another container that shares the folder, whose process id means nothing
/// here. Each logger locks its own folder, a launcher those of rings and checkpoints.
pub(super) fn is_in_use(path: &Path) -> bool {
    let inner = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = inner.map(|entry| entry.path()).chain([path.to_owned()]);
    let locks: Vec<_> = folders
        .filter_map(|folder| File::open(folder.join(LOCK)).ok())
        .collect();
    let is_held = |lock: &File| {
        let locked = rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive);
        locked.is_err()
    };
    let is_young = || {
        let age = fs::metadata(path).and_then(|metadata| metadata.modified());
        age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < YOUNG))
    };
    locks.iter().any(is_held) || locks.is_empty() && is_young()
}
