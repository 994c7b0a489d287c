//! The decoder of checkpoints (docs/formats/checkpoint-format.md).

use crate::input::Input;
use refrain_checkpoint::SectionKind;
use refrain_checkpoint::format::{
    Flaw, Header, PAGE_BYTES, PIECE_HEADER_BYTES, PieceHeader, STRIP_BYTES,
};
use refrain_checkpoint::packing::{Packing, Strip, Strips, empty_strip};
use refrain_checkpoint::unpacking::{Next, Unpacking};
use refrain_ring::{Incarnation, Rank};
use std::collections::BTreeSet;

type Content = (SectionKind, u64, Vec<u8>);

#[derive(Default)]
struct Memory(Vec<u8>);

impl Strips for Memory {
    type Error = ();

    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> Result<(), ()> {
        assert_eq!(place, self.0.len() as u64);
        self.0.extend(&strip.bytes()[..bytes]);
        Ok(())
    }
}

/// Checks the bytes as a header, as the bytes after a header, as pieces with valid checksums, and
/// as sections.
pub fn check(bytes: &[u8]) {
    let mut page = bytes[..bytes.len().min(PAGE_BYTES)].to_vec();
    page.resize(PAGE_BYTES, 0);
    if let Ok(header) = Header::decode(&page) {
        assert_eq!(page_of(&header), page);
    }
    behind_header(bytes);
    behind_header(&sealed(&mut Input::new(bytes)));
    let sections = sections(&mut Input::new(bytes));
    let packed = pack(&sections);
    assert_eq!(unpack(&packed).as_ref(), Ok(&sections));
}

fn header() -> Header {
    Header {
        job: u64::MAX,
        rank: Rank(u32::MAX),
        incarnation: Incarnation(3),
        number: 1 << 32,
        salt: 0x5a17,
    }
}

fn page_of(header: &Header) -> Vec<u8> {
    let mut page = vec![0xa5; PAGE_BYTES];
    header.encode(&mut page);
    page
}

fn behind_header(bytes: &[u8]) {
    let mut whole = page_of(&header());
    whole.extend(bytes);
    whole.resize(whole.len().next_multiple_of(PAGE_BYTES), 0);
    match unpack(&whole) {
        // The second packing may divide the sections into other pieces; the sections are the same.
        Ok(sections) => assert_eq!(unpack(&pack(&sections)), Ok(sections)),
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}

/// Pieces of any content, each with a valid checksum, and an end that matches them or not.
fn sealed(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut digest = crc32fast::Hasher::new();
    for number in 0..u64::from(input.u8() % 6) {
        let content = input.bytes();
        let flags = input.u8();
        let piece = PieceHeader {
            number: number + u64::from(flags >> 7),
            id: u64::from(input.u8() % 3),
            before: u64::from(input.u8()) * u64::from(flags >> 1 & 1),
            content_bytes: content.len() as u32,
            kind: u16::from(flags >> 2 & 3),
            is_last: flags & 1 == 1,
            digest: 0,
        };
        let begin = bytes.len();
        bytes.resize(begin + PIECE_HEADER_BYTES, 0);
        bytes.extend(content);
        let checksum = piece.seal(header().salt, &mut bytes[begin..]);
        digest.update(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(PIECE_HEADER_BYTES), 0);
    }
    let number = u64::from(input.u8() % 8);
    let (sections, content) = (u64::from(input.u8()), u64::from(input.u16()));
    let end = PieceHeader::end(number, sections, content, digest.finalize());
    let begin = bytes.len();
    bytes.resize(begin + PIECE_HEADER_BYTES, 0);
    end.seal(header().salt, &mut bytes[begin..]);
    bytes
}

fn sections(input: &mut Input<'_>) -> Vec<Content> {
    let mut names = BTreeSet::new();
    let mut sections = Vec::new();
    for _ in 0..input.u8() % 6 {
        let kind = match input.u8() % 3 {
            0 => SectionKind::Engine,
            1 => SectionKind::Log,
            _ => SectionKind::Memory,
        };
        let id = input.u64();
        if names.insert((kind, id)) {
            sections.push((kind, id, input.bytes()));
        }
    }
    sections
}

fn pack(sections: &[Content]) -> Vec<u8> {
    let mut memory = Memory::default();
    let mut packing = Packing::new(header(), empty_strip());
    for (kind, id, bytes) in sections {
        let begun = packing.section(*kind, *id, &mut memory);
        begun.expect("memory").expect("each has its own name");
        packing.write(bytes, &mut memory).expect("memory");
    }
    packing.end(&mut memory).expect("memory");
    memory.0
}

fn unpack(bytes: &[u8]) -> Result<Vec<Content>, Flaw> {
    let mut strips = bytes.chunks(STRIP_BYTES);
    let mut strip = strips.next().unwrap_or_default();
    let mut unpacking = Unpacking::new(strip)?;
    let mut sections: Vec<Content> = Vec::new();
    loop {
        match unpacking.next(strip)? {
            Next::StripIsOver => strip = strips.next().unwrap_or_default(),
            Next::End => return Ok(sections),
            Next::Piece(piece) => {
                if piece.is_first {
                    sections.push((piece.kind, piece.id, Vec::new()));
                }
                let section = sections.last_mut().expect("it was begun");
                assert_eq!((section.0, section.1), (piece.kind, piece.id));
                section.2.extend(&strip[piece.content]);
            }
        }
    }
}

/// A header; the pieces after a header; inputs for pieces and for sections.
pub fn seeds() -> Vec<Vec<u8>> {
    let contents = vec![
        (SectionKind::Engine, 0, b"state".to_vec()),
        (SectionKind::Log, 1 << 32, vec![7; 100]),
        (SectionKind::Memory, u64::MAX, Vec::new()),
    ];
    let packed = pack(&contents);
    let used = packed.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let head = page_of(&header())[..64].to_vec();
    let pieces = packed[PAGE_BYTES..used].to_vec();
    // A section of two pieces, a section of one (flags, ids and lengths), and the end.
    let sealed = [3, 2, 8, 9, 4, 1, 0, 1, 7, 7, 2, 2, 0, 0, 5, 0, 3, 2, 3, 0];
    vec![head, pieces, sealed.to_vec(), vec![2; 60]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_what_they_are_for() {
        let seeds = seeds();
        let mut page = seeds[0].clone();
        page.resize(PAGE_BYTES, 0);
        assert_eq!(Header::decode(&page), Ok(header()));
        let mut whole = page_of(&header());
        whole.extend(&seeds[1]);
        whole.resize(2 * PAGE_BYTES, 0);
        assert_eq!(unpack(&whole).map(|sections| sections.len()), Ok(3));
        assert!(!sections(&mut Input::new(&seeds[3])).is_empty());
    }
}
