//! A checkpoint as bytes in memory.

use refrain_checkpoint::SectionKind;
use refrain_checkpoint::format::{Flaw, Header, STRIP_BYTES};
use refrain_checkpoint::packing::{Packing, Strip, Strips, empty_strip};
use refrain_checkpoint::unpacking::{Next, Unpacking};
use refrain_ring::{Incarnation, Rank};

pub type Content = (SectionKind, u64, Vec<u8>);

#[derive(Default)]
pub struct Memory(pub Vec<u8>);

impl Strips for Memory {
    type Error = ();

    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> Result<(), ()> {
        assert_eq!(place, self.0.len() as u64, "strips come in order");
        self.0.extend(&strip.bytes()[..bytes]);
        // A new strip may contain any bytes.
        strip.bytes_mut().fill(0xa5);
        Ok(())
    }
}

pub fn header() -> Header {
    Header {
        job: 0x1122_3344_5566_7788,
        rank: Rank(5),
        incarnation: Incarnation(2),
        number: 7,
        salt: 0x0123_4567_89ab_cdef,
    }
}

/// The sections, each written in parts of `part` bytes.
pub fn pack(header: Header, sections: &[Content], part: usize) -> Vec<u8> {
    let mut memory = Memory::default();
    let mut packing = Packing::new(header, empty_strip());
    for (kind, id, bytes) in sections {
        packing.section(*kind, *id, &mut memory).unwrap().unwrap();
        for part in bytes.chunks(part) {
            packing.write(part, &mut memory).unwrap();
        }
    }
    let bytes = packing.end(&mut memory).unwrap();
    assert_eq!(bytes, memory.0.len() as u64);
    memory.0
}

/// All sections of the bytes, if they are a whole checkpoint.
pub fn unpack(bytes: &[u8]) -> Result<(Header, Vec<Content>), Flaw> {
    let mut strips = bytes.chunks(STRIP_BYTES);
    let mut strip = strips.next().unwrap_or_default();
    let mut unpacking = Unpacking::new(strip)?;
    let mut sections: Vec<Content> = Vec::new();
    loop {
        match unpacking.next(strip)? {
            Next::StripIsOver => strip = strips.next().unwrap_or_default(),
            Next::End if strips.next().is_some() => return Err(Flaw::Behind),
            Next::End => return Ok((*unpacking.header(), sections)),
            Next::Piece(piece) => {
                if piece.is_first {
                    sections.push((piece.kind, piece.id, Vec::new()));
                }
                let section = sections.last_mut().expect("it was begun");
                section.2.extend(&strip[piece.content]);
            }
        }
    }
}
