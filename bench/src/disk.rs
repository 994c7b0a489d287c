//! Speed of a disk alone: writes and reads as the payload log makes them, without the log.
//!
//! Blocks of a chunk's length bypass the page cache (`O_DIRECT`, if the file system supports it),
//! to preallocated files, several in flight. Each block is transferred by its own thread, so that
//! the figure is the disk's and does not depend on a disk engine. The files have no names: nothing
//! is left behind, however this process ends.

use crate::buffer::Buffer;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::workload::payload;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of one write or read: a chunk of the log.
pub const BLOCK_BYTES: usize = refrain_ring::CHUNK_BYTES;
/// Writes or reads in flight, for each file.
pub const IN_FLIGHT: usize = 8;
/// Time between two checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

fn system<E: Into<io::Error>>(attempted: &str, folder: &Path) -> impl FnOnce(E) -> BenchError {
    BenchError::system(format!("{attempted} in {}", folder.display()))
}

/// Bytes of `folder`'s file system that are free for this user.
///
/// # Errors
/// When the system refuses.
pub fn free_bytes(folder: &Path) -> Result<u64, BenchError> {
    let found = rustix::fs::statvfs(folder);
    let found = found.map_err(system("cannot ask for the free space", folder))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// A preallocated file without a name.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    blocks: u64,
    is_direct: bool,
}

impl DiskFile {
    /// Creates a file of `bytes` (rounded down to whole blocks, at least one) in `folder`. If
    /// `wants_direct`, access bypasses the page cache if the file system supports that.
    ///
    /// # Errors
    /// The folder has no space for the file.
    pub fn create(folder: &Path, bytes: u64, wants_direct: bool) -> Result<Self, BenchError> {
        let file = tempfile::tempfile_in(folder).map_err(system("cannot make a file", folder))?;
        let blocks = (bytes / BLOCK_BYTES as u64).max(1);
        let length = blocks * BLOCK_BYTES as u64;
        match fallocate(&file, FallocateFlags::empty(), 0, length) {
            // Not every file system can preallocate.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(system("cannot allocate disk space", folder)(error)),
        }
        let go_direct = || {
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags | OFlags::DIRECT)
        };
        let is_direct = wants_direct && go_direct().is_ok();
        Ok(Self {
            file,
            blocks,
            is_direct,
        })
    }

    /// Whether access bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }
}

/// A block of bytes that a disk cannot compress or deduplicate: they depend on `seed`.
pub fn random_block(seed: u64) -> Buffer {
    let mut block = Buffer::new(BLOCK_BYTES);
    payload::fill(seed, block.first(BLOCK_BYTES));
    block
}

/// Amount and duration of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transferred {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Transferred {
    /// Bytes per second; 0 when no time has passed.
    pub fn bytes_per_s(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.bytes as f64 / self.seconds,
            false => 0.0,
        }
    }
}

/// The direction of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To the disk.
    Write,
    /// From the disk.
    Read,
}

/// Amount to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Every block of every file, once.
    Through,
    /// As many blocks as possible in `timed`, after `warm_up`; at the end of a file, continue from
    /// its beginning.
    Time {
        /// Time that is not counted.
        warm_up: Duration,
        /// Time that is counted.
        timed: Duration,
    },
}

/// Transfers of one run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Their direction.
    pub access: Access,
    /// Transfers in flight, for each file.
    pub in_flight: usize,
    /// When the run ends.
    pub until: Until,
}

/// State that the threads of one run share.
struct Shared {
    access: Access,
    around: bool,
    done_bytes: AtomicU64,
    stop: AtomicBool,
    failed: Mutex<Option<io::Error>>,
}

impl Shared {
    fn fail(&self, error: io::Error) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
    }
}

/// Transfers blocks of all files at the same time, in order within each file. `folder` is used in
/// error messages.
///
/// # Errors
/// A transfer fails, or a signal asks for the end.
pub fn run(
    files: &[DiskFile],
    folder: &Path,
    load: Load,
    interrupt: &Interrupt,
) -> Result<Transferred, BenchError> {
    let Load {
        access,
        in_flight,
        until,
    } = load;
    let shared = Shared {
        access,
        around: until != Until::Through,
        done_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failed: Mutex::new(None),
    };
    let cursors: Vec<AtomicU64> = files.iter().map(|_| AtomicU64::new(0)).collect();
    // Before the clock starts: filling the blocks takes as long as writing some of them.
    let blocks: Vec<Buffer> = (0..files.len() * in_flight)
        .map(|index| random_block(index as u64))
        .collect();
    let transferred = thread::scope(|scope| {
        let mut workers = Vec::new();
        let began = Instant::now();
        for (index, mut block) in blocks.into_iter().enumerate() {
            let (file, cursor) = (&files[index / in_flight], &cursors[index / in_flight]);
            let shared = &shared;
            workers.push(scope.spawn(move || {
                transfer(file, cursor, &mut block, shared)
                    .unwrap_or_else(|error| shared.fail(error));
            }));
        }
        let is_over = || workers.iter().all(thread::ScopedJoinHandle::is_finished);
        let transferred = match until {
            Until::Through => {
                nap(Duration::MAX, interrupt, is_over);
                None
            }
            Until::Time { warm_up, timed } => {
                nap(warm_up, interrupt, is_over);
                let (before, from) = (shared.done_bytes.load(Ordering::Relaxed), Instant::now());
                nap(timed, interrupt, is_over);
                let bytes = shared.done_bytes.load(Ordering::Relaxed) - before;
                Some((bytes, from.elapsed()))
            }
        };
        shared.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            // Passes a panic of a worker on.
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        transferred.unwrap_or_else(|| (shared.done_bytes.load(Ordering::Relaxed), began.elapsed()))
    });
    interrupt.check()?;
    let failed = shared
        .failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failed {
        let attempted = match access {
            Access::Write => "cannot write",
            Access::Read => "cannot read",
        };
        return Err(system(attempted, folder)(error));
    }
    let (bytes, time) = transferred;
    Ok(Transferred {
        bytes,
        seconds: time.as_secs_f64(),
    })
}

