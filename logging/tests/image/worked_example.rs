//! The example in docs/formats/log-format.md is what the code writes, byte by byte.

use crate::written::{Writing, key};
use refrain_logging::image::{LogImage, LogKey, Selection};
use refrain_logging::segment::{Channel, FileHeader};
use refrain_ring::{Incarnation, LoanEnd, Rank, RecordKind, Ssn};
use std::fmt::Write;

const DOCUMENT: &str = include_str!("../../../docs/formats/log-format.md");

fn example_key() -> LogKey {
    LogKey {
        job: 0x1122_3344_5566_7788,
        channel: Channel {
            source: Rank(0),
            incarnation: Incarnation(2),
            destination: Rank(3),
        },
    }
}

fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:04x} ", number * 16);
        for (at, byte) in line.iter().enumerate() {
            let gap = if at == 8 { "  " } else { " " };
            let _ = write!(text, "{gap}{byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// The bytes of the code block behind a heading of the document.
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

fn example_chunk() -> Vec<u8> {
    let mut writing = Writing::new(example_key(), 2);
    writing.record(RecordKind::Eager, 0, 5, b"hello");
    writing.record(RecordKind::Eager, 1, 40, b"the channel is ");
    writing.record(RecordKind::Fragment, 1, 15, b"the log, and this is some");
    writing.end_chunk();
    writing.seal(1, LoanEnd::OnDisk).remove(0)
}

#[test]
fn the_chunk_in_the_document_is_what_is_written() {
    let chunk = example_chunk();
    let shown = bytes_behind("### A chunk");
    assert!(shown == chunk, "it should be\n{}", dump(&chunk));
    let header = FileHeader {
        job: example_key().job,
        channel: example_key().channel,
        first_sequence: 0,
        slots: 4,
    };
    let head = &header.encode()[..64];
    let shown = bytes_behind("### A file's header");
    assert!(shown == head, "it should be\n{}", dump(head));
    assert!(DOCUMENT.contains(&format!("`{}`", header.name())));
}

/// A reader that uses only the document's example reads it.
#[test]
fn the_document_s_bytes_are_a_log() {
    let mut file = bytes_behind("### A file's header");
    file.resize(4096, 0);
    file.extend(bytes_behind("### A chunk"));
    let image = LogImage::of_contents([("x.log".into(), file)], Selection::default());
    let mut messages = image.messages(&example_key(), Ssn(0)).unwrap();
    let mut next = || messages.next().unwrap().map(|message| message.bytes);
    assert_eq!(next().as_deref(), Some(&b"hello"[..]));
    assert_eq!(
        next().as_deref(),
        Some(&b"the channel is the log, and this is some"[..])
    );
    assert_eq!(next(), None);
    assert!(image.records(&key(1), Ssn(0)).is_err());
}
