//! Files that are not as they were written.

use crate::disk;
use crate::driver::{Driver, End, options};
use refrain_eventlog::logbook::{Logbook, StoreError};
use refrain_eventlog::store::disk::{Disk, ReadFiles};
use refrain_eventlog::store::faulty::FaultyDisk;

const SEED: u64 = 0x5eed;

fn written() -> FaultyDisk {
    // Always the same: what is damaged must be there.
    let mut driver = Driver::new(disk(SEED), false, SEED).expect("an empty disk");
    assert_eq!(driver.work(400), End::Done);
    driver.disk.after_death(1)
}

fn open(disk: &FaultyDisk) -> Result<Logbook, StoreError> {
    Logbook::open_on(Box::new(disk.clone()), &options(false))
}

fn numbers(disk: &FaultyDisk) -> Vec<u64> {
    let mut files = disk.files().expect("a disk in memory");
    files.sort_unstable();
    files
}

#[test]
fn damage_in_the_middle_is_named_by_file_and_place() {
    let files = numbers(&written());
    let bytes = written().bytes(files[0]).expect("a file");
    let used = bytes.iter().rposition(|&byte| byte != 0).expect("groups");
    for place in (4096..used).step_by(997) {
        let disk = written();
        disk.damage(files[0], place);
        let said = open(&disk);
        // Padding between groups is nobody's.
        let is_padding = bytes[place] == 0 && said.is_ok();
        match said {
            Err(StoreError::Damaged {
                file, place: said, ..
            }) => {
                assert_eq!(file, disk.path(files[0]));
                assert!(said as usize <= place, "damage at {place}, found at {said}");
            }
            other => assert!(is_padding, "{place}: {other:?}"),
        }
    }
}

#[test]
fn damage_in_the_last_file_is_no_torn_end_when_a_group_comes_behind() {
    let last = *numbers(&written()).last().expect("files");
    let bytes = written().bytes(last).expect("a file");
    let starts = (4096..bytes.len()).step_by(64);
    let groups: Vec<_> = starts
        .filter(|&at| bytes[at + 4..at + 8] == *b"grup")
        .collect();
    assert!(groups.len() > 3, "{groups:?}");
    for (number, &group) in groups.iter().enumerate() {
        let disk = written();
        disk.damage(last, group + 40);
        let said = open(&disk);
        let is_last = number + 1 == groups.len();
        match said {
            Err(StoreError::Damaged { file, place, .. }) => {
                assert!(!is_last, "a torn write cannot be told from this");
                assert_eq!((file, place), (disk.path(last), group as u64));
            }
            other => assert!(is_last, "group {number}: {other:?}"),
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    for gone in numbers(&written()).into_iter().rev().skip(1) {
        let mut disk = written();
        disk.remove(gone, true).expect("it is there");
        let said = open(&disk);
        assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
    }
}

#[test]
fn a_file_cut_short_is_missed() {
    let files = numbers(&written());
    let mut disk = written();
    disk.shorten(files[0], 10_000).expect("it is there");
    let said = open(&disk);
    assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
}

#[test]
fn a_header_that_cannot_be_read_is_no_empty_file() {
    for file in numbers(&written()) {
        let disk = written();
        disk.damage(file, 20);
        let said = open(&disk);
        assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let disk = written();
    let file = numbers(&disk)[0];
    disk.damage(file, 8);
    let said = open(&disk);
    assert!(matches!(said, Err(StoreError::Version { .. })), "{said:?}");
}

#[test]
fn another_loggers_folder_is_refused() {
    let disk = written();
    let mut options = options(false);
    options.logger.0 += 1;
    let said = Logbook::open_on(Box::new(disk), &options);
    assert!(
        matches!(said, Err(StoreError::OtherLogger { .. })),
        "{said:?}"
    );
}
