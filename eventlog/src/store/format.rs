//! The bytes of a file; docs/formats/event-files.md gives the reasons.
//!
//! A page with the file's header, then consecutive groups, each at a multiple of
//! [`LINE_BYTES`]; the rest is 0. A group is the unit of one
//! write: it is read wholly or not at all (EL-2). Its content is entries.

use crate::acceptor::{Life, RankLog};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};
use refrain_ring::{Clock, Incarnation, Rank};

/// Version of this format. A reader refuses every other version.
pub(crate) const FILE_VERSION: u32 = 2;
/// Bytes before the first group.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Groups begin at multiples of this.
pub(crate) const LINE_BYTES: u64 = 64;
/// Bytes before a group's content.
pub(crate) const GROUP_HEADER_BYTES: usize = 32;
/// Bytes before an entry's body.
pub(crate) const ENTRY_HEADER_BYTES: usize = 16;
/// Maximum length of the entry of a batch in bytes.
pub(crate) const BATCH_ENTRY_BYTES_MAX: usize = ENTRY_HEADER_BYTES + BATCH_BYTES_MAX;

const FILE_MAGIC: [u8; 8] = *b"rfrnevts";
const FILE_HEADER_BYTES: usize = 48;
const GROUP_MAGIC: [u8; 4] = *b"grup";
const ROW_BYTES: usize = 48;
const LIFE_BYTES: usize = 16;
const FILE_END_BYTES: usize = 16;

const KIND_BATCH: u8 = 1;
const KIND_ROW: u8 = 2;
const KIND_FILES: u8 = 3;

/// First bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub logger: u32,
    pub file: u64,
    /// Included in the checksums of the file's groups: bytes that clients wrote into
    /// their batches, or that another file had in this place, are not a valid group.
    pub salt: u64,
    /// Length of the file when it was created.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The header is missing or torn.
    None,
    /// The header is of another version.
    Version(u32),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

impl FileHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_BYTES as usize);
        page.extend(FILE_MAGIC);
        page.extend(FILE_VERSION.to_le_bytes());
        page.extend(self.logger.to_le_bytes());
        page.extend(self.file.to_le_bytes());
        page.extend(self.salt.to_le_bytes());
        page.extend(self.bytes.to_le_bytes());
        page.extend([0; 4]);
        page.extend(crc32fast::hash(&page).to_le_bytes());
        debug_assert_eq!(page.len(), FILE_HEADER_BYTES);
        page.resize(PAGE_BYTES as usize, 0);
        page
    }

    pub fn read(page: &[u8]) -> Result<Self, HeaderError> {
        let header: &[u8; FILE_HEADER_BYTES] = page.first_chunk().ok_or(HeaderError::None)?;
        if header[..8] != FILE_MAGIC {
            return Err(HeaderError::None);
        }
        let version = u32_at(header, 8);
        if version != FILE_VERSION {
            return Err(HeaderError::Version(version));
        }
        let (said, checksum) = header.split_at(FILE_HEADER_BYTES - 4);
        if crc32fast::hash(said) != u32_at(checksum, 0) {
            return Err(HeaderError::None);
        }
        Ok(Self {
            logger: u32_at(header, 12),
            file: u64_at(header, 16),
            salt: u64_at(header, 24),
            bytes: u64_at(header, 32),
        })
    }
}

/// First bytes of a group:
///
/// | bytes | field |
/// |---|---|
/// | 0..4 | CRC-32 of the file's salt and bytes 4 to the end of the content |
/// | 4..8 | magic |
/// | 8..16 | number of the group, over all files |
/// | 16..20 | bytes of content |
/// | 20..24 | bytes to the next group |
/// | 24..28 | 1: the first of its file, which describes the logs of all ranks; else 0 |
/// | 28..32 | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub number: u64,
    pub content_bytes: u32,
    pub room_bytes: u32,
    pub opens_file: bool,
}

fn group_checksum(salt: u64, behind_checksum: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(behind_checksum);
    hasher.finalize()
}

impl GroupHeader {
    /// Writes the header into the room before the content.
    pub fn seal(&self, salt: u64, group: &mut [u8]) {
        let group = &mut group[..GROUP_HEADER_BYTES + self.content_bytes as usize];
        group[4..8].copy_from_slice(&GROUP_MAGIC);
        group[8..16].copy_from_slice(&self.number.to_le_bytes());
        group[16..20].copy_from_slice(&self.content_bytes.to_le_bytes());
        group[20..24].copy_from_slice(&self.room_bytes.to_le_bytes());
        group[24..28].copy_from_slice(&u32::from(self.opens_file).to_le_bytes());
        group[28..32].fill(0);
        let checksum = group_checksum(salt, &group[4..]);
        group[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The header of a possible group; the checksum is not checked.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; GROUP_HEADER_BYTES] = bytes.first_chunk()?;
        let read = Self {
            number: u64_at(header, 8),
            content_bytes: u32_at(header, 16),
            room_bytes: u32_at(header, 20),
            opens_file: u32_at(header, 24) == 1,
        };
        let used = GROUP_HEADER_BYTES as u64 + u64::from(read.content_bytes);
        let is_sane = header[4..8] == GROUP_MAGIC
            && u64::from(read.room_bytes) >= used
            && u64::from(read.room_bytes).is_multiple_of(LINE_BYTES);
        is_sane.then_some(read)
    }

    /// Whether the bytes are those that were sealed.
    pub fn fits(&self, salt: u64, group: &[u8]) -> bool {
        let used = GROUP_HEADER_BYTES + self.content_bytes as usize;
        let Some(group) = group.get(..used) else {
            return false;
        };
        u32_at(group, 0) == group_checksum(salt, &group[4..])
    }
}

