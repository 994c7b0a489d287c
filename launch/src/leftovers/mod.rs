//! Leftovers: files of a killed job, and their removal.
//!
//! Shared memory is anonymous (memfd) and control sockets have no names, so a job makes files only
//! in the folders of spilled logs, events and checkpoints. Three kinds are searched:
//!
//! - Files of Refrain (the log's segments on disk) are named by [`file_prefix`], in
//!   the spill folder, and are looked for in [`folders`], too:
//!   `refrain-<process id of the launcher>-<its start time>-<anything>`. The
//!   start time (clock ticks since boot) tells a launcher from a later process
//!   with the same id.
//! - Folders of event loggers, of their rings (in `/dev/shm`), and of checkpoints, in the
//!   folder for temporary files, named likewise, with [`EVENTS_SUFFIX`],
//!   [`RINGS_SUFFIX`] or [`CHECKPOINTS_SUFFIX`] at the end.
//! - Segments that libfabric's shm provider leaves in `/dev/shm` (`segments`).

mod segments;

use crate::fencing::Stat;
use core::time::Duration;
use rustix::fs::FlockOperation;
use rustix::process::geteuid;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Prefix of the names of a job's files, for the launcher `process`. `None` when that process does
/// not exist.
pub fn file_prefix(process: u32) -> Option<String> {
    Some(format!("refrain-{process}-{}-", start_time(process)?))
}

/// The folders in which leftovers are searched.
pub fn folders() -> Vec<PathBuf> {
    vec!["/dev/shm".into(), std::env::temp_dir()]
}

/// Suffix of the names of folders that a job's event loggers write to.
pub const EVENTS_SUFFIX: &str = "-events";
/// Suffix of the names of folders for a job's checkpoints.
pub const CHECKPOINTS_SUFFIX: &str = "-checkpoints";

/// Suffix of the names of folders for the rings of a job's event loggers, if the rings are not
/// with the event files.
pub const RINGS_SUFFIX: &str = "-rings";
/// The file that is locked while a folder is in use: by each logger in its own folder, by the
/// launcher in the folders of the job.
pub const LOCK: &str = "lock";
const FOLDERS: [&str; 3] = [EVENTS_SUFFIX, CHECKPOINTS_SUFFIX, RINGS_SUFFIX];

/// Result of [`remove`].
#[derive(Debug, Default)]
pub struct Removal {
    /// Removed files, with their lengths in bytes.
    pub removed: Vec<(PathBuf, u64)>,
    /// Files that cannot be removed.
    pub failed: Vec<(PathBuf, io::Error)>,
}

impl Removal {
    fn note(&mut self, path: PathBuf, bytes: u64, removed: io::Result<()>) {
        match removed {
            Ok(()) => self.removed.push((path, bytes)),
            // Another process has removed the file first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.failed.push((path, error)),
        }
    }
}

/// Removes the files of dead launchers and ranks from `folders`. Touches only regular files and
/// folders of jobs that belong to the calling user and whose owner process has ended.
pub fn remove(folders: &[PathBuf]) -> Removal {
    let launcher_is_dead = |name: &str| {
        owner_of(name).is_some_and(|(process, start)| start_time(process) != Some(start))
    };
    let mut removal = remove_where(folders, |folder, name| {
        launcher_is_dead(name) || segments::is_leftover(folder, name)
    });
    for folder in folders {
        let entries = own_entries(folder, |name| {
            let is_folder = FOLDERS.iter().any(|suffix| name.ends_with(suffix));
            is_folder && launcher_is_dead(name)
        });
        for (path, metadata) in entries {
            if metadata.is_dir() && !is_in_use(&path) {
                // The folders of loggers are one level deep.
                let inner = fs::read_dir(&path).into_iter().flatten().flatten();
                let bytes = inner.map(|entry| bytes_in(&entry.path())).sum::<u64>();
                let bytes = bytes_in(&path) + bytes;
                let removed = fs::remove_dir_all(&path);
                removal.note(path, bytes, removed);
            }
        }
    }
    removal
}

/// Bytes of the files directly in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok().filter(Metadata::is_file));
    files.map(|metadata| metadata.len()).sum()
}

/// Removes the segments of those of these processes that have ended: a launcher calls it for the
/// ranks of its own job.
pub fn remove_segments_of(processes: &[u32]) -> Removal {
    remove_where(&[segments::FOLDER.into()], |folder, name| {
        let owner = segments::owner_of(name);
        owner.is_some_and(|(process, _)| processes.contains(&process))
            && segments::is_leftover(folder, name)
    })
}

/// Removes the files of one launcher, running or not, from a folder: those whose names begin with
/// [`file_prefix`].
pub fn remove_with_prefix(folder: &Path, prefix: &str) -> Removal {
    remove_where(&[folder.to_owned()], |_, name| {
        !prefix.is_empty() && name.starts_with(prefix)
    })
}

fn remove_where(folders: &[PathBuf], is_leftover: impl Fn(&Path, &str) -> bool) -> Removal {
    let mut removal = Removal::default();
    for folder in folders {
        let mut entries = own_entries(folder, |name| is_leftover(folder, name));
        entries.retain(|(_, metadata)| metadata.is_file());
        for (path, metadata) in entries {
            let removed = fs::remove_file(&path);
            removal.note(path, metadata.len(), removed);
        }
    }
    removal
}

