//! Files that have changed since they were written.

use crate::disk;
use crate::driver::{Driver, End, options};
use refrain_eventlog::logbook::{Logbook, StoreError};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use std::path::PathBuf;

const SEED: u64 = 0x5eed;

fn written() -> SimulatedDisk {
    // Always the same: what is damaged must be there.
    let mut driver = Driver::new(disk(SEED), false, SEED).expect("an empty disk");
    assert_eq!(driver.work(400), End::Done);
    driver.disk.after_death(1)
}

fn open(disk: &SimulatedDisk) -> Result<Logbook, StoreError> {
    Logbook::open_on(disk.clone().into(), &options(false))
}

/// Names of the event files, in order.
fn names(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.files().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with("events-")).collect()
}

fn path(disk: &SimulatedDisk, name: &str) -> PathBuf {
    Directory::from(disk.clone()).path(name)
}

#[test]
fn damage_in_the_middle_is_named_by_file_and_place() {
    let files = names(&written());
    let bytes = written().bytes(&files[0]).expect("a file");
    let used = bytes.iter().rposition(|&byte| byte != 0).expect("groups");
    for place in (4096..used).step_by(997) {
        let disk = written();
        disk.damage(&files[0], place);
        let said = open(&disk);
        // Padding between groups belongs to no group.
        let is_padding = bytes[place] == 0 && said.is_ok();
        match said {
            Err(StoreError::Damaged {
                file, place: said, ..
            }) => {
                assert_eq!(file, path(&disk, &files[0]));
                assert!(said as usize <= place, "damage at {place}, found at {said}");
            }
            other => assert!(is_padding, "{place}: {other:?}"),
        }
    }
}

#[test]
fn damage_in_the_last_file_is_no_torn_end_when_a_group_comes_behind() {
    let last = names(&written()).pop().expect("files");
    let bytes = written().bytes(&last).expect("a file");
    let starts = (4096..bytes.len()).step_by(64);
    let groups: Vec<_> = starts
        .filter(|&at| bytes[at + 4..at + 8] == *b"grup")
        .collect();
    assert!(groups.len() > 3, "{groups:?}");
    for (number, &group) in groups.iter().enumerate() {
        let disk = written();
        disk.damage(&last, group + 40);
        let said = open(&disk);
        let is_last = number + 1 == groups.len();
        match said {
            Err(StoreError::Damaged { file, place, .. }) => {
                assert!(!is_last, "a torn write cannot be told from this");
                assert_eq!((file, place), (path(&disk, &last), group as u64));
            }
            other => assert!(is_last, "group {number}: {other:?}"),
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    for gone in names(&written()).into_iter().rev().skip(1) {
        let disk = written();
        let directory = Directory::from(disk.clone());
        directory.remove(&gone).expect("it is there");
        let said = open(&disk);
        assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
    }
}

#[test]
fn a_file_cut_short_is_missed() {
    let files = names(&written());
    let disk = written();
    let file = Directory::from(disk.clone()).open_file(&files[0]);
    file.and_then(|file| file.set_length(10_000))
        .expect("it is there");
    let said = open(&disk);
    assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
}

#[test]
fn a_header_that_cannot_be_read_is_no_empty_file() {
    for file in names(&written()) {
        let disk = written();
        disk.damage(&file, 20);
        let said = open(&disk);
        assert!(matches!(said, Err(StoreError::Damaged { .. })), "{said:?}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let disk = written();
    disk.damage(&names(&disk)[0], 8);
    let said = open(&disk);
    assert!(matches!(said, Err(StoreError::Version { .. })), "{said:?}");
}

#[test]
fn another_loggers_folder_is_refused() {
    let disk = written();
    let mut options = options(false);
    options.logger.0 += 1;
    let said = Logbook::open_on(disk.into(), &options);
    assert!(
        matches!(said, Err(StoreError::OtherLogger { .. })),
        "{said:?}"
    );
}
