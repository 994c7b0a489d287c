//! The example in docs/formats/event-format.md is what the code writes, byte by byte.

use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::record::decode;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{Determinant, EventIndex, Match, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use std::fmt::Write;

const DOCUMENT: &str = include_str!("../../../docs/formats/event-format.md");

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

fn matched(request: u64, source: u32, ssn: u64) -> Matched {
    Matched {
        request: Clock(request),
        source: Rank(source),
        ssn: Ssn(ssn),
    }
}

/// The events that the document describes.
fn example() -> Vec<u8> {
    let identity = Identity {
        job: 0x1122_3344_5566_7788,
        rank: Rank(5),
        incarnation: Incarnation(2),
    };
    let mut recorder = Recorder::new(identity, EventIndex(40));
    for (at, source, ssn) in [(1000, 3, 7), (1003, 4, 300), (1006, 3, 8), (1009, 4, 301)] {
        recorder.matched(Clock(at), matched(at, source, ssn), false);
    }
    recorder.matched(Clock(1012), matched(1011, 3, 9), false);
    recorder.completed(Clock(1012), &[Clock(1011)]);
    recorder.completed(Clock(1014), &[Clock(1002), Clock(1005)]);
    recorder.probed(Clock(1015), Rank(4), Ssn(302), -3, 64);
    recorder.cancelled(Clock(1016), Clock(1013));
    recorder.number(Clock(1017), 0, 3_000_000_000);
    recorder.number(Clock(1018), 0, 3_000_000_900);
    recorder.bytes(Clock(1019), b"seed");
    for at in 1020..1030 {
        recorder.nothing(Clock(at));
    }
    let mut batch = Vec::new();
    recorder.take_batch(true, &mut batch);
    batch
}

#[test]
fn the_batch_in_the_document_is_what_is_written() {
    let batch = example();
    let shown = bytes_behind("### A batch");
    assert!(shown == batch, "it should be\n{}", dump(&batch));
}

/// A reader that uses only the document's example reads it.
#[test]
fn the_document_s_bytes_are_determinants() {
    let bytes = bytes_behind("### A batch");
    let (header, payload) = BatchHeader::read(&bytes).expect("a batch");
    assert_eq!(
        (header.first, header.end()),
        (EventIndex(40), EventIndex(52))
    );
    let row = decode(&header, payload).expect("determinants");
    let nothing = Determinant::Nothing {
        at: Clock(1029),
        first: Clock(1020),
        count: 10,
    };
    assert_eq!(row.last(), Some(&nothing));
    let merged = Determinant::Match(Match {
        at: Clock(1012),
        matched: matched(1011, 3, 9),
        is_named: false,
        is_completed: true,
    });
    assert_eq!(row[4], merged);
    let cancelled = Determinant::Cancelled {
        at: Clock(1016),
        request: Clock(1013),
    };
    assert_eq!(row[7], cancelled);
    let time = Determinant::Number {
        at: Clock(1018),
        series: 0,
        value: 3_000_000_900,
    };
    assert_eq!(row[9], time);
    let seed = Determinant::Bytes {
        at: Clock(1019),
        bytes: b"seed".to_vec(),
    };
    assert_eq!(row[10], seed);
}

/// The document identifies the checksum by its value for a known text.
#[test]
fn the_checksum_is_the_one_of_the_document() {
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    assert!(DOCUMENT.contains("`0xE3069283`"));
}
