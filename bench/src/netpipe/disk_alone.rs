//! The speed of the disk alone, measured in turn with the jobs.

use crate::disk::{self, Access, DiskFile, Load, Until};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use rustix::fs::statfs;
use std::path::PathBuf;
use std::time::Duration;

/// Files written at once: one for each rank of a job.
pub const FILES: u64 = 2;
/// Length of each, at least and at most.
pub const FILE_BYTES_MIN: u64 = 64 << 20;
const FILE_BYTES_MAX: u64 = 2 << 30;
/// The part of the free space that may be taken, for each lane.
const FREE_PART: u64 = 8;
/// Time of a turn, at least and at most: a disk becomes steady when its buffers are full.
const TURN_MIN: Duration = Duration::from_millis(200);
const TURN_MAX: Duration = Duration::from_secs(5);
/// The first fifth of a turn is not counted.
const WARM_UP_PART: u32 = 5;
/// `f_type` of tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// The disk of a folder.
pub struct FolderDisk {
    folder: PathBuf,
    interrupt: Interrupt,
    /// Files in memory are slow to make and keep their speed: they are kept.
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

    /// Fresh files, as a log mostly has them.
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

    /// Bytes per second that all ranks together can write; about `time` long.
    ///
    /// # Errors
    /// When the disk refuses, or the sweep is interrupted.
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
