//! Payload that looks like records: every line of it is a valid header of a record
//! that was never sent. A reader that takes old payload for a record is detected.

use refrain_ring::{
    Arena, ArenaFull, CHUNK_BYTES, ChannelLog, Incarnation, Rank, RecordHeader, RecordKind, Region,
    ReserveError, Ssn,
};
use std::ops::Range;

pub const SOURCE: Rank = Rank(3);
pub const INCARNATION: Incarnation = Incarnation(7);
/// Seed of the former log's contents.
const FORMER: u64 = 1 << 40;

/// Fills `payload` with the lines that `seed` names.
pub fn fill(payload: &mut [u8], seed: u64) {
    for (index, line) in payload.chunks_mut(64).enumerate() {
        line.copy_from_slice(&line_of(seed, index)[..line.len()]);
    }
}

/// Whether `payload` is what [`fill`] wrote.
pub fn is_filled(payload: &[u8], seed: u64) -> bool {
    payload
        .chunks(64)
        .enumerate()
        .all(|(index, line)| *line == line_of(seed, index)[..line.len()])
}

/// The first header that `seed` names.
pub fn header(seed: u64) -> RecordHeader {
    RecordHeader::decode(&line_of(seed, 0)).expect("a sound header")
}

fn line_of(seed: u64, index: usize) -> [u8; 64] {
    let number = seed.rotate_left(20) ^ index as u64;
    let kind = match index % 4 {
        0 | 1 => RecordKind::Eager,
        2 => RecordKind::Fragment,
        // Back to the first chunk.
        _ => RecordKind::Link,
    };
    let header = RecordHeader {
        payload_bytes: 0,
        kind,
        flags: 0,
        incarnation: INCARNATION,
        source: SOURCE,
        ssn: Ssn(number),
        context: 0,
        tag: index as i32,
        extent: if kind == RecordKind::Link { 0 } else { number },
    };
    let mut line = [0; 64];
    line[..48].copy_from_slice(&header.encode());
    line[48..56].copy_from_slice(&number.to_le_bytes());
    line[56..].copy_from_slice(&(!number).to_le_bytes());
    line
}

/// Contents of a part of a region that no process writes meanwhile.
pub fn bytes(region: &Region, range: Range<usize>) -> Vec<u8> {
    assert!(range.start <= range.end && range.end <= region.bytes());
    // SAFETY: in bounds, and the test's one thread is here.
    unsafe { core::slice::from_raw_parts(region.at(range.start), range.len()) }.to_vec()
}

/// A region whose chunks are full of a former log: headers, lures and links.
/// The memory before the chunks has another owner, and is not 0 either.
pub fn used_region(first_chunk_offset: usize, chunks: usize) -> Region {
    let region = Region::heap(first_chunk_offset + chunks * CHUNK_BYTES);
    // SAFETY: in bounds, and no other code has the region yet.
    unsafe { region.at(0).write_bytes(0xa5, first_chunk_offset) };
    let mut arena = Arena::new(region.clone(), first_chunk_offset, Box::new(|_, _| Ok(())));
    let mut log = ChannelLog::new(SOURCE, INCARNATION, Rank(0), u64::MAX);
    // A short record in front, so that lures begin on every line.
    for payload_bytes in [0, ChannelLog::PAYLOAD_BYTES_MAX].into_iter().cycle() {
        let lures = |place: &mut [u8]| fill(place, FORMER);
        match log.append(&mut arena, payload_bytes, false, header(FORMER), lures) {
            Ok(frame) => frame.publish(&region),
            Err(ReserveError::Arena(ArenaFull::Budget { .. })) => return region,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("an arena is finite")
}
