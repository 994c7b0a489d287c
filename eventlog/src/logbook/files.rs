//! Decides when a logbook begins and removes files.

use super::Logbook;
use crate::store::StoreError;
use crate::store::contents::{Contents, FileState, Tracked};
use crate::store::folder::OwnFolder;
use crate::store::format::{FileEnd, append_files, append_rank_log, files_entry_bytes};

impl Logbook {
    /// Makes room for an entry. Begins a new file if needed, which starts with the
    /// descriptions of all logs.
    pub(super) fn make_room(&mut self, entry_bytes: usize) {
        if !self.appender.needs_file(entry_bytes) {
            return;
        }
        if let Some(file) = self.appender.file()
            && let Some(state) = self.contents.files.get_mut(&file)
        {
            state.end = self.appender.file_end();
        }
        let dead = self.take_dead_files(None);
        let Contents { rows, files, .. } = &self.contents;
        self.appender.begin_file(|group| {
            append_files(group, files.iter().map(file_end));
            for Tracked { job, rank, row, .. } in rows {
                append_rank_log(group, *job, *rank, row);
            }
        });
        let file = self.current_file();
        self.contents.files.insert(file, FileState::default());
        self.remove_later(dead);
    }

    /// Removes files once what was appended until now is stored.
    fn remove_later(&mut self, files: Vec<u64>) {
        let ticket = self.appender.last_group();
        let removals = files.into_iter().map(|file| (ticket, file));
        self.removals.extend(removals);
    }

    /// Takes the files, except `current`, that hold no part of a log.
    fn take_dead_files(&mut self, current: Option<u64>) -> Vec<u64> {
        let files = self.contents.files.iter();
        let dead = files.filter(|(file, state)| state.parts == 0 && Some(**file) != current);
        let dead: Vec<u64> = dead.map(|(file, _)| *file).collect();
        for file in &dead {
            self.contents.files.remove(file);
        }
        dead
    }

    /// Removes files that hold no part of a log. GC-1
    pub(super) fn drop_files(&mut self) {
        let Some(current) = self.appender.file() else {
            // The next file's list of files omits them.
            return;
        };
        let others = self.contents.files.len();
        self.make_room(files_entry_bytes(others));
        // That may have begun a new file.
        let current = self.appender.file().unwrap_or(current);
        let dead = self.take_dead_files(Some(current));
        if dead.is_empty() {
            return;
        }
        let files = self.contents.files.iter();
        let others = files.filter(|(file, _)| **file != current);
        let others = others.map(file_end);
        self.appender.append(|group| append_files(group, others));
        self.remove_later(dead);
    }

    /// Removes files that no restart needs.
    pub(super) fn remove_files(&mut self) {
        let stored = self.appender.stored();
        let appender = &mut self.appender;
        self.removals.retain(|&(ticket, file)| {
            if ticket > stored {
                return true;
            }
            appender.forget(file);
            // If that fails, the next start tries again.
            let _ = appender.disk_mut().remove(file, false);
            false
        });
    }
}

fn file_end((&file, state): (&u64, &FileState)) -> FileEnd {
    let end = state.end;
    FileEnd { file, end }
}

/// Makes the files that were found safe to continue with.
pub(super) fn prepare(
    disk: &mut OwnFolder,
    contents: &Contents,
    leftovers: &[u64],
    sync: bool,
) -> Result<(), StoreError> {
    if sync {
        // The files' contents may be in memory only, and count as durable from now
        // on, including the list of files that omits the leftovers.
        for &file in contents.files.keys() {
            let synced = disk.sync(file);
            disk.folder.io("syncing", file, synced)?;
        }
    }
    // A failure here only wastes room.
    if let Some((&last, state)) = contents.files.last_key_value() {
        let _ = disk.shorten(last, state.end);
    }
    for &file in leftovers {
        let _ = disk.remove(file, sync);
    }
    Ok(())
}
