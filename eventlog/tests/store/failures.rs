//! A disk that is full, or broken.

use crate::driver::{Driver, End};
use crate::{after_power_loss, disk, seed};
use refrain_storage::simulated::{Failure, Kind};

#[test]
fn a_full_disk_is_waited_for() {
    for sync in [false, true] {
        for kind in [Kind::Create, Kind::Write] {
            let mut driver = Driver::new(disk(seed()), sync, seed()).expect("an empty disk");
            driver.disk.fail(kind, Failure::NoSpace, 7);
            assert_eq!(driver.work(200), End::Done);
            assert!(driver.waits > 0, "it never failed");
            driver.check_reading();
            let disk = driver.disk.after_death(1);
            driver.restart(disk, false).expect("EL-3");
            driver.check_reading();
        }
    }
}

#[test]
fn a_file_for_which_there_is_no_room_is_waited_for() {
    let disk = disk(seed());
    disk.set_room(100 << 10);
    let mut driver = Driver::new(disk, true, seed()).expect("an empty disk");
    assert_eq!(driver.work(400), End::Done);
    assert!(driver.waits > 0, "there always was room");
    driver.check_reading();
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_and_all_that_was_is_there() {
    for sync in [false, true] {
        for case in 0..30 {
            let seed = seed() ^ case << 16;
            let mut driver = Driver::new(disk(seed), sync, seed).expect("an empty disk");
            assert_eq!(driver.work(case as u32 * 4), End::Done);
            driver.disk.fail(Kind::Write, Failure::Io, 1);
            assert_eq!(driver.work(200), End::Broken);
            assert!(driver.logbook.progress().is_err(), "it goes on");
            assert!(driver.logbook.settle().is_err(), "it settles");
            let disk = driver.disk.after_death(seed);
            driver.restart(disk, false).expect("EL-3");
            driver.check_reading();
        }
    }
}

#[test]
fn after_a_failed_sync_nothing_that_was_not_durable_counts_as_durable() {
    for case in 0..60 {
        let seed = seed() ^ case << 16;
        let mut driver = Driver::new(disk(seed), true, seed).expect("an empty disk");
        assert_eq!(driver.work(case as u32 * 4), End::Done);
        driver.disk.fail(Kind::Sync, Failure::Io, 1);
        assert_eq!(driver.work(200), End::Broken);
        // The next process, in the same memory, then a loss of power: what it
        // said is durable must be so.
        let disk = driver.disk.after_death(seed);
        driver.restart(disk, true).expect("EL-3");
        driver.check_reading();
        let disk = after_power_loss(&driver.disk, seed);
        driver.restart(disk, true).expect("EL-3");
    }
}

#[test]
fn files_that_cannot_be_removed_take_only_room() {
    let mut driver = Driver::new(disk(seed()), true, seed()).expect("an empty disk");
    driver.disk.fail(Kind::Remove, Failure::Io, u32::MAX);
    assert_eq!(driver.work(1500), End::Done);
    let disk = driver.disk.after_death(1);
    driver.restart(disk, false).expect("EL-3");
    driver.check_reading();
}
