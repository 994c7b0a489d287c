//! Gathers entries into groups, and writes one group while the next gathers.

use super::StoreError;
use super::contents::{End, Mark};
use super::folder::OwnFolder;
use super::format::{FileHeader, GROUP_HEADER_BYTES, GroupHeader, LINE_BYTES, PAGE_BYTES};
use refrain_storage::{Ended, Stage};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;

/// Content of a group, at most; but for the first of a file.
const GROUP_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file, at least.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Groups that are synced share no block with an earlier one: a torn write
/// cannot take what was durable.
const BLOCK_BYTES: u64 = 4096;
/// Buffers that are kept to be used again, and how large they may be.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 2 << 20;

/// What one write writes.
#[derive(Debug, Default)]
struct Group {
    number: u64,
    file: u64,
    place: u64,
    /// Room for the header, then content; elsewhere while it is under way.
    bytes: Vec<u8>,
    content_bytes: u32,
    room_bytes: u32,
    /// Rows that it extends, and how far.
    extends: Vec<(usize, End)>,
    /// The file has to be made before it.
    makes: Option<FileHeader>,
}

impl Group {
    fn has_content(&self) -> bool {
        self.bytes.len() > GROUP_HEADER_BYTES
    }
}

/// A group is written, or more.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    pub file: u64,
    /// Where it ends.
    pub end: u64,
    pub extends: &'a [(usize, End)],
    /// And synced.
    pub is_durable: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Appender {
    disk: OwnFolder,
    sync: bool,
    logger: u32,
    segment_bytes: u64,
    /// Number and salt of the file that is appended to, and how much of it is
    /// taken, of how much.
    file: Option<FileHeader>,
    used_bytes: u64,
    next_file: u64,
    gathering: Group,
    waiting: VecDeque<Group>,
    /// Its bytes are the disk's until it has ended.
    under_way: Option<Group>,
    /// Used again.
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

    /// Number of the file that is appended to.
    pub fn file(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.file)
    }

    /// Bytes of that file that are taken.
    pub fn file_end(&self) -> u64 {
        self.used_bytes
    }

    /// Number of the last group that has anything in it.
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

    /// Whether an entry of that many bytes needs a new file before it. Seals the
    /// group that gathers where the entry does not fit into that.
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

    /// Begins a new file, with this as the content of its first group.
    pub fn begin_file(&mut self, content: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(!self.gathering.has_content());
        content(&mut self.gathering.bytes);
        let first = self.gathering.bytes.len() as u64;
        self.unwritten_bytes += first - GROUP_HEADER_BYTES as u64;
        let needed = PAGE_BYTES + first + 4 * self.group_bytes_max();
        let header = FileHeader {
            logger: self.logger,
            file: self.next_file,
            // No client can know it.
            salt: RandomState::new().hash_one(self.next_file),
            bytes: self.segment_bytes.max(needed).next_multiple_of(BLOCK_BYTES),
        };
        self.next_file += 1;
        self.used_bytes = PAGE_BYTES;
        self.file = Some(header);
        self.gathering.makes = Some(header);
        self.seal();
    }

    /// Appends an entry, for which there is room, and says at which place
    /// the group begins that it is part of.
    pub fn append(&mut self, entry: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let before = self.gathering.bytes.len();
        entry(&mut self.gathering.bytes);
        self.unwritten_bytes += (self.gathering.bytes.len() - before) as u64;
        self.used_bytes
    }

    /// The group that gathers extends this log up to there. `mark` is the log's own.
    pub fn extend(&mut self, row: usize, mark: &mut Mark, end: End) {
        let extends = &mut self.gathering.extends;
        if mark.group != self.gathering.number {
            mark.group = self.gathering.number;
            mark.index = extends.len();
            extends.push((row, end));
        }
        extends[mark.index].1 = end;
    }

    /// Closes the group that gathers.
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

    /// Begins to write what waits, and takes in what has ended; returns whether anything
    /// has. With `wait`, until everything has.
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

    /// What went wrong for good, again.
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

    /// A group could not be written: it waits for room, or that was all.
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
                // Before anything of it is acknowledged. Where that cannot be said, a
                // restart notices less. EL-3
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
                // Its pages may count as clean now without being on the disk: a
                // restart must not find them in memory and take them for durable.
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

    /// A file that is removed needs no sync.
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
