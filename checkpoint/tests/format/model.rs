//! Sections that are packed come back unchanged, with any sizes of writes.

use crate::fixed_seed::cases;
use crate::strips::{Content, Memory, header, pack, unpack};
use proptest::collection::vec;
use proptest::prelude::*;
use refrain_checkpoint::SectionKind;
use refrain_checkpoint::format::{Flaw, SECTIONS_MAX, STRIP_BYTES};
use refrain_checkpoint::packing::{Packing, SectionRefused, empty_strip};
use std::collections::BTreeSet;

fn length() -> impl Strategy<Value = usize> {
    let strip = STRIP_BYTES;
    prop_oneof![
        4 => 0..200_usize,
        2 => 0..20_000_usize,
        1 => strip - 4400..strip + 200,
        1 => 2 * strip - 4600..2 * strip + 200,
    ]
}

fn content() -> impl Strategy<Value = Content> {
    let kind = prop_oneof![
        Just(SectionKind::Engine),
        Just(SectionKind::Log),
        Just(SectionKind::Memory),
    ];
    (kind, any::<u64>(), length(), any::<u8>()).prop_map(|(kind, id, bytes, first)| {
        let bytes = (0..bytes).map(|at| first.wrapping_add((at % 251) as u8));
        (kind, id, bytes.collect())
    })
}

#[test]
fn what_is_packed_comes_back() {
    let part = prop_oneof![1..100_usize, 1000..3_000_000_usize];
    proptest!(cases(100), |(sections in vec(content(), 0..8), part in part)| {
        let mut names = BTreeSet::new();
        let mut sections = sections;
        sections.retain(|(kind, id, _)| names.insert((*kind, *id)));
        let bytes = pack(header(), &sections, part);
        prop_assert!(bytes.len().is_multiple_of(4096));
        // The sizes of writes do not change the bytes.
        prop_assert!(bytes == pack(header(), &sections, usize::MAX));
        let (found, content) = unpack(&bytes).expect("whole");
        prop_assert_eq!(found, header());
        prop_assert!(content == sections);
    });
}

/// The end of a strip has room for a header only.
#[test]
fn sections_begin_wherever_a_strip_ends() {
    for before in (STRIP_BYTES - 4096 - 64 * 8..STRIP_BYTES - 4096).step_by(32) {
        let sections = vec![
            (SectionKind::Engine, 0, vec![1; before]),
            (SectionKind::Log, 0, vec![2; 100]),
            (SectionKind::Log, 1, vec![]),
        ];
        let bytes = pack(header(), &sections, 1 << 20);
        assert!(unpack(&bytes) == Ok((header(), sections)), "{before}");
    }
}

#[test]
fn there_are_so_many_sections_and_no_more() {
    let mut memory = Memory::default();
    let mut packing = Packing::new(header(), empty_strip());
    for id in 0..SECTIONS_MAX as u64 {
        let begun = packing.section(SectionKind::Memory, id, &mut memory);
        assert_eq!(begun, Ok(Ok(())));
    }
    let refused = packing.section(SectionKind::Memory, u64::MAX, &mut memory);
    assert_eq!(refused, Ok(Err(SectionRefused::TooMany)));
    packing.end(&mut memory).unwrap();
    let (_, sections) = unpack(&memory.0).expect("whole");
    assert_eq!(sections.len(), SECTIONS_MAX);
    assert_eq!(unpack(&memory.0[..memory.0.len() - 4096]), Err(Flaw::Short));
}
