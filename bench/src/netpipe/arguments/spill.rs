//! Options of the disk below the log.

use crate::disk;
use crate::error::BenchError;
use crate::netpipe::disk_alone;
use crate::netpipe::log_budget::{LogRoom, TIMES_IN_MEMORY, TIMES_WITH_DISK};
use crate::report::format_size;
use refrain_launch::size;
use std::path::{Path, PathBuf};

/// Maximum of --log-times; larger values are typing errors.
const TIMES_MAX: f64 = 1000.0;
/// Maximum without a disk: the horizon must reach the other rank before the memory is full.
const TIMES_IN_MEMORY_MAX: f64 = 0.5;
/// Space in addition to the live part of the files, for files that are being filled and files kept
/// for reuse; relative to the live part.
const FILES_SLACK: f64 = 0.25;
/// Minimum of that space per log: a few files of 64 MiB.
const FILES_SLACK_BYTES: u64 = 256 << 20;

/// The disk below the log.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SpillOptions {
    /// Folder for the part of the log beyond its memory; the disk alone is measured, too.
    #[arg(long, value_name = "DIR")]
    pub spill_dir: Option<PathBuf>,
    /// Maximum length of the files of each rank [default: chosen by the job].
    #[arg(long, value_name = "SIZE", requires = "spill_dir", value_parser = size::parse)]
    pub log_disk: Option<u64>,
    /// Log memory of each rank above which the log is written [default: chosen by the job].
    #[arg(long, value_name = "SIZE", requires = "spill_dir", value_parser = size::parse)]
    pub spill_after: Option<u64>,
    /// How files are written.
    #[arg(long, value_name = "auto|uring|plain", default_value = "auto",
          value_parser = ["auto", "uring", "plain"])]
    pub spill_io: String,
    /// Bytes sent before the log is freed, in log memories [default: 0.25, with --spill-dir 4].
    #[arg(long, value_name = "N")]
    pub log_times: Option<f64>,
}

impl SpillOptions {
    /// Checks the options for `logs` ranks that keep payload.
    pub fn check(&mut self, memory_bytes: u64, logs: u64) -> Result<LogRoom, BenchError> {
        let times = self.log_times.unwrap_or(match self.spill_dir {
            Some(_) => TIMES_WITH_DISK,
            None => TIMES_IN_MEMORY,
        });
        if !(times > 0.0 && times <= TIMES_MAX) {
            return Err(BenchError::option(
                "--log-times",
                format!("a log {times} times as large as its memory cannot be made"),
                format!("give more than 0 and at most {TIMES_MAX}"),
            ));
        }
        let room = LogRoom::new(memory_bytes, times);
        match &mut self.spill_dir {
            Some(folder) => {
                check_disk(folder, room, self.log_disk, logs)?;
                // Ranks may run in another folder.
                if let Ok(whole) = folder.canonicalize() {
                    *folder = whole;
                }
            }
            None if times > TIMES_IN_MEMORY_MAX => {
                return Err(BenchError::option(
                    "--log-times",
                    format!("{times} times its memory do not fit in it"),
                    format!("give at most {TIMES_IN_MEMORY_MAX}, or a --spill-dir"),
                ));
            }
            None => {}
        }
        Ok(room)
    }
}

/// A disk that is too small is reported before it is full.
fn check_disk(
    folder: &Path,
    room: LogRoom,
    disk_bytes: Option<u64>,
    logs: u64,
) -> Result<(), BenchError> {
    if !folder.is_dir() {
        return Err(BenchError::option(
            "--spill-dir",
            format!("there is no folder {}", folder.display()),
            "create it first",
        ));
    }
    let between = room.between_horizons_bytes;
    if let Some(disk) =
        disk_bytes.filter(|disk| disk.saturating_add(room.memory_bytes / 2) < between)
    {
        return Err(BenchError::option(
            "--log-disk",
            format!(
                "{} and the memory do not hold the {} MiB that are sent before the log is freed",
                format_size(disk),
                between >> 20
            ),
            "raise --log-disk or lower --log-times",
        ));
    }
    let free = disk::free_bytes(folder)?;
    let slack = ((between as f64 * FILES_SLACK) as u64).max(FILES_SLACK_BYTES);
    let files = between
        .saturating_add(slack)
        .min(disk_bytes.unwrap_or(u64::MAX));
    let needed = files
        .saturating_mul(logs)
        .saturating_add(disk_alone::FILES * disk_alone::FILE_BYTES_MIN);
    if needed > free {
        return Err(BenchError::option(
            "--spill-dir",
            format!(
                "{logs} logs of {} MiB on disk need {} MiB, {} MiB are free in {}",
                files >> 20,
                needed >> 20,
                free >> 20,
                folder.display()
            ),
            "lower --log-memory, --log-times or --log-disk, or name another folder",
        ));
    }
    Ok(())
}
