//! What the disk alone sustains, measured in turn with the jobs.

use super::NetpipeError;
use crate::disk::{self, Access, Lane, Load, Until, Way};
use crate::interrupt::Interrupt;
use rustix::fs::statfs;
use std::path::PathBuf;
use std::time::Duration;

/// Files written at once: one for each rank of a job.
pub const LANES: u64 = 2;
/// Length of each, at least and at most.
pub const LANE_BYTES_MIN: u64 = 64 << 20;
const LANE_BYTES_MAX: u64 = 2 << 30;
/// The part of the free space that may be taken, for each lane.
const FREE_PART: u64 = 8;
/// How long a turn is at least and at most: disks need a while to be steady, and
/// buffers of theirs to be full.
const TURN_MIN: Duration = Duration::from_millis(200);
const TURN_MAX: Duration = Duration::from_secs(5);
/// The first fifth of a turn is not counted.
const WARM_UP_PART: u32 = 5;
/// `f_type` of tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// Something that is written to while no job runs.
pub trait DiskAlone {
    /// Bytes per second that all ranks together can write; about `time` long.
    ///
    /// # Errors
    /// When the disk refuses, or the sweep is interrupted.
    fn measure(&mut self, time: Duration) -> Result<f64, NetpipeError>;
}

/// The disk of a folder.
pub struct FolderDisk {
    folder: PathBuf,
    interrupt: Interrupt,
    /// Memory takes long to be made and is the same afterwards: kept.
    kept: Vec<Lane>,
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
    fn lanes(&self) -> Result<Vec<Lane>, NetpipeError> {
        let free = disk::free_bytes(&self.folder)?;
        let most = if self.is_memory() {
            LANE_BYTES_MAX / 4
        } else {
            LANE_BYTES_MAX
        };
        let bytes = (free / FREE_PART).clamp(LANE_BYTES_MIN, most);
        let lane = |_| Lane::create(&self.folder, bytes, Way::Direct).map_err(NetpipeError::from);
        (0..LANES).map(lane).collect()
    }

    fn is_memory(&self) -> bool {
        statfs(&self.folder).is_ok_and(|found| found.f_type as u64 == TMPFS)
    }
}

impl DiskAlone for FolderDisk {
    fn measure(&mut self, time: Duration) -> Result<f64, NetpipeError> {
        let lanes = match std::mem::take(&mut self.kept) {
            none if none.is_empty() => self.lanes()?,
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
        let done = disk::run(&lanes, &self.folder, load, &self.interrupt)?;
        if self.is_memory() {
            self.kept = lanes;
        }
        Ok(done.bytes_per_s())
    }
}
