//! Real files, written by every engine.

use crate::content::{RANK, check, job, sections, write};
use refrain_checkpoint::disk::Disk;
use refrain_checkpoint::folder::Folder;
use refrain_checkpoint::{CheckpointError, CheckpointStoreSpec, SectionKind, Store};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Io;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const EVERY_WAY: [Io; 4] = [Io::Auto, Io::Uring, Io::Thread, Io::Plain];

fn store(folder: &Path, io: Io) -> Store {
    let disk = Disk::with_io(folder, io).expect("it can be written");
    Store::on(Arc::new(Folder::new(disk, job())), job())
}

/// Lengths at which strips, pages and pieces are just full, or not quite.
fn lengths() -> Vec<usize> {
    let strip = 1 << 20;
    let mut lengths = vec![0, 1, 63, 64, 65, 4096, 3 * strip + 5];
    // Without the first strip's page, three headers, and the engine's section.
    let full = strip - 4096 - 64 - 128 - 64;
    lengths.extend((full - 128..=full + 64).step_by(64));
    lengths.extend([full - 1, full + 1]);
    lengths
}

#[test]
fn what_was_written_comes_back_in_every_way_and_length() {
    for io in EVERY_WAY {
        let folder = tempfile::tempdir().unwrap();
        let store = match io {
            // io_uring is not allowed in some containers: then it is not tested.
            Io::Uring if Disk::with_io(folder.path(), io).is_err() => {
                println!("SKIP io_uring: not allowed here");
                continue;
            }
            _ => store(folder.path(), io),
        };
        let mut number = 0;
        for bytes in lengths() {
            number += 1;
            let stable = write(&store, 0, number, bytes).unwrap();
            let mut reading = store.newest(RANK).unwrap().expect("it is there");
            assert_eq!((reading.number(), reading.bytes()), (number, stable.bytes));
            assert_eq!(reading.incarnation(), Incarnation(0));
            check(&mut reading, bytes);
            assert!(reading.passed_over().is_empty());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{io:?}");
    }
}

#[test]
fn files_in_memory_are_written_too() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("SKIP files in memory: no /dev/shm");
        return;
    };
    for (number, io) in (1..).zip([Io::Auto, Io::Thread]) {
        let store = store(folder.path(), io);
        write(&store, 0, number, 5 << 20).unwrap();
        check(&mut store.newest(RANK).unwrap().unwrap(), 5 << 20);
    }
}

#[test]
fn sections_are_read_in_pieces_or_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let place = CheckpointStoreSpec::Folder(folder.path().into());
    let store = Store::open(&place, job()).unwrap();
    write(&store, 0, 1, 3 << 20).unwrap();
    let expected = sections(1, 3 << 20);
    let mut reading = store.newest(RANK).unwrap().unwrap();
    let mut engine = reading.next_section().unwrap().unwrap();
    let mut byte = [0];
    engine.read_exact(&mut byte).unwrap();
    assert_eq!(byte[0], expected[0].2[0]);
    let mut log = reading.next_section().unwrap().unwrap();
    let mut part = vec![0; 2 << 20];
    log.read_exact(&mut part).unwrap();
    assert!(part[..] == expected[1].2[..2 << 20]);
    let error = log.read_exact(&mut part).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("section log 7"), "{text}");
    assert!(reading.next_section().unwrap().is_some());
    let mut memory = reading.next_section().unwrap().unwrap();
    assert_eq!(memory.kind(), SectionKind::Memory);
    assert!(memory.read_to_end().unwrap() == expected[3].2);
}

#[test]
fn a_place_that_cannot_be_used_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        |path: &Path| Store::open(&CheckpointStoreSpec::Folder(path.into()), job()).unwrap_err();
    let missing = open(&folder.path().join("nothing"));
    assert!(matches!(missing, CheckpointError::Missing { .. }));
    assert!(missing.to_string().contains("create it"), "{missing}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let text = open(&file).to_string();
    assert!(text.contains("choose another place"), "{text}");
    // A file system in which no files can be created.
    let text = open(Path::new("/proc/self")).to_string();
    assert!(
        text.contains("opening /proc/self for checkpoints"),
        "{text}"
    );
}

#[test]
fn ranks_and_jobs_do_not_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let place = CheckpointStoreSpec::Folder(folder.path().into());
    let store = Store::open(&place, job()).unwrap();
    write(&store, 0, 1, 10).unwrap();
    assert!(store.newest(Rank(33)).unwrap().is_none());
    let mut other = job();
    other.prefix = "refrain-17-44-".into();
    let other = Store::open(&place, other).unwrap();
    assert!(other.newest(RANK).unwrap().is_none());
    write(&other, 0, 1, 10).unwrap();
    fs::write(folder.path().join("notes"), "").unwrap();
    store.remove_all().unwrap();
    assert!(store.newest(RANK).unwrap().is_none());
    assert!(other.newest(RANK).unwrap().is_some());
    assert!(folder.path().join("notes").exists());
}

#[test]
fn one_that_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), Io::Auto);
    let mut writing = store.begin(RANK, Incarnation(0), 1).unwrap();
    writing.section(SectionKind::Memory, 1).unwrap();
    writing.write(&vec![1; 20 << 20]).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(writing);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(store.newest(RANK).unwrap().is_none());
}
