//! Planted bugs: each must be found, or the oracle does not work.

use crate::disk::DiskBug;
use crate::fixed_seed;
use crate::rank::{RankBug, RankUnderTest};
use crate::runs;
use proptest::test_runner::{Config, TestRunner};

const RUNS: u32 = 100;

/// Whether one of a number of random runs fails.
fn is_found(disk_bug: Option<DiskBug>, bug: Option<RankBug>) -> bool {
    let config = Config {
        max_shrink_iters: 0,
        cases: RUNS,
        ..fixed_seed::cases(RUNS)
    };
    let run = |(disk_files, steps): (u64, Vec<_>)| {
        RankUnderTest::new(disk_files, disk_bug, bug).run(&steps);
        Ok(())
    };
    TestRunner::new(config).run(&runs(), run).is_err()
}

#[test]
fn bugs_of_the_disk_are_found() {
    for bug in [
        DiskBug::FlipsABit,
        DiskBug::ForgetsToSeal,
        DiskBug::CutsTheWrite,
        DiskBug::WritesIntoTheNextSlot,
        DiskBug::ReadsTheNextSlot,
        DiskBug::SaysWrittenThoughItFailed,
        DiskBug::KeepsTheChunk,
    ] {
        assert!(is_found(Some(bug), None), "{bug:?}");
    }
}

#[test]
fn bugs_between_log_and_disk_are_found() {
    for bug in [
        RankBug::TakesFailureForSuccess,
        RankBug::TakesSuccessForFailure,
        RankBug::LendsWhatIsNotPublished,
        RankBug::TrimsTheLogAhead,
        RankBug::TrimsTheDiskAhead,
        RankBug::TrimsWhatIsNotConsumed,
        RankBug::NeverTrimsTheDisk,
        RankBug::LosesAChunk,
        RankBug::HidesTheHorizon,
    ] {
        assert!(is_found(None, Some(bug)), "{bug:?}");
    }
}