/// Waits for `time`, the end of the work, or Ctrl-C, whichever is first.
fn nap(time: Duration, interrupt: &Interrupt, is_over: impl Fn() -> bool) {
    let began = Instant::now();
    while !interrupt.requested() && !is_over() {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        // The wait for the end of the work is part of the measured time.
        let look = if time == Duration::MAX {
            Duration::from_millis(1)
        } else {
            LOOK
        };
        thread::sleep(left.min(look));
    }
}

/// The work of one thread: transfers blocks of a file that no other thread has taken.
fn transfer(
    file: &DiskFile,
    cursor: &AtomicU64,
    block: &mut Buffer,
    shared: &Shared,
) -> io::Result<()> {
    while !shared.stop.load(Ordering::Relaxed) {
        let index = cursor.fetch_add(1, Ordering::Relaxed);
        if index >= file.blocks && !shared.around {
            break;
        }
        let offset = index % file.blocks * BLOCK_BYTES as u64;
        match shared.access {
            Access::Write => file.file.write_all_at(block.first(BLOCK_BYTES), offset)?,
            Access::Read => file.file.read_exact_at(block.first(BLOCK_BYTES), offset)?,
        }
        shared
            .done_bytes
            .fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(access: Access, until: Until) -> Load {
        Load {
            access,
            in_flight: 3,
            until,
        }
    }

    fn files(folder: &Path, blocks: u64) -> Vec<DiskFile> {
        let file = || DiskFile::create(folder, blocks * BLOCK_BYTES as u64, true).unwrap();
        vec![file(), file()]
    }

    #[test]
    fn every_block_of_every_file_is_written_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), 21);
        let interrupt = Interrupt::default();
        for access in [Access::Write, Access::Read] {
            let done = run(
                &files,
                folder.path(),
                load(access, Until::Through),
                &interrupt,
            )
            .unwrap();
            assert_eq!(done.bytes, 2 * 21 * BLOCK_BYTES as u64, "{access:?}");
            assert!(done.bytes_per_s() > 0.0);
        }
        // Preallocated blocks are zero until they are written.
        let mut block = Buffer::new(BLOCK_BYTES);
        for file in &files {
            for index in 0..21 {
                let offset = index * BLOCK_BYTES as u64;
                file.file
                    .read_exact_at(block.first(BLOCK_BYTES), offset)
                    .unwrap();
                assert!(
                    block.first(BLOCK_BYTES).iter().any(|byte| *byte != 0),
                    "block {index}"
                );
            }
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "no names"
        );
    }

    #[test]
    fn a_timed_run_goes_around_and_never_beyond_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), 2);
        let until = Until::Time {
            warm_up: Duration::from_millis(20),
            timed: Duration::from_millis(200),
        };
        let done = run(
            &files,
            folder.path(),
            load(Access::Write, until),
            &Interrupt::default(),
        )
        .unwrap();
        assert!(done.seconds >= 0.2);
        for file in &files {
            let length = file.file.metadata().unwrap().len();
            assert_eq!(length, 2 * BLOCK_BYTES as u64);
        }
    }

    #[test]
    fn errors_and_interrupts_end_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), 4);
        files[1].file.set_len(0).unwrap();
        let result = run(
            &files,
            folder.path(),
            load(Access::Read, Until::Through),
            &Interrupt::default(),
        );
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("cannot read in "), "{error}");
        let interrupt = Interrupt::default();
        interrupt.request();
        let result = run(
            &files,
            folder.path(),
            load(Access::Write, Until::Through),
            &interrupt,
        );
        assert!(matches!(result, Err(BenchError::Interrupted)), "{result:?}");
    }

    #[test]
    fn blocks_are_aligned_and_differ() {
        let (mut one, mut other) = (random_block(1), random_block(2));
        for block in [&mut one, &mut other] {
            let bytes = block.first(BLOCK_BYTES);
            assert_eq!(bytes.len(), BLOCK_BYTES);
            assert!(bytes.as_ptr().addr().is_multiple_of(4096));
        }
        assert_ne!(one.first(BLOCK_BYTES), other.first(BLOCK_BYTES));
    }
}
