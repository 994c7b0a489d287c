//! Every kind of damage is detected. EL-2, for checkpoints.

use crate::strips::{Content, header, pack, unpack};
use refrain_checkpoint::SectionKind;
use refrain_checkpoint::format::{Flaw, Header, STRIP_BYTES};
use std::collections::BTreeSet;

fn short() -> Vec<Content> {
    vec![
        (SectionKind::Engine, 0, b"some state".to_vec()),
        (SectionKind::Log, 1, vec![7; 300]),
        (SectionKind::Memory, 9, Vec::new()),
    ]
}

fn long() -> Vec<Content> {
    vec![(SectionKind::Memory, 1, vec![3; 3 * STRIP_BYTES])]
}

// EL-2
#[test]
fn any_changed_bit_is_found() {
    let bytes = pack(header(), &short(), 100);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(unpack(&changed).is_err(), "bit {bit}");
    }
}

// EL-2
#[test]
fn any_length_but_its_own_is_found() {
    let bytes = pack(header(), &short(), 100);
    for length in 0..bytes.len() {
        assert_eq!(unpack(&bytes[..length]), Err(Flaw::Short), "{length}");
    }
    for more in [1, 64, 4096, STRIP_BYTES] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + more, 0);
        assert_eq!(unpack(&longer), Err(Flaw::Behind), "{more}");
    }
    let bytes = pack(header(), &long(), 1 << 20);
    for strips in 1..=3 {
        let cut = &bytes[..strips * STRIP_BYTES];
        assert_eq!(unpack(cut), Err(Flaw::Short), "{strips}");
    }
}

// EL-2
#[test]
fn strips_of_another_checkpoint_are_found() {
    let bytes = pack(header(), &long(), 1 << 20);
    let other = Header {
        salt: header().salt + 1,
        ..header()
    };
    let other = pack(other, &long(), 1 << 20);
    for strip in 0..3 {
        let range = strip * STRIP_BYTES..(strip + 1) * STRIP_BYTES;
        let mut mixed = bytes.clone();
        mixed[range.clone()].copy_from_slice(&other[range]);
        assert!(unpack(&mixed).is_err(), "{strip}");
    }
    let mut swapped = bytes.clone();
    swapped.copy_within(STRIP_BYTES..2 * STRIP_BYTES, 2 * STRIP_BYTES);
    assert_eq!(unpack(&swapped), Err(Flaw::Order));
}

/// With the same salt twice, only the end piece shows the difference.
// EL-2
#[test]
fn an_end_that_fits_other_pieces_is_found() {
    let bytes = pack(header(), &short(), 100);
    let mut sections = short();
    sections[1].2[0] += 1;
    let mut other = pack(header(), &sections, 100);
    let differs: BTreeSet<usize> = (0..bytes.len())
        .filter(|at| bytes[*at] != other[*at])
        .collect();
    let last = *differs.last().expect("they differ");
    // The last difference is in the end's digest.
    let end = last / 64 * 64;
    other[end..end + 64].copy_from_slice(&bytes[end..end + 64]);
    assert_eq!(unpack(&other), Err(Flaw::End));
}

#[test]
fn another_version_is_named_before_anything_else() {
    let mut bytes = pack(header(), &short(), 100);
    bytes[8] = 9;
    let flaw = unpack(&bytes).unwrap_err();
    assert_eq!(flaw, Flaw::Version(9));
    assert!(flaw.to_string().contains("reads version 1"), "{flaw}");
    assert_eq!(unpack(&[0; 8192]), Err(Flaw::Magic));
}
