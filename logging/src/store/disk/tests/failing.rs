//! An engine that does badly: short and interrupted transfers, errors, panics.

use super::{names, options};
use crate::store::conformance::{Chunks, Driver, Place, header};
use crate::store::disk::bell::Bell;
use crate::store::disk::engine::{Ended, Engine};
use crate::store::disk::memory::Pool;
use crate::store::disk::plain::Plain;
use crate::store::disk::transfer::{Rest, Transfer, Work};
use crate::store::disk::uring::Uring;
use crate::store::disk::{DiskEngine, DiskStore, uring_or_plain};
use crate::store::{FileNumber, ReadToken, Store};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// What happens to a piece of a transfer.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// So many bytes are moved.
    Moves(usize),
    Fails(Errno),
    Panics,
}

/// Does as it is told for the first pieces, then all well.
struct Failing {
    inner: Plain,
    fates: VecDeque<Fate>,
}

impl Engine for Failing {
    fn room(&self) -> usize {
        self.inner.room()
    }

    fn begin(&mut self, mut transfer: Transfer) {
        let result = match self.fates.front() {
            Some(Fate::Moves(bytes)) => {
                let descriptor = transfer.descriptor.clone();
                let place = transfer.rest_place();
                let moved = match transfer.rest() {
                    // The file takes whole blocks only; more than is told.
                    Rest::Write(rest) => {
                        rustix::io::pwrite(&descriptor, &rest[..bytes & !4095], place).map(drop)
                    }
                    Rest::Read(rest) => {
                        let whole = bytes.next_multiple_of(4096);
                        rustix::io::pread(&descriptor, &mut rest[..whole], place).map(drop)
                    }
                };
                moved.map(|()| *bytes).map_err(io::Error::from)
            }
            Some(Fate::Fails(error)) => Err((*error).into()),
            Some(Fate::Panics) | None => return self.inner.begin(transfer),
        };
        self.fates.pop_front();
        self.inner.put(Ended { transfer, result });
    }

    fn collect(&mut self, sleep: bool, ended: &mut Vec<Ended>) -> io::Result<()> {
        if self.inner.under_way() > 0 && matches!(self.fates.front(), Some(Fate::Panics)) {
            self.fates.pop_front();
            panic!("planted");
        }
        self.inner.collect(sleep, ended)
    }

    fn under_way(&self) -> usize {
        self.inner.under_way()
    }

    fn name(&self) -> String {
        "failing".into()
    }
}

fn driver(fates: &[Fate]) -> (Driver, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let fates: VecDeque<Fate> = fates.iter().copied().collect();
    let make = Box::new(move |bell: &Arc<Bell>| {
        let inner = Plain::new(bell.clone(), None);
        let engine: Box<dyn Engine> = Box::new(Failing { inner, fates });
        Ok(engine)
    });
    let store = DiskStore::with_engine(options(directory.path(), DiskEngine::Auto), make);
    (
        Driver::new(Box::new(store.unwrap()), Place::OnAPage),
        directory,
    )
}

#[test]
fn cut_and_interrupted_writes_are_continued() {
    let (mut driver, _directory) = driver(&[
        Fate::Moves(4096),
        Fate::Fails(Errno::INTR),
        Fate::Fails(Errno::AGAIN),
        Fate::Moves(8192 + 512),
        Fate::Moves(65536),
    ]);
    let file = driver.open(header(0, 0, 1), None);
    let chunk = driver.write(file, 0, Chunks::new(1, 0, 1, Place::OnAPage).next_chunk());
    let buffer = driver.read(file, 0);
    assert_eq!(buffer.bytes()[..chunk.used_bytes()], *chunk.bytes());
}

#[test]
fn cut_and_interrupted_reads_are_continued() {
    let directory = tempfile::tempdir().unwrap();
    let chunk = {
        let mut plain = super::driver(options(directory.path(), DiskEngine::Plain));
        let file = plain.open(header(0, 0, 1), None);
        plain.write(file, 0, Chunks::new(1, 0, 1, Place::OnAPage).next_chunk())
    };
    let (mut driver, other) = driver(&[
        Fate::Moves(12288),
        Fate::Fails(Errno::AGAIN),
        Fate::Moves(4096),
        Fate::Fails(Errno::INTR),
        Fate::Moves(100 * 1024),
    ]);
    let file = driver.open(header(0, 0, 1), None);
    let name = &names(other.path())[0];
    // Other bytes under the open file.
    let bytes = std::fs::read(directory.path().join(name)).unwrap();
    std::fs::write(other.path().join(name), bytes).unwrap();
    let buffer = driver.read(file, 0);
    assert_eq!(buffer.bytes()[..chunk.used_bytes()], *chunk.bytes());
}

#[test]
fn errors_are_told_with_the_chunk_and_the_next_write_goes_well() {
    let (mut driver, directory) = driver(&[Fate::Moves(4096), Fate::Fails(Errno::IO)]);
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

#[test]
fn a_write_that_moves_nothing_fails() {
    let (mut driver, _directory) = driver(&[Fate::Moves(0)]);
    let file = driver.open(header(0, 0, 1), None);
    driver.submit_write(file, 0, Chunks::new(1, 0, 1, Place::OnAPage).next_chunk());
    let (_, result) = driver.written(file);
    assert_eq!(result.unwrap_err().error.kind(), io::ErrorKind::WriteZero);
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

/// A file that cannot be used again goes; if it does not, that is said.
#[test]
fn what_stays_after_a_failed_reuse_is_said() {
    for is_removable in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = super::driver(options(directory.path(), DiskEngine::Plain));
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
    let make = Box::new(|bell: &Arc<Bell>| Ok(uring_or_plain(bell, Err(Errno::PERM.into()))));
    let store = DiskStore::with_engine(options(directory.path(), DiskEngine::Auto), make).unwrap();
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

/// The kernel holds on to the memory of a read from an empty pipe until somebody
/// writes there: so does the engine.
#[test]
fn an_engine_that_is_dropped_waits_for_the_kernel() {
    let (reader, writer) = std::io::pipe().unwrap();
    let descriptor = Rc::new(OwnedFd::from(reader));
    let mut uring = Uring::new(Arc::new(Bell::new().unwrap()), 8).unwrap();
    let work = Work::Read {
        buffer: Pool::new(1).take(),
        token: ReadToken(0),
    };
    let place = (FileNumber(0), 0);
    uring.begin(Transfer::new(descriptor.clone(), place, false, 4096, work));
    assert_eq!(uring.room(), 7);
    let dropped = Arc::new(AtomicBool::new(false));
    let dropper = rustix::thread::gettid();
    let watcher = std::thread::spawn({
        let dropped = dropped.clone();
        move || {
            let status = format!("/proc/self/task/{dropper}/stat");
            let sleeps = || std::fs::read_to_string(&status).unwrap().contains(") S ");
            while !dropped.load(Ordering::Acquire) && !sleeps() {
                std::thread::yield_now();
            }
            let was_early = dropped.load(Ordering::Acquire);
            (&writer).write_all(b"now").unwrap();
            was_early
        }
    });
    drop(uring);
    dropped.store(true, Ordering::Release);
    assert!(!watcher.join().unwrap(), "the kernel had the memory still");
    assert_eq!(Rc::strong_count(&descriptor), 1);
}
