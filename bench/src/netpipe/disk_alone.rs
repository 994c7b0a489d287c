//! The speed of the disk alone, measured in turn with the jobs.

use crate::disk::{self, Access, DiskFile, Load, Until};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use rustix::fs::statfs;
use std::path::PathBuf;
use std::time::Duration;

/// Files written at once: one for each rank of a job.
pub const FILES: u64 = 2;
/// Minimum and maximum length of each file.
pub const FILE_BYTES_MIN: u64 = 64 << 20;
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Each file takes at most this part (1/8) of the free space.
const FREE_PART: u64 = 8;
/// Minimum and maximum time of a turn: the speed is steady once the disk's buffers are full.
const TURN_MIN: Duration = Duration::from_millis(200);
const TURN_MAX: Duration = Duration::from_secs(5);
/// The first part (1/5) of a turn is not counted.
const WARM_UP_PART: u32 = 5;
/// `f_type` of tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// The disk of a folder.
pub struct FolderDisk {
    folder: PathBuf,
    interrupt: Interrupt,
    /// Files in memory, which are kept: they are slow to create, and their speed does not change.
    kept: Vec<DiskFile>,
}

impl FolderDisk {
    pub fn new(folder: PathBuf, interrupt: Interrupt) -> Self {
        Self {
            folder,
            interrupt,
            kept: Vec::new(),
        }
    }

    /// New files, as a log mostly has.
    fn files(&self) -> Result<Vec<DiskFile>, BenchError> {
        let free = disk::free_bytes(&self.folder)?;
        let most = match self.is_memory() {
            true => FILE_BYTES_MAX / 4,
            false => FILE_BYTES_MAX,
        };
        let bytes = (free / FREE_PART).clamp(FILE_BYTES_MIN, most);
        let file = |_| DiskFile::create(&self.folder, bytes, true);
        (0..FILES).map(file).collect()
    }

    fn is_memory(&self) -> bool {
        statfs(&self.folder).is_ok_and(|found| found.f_type as u64 == TMPFS)
    }

    /// Bytes per second that all ranks together can write. Takes about `time`.
    ///
    /// # Errors
    /// The disk fails, or the sweep is interrupted.
    pub fn measure(&mut self, time: Duration) -> Result<f64, BenchError> {
        let files = match std::mem::take(&mut self.kept) {
            none if none.is_empty() => self.files()?,
            kept => kept,
        };
        let time = time.clamp(TURN_MIN, TURN_MAX);
        let until = Until::Time {
            warm_up: time / WARM_UP_PART,
            timed: time - time / WARM_UP_PART,
        };
        let load = Load {
            access: Access::Write,
            in_flight: disk::IN_FLIGHT,
            until,
        };
        let done = disk::run(&files, &self.folder, load, &self.interrupt)?;
        if self.is_memory() {
            self.kept = files;
        }
        Ok(done.bytes_per_s())
    }
}
