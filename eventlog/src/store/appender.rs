//! Gathers entries into groups, and writes one group while the next one gathers.

use super::StoreError;
use super::contents::{End, Mark};
use super::folder::OwnFolder;
use super::format::{FileHeader, GROUP_HEADER_BYTES, GroupHeader, LINE_BYTES, PAGE_BYTES};
use refrain_storage::{Ended, Stage};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;

/// Maximum content of a group, except of the first group of a file.
const GROUP_BYTES_MAX: u64 = 1 << 20;
/// Minimum length of a file in bytes.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Groups that are synced share no block with an earlier one: a torn write
/// cannot destroy durable groups.
const BLOCK_BYTES: u64 = 4096;
/// Maximum number of spare buffers, and their maximum length.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 2 << 20;

/// The unit of one write.
#[derive(Debug, Default)]
struct Group {
    number: u64,
    file: u64,
    place: u64,
    /// Space for the header, then content; empty while the write is under way.
    bytes: Vec<u8>,
    content_bytes: u32,
    room_bytes: u32,
    /// Logs that it extends, with their new ends.
    extends: Vec<(usize, End)>,
    /// The file that must be created before this group.
    makes: Option<FileHeader>,
}

impl Group {
    fn has_content(&self) -> bool {
        self.bytes.len() > GROUP_HEADER_BYTES
    }
}

/// Result of a completed group.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    pub file: u64,
    /// End of the group in its file.
    pub end: u64,
    pub extends: &'a [(usize, End)],
    /// Whether it is also synced.
    pub is_durable: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Appender {
    disk: OwnFolder,
    sync: bool,
    logger: u32,
    segment_bytes: u64,
    /// Header of the file that is appended to.
    file: Option<FileHeader>,
    used_bytes: u64,
    next_file: u64,
    gathering: Group,
    waiting: VecDeque<Group>,
    /// The disk owns its bytes until the write has ended.
    under_way: Option<Group>,
    /// Groups for reuse.
    spare: Vec<Group>,
    unwritten_bytes: u64,
    stored: u64,
    /// Files that were written without a sync.
    unsynced: BTreeSet<u64>,
    failed: Option<String>,
}

impl Appender {
    pub fn new(
        disk: OwnFolder,
        sync: bool,
        logger: u32,
        segment_bytes: u64,
        (last_group, next_file): (u64, u64),
    ) -> Self {
        let mut gathering = Group::default();
        gathering.bytes.resize(GROUP_HEADER_BYTES, 0);
        gathering.number = last_group + 1;
        Self {
            disk,
            sync,
            logger,
            segment_bytes: segment_bytes
                .max(SEGMENT_BYTES_MIN)
                .next_multiple_of(BLOCK_BYTES),
            file: None,
            used_bytes: 0,
            next_file,
            gathering,
            waiting: VecDeque::new(),
            under_way: None,
            spare: Vec::new(),
            unwritten_bytes: 0,
            stored: last_group,
            unsynced: BTreeSet::new(),
            failed: None,
        }
    }

    pub fn disk(&self) -> &OwnFolder {
        &self.disk
    }

    pub fn disk_mut(&mut self) -> &mut OwnFolder {
        &mut self.disk
    }

    fn group_bytes_max(&self) -> u64 {
        GROUP_BYTES_MAX.min(self.segment_bytes / 4)
    }

