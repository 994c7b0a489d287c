//! A disk that fails: the error says what to do, no stable checkpoint is lost, and writing
//! continues later.

use crate::content::{RANK, check, fill, job, write};
use refrain_checkpoint::folder::Folder;
use refrain_checkpoint::{CheckpointError, SectionKind, Store};
use refrain_ring::Incarnation;
use refrain_storage::Directory;
use refrain_storage::simulated::{Failure, Kind, SimulatedDisk};
use std::sync::Arc;

const BYTES: usize = 4 << 20;

fn store(disk: &SimulatedDisk) -> Store {
    Store::on(
        Arc::new(Folder::new(Directory::from(disk.clone()), job())),
        job(),
    )
}

/// Writes two checkpoints, then a third one that fails.
fn third_fails(kind: Kind, failure: Failure) -> (SimulatedDisk, Store, CheckpointError) {
    let disk = SimulatedDisk::new(11);
    let store = store(&disk);
    write(&store, 0, 1, BYTES).unwrap();
    write(&store, 0, 2, BYTES).unwrap();
    disk.fail(kind, failure, 1);
    let error = write(&store, 0, 3, BYTES).expect_err("it was to fail");
    (disk, store, error)
}

#[test]
fn whatever_fails_the_older_ones_stay_and_the_next_one_works() {
    for kind in [
        Kind::Names,
        Kind::Create,
        Kind::Write,
        Kind::Sync,
        Kind::Rename,
        Kind::SyncNames,
    ] {
        for failure in [
            Failure::Io,
            Failure::NoSpace,
            Failure::Quota,
            Failure::ReadOnly,
            Failure::Forbidden,
        ] {
            let story = format!("{failure:?} on {kind:?}");
            let (disk, store, error) = third_fails(kind, failure);
            let text = error.to_string();
            assert!(
                text.contains("the earlier checkpoints stay"),
                "{story}: {text}"
            );
            assert!(
                text.contains("simulated/"),
                "{story} does not say where: {text}"
            );
            let advice = match failure {
                Failure::Io => "check the disk",
                Failure::NoSpace | Failure::Quota => "free some room",
                Failure::ReadOnly | Failure::Forbidden => "change the permissions",
            };
            assert!(text.contains(advice), "{story}: {text}");
            let mut reading = store.newest(RANK).unwrap().unwrap();
            // Its name may exist before the names are synced.
            let expected = if kind == Kind::SyncNames { 3 } else { 2 };
            assert_eq!(reading.number(), expected, "{story}");
            check(&mut reading, BYTES);
            let names = disk.names().unwrap();
            let parts = names.iter().filter(|name| name.ends_with(".part"));
            assert_eq!(parts.count(), 0, "{story}: it takes room: {names:?}");
            write(&store, 0, 4, BYTES).unwrap();
            assert_eq!(store.newest(RANK).unwrap().unwrap().number(), 4);
            assert_eq!(disk.names().unwrap().len(), 2, "{story}");
        }
    }
}

#[test]
fn a_full_disk_takes_nothing_from_the_older_ones() {
    let disk = SimulatedDisk::new(5);
    let store = store(&disk);
    write(&store, 0, 1, BYTES).unwrap();
    let length = disk
        .bytes("refrain-17-4-r3-000000000001.ckpt")
        .unwrap()
        .len() as u64;
    // Room for two and a half checkpoints.
    disk.set_room(length * 5 / 2);
    write(&store, 0, 2, BYTES).unwrap();
    for number in 3..6 {
        let error = write(&store, 0, number, BYTES).unwrap_err();
        assert!(matches!(error, CheckpointError::NoRoom { .. }), "{error}");
        check(&mut store.newest(RANK).unwrap().unwrap(), BYTES);
    }
    disk.set_room(length * 3);
    write(&store, 0, 6, BYTES).unwrap();
    check(&mut store.newest(RANK).unwrap().unwrap(), BYTES);
}

#[test]
fn what_cannot_be_removed_is_told_and_tried_again() {
    let disk = SimulatedDisk::new(1);
    let store = store(&disk);
    for number in 1..=2 {
        write(&store, 0, number, 10).unwrap();
    }
    disk.fail(Kind::Remove, Failure::Io, 1);
    let stable = write(&store, 0, 3, 10).unwrap();
    assert_eq!(stable.left.len(), 1);
    assert!(
        stable.left[0].contains("000000000001.ckpt"),
        "{:?}",
        stable.left
    );
    assert_eq!(disk.names().unwrap().len(), 3);
    assert!(write(&store, 0, 4, 10).unwrap().left.is_empty());
    assert_eq!(disk.names().unwrap().len(), 2);
}

/// Disk errors other than a loss of data do not prove that the checkpoint is damaged: no older one
/// is returned instead.
#[test]
fn reading_that_is_refused_is_an_error_and_no_older_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let store = store(&disk);
    write(&store, 0, 1, 10).unwrap();
    write(&store, 0, 2, 10).unwrap();
    disk.fail(Kind::Read, Failure::Forbidden, 1);
    let error = store.newest(RANK).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Forbidden { .. }),
        "{error}"
    );
    disk.fail(Kind::Names, Failure::Io, 1);
    assert!(matches!(
        store.newest(RANK),
        Err(CheckpointError::Io { .. })
    ));
    // Data that the disk has lost counts as damaged.
    disk.fail(Kind::Read, Failure::Io, 1);
    let reading = store.newest(RANK).unwrap().unwrap();
    assert_eq!((reading.number(), reading.next_number()), (1, 3));
}

#[test]
fn a_section_has_one_name_and_one_place() {
    let disk = SimulatedDisk::new(1);
    let store = store(&disk);
    let mut writing = store.begin(RANK, Incarnation(0), 1).unwrap();
    fill(&mut writing, 1, 100).unwrap();
    let error = writing.section(SectionKind::Log, 7).unwrap_err();
    assert!(error.to_string().contains("Log 7"), "{error}");
    writing.commit().unwrap();
    check(&mut store.newest(RANK).unwrap().unwrap(), 100);
}
