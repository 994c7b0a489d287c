//! Which checkpoint is returned, which are removed, and which lives may write.

use crate::content::{RANK, check, job, write};
use refrain_checkpoint::folder::Folder;
use refrain_checkpoint::{CheckpointError, JobName, Store};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use std::sync::Arc;

fn store_of(disk: &SimulatedDisk, job: JobName) -> Store {
    let folder = Folder::new(Directory::from(disk.clone()), job.clone());
    Store::on(Arc::new(folder), job)
}

fn store(disk: &SimulatedDisk) -> Store {
    store_of(disk, job())
}

fn name(number: u64) -> String {
    format!("refrain-17-4-r3-{number:012}.ckpt")
}

fn with(numbers: u64) -> (SimulatedDisk, Store) {
    let disk = SimulatedDisk::new(3);
    let store = store(&disk);
    for number in 1..=numbers {
        write(&store, 0, number, 1000).unwrap();
    }
    (disk, store)
}

// GC-1
#[test]
fn two_generations_are_kept() {
    let (disk, _) = with(5);
    assert_eq!(disk.names().unwrap(), [name(4), name(5)]);
}

#[test]
fn a_damaged_one_is_passed_over_told_and_replaced() {
    let (disk, _) = with(3);
    disk.damage(&name(3), 4200);
    // A store of another process, without state of this one.
    let store_now = store(&disk);
    let mut reading = store_now.newest(RANK).unwrap().unwrap();
    assert_eq!((reading.number(), reading.next_number()), (2, 4));
    check(&mut reading, 1000);
    let told = reading.passed_over()[0].to_string();
    assert!(
        told.contains("simulated/") && told.contains(&name(3)),
        "{told}"
    );
    assert!(
        told.contains("a piece does not match its checksum"),
        "{told}"
    );
    // GC-1: of the older checkpoints, the usable one is kept.
    write(&store_now, 1, 4, 1000).unwrap();
    assert_eq!(disk.names().unwrap(), [name(2), name(4)]);
}

#[test]
fn the_number_of_a_damaged_one_may_be_used_again() {
    let (disk, _) = with(3);
    disk.damage(&name(3), 4200);
    let store_now = store(&disk);
    write(&store_now, 1, 3, 500).unwrap();
    let mut reading = store_now.newest(RANK).unwrap().unwrap();
    assert_eq!(
        (reading.number(), reading.incarnation()),
        (3, Incarnation(1))
    );
    check(&mut reading, 500);
}

#[test]
fn no_beginning_from_the_start_where_there_was_a_checkpoint() {
    let (disk, store) = with(2);
    disk.damage(&name(1), 70);
    disk.put(&name(2), b"");
    let error = store.newest(RANK).unwrap_err();
    let CheckpointError::NoneWhole { rank, damaged } = &error else {
        panic!("{error}");
    };
    assert_eq!((*rank, damaged.len()), (RANK, 2));
    let text = error.to_string();
    assert!(
        text.contains("cut short") && text.contains("start the job from the beginning"),
        "{text}"
    );
}

/// EL-2, for checkpoints: each of these is a valid checkpoint by itself.
// EL-2
#[test]
fn what_is_somebody_elses_or_older_is_not_taken() {
    let (disk, store) = with(2);
    let older = disk.bytes(&name(1)).unwrap();
    let newer = disk.bytes(&name(2)).unwrap();
    let same_prefix = JobName::new(8, job().prefix).unwrap();
    let elsewhere = SimulatedDisk::new(1);
    write(&store_of(&elsewhere, same_prefix), 0, 2, 1000).unwrap();
    let of_other_job = elsewhere.bytes(&name(2)).unwrap();
    let of_other_rank = {
        let disk = SimulatedDisk::new(1);
        let store = self::store(&disk);
        let mut writing = store.begin(Rank(4), Incarnation(0), 2).unwrap();
        crate::content::fill(&mut writing, 2, 1000).unwrap();
        writing.commit().unwrap();
        disk.bytes("refrain-17-4-r4-000000000002.ckpt").unwrap()
    };
    let mut mixed = newer.clone();
    mixed[4096..].copy_from_slice(&older[4096..]);
    let mut longer = newer.clone();
    longer.extend([0; 4096]);
    for (bytes, what) in [
        (&older, "number 1"),
        (&of_other_job, "job 0x8"),
        (&of_other_rank, "rank 4"),
        (&mixed, "checksum"),
        (&longer, "bytes follow its end"),
        (&newer[..4096].to_vec(), "cut short"),
    ] {
        disk.put(&name(2), bytes);
        let reading = store.newest(RANK).unwrap().unwrap();
        assert_eq!(reading.number(), 1, "{what}");
        let told = reading.passed_over()[0].to_string();
        assert!(told.contains(what), "{told}");
    }
}