    /// The permanent failure, if there is one.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    pub fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes
    }

    /// Number of the current file.
    pub fn file(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.file)
    }

    /// Bytes used in that file.
    pub fn file_end(&self) -> u64 {
        self.used_bytes
    }

    /// Number of the last group that has content.
    pub fn last_group(&self) -> u64 {
        match self.gathering.has_content() {
            true => self.gathering.number,
            false => self.gathering.number - 1,
        }
    }

    pub fn stored(&self) -> u64 {
        self.stored
    }

    pub fn is_settled(&self) -> bool {
        self.stored == self.last_group()
    }

    /// Whether an entry of that length needs a new file. Seals the
    /// gathering group if the entry does not fit into it.
    pub fn needs_file(&mut self, entry_bytes: usize) -> bool {
        let entry_bytes = entry_bytes as u64;
        let gathered = self.gathering.bytes.len() as u64;
        if self.gathering.has_content() && gathered + entry_bytes > self.group_bytes_max() {
            self.seal();
        }
        let Some(file) = &self.file else { return true };
        let group_bytes = self.gathering.bytes.len() as u64 + entry_bytes + BLOCK_BYTES;
        if self.used_bytes + group_bytes <= file.bytes {
            return false;
        }
        self.seal();
        true
    }

    /// Begins a new file; `content` fills its first group.
    pub fn begin_file(&mut self, content: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(!self.gathering.has_content());
        content(&mut self.gathering.bytes);
        let first = self.gathering.bytes.len() as u64;
        self.unwritten_bytes += first - GROUP_HEADER_BYTES as u64;
        let needed = PAGE_BYTES + first + 4 * self.group_bytes_max();
        let header = FileHeader {
            logger: self.logger,
            file: self.next_file,
            // Clients cannot know the salt.
            salt: RandomState::new().hash_one(self.next_file),
            bytes: self.segment_bytes.max(needed).next_multiple_of(BLOCK_BYTES),
        };
        self.next_file += 1;
        self.used_bytes = PAGE_BYTES;
        self.file = Some(header);
        self.gathering.makes = Some(header);
        self.seal();
    }

    /// Appends an entry, for which there is room; returns the place of its group.
    pub fn append(&mut self, entry: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let before = self.gathering.bytes.len();
        entry(&mut self.gathering.bytes);
        self.unwritten_bytes += (self.gathering.bytes.len() - before) as u64;
        self.used_bytes
    }

    /// Records that the gathering group extends a log to this end. `mark` is the log's own.
    pub fn extend(&mut self, row: usize, mark: &mut Mark, end: End) {
        let extends = &mut self.gathering.extends;
        if mark.group != self.gathering.number {
            mark.group = self.gathering.number;
            mark.index = extends.len();
            extends.push((row, end));
        }
        extends[mark.index].1 = end;
    }

    /// Closes the gathering group.
    fn seal(&mut self) {
        if !self.gathering.has_content() {
            return;
        }
        let file = self.file.expect("a file is begun before an append");
        let mut next = self.spare.pop().unwrap_or_default();
        next.bytes.clear();
        next.bytes.resize(GROUP_HEADER_BYTES, 0);
        next.extends.clear();
        next.makes = None;
        next.number = self.gathering.number + 1;
        let mut group = core::mem::replace(&mut self.gathering, next);
        let content_bytes = (group.bytes.len() - GROUP_HEADER_BYTES) as u32;
        let step = if self.sync { BLOCK_BYTES } else { LINE_BYTES };
        let room_bytes = (group.bytes.len() as u64).next_multiple_of(step);
        group.bytes.resize(room_bytes as usize, 0);
        let header = GroupHeader {
            number: group.number,
            content_bytes,
            room_bytes: room_bytes as u32,
            opens_file: group.makes.is_some(),
        };
        header.seal(file.salt, &mut group.bytes);
        (group.content_bytes, group.room_bytes) = (header.content_bytes, header.room_bytes);
        group.file = file.file;
        group.place = self.used_bytes;
        self.used_bytes += room_bytes;
        self.waiting.push_back(group);
    }

    /// Begins to write waiting groups, and handles completed ones; returns whether any
    /// has completed. With `wait`, until all have.
    pub fn progress(
        &mut self,
        wait: bool,
        each: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<bool, StoreError> {
        let mut has_ended = false;
        loop {
            self.check()?;
            if self.under_way.is_none() && !self.start()? {
                return Ok(has_ended);
            }
            let ended = self.disk.take_ended(wait);
            match ended.map_err(|error| self.fail("waiting for a write", error))? {
                None if wait => {}
                None => return Ok(has_ended),
                Some(Ended::Written) => self.tell(false, each),
                Some(Ended::Done { memory, result }) => self.done(memory, result, each)?,
            }
            has_ended = true;
        }
    }

    /// Returns the permanent failure again, if there is one.
    pub fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            None => Ok(()),
            Some(what) => Err(StoreError::Io {
                attempted: "writing events, after an error".into(),
                error: io::Error::other(what.clone()),
            }),
        }
    }

    fn fail(&mut self, doing: &str, error: io::Error) -> StoreError {
        let file = self.under_way.as_ref().map(|group| group.file);
        let folder = &self.disk.folder;
        let path = file.map_or_else(|| folder.folder(), |file| folder.path(file));
        let attempted = format!("{doing} {}", path.display());
        self.failed = Some(format!("{attempted}: {error}"));
        StoreError::Io { attempted, error }
    }

    fn start(&mut self) -> Result<bool, StoreError> {
        if self.waiting.is_empty() {
            self.seal();
        }
        let Some(mut group) = self.waiting.pop_front() else {
            return Ok(false);
        };
        if let Some(header) = group.makes {
            let page = header.encode();
            let made = self
                .disk
                .create(header.file, header.bytes, &page, self.sync);
            if let Err(error) = made {
                return Err(self.refused(group, "making", error));
            }
            group.makes = None;
        }
        if !self.sync {
            self.unsynced.insert(group.file);
        }
        let bytes = core::mem::take(&mut group.bytes);
        self.disk.begin(group.file, group.place, bytes, self.sync);
        self.under_way = Some(group);
        Ok(true)
    }

    /// Handles a failed write: the group waits for room, or the store fails permanently.
    fn refused(&mut self, group: Group, doing: &str, error: io::Error) -> StoreError {
        if is_lack_of_room(&error) {
            let path = self.disk.folder.path(group.file);
            self.waiting.push_front(group);
            let attempted = format!("{doing} {}", path.display());
            return StoreError::NoRoom { attempted, error };
        }
        self.under_way = Some(group);
        self.fail(doing, error)
    }

    fn tell(&self, is_durable: bool, each: &mut dyn FnMut(&Progress<'_>)) {
        if let Some(group) = &self.under_way {
            each(&Progress {
                file: group.file,
                end: group.place + u64::from(group.room_bytes),
                extends: &group.extends,
                is_durable,
            });
        }
    }

    fn done(
        &mut self,
        bytes: Vec<u8>,
        result: Result<(), (Stage, io::Error)>,
        each: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), StoreError> {
        match result {
            Ok(()) => {
                // Before anything in it is acknowledged. If this fails, a restart
                // detects fewer losses. EL-3
                if let Some(group) = &self.under_way {
                    let _ = self.disk.set_watermark(group.number);
                }
                self.tell(self.sync, each);
            }
            Err((stage, error)) => {
                let Some(mut group) = self.under_way.take() else {
                    return Ok(());
                };
                group.bytes = bytes;
                if stage == Stage::Transfer {
                    return Err(self.refused(group, "writing", error));
                }
                // The kernel may now count its pages as clean though they are not on the disk: a
                // restart must not find the group in memory and take it for durable.
                let nothing = [0; GROUP_HEADER_BYTES];
                let _ = self.disk.overwrite(group.file, group.place, &nothing);
                self.under_way = Some(group);
                return Err(self.fail("syncing", error));
            }
        }
        if let Some(mut group) = self.under_way.take() {
            self.stored = group.number;
            self.unwritten_bytes -= u64::from(group.content_bytes);
            group.bytes = bytes;
            if self.spare.len() < SPARE_MAX && group.bytes.capacity() <= SPARE_BYTES_MAX {
                self.spare.push(group);
            }
        }
        Ok(())
    }

    /// Syncs what was written without a sync.
    pub fn sync_all(&mut self) -> Result<(), StoreError> {
        while let Some(&file) = self.unsynced.first() {
            if let Err(error) = self.disk.sync(file) {
                return Err(self.fail("syncing", error));
            }
            self.unsynced.remove(&file);
        }
        Ok(())
    }

    /// Forgets a removed file, which needs no sync.
    pub fn forget(&mut self, file: u64) {
        self.unsynced.remove(&file);
    }
}

fn is_lack_of_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
