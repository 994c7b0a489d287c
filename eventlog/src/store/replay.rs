//! Reads the contents from the files: when a logger starts, and when a program reads its folder.
//! EL-3

use super::StoreError;
use super::contents::{Contents, FileState};
use super::folder::Folder;
use super::format::{Entries, Entry, FILE_VERSION, FileEnd, FileHeader, HeaderError, PAGE_BYTES};
use super::walk::{Group, Walk, read_header};
use crate::LoggerId;
use crate::acceptor::{Origin, Step};
use std::io;

/// The result of reading the files.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub logger: Option<LoggerId>,
    pub contents: Contents,
    /// Number of the last group.
    pub last_group: u64,
    /// Number for the next file: higher than those of all files.
    pub next_file: u64,
    /// Files that are not valid: removed from the list, or never begun.
    pub leftovers: Vec<u64>,
}

/// Reads all valid files.
///
/// # Errors
/// When one of them cannot be read, is damaged, or is missing.
pub(crate) fn replay(files: &Folder) -> Result<Found, StoreError> {
    // Before the files: a running logger only adds to them.
    let failed = |doing| move |error| StoreError::io(doing, &files.folder(), error);
    let stored = files.watermark();
    let stored = stored.map_err(failed("reading the watermark of"))?;
    let mut numbers = files.files().map_err(failed("listing"))?;
    numbers.sort_unstable();
    let mut replay = Replay {
        files,
        found: Found {
            next_file: numbers.last().map_or(1, |last| last + 1),
            ..Found::default()
        },
    };
    // The newest file lists the other valid ones.
    while let Some(newest) = numbers.pop() {
        if let Some((header, counting)) = replay.newest(newest)? {
            replay.all(&numbers, &header, counting)?;
            break;
        }
        replay.found.leftovers.push(newest);
    }
    // EL-3
    match stored {
        Some(stored) if replay.found.last_group < stored => Err(StoreError::Lost {
            folder: files.folder(),
            found: replay.found.last_group,
            stored,
        }),
        _ => Ok(replay.found),
    }
}

struct Replay<'a> {
    files: &'a Folder,
    found: Found,
}

