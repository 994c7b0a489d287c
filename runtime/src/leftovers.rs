//! Files that a killed job may leave behind, and their removal.
//!
//! Shared memory is anonymous (memfd) and control sockets have no names, so
//! today a job makes no file at all. Files that later parts need (the log's
//! segments on disk) are named by [`file_prefix`], in `/dev/shm` or the
//! temporary folder, so that this module knows whose they are:
//!
//! `refrain-<process id of the launcher>-<its start time>-<anything>`
//!
//! The start time (clock ticks since boot, field 22 of `/proc/<id>/stat`)
//! tells a launcher from a later process with the same id.

use rustix::process::geteuid;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the names of a job's files begin with, for the launcher `process`.
/// `None` when that process does not exist.
pub fn file_prefix(process: u32) -> Option<String> {
    Some(format!("refrain-{process}-{}-", start_time(process)?))
}

/// The folders that files are looked for in.
pub fn folders() -> Vec<PathBuf> {
    vec!["/dev/shm".into(), std::env::temp_dir()]
}

/// What [`remove`] did.
#[derive(Debug, Default)]
pub struct Removal {
    /// Files that were removed, with their lengths in bytes.
    pub removed: Vec<(PathBuf, u64)>,
    /// Files that could not be.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes the files of dead launchers from `folders`. Touches only regular
/// files of the calling user whose launcher does not run any more.
pub fn remove(folders: &[PathBuf]) -> Removal {
    let mut removal = Removal::default();
    for path in folders.iter().flat_map(|folder| leftovers(folder)) {
        let bytes = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&path) {
            Ok(()) => removal.removed.push((path, bytes)),
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => removal.failed.push((path, error)),
        }
    }
    removal
}

fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let is_leftover = |path: &PathBuf| {
        let owner = path.file_name().and_then(|name| owner_of(name.to_str()?));
        let is_dead = owner.is_some_and(|(process, start)| start_time(process) != Some(start));
        let is_own_file = || {
            fs::symlink_metadata(path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == geteuid().as_raw())
        };
        is_dead && is_own_file()
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_leftover)
        .collect();
    paths.sort();
    paths
}

/// The launcher that a file name speaks of: its process id and start time.
fn owner_of(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix("refrain-")?.splitn(3, '-');
    let (process, start, _) = (parts.next()?, parts.next()?, parts.next()?);
    Some((process.parse().ok()?, start.parse().ok()?))
}

/// When a process was started, in clock ticks since boot.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command (field 2) is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_dead_launchers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "123").unwrap();
            path
        };
        let own = file_prefix(std::process::id()).unwrap();
        let (_, start) = owner_of(&own).unwrap();
        let kept = [
            file(&format!("{own}segment")),
            file("refrain-notes.txt"),
            file("refrain-1-2"),
            file("refrain-x-2-segment"),
            file("other-1-2-segment"),
        ];
        let dead = [
            file("refrain-4194999-77-segment"), // above the largest process id
            file(&format!("refrain-{}-{}-a-b", std::process::id(), start + 1)), // its id was used again
        ];
        let link = folder.path().join("refrain-4194999-77-link");
        std::os::unix::fs::symlink(&kept[0], &link).unwrap();
        let inner = folder.path().join("refrain-4194999-77-folder");
        fs::create_dir(&inner).unwrap();

        let removal = remove(&[folder.path().to_owned(), "/nowhere".into()]);
        let mut expected: Vec<(PathBuf, u64)> = dead.iter().map(|path| (path.clone(), 3)).collect();
        expected.sort();
        assert_eq!(removal.removed, expected);
        assert!(removal.failed.is_empty());
        assert!(kept.iter().all(|path| path.exists()) && inner.exists());
        assert!(
            fs::symlink_metadata(&link).is_ok(),
            "a link is not followed and not taken for a file"
        );
        assert!(
            remove(&[folder.path().to_owned()]).removed.is_empty(),
            "nothing is left to remove"
        );
    }
}
