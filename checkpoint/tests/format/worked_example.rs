//! The code writes the example in docs/formats/checkpoint-format.md byte by byte.

use crate::strips::{Content, header, pack, unpack};
use refrain_checkpoint::SectionKind;
use std::fmt::Write;

const DOCUMENT: &str = include_str!("../../../docs/formats/checkpoint-format.md");

fn dump(bytes: &[u8], begin: usize) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:04x} ", begin + number * 16);
        for (at, byte) in line.iter().enumerate() {
            let gap = if at == 8 { "  " } else { " " };
            let _ = write!(text, "{gap}{byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// The bytes of the code block after a heading of the document.
fn bytes_behind(heading: &str) -> Vec<u8> {
    let (_, behind) = DOCUMENT.split_once(heading).expect("the heading is there");
    let block = behind.split("```").nth(1).expect("a code block follows");
    block
        .lines()
        .filter_map(|line| line.split_once("  "))
        .flat_map(|(_, bytes)| bytes.split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect()
}

/// The sections of the example, as the document describes them.
fn sections() -> Vec<Content> {
    vec![
        (SectionKind::Engine, 0, b"hello".to_vec()),
        (SectionKind::Memory, 42, b"the channel is the log".to_vec()),
    ]
}

#[test]
fn the_checkpoint_in_the_document_is_what_is_written() {
    let bytes = pack(header(), &sections(), 100);
    let head = &bytes[..64];
    let shown = bytes_behind("### Its header");
    assert!(shown == head, "it should be\n{}", dump(head, 0));
    let pieces = &bytes[4096..4096 + 4 * 64 + 64];
    let shown = bytes_behind("### Its pieces");
    assert!(shown == pieces, "it should be\n{}", dump(pieces, 4096));
    assert_eq!(bytes.len(), 8192);
}

/// The reader accepts the bytes of the document's example.
#[test]
fn the_document_s_bytes_are_a_checkpoint() {
    let mut bytes = bytes_behind("### Its header");
    bytes.resize(4096, 0);
    bytes.extend(bytes_behind("### Its pieces"));
    bytes.resize(8192, 0);
    assert_eq!(unpack(&bytes), Ok((header(), sections())));
}

/// The document defines the checksum by its value for a known text.
#[test]
fn the_checksum_is_the_one_of_the_document() {
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    assert!(DOCUMENT.contains("`0xCBF43926`"));
}