impl Replay<'_> {
    fn io<T>(&self, file: u64, result: io::Result<T>) -> Result<T, StoreError> {
        self.files.io("reading", file, result)
    }

    fn damaged(&self, file: u64, place: u64, reason: impl Into<String>) -> StoreError {
        self.files.damaged(file, place, reason)
    }

    fn length(&self, file: u64) -> Result<u64, StoreError> {
        self.io(file, self.files.length(file))
    }

    /// The header of a file; `None`: nothing was ever written into it.
    fn header(&self, file: u64) -> Result<Option<FileHeader>, StoreError> {
        match self.io(file, read_header(self.files, file))? {
            Ok(header) if header.file == file => Ok(Some(header)),
            Ok(header) => {
                let reason = format!("its header says that it is file {}", header.file);
                Err(self.damaged(file, 16, reason))
            }
            Err(HeaderError::Version(version)) => Err(StoreError::Version {
                file: self.files.path(file),
                version,
                known: FILE_VERSION,
            }),
            Err(HeaderError::None) => {
                let nothing = FileHeader {
                    logger: 0,
                    file,
                    salt: 0,
                    bytes: 0,
                };
                let end = self.length(file)?;
                let mut walk = Walk::new(self.files, &nothing, PAGE_BYTES, end);
                match self.io(file, walk.is_empty_behind())? {
                    true => Ok(None),
                    false => Err(self.damaged(file, 0, "its header cannot be read")),
                }
            }
        }
    }

    /// Reads the start of the last file: whether it was begun, and which other files are valid.
    fn newest(&mut self, file: u64) -> Result<Option<(FileHeader, Vec<FileEnd>)>, StoreError> {
        let Some(header) = self.header(file)? else {
            return Ok(None);
        };
        let end = self.length(file)?;
        let mut walk = Walk::new(self.files, &header, PAGE_BYTES, end);
        let mut counting = None;
        let mut last_group = 0;
        loop {
            let place = walk.place();
            let Some(group) = self.io(file, walk.next())? else {
                if self.is_torn_end(file, &mut walk, last_group)? {
                    break;
                }
                continue;
            };
            last_group = group.header.number;
            for entry in Entries::new(group.content) {
                let entry = entry.map_err(|reason| self.damaged(file, place, reason))?;
                if let Entry::Files(files) = entry {
                    counting = Some(files);
                }
            }
            if counting.is_none() {
                return Err(self.damaged(file, place, "it does not list the files of the folder"));
            }
        }
        Ok(counting.map(|counting| (header, counting)))
    }

    /// Whether a group is missing here because its write did not complete. One
    /// group is written at a time: if a later one exists, this one was complete.
    fn is_torn_end(
        &self,
        file: u64,
        walk: &mut Walk<'_>,
        last_group: u64,
    ) -> Result<bool, StoreError> {
        let place = walk.place();
        let Some(later) = self.io(file, walk.find_later(last_group))? else {
            return Ok(true);
        };
        // A running logger may have written it since.
        walk.look_again();
        let mut again = Walk::new(self.files, &self.header_again(file)?, place, later);
        match self.io(file, again.next())? {
            Some(_) => Ok(false),
            None => {
                let reason = format!("no group begins here, but one begins at byte {later}");
                Err(self.damaged(file, place, reason))
            }
        }
    }

    fn header_again(&self, file: u64) -> Result<FileHeader, StoreError> {
        let header = self.header(file)?;
        header.ok_or_else(|| self.damaged(file, 0, "its header is missing"))
    }

    fn all(
        &mut self,
        older: &[u64],
        newest: &FileHeader,
        mut counting: Vec<FileEnd>,
    ) -> Result<(), StoreError> {
        self.found.logger = Some(LoggerId(newest.logger));
        counting.sort_unstable_by_key(|file| file.file);
        let counts = |file: &&u64| !counting.iter().any(|other| other.file == **file);
        self.found.leftovers.extend(older.iter().filter(counts));
        for closed in &counting {
            let file = closed.file;
            if !older.contains(&file) {
                return Err(self.damaged(file, 0, "it is not there"));
            }
            let header = self.header(file)?;
            let header = header.ok_or_else(|| self.damaged(file, 0, "it is empty"))?;
            if header.logger != newest.logger {
                return Err(StoreError::OtherLogger {
                    file: self.files.path(file),
                    found: header.logger,
                    wanted: newest.logger,
                });
            }
            let end = self.one(&header, Some(closed.end))?;
            if end != closed.end {
                let reason = format!(
                    "no group begins here, but the file goes on to byte {}",
                    closed.end
                );
                return Err(self.damaged(file, end, reason));
            }
        }
        self.one(newest, None).map(|_| ())
    }

    /// Reads a file's groups up to `end`, or all of them, and returns where they end.
    fn one(&mut self, header: &FileHeader, end: Option<u64>) -> Result<u64, StoreError> {
        let file = header.file;
        self.found.contents.files.insert(file, FileState::default());
        let length = self.length(file)?;
        let limit = end.unwrap_or(length).min(length);
        let mut walk = Walk::new(self.files, header, PAGE_BYTES, limit);
        let files = self.files;
        loop {
            if let Some(group) = files.io("reading", file, walk.next())? {
                self.group(file, &group)?;
            } else if end.is_some() || self.is_torn_end(file, &mut walk, self.found.last_group)? {
                break;
            }
        }
        let end = walk.place();
        if let Some(state) = self.found.contents.files.get_mut(&file) {
            (state.end, state.written_end) = (end, end);
        }
        Ok(end)
    }

    fn group(&mut self, file: u64, group: &Group<'_>) -> Result<(), StoreError> {
        let number = group.header.number;
        let is_first = group.place == PAGE_BYTES;
        let follows = number == self.found.last_group + 1;
        if is_first != group.header.opens_file || number <= self.found.last_group {
            return Err(self.damaged(file, group.place, "the group belongs to another place"));
        }
        if !is_first && !follows {
            return Err(self.damaged(file, group.place, "a group is missing before this one"));
        }
        self.found.last_group = number;
        for entry in Entries::new(group.content) {
            let taken = entry.and_then(|entry| self.entry(file, group.place, entry));
            taken.map_err(|reason| self.damaged(file, group.place, reason))?;
        }
        Ok(())
    }

    fn entry(&mut self, file: u64, place: u64, entry: Entry<'_>) -> Result<(), &'static str> {
        let contents = &mut self.found.contents;
        match entry {
            Entry::Files(_) => {}
            Entry::RankLog { job, rank, log } => {
                let number = contents.find_or_add(job, rank);
                contents.restore(number, log);
            }
            Entry::Batch { job, header, .. } => {
                let number = contents.find_cached(job, header.rank);
                let number = number.ok_or("a batch of a rank that is not registered")?;
                // Same decision as when it was taken; a cut has an entry of its own.
                match contents.rows[number].row.judge(&header, Origin::Replica) {
                    Ok(Step::Take) => contents.put(number, &header, file, place),
                    _ => return Err("a batch that does not continue its log"),
                }
            }
        }
        Ok(())
    }
}
