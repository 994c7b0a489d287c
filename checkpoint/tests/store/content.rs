//! The contents that the tests write and expect.

use refrain_checkpoint::{CheckpointError, JobName, Reading, SectionKind, Stable, Store, Writing};
use refrain_ring::{Incarnation, Rank};

pub const RANK: Rank = Rank(3);

pub fn job() -> JobName {
    JobName::new(0x1122_3344_5566_7788, "refrain-17-4-").expect("a plain name")
}

/// Sections of checkpoint `number`, some of them `bytes` long; contents differ between numbers.
pub fn sections(number: u64, bytes: usize) -> Vec<(SectionKind, u64, Vec<u8>)> {
    let of = |salt: u64, bytes: usize| -> Vec<u8> {
        let mut state = number.wrapping_mul(31).wrapping_add(salt);
        (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
                (state >> 56) as u8
            })
            .collect()
    };
    vec![
        (SectionKind::Engine, 0, of(1, 100)),
        (SectionKind::Log, 7, of(2, bytes)),
        (SectionKind::Log, 1 << 33, Vec::new()),
        (SectionKind::Memory, u64::MAX, of(3, bytes / 2 + 1)),
    ]
}

pub fn fill(writing: &mut Writing, number: u64, bytes: usize) -> Result<(), CheckpointError> {
    for (kind, id, content) in sections(number, bytes) {
        writing.section(kind, id)?;
        for part in content.chunks(70_001) {
            writing.write(part)?;
        }
    }
    Ok(())
}

pub fn write(
    store: &Store,
    incarnation: u32,
    number: u64,
    bytes: usize,
) -> Result<Stable, CheckpointError> {
    let mut writing = store.begin(RANK, Incarnation(incarnation), number)?;
    fill(&mut writing, number, bytes)?;
    writing.commit()
}

/// Reads all sections, and checks them against their number.
pub fn check(reading: &mut Reading, bytes: usize) {
    let expected = sections(reading.number(), bytes);
    let table: Vec<u64> = reading.sections().iter().map(|info| info.bytes).collect();
    let lengths: Vec<u64> = expected.iter().map(|it| it.2.len() as u64).collect();
    assert_eq!(table, lengths);
    for (kind, id, content) in expected {
        let mut section = reading.next_section().unwrap().expect("a section");
        assert_eq!((section.kind(), section.id()), (kind, id));
        assert_eq!(section.bytes(), content.len() as u64);
        assert!(section.read_to_end().unwrap() == content, "{kind:?} {id}");
    }
    assert!(reading.next_section().unwrap().is_none());
}
