//! Directories with problems at the start or later.

use super::{ENGINES, PREFIX, child, driver, names, options};
use crate::segment::slot_offset;
use crate::store::disk::{DiskOptions, DiskStore};
use crate::store::tests::{Chunks, Place, header};
use refrain_ring::CHUNK_BYTES;
use refrain_storage::Io;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nowhere");
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let make = |options: DiskOptions| DiskStore::new(options).unwrap_err();
    let error = make(options(&missing, Io::Auto));
    assert!(
        error.to_string().contains("nowhere does not exist"),
        "{error}"
    );
    let error = make(options(&file, Io::Auto));
    assert!(
        error.to_string().contains("file is not a directory"),
        "{error}"
    );
    let error = make(DiskOptions::new(directory.path(), "a/b", 1));
    assert!(
        error.to_string().contains("must not contain `/`"),
        "{error}"
    );
    assert_eq!(names(directory.path()), ["file"], "no probe is left behind");
}

#[test]
fn a_directory_that_cannot_be_written() {
    if !child::is_child() {
        return child::run_with_own_mounts("directories::a_directory_that_cannot_be_written");
    }
    let directory = tempfile::tempdir().unwrap();
    let _mount = child::Mount::new("tmpfs", "ro", directory.path());
    let error = DiskStore::new(options(directory.path(), Io::Auto)).unwrap_err();
    assert!(error.to_string().contains("allow writing there"), "{error}");
}

#[test]
fn no_room_is_told_as_such_and_leaves_nothing_half_made() {
    if !child::is_child() {
        let test = "directories::no_room_is_told_as_such_and_leaves_nothing_half_made";
        return child::run_with_own_mounts(test);
    }
    let directory = tempfile::tempdir().unwrap();
    let _mount = child::Mount::new("tmpfs", "size=4m", directory.path());
    for engine in ENGINES {
        let mut driver = driver(options(directory.path(), engine));
        let first = driver.open(header(0, 0, 8), None);
        // tmpfs gives room when it is written to.
        let filler = directory.path().join("filler");
        fs::write(&filler, vec![1; 3 << 20]).unwrap();
        let (_, result) = driver.try_open(header(0, 8, 8), None);
        fs::remove_file(&filler).unwrap();
        let error = result.unwrap_err();
        assert!(error.is_lack_of_space(), "{error}");
        assert_eq!(error.error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().contains(PREFIX), "{error}");
        assert_eq!(names(directory.path()).len(), 1);
        // Files with allocated room are still written.
        driver.write_all(first, Chunks::new(1, 0, 8, Place::OnAPage).take(8));
        driver.delete(first).unwrap();
        let file = driver.open(header(0, 8, 8), None);
        driver.delete(file).unwrap();
    }
    // Not even a first block.
    fs::write(directory.path().join("other"), vec![1; 4 << 20]).unwrap();
    let error = DiskStore::new(options(directory.path(), Io::Auto)).unwrap_err();
    assert!(
        error.to_string().contains("no room in the spill directory"),
        "{error}"
    );
    assert_eq!(names(directory.path()), ["other"]);
}

#[test]
fn a_directory_that_is_removed_meanwhile() {
    for engine in ENGINES {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("spill");
        fs::create_dir(&directory).unwrap();
        let mut driver = driver(options(&directory, engine));
        let file = driver.open(header(0, 0, 2), None);
        fs::remove_dir_all(&directory).unwrap();
        let (_, result) = driver.try_open(header(0, 2, 2), None);
        assert_eq!(result.unwrap_err().error.kind(), ErrorKind::NotFound);
        let (_, result) = driver.try_open(header(0, 2, 2), Some(file));
        assert_eq!(result.unwrap_err().error.kind(), ErrorKind::NotFound);
    }
}

/// Another process truncates a file: the remaining bytes are read, the rest is zeros; when the
/// file is reused, it has all its room.
#[test]
fn a_file_that_is_cut_by_somebody_else() {
    for parent in ["/tmp", "/dev/shm"] {
        for engine in ENGINES {
            let directory = tempfile::tempdir_in(parent).unwrap();
            let mut driver = driver(options(directory.path(), engine));
            let mut chunks = Chunks::new(1, 0, 8, Place::OnAPage);
            let file = driver.open(header(0, 0, 4), None);
            let originals = driver.write_all(file, chunks.take(4));
            // Fills the buffers that are used again below.
            (0..4).for_each(|slot| drop(driver.read(file, slot)));
            let path = directory.path().join(&names(directory.path())[0]);
            let cut = 100_003;
            let opened = OpenOptions::new().write(true).open(&path).unwrap();
            opened.set_len(slot_offset(1) + cut).unwrap();
            let buffer = driver.read(file, 1);
            let (kept, lost) = buffer.bytes().split_at(cut as usize);
            assert_eq!(*kept, originals[1].chunk_bytes()[..kept.len()]);
            assert!(lost.iter().all(|byte| *byte == 0));
            for slot in 2..4 {
                let buffer = driver.read(file, slot);
                assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            }
            assert_eq!(
                driver.read(file, 0).bytes()[..CHUNK_BYTES - 64],
                originals[0].chunk_bytes()[..CHUNK_BYTES - 64]
            );
            let head = header(0, 4, 4);
            driver.open(head, Some(file));
            let path = directory.path().join(&names(directory.path())[0]);
            assert_eq!(fs::metadata(path).unwrap().len(), head.file_bytes());
        }
    }
}

/// A file of another program keeps its name.
#[test]
fn a_strangers_file_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = |first| {
        let name = format!("{PREFIX}{}", header(0, first, 2).name());
        directory.path().join(name)
    };
    fs::write(path(0), "mine").unwrap();
    fs::write(path(2), "mine").unwrap();
    let mut driver = driver(options(directory.path(), Io::Auto));
    let file = driver.open(header(0, 0, 2), None);
    driver.open(header(0, 2, 2), Some(file));
    drop(driver);
    assert_eq!(fs::read(path(0)).unwrap(), b"mine");
    assert_eq!(fs::read(path(2)).unwrap(), b"mine");
    assert_eq!(names(directory.path()).len(), 3);
}

/// Operations that violate the contract are answered, too: no lent chunk is lost.
#[test]
fn what_is_asked_of_a_file_that_is_gone_is_refused() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = driver(options(directory.path(), engine));
        let mut chunks = Chunks::new(1, 0, 1, Place::OnAPage);
        let file = driver.open(header(0, 0, 1), None);
        driver.delete(file).unwrap();
        assert_eq!(names(directory.path()), [""; 0]);
        driver.submit_write(file, 0, chunks.next_chunk());
        let (chunk, result) = driver.written(file);
        assert!(result.is_err(), "written where nothing is");
        assert_eq!(chunk.sequence(), 0, "it comes back");
        let token = driver.submit_read(file, 0);
        assert!(driver.was_read(token).is_err(), "read where nothing is");
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
