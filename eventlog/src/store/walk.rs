//! Reads the groups of a file in order.

use super::folder::Folder;
use super::format::{
    FileHeader, GROUP_HEADER_BYTES, GroupHeader, HeaderError, LINE_BYTES, PAGE_BYTES,
};
use core::ops::Range;
use std::io;

/// Bytes of one read.
const WINDOW_BYTES: usize = 256 << 10;

/// A group whose checksum is correct.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub header: GroupHeader,
    pub place: u64,
    pub content: &'a [u8],
}

/// The position at which reading in pieces stopped, and the bytes that were read there. The
/// default is no position.
#[derive(Debug, Default)]
pub(crate) struct GroupPosition {
    file: u64,
    /// Place of the group with the next batch.
    place: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl GroupPosition {
    /// Whether the position is within this range of a file.
    pub fn is_within(&self, file: u64, places: &Range<u64>) -> bool {
        self.file == file && places.contains(&self.place)
    }
}

/// Reads a file's groups one after the other.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    files: &'a Folder,
    file: u64,
    salt: u64,
    place: u64,
    /// Place at which reading ends.
    end: u64,
    window: Vec<u8>,
    window_start: u64,
}

/// The header of a file.
pub(crate) fn read_header(
    files: &Folder,
    file: u64,
) -> io::Result<Result<FileHeader, HeaderError>> {
    let mut page = vec![0; PAGE_BYTES as usize];
    let bytes = files.read_at(file, 0, &mut page)?;
    Ok(FileHeader::read(&page[..bytes]))
}

impl<'a> Walk<'a> {
    /// Reads from a group's place on.
    pub fn new(files: &'a Folder, header: &FileHeader, place: u64, end: u64) -> Self {
        Self {
            files,
            file: header.file,
            salt: header.salt,
            place,
            end,
            window: Vec::new(),
            window_start: 0,
        }
    }

    /// Continues where reading stopped.
    pub fn resume(
        files: &'a Folder,
        header: &FileHeader,
        position: GroupPosition,
        end: u64,
    ) -> Self {
        Self {
            window: position.window,
            window_start: position.window_start,
            ..Self::new(files, header, position.place, end)
        }
    }

    /// Stops; returns the position to continue later with the group at this place.
    pub fn stop_at(self, place: u64) -> GroupPosition {
        GroupPosition {
            file: self.file,
            place,
            window: self.window,
            window_start: self.window_start,
        }
    }

    /// Place of the next group.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Reads `bytes` bytes from `place` on into the window, if the file has them, and
    /// returns their offset in the window.
    fn fill(&mut self, place: u64, bytes: usize) -> io::Result<Option<usize>> {
        if place + bytes as u64 > self.end {
            return Ok(None);
        }
        let offset = place.wrapping_sub(self.window_start);
        if place >= self.window_start && offset + bytes as u64 <= self.window.len() as u64 {
            return Ok(Some(offset as usize));
        }
        let most = usize::try_from(self.end - place).unwrap_or(usize::MAX);
        self.window.resize(bytes.max(WINDOW_BYTES).min(most), 0);
        self.window_start = place;
        let read = self.files.read_at(self.file, place, &mut self.window)?;
        self.window.truncate(read);
        Ok((read >= bytes).then_some(0))
    }

    /// The group at a place, if there is one.
    fn look(&mut self, place: u64) -> io::Result<Option<(GroupHeader, usize)>> {
        let Some(at) = self.fill(place, GROUP_HEADER_BYTES)? else {
            return Ok(None);
        };
        let Some(header) = GroupHeader::peek(&self.window[at..]) else {
            return Ok(None);
        };
        if place + u64::from(header.room_bytes) > self.end {
            return Ok(None);
        }
        let bytes = GROUP_HEADER_BYTES + header.content_bytes as usize;
        let at = self.fill(place, bytes)?;
        let fits = at.filter(|&at| header.fits(self.salt, &self.window[at..]));
        Ok(fits.map(|at| (header, at)))
    }

    /// The next group; `None`: there is none at this place.
    pub fn next(&mut self) -> io::Result<Option<Group<'_>>> {
        let place = self.place;
        let Some((header, at)) = self.look(place)? else {
            return Ok(None);
        };
        self.place += u64::from(header.room_bytes);
        let content = &self.window[at + GROUP_HEADER_BYTES..][..header.content_bytes as usize];
        Ok(Some(Group {
            header,
            place,
            content,
        }))
    }

    /// Discards the window: the logger may have written since.
    pub fn look_again(&mut self) {
        self.window.clear();
    }

    /// Place of a later group in the file with a higher number than
    /// `after`.
    pub fn find_later(&mut self, after: u64) -> io::Result<Option<u64>> {
        let mut place = self.place + LINE_BYTES;
        while place < self.end {
            if let Some((header, _)) = self.look(place)?
                && header.number > after
            {
                return Ok(Some(place));
            }
            place += LINE_BYTES;
        }
        Ok(None)
    }

    /// Whether all bytes from this place on are 0.
    pub fn is_empty_behind(&mut self) -> io::Result<bool> {
        let mut place = self.place;
        while place < self.end {
            let bytes = (self.end - place).min(LINE_BYTES) as usize;
            let Some(at) = self.fill(place, bytes)? else {
                return Ok(true);
            };
            if self.window[at..at + bytes].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            place += bytes as u64;
        }
        Ok(true)
    }
}
