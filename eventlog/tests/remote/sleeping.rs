//! The logger sleeps while nothing comes, and writes wake it.

use crate::harness::{Batches, RingFile, place, with_every_provider};
use crate::server::CLIENTS_MAX;

/// The logger sleeps without a limit where its provider has a descriptor: a
/// commit that did not wake it would never end.
#[test]
fn a_sleeping_logger_is_woken_by_a_commit() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let mut writer = setup.writer(&logger.register(&ring.path));
        let mut batches = Batches::new(ring.identity);
        place(&mut writer, &batches.of(16));
        let (has_descriptor, before) = logger.turns();
        for _ in 0..200 {
            place(&mut writer, &batches.of(16));
        }
        let (_, after) = logger.turns();
        println!(
            "  {} turns for 200 commits{}",
            after - before,
            if has_descriptor { "" } else { ", napping" }
        );
        // Nothing comes but questions: one turn for each, not a busy loop.
        let (_, before) = logger.turns();
        for _ in 0..100 {
            logger.turns();
        }
        let (_, after) = logger.turns();
        let turns = after - before;
        assert!(!has_descriptor || turns <= 3 * 101, "{turns} turns");
    });
}

/// Clients beyond the limit are refused with a reason; revoking one makes
/// room.
#[test]
fn clients_are_counted() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let rings: Vec<_> = (0..=CLIENTS_MAX as u32)
            .map(|life| RingFile::create(folder.path(), life))
            .collect();
        let (last, first) = rings.split_last().unwrap();
        let mut keys: Vec<u64> = first
            .iter()
            .map(|ring| logger.register(&ring.path).key)
            .collect();
        let refusal = logger.register_one_too_many(&last.path);
        assert!(refusal.starts_with("3 clients already"), "{refusal}");
        logger.revoke(1);
        keys.push(logger.register(&last.path).key);
        // FENCE-1: no client gets the key of an earlier one.
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), CLIENTS_MAX + 1);
    });
}