/// Entries of this user in `folder` with names that `wanted` accepts.
fn own_entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<(PathBuf, Metadata)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    let mut own: Vec<_> = named
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .filter(|(_, metadata)| metadata.uid() == geteuid().as_raw())
        .collect();
    own.sort_by(|(one, _), (other, _)| one.cmp(other));
    own
}

/// The launcher in a file name: its process id and start time.
fn owner_of(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix("refrain-")?.splitn(3, '-');
    let (process, start, _) = (parts.next()?, parts.next()?, parts.next()?);
    Some((process.parse().ok()?, start.parse().ok()?))
}

/// Age below which a folder without a lock may belong to loggers that are just starting.
const YOUNG: Duration = Duration::from_secs(60);

/// Locks a new folder for as long as the returned file is open.
///
/// # Errors
/// Of the system.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    // The file gets its name only after it is locked.
    let new = folder.join("new-lock");
    let mut options = OpenOptions::new();
    // Otherwise another user could lock it.
    options.create(true).truncate(true).write(true).mode(0o600);
    let lock = options.open(&new)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(new, folder.join(LOCK))?;
    Ok(lock)
}

/// Whether a logger still writes there, or may be about to. It may be of a launcher in another
/// container that shares the folder and whose process id has no meaning here. Each logger locks
/// its own folder, a launcher those of its job.
fn is_in_use(path: &Path) -> bool {
    let inner = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = inner.map(|entry| entry.path()).chain([path.to_owned()]);
    let locks: Vec<_> = folders
        .filter_map(|folder| File::open(folder.join(LOCK)).ok())
        .collect();
    let is_locked = |lock: &File| {
        let locked = rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive);
        locked.is_err()
    };
    let is_young = || {
        let age = fs::metadata(path).and_then(|metadata| metadata.modified());
        age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < YOUNG))
    };
    locks.iter().any(is_locked) || locks.is_empty() && is_young()
}

fn start_time(process: u32) -> Option<u64> {
    Some(Stat::of(process)?.start_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FlockOperation;

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

    #[test]
    fn folders_of_loggers_go_with_their_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("0")).unwrap();
            fs::write(path.join("0").join("events"), "12345").unwrap();
            fs::write(path.join("0").join("lock"), "").unwrap();
            path
        };
        let own = file_prefix(std::process::id()).unwrap();
        let living = make(&format!("{own}7{EVENTS_SUFFIX}"));
        let dead = make(&format!("refrain-4194999-77-7{EVENTS_SUFFIX}"));
        // A folder whose launcher's process id has no meaning here, and whose logger runs.
        let elsewhere = make(&format!("refrain-4194998-77-7{EVENTS_SUFFIX}"));
        let lock = fs::File::open(elsewhere.join("0").join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let removal = remove(&[folder.path().to_owned()]);
        assert_eq!(removal.removed, [(dead, 5)]);
        assert!(elsewhere.join("0").join("events").exists());
        assert!(living.join("0").join("events").exists());
    }

    /// A file in `/dev/shm`, since segments are removed only there.
    struct Segment(PathBuf);

    impl Segment {
        fn of(process: u32, endpoint: &str) -> Self {
            let user = geteuid().as_raw();
            let path = Path::new(segments::FOLDER).join(format!("{process}:{user}:{endpoint}"));
            fs::write(&path, "12345").unwrap();
            Self(path)
        }
    }

    impl Drop for Segment {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn segments_go_when_their_process_is_killed_and_not_before() {
        let mut owner = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let segments = [Segment::of(owner.id(), "0"), Segment::of(owner.id(), "1_7")];
        let stranger = Segment::of(std::process::id(), "0");
        let processes = [owner.id(), std::process::id()];
        assert!(remove_segments_of(&processes).removed.is_empty());
        assert!(segments.iter().all(|segment| segment.0.exists()));

        owner.kill().unwrap();
        owner.wait().unwrap();
        assert!(
            remove_segments_of(&[1]).removed.is_empty(),
            "not of this process"
        );
        let mut expected: Vec<_> = segments.iter().map(|s| (s.0.clone(), 5)).collect();
        expected.sort();
        assert_eq!(remove_segments_of(&processes).removed, expected);
        assert!(stranger.0.exists(), "its process lives");
    }

    #[test]
    fn segments_of_dead_processes_go_with_everything_else() {
        let mut owner = std::process::Command::new("true").spawn().unwrap();
        owner.wait().unwrap();
        let segment = Segment::of(owner.id(), "0");
        let living = Segment::of(std::process::id(), "9");
        remove(&[segments::FOLDER.into()]);
        assert!(!segment.0.exists());
        assert!(living.0.exists());
    }
}

#[cfg(test)]
mod process_tests {
    use super::*;
    use crate::fencing::is_alive;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_lives_until_it_has_ended_reaped_or_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(4_194_999), "above the largest process id");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_alive(child.id()), "it waits for input");
        child.kill().unwrap();
        let id = rustix::process::Pid::from_child(&child);
        waitid(
            WaitId::Pid(id),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(Stat::of(child.id()).unwrap().has_ended());
        assert!(!is_alive(child.id()), "killed, not reaped");
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
