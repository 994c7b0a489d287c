//! An engine with faults: errors, panics.

use super::{names, options};
use crate::store::Store;
use crate::store::disk::worker::Work;
use crate::store::disk::{DiskStore, uring_or_plain};
use crate::store::tests::{Chunks, Driver, Place, header};
use refrain_storage::{Directory, Ended, Engine, Inline, Io, Stage, Transfer};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use tempfile::TempDir;

/// What happens to a transfer.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Fails(Errno),
    Panics,
}

/// Ends the first transfers as the test says, and all later ones without an error.
#[derive(Debug)]
struct Failing {
    inner: Inline<Work>,
    fates: VecDeque<Fate>,
}

impl Engine<Work> for Failing {
    fn room(&self) -> usize {
        self.inner.room()
    }

    fn begin(&mut self, transfer: Transfer<Work>) {
        self.inner.begin(transfer);
    }

    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<Work>>) -> io::Result<()> {
        let fate = self.fates.front().copied().filter(|_| self.under_way() > 0);
        if let Some(fate) = fate {
            self.fates.pop_front();
            match fate {
                Fate::Panics => panic!("planted"),
                Fate::Fails(error) => {
                    self.inner.collect(wait, ended)?;
                    if let Some(Ended::Done { result, .. }) = ended.last_mut() {
                        *result = Err((Stage::Transfer, error.into()));
                    }
                    return Ok(());
                }
            }
        }
        self.inner.collect(wait, ended)
    }

    fn under_way(&self) -> usize {
        self.inner.under_way()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        "failing".into()
    }
}

fn driver(fates: &[Fate]) -> (Driver, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let fates: VecDeque<Fate> = fates.iter().copied().collect();
    let make = Box::new(move |_: &Directory| {
        let inner = Inline::new(None);
        let engine: Box<dyn Engine<Work>> = Box::new(Failing { inner, fates });
        Ok(engine)
    });
    let store = DiskStore::with_engine(options(directory.path(), Io::Auto), make);
    (
        Driver::new(Box::new(store.unwrap()), Place::OnAPage),
        directory,
    )
}

#[test]
fn errors_are_told_with_the_chunk_and_the_next_write_goes_well() {
    let (mut driver, directory) = driver(&[Fate::Fails(Errno::IO)]);
    let file = driver.open(header(0, 0, 2), None);
    let mut chunks = Chunks::new(1, 0, 2, Place::OnAPage);
    driver.submit_write(file, 1, chunks.next_chunk());
    let (chunk, result) = driver.written(file);
    let error = result.unwrap_err();
    assert_eq!(error.error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    let path = directory.path().join(&names(directory.path())[0]);
    let expected = format!("writing slot 1 of {}", path.display());
    assert_eq!(error.attempted, expected);
    driver.write(file, 0, chunk);
}

/// Every chunk comes back, also those that were begun, and the files can still be
/// removed.
#[test]
fn a_panic_of_the_thread_turns_into_errors() {
    let (mut driver, directory) = driver(&[Fate::Panics]);
    let file = driver.open(header(0, 0, 8), None);
    let old = driver.open(header(1, 0, 8), None);
    let mut chunks = Chunks::new(1, 0, 8, Place::OnAPage);
    for slot in 0..8 {
        driver.submit_write(file, slot, chunks.next_chunk());
    }
    for _ in 0..8 {
        let (_, result) = driver.written(file);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("planted"), "{error}");
    }
    let token = driver.submit_read(file, 0);
    driver.was_read(token).unwrap_err();
    driver.try_open(header(0, 8, 8), None).1.unwrap_err();
    driver.try_open(header(1, 8, 8), Some(old)).1.unwrap_err();
    driver.delete(file).unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
    driver.assert_quiet();
}

/// A file that cannot be reused is removed; if the removal fails, the error says so.
#[test]
fn what_stays_after_a_failed_reuse_is_said() {
    for is_removable in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = super::driver(options(directory.path(), Io::Plain));
        let old = driver.open(header(0, 0, 2), None);
        let path = directory.path().join(&names(directory.path())[0]);
        if !is_removable {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
        }
        // Of another length, which is refused.
        let error = driver.try_open(header(0, 2, 4), Some(old)).1.unwrap_err();
        let says_so = error.attempted.contains("it cannot be removed either");
        assert_eq!(says_so, !is_removable, "{error}");
        assert!(error.attempted.starts_with("using again"), "{error}");
        assert_eq!(names(directory.path()).is_empty(), is_removable);
    }
}

#[test]
fn without_io_uring_auto_writes_plainly_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let make = Box::new(|_: &Directory| Ok(uring_or_plain(Err(Errno::PERM.into()))));
    let store = DiskStore::with_engine(options(directory.path(), Io::Auto), make).unwrap();
    let how = store.describe();
    assert!(
        how.starts_with("plain writes (no io_uring: Operation not permitted"),
        "{how}"
    );
    assert!(
        how.ends_with("direct") || how.ends_with("buffered"),
        "{how}"
    );
    let mut driver = Driver::new(Box::new(store), Place::OnAPage);
    let file = driver.open(header(0, 0, 1), None);
    driver.write(file, 0, Chunks::new(1, 0, 1, Place::OnAPage).next_chunk());
}
