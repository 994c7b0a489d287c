//! The event logger's files (docs/formats/event-files.md): any folder is read in order and without
//! a panic.

use crate::input::Input;
use core::ops::ControlFlow;
use refrain_eventlog::logbook::Archive;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;

const PAGE_BYTES: usize = 4096;
const SALT: u64 = 0x5a17;
const FILES_MAX: u64 = 3;
const GROUPS_MAX: u8 = 4;

/// A folder with these files, numbered from 1.
fn folder(files: &[Vec<u8>]) -> Directory {
    let disk = SimulatedDisk::new(0);
    for (number, bytes) in (1..).zip(files) {
        disk.put(&format!("events-{number:012}"), bytes);
    }
    disk.into()
}

/// Checks the bytes as one file, and as the contents of groups with valid checksums.
pub fn check(bytes: &[u8]) {
    let mut page = header(1);
    page.extend(bytes);
    read(folder(&[page]));
    let mut input = Input::new(bytes);
    let mut files = Vec::new();
    let mut group_number = 1;
    for file in 1..=1 + u64::from(input.u8()) % FILES_MAX {
        let mut file_bytes = header(file);
        for group in 0..1 + input.u8() % GROUPS_MAX {
            let content = input.bytes();
            append_group(&mut file_bytes, group_number, &content, group == 0);
            group_number += 1;
        }
        files.push(file_bytes);
    }
    read(folder(&files));
}

fn read(folder: Directory) {
    let archive = match Archive::open_on(folder) {
        Ok(archive) => archive,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for holding in archive.holdings() {
        let mut next = None;
        let from = EventIndex(holding.first);
        let rank = Rank(holding.rank);
        let result = archive.read(holding.job, rank, from, None, &mut |batch| {
            let (header, _) = BatchHeader::read(batch).unwrap_or_else(|_| peeked(batch));
            assert!(next.is_none_or(|next| next == header.first), "a gap");
            assert!(header.end().0 <= holding.end, "beyond the end");
            next = Some(header.end());
            ControlFlow::Continue(())
        });
        if let Err(error) = result {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// The logger verifies the checksum of a batch on its arrival, not when it is read.
fn peeked(batch: &[u8]) -> (BatchHeader, &[u8]) {
    let header = BatchHeader::peek(batch).expect("a batch");
    (header, &batch[HEADER_BYTES..])
}

fn header(file: u64) -> Vec<u8> {
    let mut page = b"rfrnevts".to_vec();
    page.extend(2_u32.to_le_bytes());
    page.extend(7_u32.to_le_bytes());
    page.extend(file.to_le_bytes());
    page.extend(SALT.to_le_bytes());
    page.extend((64_u64 << 10).to_le_bytes());
    page.extend([0; 4]);
    page.extend(crc32fast::hash(&page).to_le_bytes());
    page.resize(PAGE_BYTES, 0);
    page
}

fn append_group(file: &mut Vec<u8>, number: u64, content: &[u8], opens_file: bool) {
    let room = (32 + content.len()).next_multiple_of(64);
    let mut group = b"grup".to_vec();
    group.extend(number.to_le_bytes());
    group.extend((content.len() as u32).to_le_bytes());
    group.extend((room as u32).to_le_bytes());
    group.extend(u32::from(opens_file).to_le_bytes());
    group.extend([0; 4]);
    group.extend(content);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&SALT.to_le_bytes());
    checksum.update(&group);
    let end = file.len() + room;
    file.extend(checksum.finalize().to_le_bytes());
    file.extend(group);
    file.resize(end, 0);
}

fn entry(kind: u8, job: u64, body: &[u8]) -> Vec<u8> {
    let mut entry = (body.len() as u32).to_le_bytes().to_vec();
    entry.extend([kind, 0, 0, 0]);
    entry.extend(job.to_le_bytes());
    entry.extend(body);
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

fn row(rank: u32, incarnation: u32, words: [u64; 5], lives: &[(u64, u64)]) -> Vec<u8> {
    let mut body = rank.to_le_bytes().to_vec();
    body.extend(incarnation.to_le_bytes());
    body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    for (incarnation, start) in lives {
        body.extend(incarnation.to_le_bytes());
        body.extend(start.to_le_bytes());
    }
    entry(2, 9, &body)
}

fn batch(rank: u32, incarnation: u32, first: u64, count: u16) -> Vec<u8> {
    let header = BatchHeader {
        job_tag: job_tag(9),
        rank: Rank(rank),
        incarnation: Incarnation(incarnation),
        lives_before: 0,
        first: EventIndex(first),
        count,
        first_clock: Clock(first),
        last_clock: Clock(first + u64::from(count)),
        payload_bytes: 3,
    };
    let mut bytes = vec![0; header.batch_bytes()];
    header.seal(&mut bytes);
    entry(1, 9, &bytes)
}

/// A file as on disk, and contents of groups with a cut and a trim.
pub fn seeds() -> Vec<Vec<u8>> {
    let hello = [entry(3, 0, &[]), row(1, 0, [0; 5], &[])].concat();
    let batches = [batch(1, 0, 0, 2), batch(1, 0, 2, 3), batch(1, 0, 5, 1)].concat();
    let cut = [row(1, 1, [0, 0, 2, 2, 0], &[(0, 0)]), batch(1, 1, 2, 4)].concat();
    let trim = row(1, 1, [2, 2, 6, 6, 2], &[(1, 2)]);
    let mut groups = Vec::new();
    for (number, content) in [&hello, &batches, &cut, &trim].into_iter().enumerate() {
        append_group(&mut groups, number as u64 + 1, content, number == 0);
    }
    let mut input = vec![0, 3];
    for content in [&hello, &batches, &cut, &trim] {
        input.push(u8::try_from(content.len()).expect("a short content"));
        input.extend(content);
    }
    vec![groups, input]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_seed_is_a_file_that_is_read() {
        let mut file = header(1);
        file.extend(&seeds()[0]);
        let archive = Archive::open_on(folder(&[file]));
        let holdings = archive
            .expect("as docs/formats/event-files.md says")
            .holdings();
        assert_eq!((holdings[0].first, holdings[0].end), (2, 6));
    }
}
