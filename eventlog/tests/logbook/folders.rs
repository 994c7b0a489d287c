//! Folders of other loggers, and invalid folders.

use super::{JOB, options, read, which};
use refrain_eventlog::logbook::{Archive, Logbook, StoreError};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_folder_has_one_server_and_any_number_of_readers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logbook = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    let second = Logbook::open(folder.path(), options(false, Io::Auto));
    assert!(
        matches!(second, Err(StoreError::Locked { .. })),
        "{second:?}"
    );
    let empty = Archive::open(folder.path()).expect("readers are not locked out");
    assert!(empty.logger().is_none() && empty.holdings().is_empty());
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    for n in 0..500 {
        logbook
            .accept(JOB, &which(0, 0, n * 100, 100).bytes())
            .expect("in order");
        logbook.progress().expect("a disk that works");
        if n % 50 == 0 {
            let archive = Archive::open(folder.path()).expect("while it is written");
            assert_eq!(archive.holdings()[0].end, (n + 1) * 100);
        }
    }
    drop(logbook);
    Logbook::open(folder.path(), options(false, Io::Auto)).expect("the lock went with it");
}

#[test]
fn an_archive_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logbook = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    logbook
        .accept(JOB, &which(0, 0, 0, 100).bytes())
        .expect("in order");
    logbook.settle().expect("a disk that works");
    drop(logbook);
    // As left by a server that died while it made its next file.
    std::fs::write(folder.path().join("events-000000000009"), []).expect("a file");
    let look = || {
        let entries = std::fs::read_dir(folder.path()).expect("it is there");
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let bytes = std::fs::read(&path).expect("a file");
                (path, bytes)
            })
            .collect();
        files.sort();
        files
    };
    let before = look();
    let archive = Archive::open(folder.path()).expect("a folder");
    assert_eq!(archive.holdings().len(), 1);
    assert!(look() == before);
    Logbook::open(folder.path(), options(false, Io::Auto)).expect("a folder");
    assert!(
        look().len() == before.len() - 1,
        "what was never begun goes"
    );
}

#[test]
fn a_folder_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a file");
    std::fs::write(&file, "no folder").expect("a file");
    let said = Logbook::open(&file, options(false, Io::Auto)).expect_err("no folder");
    assert!(said.to_string().contains("a file"), "{said}");
    let said = Archive::open(&folder.path().join("nothing")).expect_err("no folder");
    assert!(said.to_string().contains("nothing"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_says_so() {
    if rustix::process::getuid().is_root() {
        println!("skipped a_folder_that_cannot_be_written_says_so: root may write everywhere");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let read_only = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(folder.path(), read_only).expect("it is ours");
    let said = Logbook::open(folder.path(), options(false, Io::Auto)).expect_err("read-only");
    assert!(matches!(said, StoreError::Io { .. }), "{said}");
}

#[test]
fn a_torn_end_is_cut_off_and_written_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events-000000000001");
    let mut logbook = Logbook::open(folder.path(), options(true, Io::Auto)).expect("new");
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    for n in 0..20 {
        logbook
            .accept(JOB, &which(0, 0, n * 100, 100).bytes())
            .expect("in order");
        logbook.settle().expect("a disk that works");
    }
    drop(logbook);
    let bytes = std::fs::read(&path).expect("a file");
    let last = bytes.iter().rposition(|&byte| byte != 0).expect("groups");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("a file");
    file.write_all_at(&[0], last as u64).expect("a byte");
    // A write that did not complete comes before the watermark of its group.
    std::fs::remove_file(folder.path().join("watermark")).expect("the watermark");
    let mut logbook = Logbook::open(folder.path(), options(true, Io::Auto)).expect("EL-3");
    assert_eq!(read(&logbook, 0, 0, None).expect("EL-5").len(), 19);
    logbook
        .accept(JOB, &which(0, 0, 1900, 7).bytes())
        .expect("again");
    logbook.settle().expect("a disk that works");
    drop(logbook);
    let logbook = Logbook::open(folder.path(), options(true, Io::Auto)).expect("EL-3");
    assert_eq!(read(&logbook, 0, 0, None).expect("EL-5").len(), 20);
}