// FENCE-1
#[test]
fn an_old_life_writes_nothing_any_more() {
    let (_, store) = with(2);
    let refused = |result: Result<_, CheckpointError>, own: u32| match result {
        Err(CheckpointError::Fenced { own: is, found, .. }) => {
            assert_eq!((is, found), (Incarnation(own), Incarnation(2)));
        }
        other => panic!("{other:?}"),
    };
    write(&store, 2, 3, 10).unwrap();
    refused(store.begin(RANK, Incarnation(1), 4).map(drop), 1);
    // A checkpoint that was only begun counts, too.
    let disk = SimulatedDisk::new(1);
    let store = self::store(&disk);
    let writing = store.begin(RANK, Incarnation(2), 1).unwrap();
    refused(store.begin(RANK, Incarnation(0), 1).map(drop), 0);
    drop(writing);
}

#[test]
fn numbers_grow() {
    let (_, store) = with(3);
    for number in [0, 1, 2, 3] {
        let error = write(&store, 5, number, 10).unwrap_err();
        assert!(matches!(error, CheckpointError::NotNext { .. }), "{error}");
    }
    write(&store, 5, u64::MAX, 10).unwrap();
    assert_eq!(store.newest(RANK).unwrap().unwrap().number(), u64::MAX);
}

/// The checkpoint is overwritten during a read.
#[test]
fn one_that_changes_while_it_is_read_is_not_given_out() {
    let (disk, store) = with(2);
    let mut reading = store.newest(RANK).unwrap().unwrap();
    disk.damage(&name(2), 4096 + 70);
    // The first strip was read before.
    check(&mut reading, 1000);
    write(&store, 0, 3, 3 << 20).unwrap();
    let mut reading = store.newest(RANK).unwrap().unwrap();
    disk.damage(&name(3), 2 << 20);
    reading
        .next_section()
        .unwrap()
        .unwrap()
        .read_to_end()
        .unwrap();
    let mut log = reading.next_section().unwrap().unwrap();
    let error = log.read_to_end().unwrap_err();
    assert!(
        matches!(error, CheckpointError::DamagedMeanwhile(_)),
        "{error}"
    );
}

// FENCE-1
#[test]
fn a_life_that_recovers_ends_what_lives_before_it_write() {
    let (disk, store) = with(2);
    let mut old = store.begin(RANK, Incarnation(0), 3).unwrap();
    crate::content::fill(&mut old, 3, 10).unwrap();
    // The same process, as in a server.
    let found = store.recover(RANK, Incarnation(1), None).unwrap().unwrap();
    assert_eq!(found.number(), 2);
    let error = old.commit().unwrap_err();
    assert!(
        matches!(error, CheckpointError::GivenUp { number: 3, .. }),
        "{error}"
    );
    // Another process.
    let elsewhere = self::store(&disk);
    let begun = |life, number| elsewhere.begin(RANK, Incarnation(life), number);
    assert!(matches!(begun(0, 3), Err(CheckpointError::Fenced { .. })));
    let mut old = begun(1, 3).unwrap();
    crate::content::fill(&mut old, 3, 10).unwrap();
    let found = store.recover(RANK, Incarnation(2), None).unwrap().unwrap();
    assert_eq!(found.number(), 2);
    let error = old.commit().unwrap_err();
    assert!(matches!(error, CheckpointError::Fenced { .. }), "{error}");
    assert!(matches!(
        store.recover(RANK, Incarnation(1), None),
        Err(CheckpointError::Fenced { .. })
    ));
    // Also after a loss of power.
    let later = self::store(&disk.after_power_loss(1));
    assert!(matches!(
        later.begin(RANK, Incarnation(1), 3),
        Err(CheckpointError::Fenced { .. })
    ));
    // Looking up a checkpoint fences no life, and leaves no file.
    assert_eq!(store.newest(RANK).unwrap().unwrap().number(), 2);
    write(&store, 2, 3, 10).unwrap();
    store.remove_all().unwrap();
    assert!(disk.names().unwrap().is_empty());
}

#[test]
fn one_is_written_at_a_time() {
    let (disk, store) = with(1);
    let mut first = store.begin(RANK, Incarnation(0), 2).unwrap();
    crate::content::fill(&mut first, 7, 10).unwrap();
    // The same life and number, and so the same file name.
    let mut second = store.begin(RANK, Incarnation(0), 2).unwrap();
    let error = first.commit().unwrap_err();
    assert!(
        matches!(error, CheckpointError::GivenUp { number: 2, .. }),
        "{error}"
    );
    crate::content::fill(&mut second, 2, 10).unwrap();
    second.commit().unwrap();
    check(&mut store.newest(RANK).unwrap().unwrap(), 10);
    assert_eq!(disk.names().unwrap().len(), 2);
}