/// A valid file, and the end of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileEnd {
    pub file: u64,
    pub end: u64,
}

/// An entry of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A batch that was taken.
    Batch {
        job: u64,
        header: BatchHeader,
        bytes: &'a [u8],
    },
    /// New description of a rank's log: after a hello, a cut, a trim.
    RankLog { job: u64, rank: Rank, log: RankLog },
    /// The list of valid files besides this one.
    Files(Vec<FileEnd>),
}

fn append_entry(group: &mut Vec<u8>, kind: u8, job: u64, body: impl FnOnce(&mut Vec<u8>)) {
    let start = group.len();
    group.extend([0; ENTRY_HEADER_BYTES]);
    body(group);
    let body_bytes = (group.len() - start - ENTRY_HEADER_BYTES) as u32;
    group.resize(group.len().next_multiple_of(8), 0);
    group[start..start + 4].copy_from_slice(&body_bytes.to_le_bytes());
    group[start + 4] = kind;
    group[start + 8..start + 16].copy_from_slice(&job.to_le_bytes());
}

pub(crate) fn append_batch(group: &mut Vec<u8>, job: u64, batch: &[u8]) {
    append_entry(group, KIND_BATCH, job, |group| {
        group.extend_from_slice(batch)
    });
}

pub(crate) fn append_rank_log(group: &mut Vec<u8>, job: u64, rank: Rank, row: &RankLog) {
    append_entry(group, KIND_ROW, job, |group| {
        group.extend(rank.0.to_le_bytes());
        group.extend(row.incarnation.0.to_le_bytes());
        for word in [
            row.first.0,
            row.clock_before.0,
            row.end.0,
            row.last_clock.0,
            row.trimmed.0,
        ] {
            group.extend(word.to_le_bytes());
        }
        for life in &row.lives {
            group.extend(u64::from(life.incarnation.0).to_le_bytes());
            group.extend(life.start.0.to_le_bytes());
        }
    });
}

/// Bytes of the entry of a log.
pub(crate) fn log_entry_bytes(row: &RankLog) -> usize {
    ENTRY_HEADER_BYTES + ROW_BYTES + LIFE_BYTES * row.lives.len()
}

/// Bytes of the entry that lists `files` files.
pub(crate) fn files_entry_bytes(files: usize) -> usize {
    ENTRY_HEADER_BYTES + FILE_END_BYTES * files
}

pub(crate) fn append_files(group: &mut Vec<u8>, files: impl Iterator<Item = FileEnd>) {
    append_entry(group, KIND_FILES, 0, |group| {
        for file in files {
            group.extend(file.file.to_le_bytes());
            group.extend(file.end.to_le_bytes());
        }
    });
}

fn read_log(job: u64, body: &[u8]) -> Result<Entry<'_>, &'static str> {
    let (fixed, lives) = body
        .split_at_checked(ROW_BYTES)
        .ok_or("the entry of a per-rank event log is too short")?;
    if !lives.len().is_multiple_of(LIFE_BYTES) {
        return Err("the entry of a per-rank event log ends within the description of a life");
    }
    let lives = lives.chunks_exact(LIFE_BYTES).map(|life| {
        let incarnation =
            u32::try_from(u64_at(life, 0)).map_err(|_| "an incarnation does not fit 32 bits")?;
        Ok(Life {
            incarnation: Incarnation(incarnation),
            start: EventIndex(u64_at(life, 8)),
        })
    });
    let row = RankLog {
        incarnation: Incarnation(u32_at(fixed, 4)),
        first: EventIndex(u64_at(fixed, 8)),
        clock_before: Clock(u64_at(fixed, 16)),
        end: EventIndex(u64_at(fixed, 24)),
        last_clock: Clock(u64_at(fixed, 32)),
        trimmed: Clock(u64_at(fixed, 40)),
        lives: lives.collect::<Result<_, &'static str>>()?,
    };
    match row.is_sound() {
        true => Ok(Entry::RankLog {
            job,
            rank: Rank(u32_at(fixed, 0)),
            log: row,
        }),
        false => Err("the entry of a per-rank event log contradicts itself"),
    }
}

/// The entries of a group's content in order; an error ends them.
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    pub fn new(content: &'a [u8]) -> Self {
        Self { rest: content }
    }

    fn read(&mut self) -> Result<Entry<'a>, &'static str> {
        let (header, rest) = self
            .rest
            .split_at_checked(ENTRY_HEADER_BYTES)
            .ok_or("an entry is cut short")?;
        let body_bytes = u32_at(header, 0) as usize;
        let body = rest.get(..body_bytes).ok_or("an entry is cut short")?;
        let padded = body_bytes.next_multiple_of(8).min(rest.len());
        self.rest = &rest[padded..];
        let job = u64_at(header, 8);
        match header[4] {
            KIND_BATCH => {
                // The group's checksum covers it.
                let header = BatchHeader::peek(body).map_err(|_| "a batch's entry has no batch")?;
                match header.batch_bytes() == body.len() {
                    true => Ok(Entry::Batch {
                        job,
                        header,
                        bytes: body,
                    }),
                    false => Err("a batch and its entry differ in length"),
                }
            }
            KIND_ROW => read_log(job, body),
            KIND_FILES if body.len().is_multiple_of(FILE_END_BYTES) => {
                let files = body.chunks_exact(FILE_END_BYTES).map(|file| FileEnd {
                    file: u64_at(file, 0),
                    end: u64_at(file, 8),
                });
                Ok(Entry::Files(files.collect()))
            }
            _ => Err("an entry has an unknown kind"),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}
