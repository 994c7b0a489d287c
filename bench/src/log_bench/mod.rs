//! `refrain log bench`: what a payload log costs on a disk, without a network.
//!
//! Four steps on one folder, each over the whole length: the disk alone is
//! written; a log is appended to and spilled; the disk alone is read; the log is
//! read back. The disk's own steps stand before the log's, so that what was
//! written last is never what is read next. Both read files that were written
//! two steps earlier.

mod append;
mod error;
mod files;
mod read_back;
mod report;

pub use append::{Appended, append_and_spill};
pub use error::LogBenchError;
pub use files::BenchFiles;
pub use read_back::{ReadBack, read_all};
pub use report::Report;

use crate::disk::{self, Access, Lane, Load, Transferred, Until, Way};
use crate::interrupt::{Interrupt, STATUS_INTERRUPTED};
use refrain_launch::size;
use refrain_logging::store::disk::DiskEngine;
use refrain_ring::CHUNK_BYTES;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status when what was asked for cannot be.
const USAGE: u8 = 2;
/// Logs beyond this are a typing error.
const SIZE_BYTES_MAX: u64 = 1 << 44;
/// As many as stores have under way at most.
const IN_FLIGHT_MAX: u64 = 64;

/// How the files of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SpillIo {
    /// io_uring where the system allows it, else plain writes.
    Auto,
    /// io_uring.
    Uring,
    /// Plain writes.
    Plain,
}

/// What a payload log costs on a disk: the disk alone, the log spilled to it, the
/// log read back. Its files are removed at the end.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder on the disk
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Length of the log; the disk needs twice this space
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = size::parse)]
    pub size: u64,
    /// Memory of the log
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub log_memory: u64,
    /// Log size above which the log is written
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub spill_after: u64,
    /// Bytes of each message
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
    pub message: u64,
    /// How the files of the log are written
    #[arg(long, value_enum, default_value_t = SpillIo::Auto)]
    pub spill_io: SpillIo,
    /// Maximum number of writes in flight
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub in_flight: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

impl Arguments {
    fn check(&self) -> Result<(), LogBenchError> {
        let chunk = CHUNK_BYTES as u64;
        for (option, value, least, most) in [
            ("--size", self.size, 16 * chunk, SIZE_BYTES_MAX),
            ("--log-memory", self.log_memory, 4 * chunk, SIZE_BYTES_MAX),
            ("--message", self.message, 1, self.size),
            ("--in-flight", self.in_flight, 1, IN_FLIGHT_MAX),
        ] {
            if !(least..=most).contains(&value) {
                return Err(LogBenchError::Option {
                    option,
                    problem: format!("{value} is not in {least} to {most}"),
                });
            }
        }
        Ok(())
    }

    fn engine(&self) -> DiskEngine {
        match self.spill_io {
            SpillIo::Auto => DiskEngine::Auto,
            SpillIo::Uring => DiskEngine::Uring,
            SpillIo::Plain => DiskEngine::Plain,
        }
    }
}

/// Measures and prints. A wrong option is explained, and the status is 2.
///
/// # Errors
/// When the disk or the log fails. No file is left behind.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let measured = Interrupt::install()
        .map_err(LogBenchError::Signals)
        .and_then(|interrupt| measure(arguments, &interrupt));
    match measured {
        Ok(report) => {
            print!(
                "{}",
                if arguments.json {
                    report.json()
                } else {
                    report.table()
                }
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(LogBenchError::Interrupted(interrupted)) => {
            eprintln!("{interrupted}");
            Ok(ExitCode::from(STATUS_INTERRUPTED))
        }
        Err(error @ (LogBenchError::Option { .. } | LogBenchError::Room { .. })) => {
            eprintln!("{:?}", miette::Report::new(error));
            Ok(ExitCode::from(USAGE))
        }
        Err(error) => Err(error.into()),
    }
}

/// All steps. Removes what it makes on every way out.
///
/// # Errors
/// As [`run`]; also for wrong options.
pub fn measure(arguments: &Arguments, interrupt: &Interrupt) -> Result<Report, LogBenchError> {
    arguments.check()?;
    let folder = &arguments.folder;
    let files = BenchFiles::new(folder, arguments.size)?;
    let alone = [Lane::create(folder, arguments.size, Way::Direct)?];
    let disk = |access| -> Result<Transferred, LogBenchError> {
        let load = Load {
            access,
            in_flight: arguments.in_flight as usize,
            until: Until::Through,
        };
        Ok(disk::run(&alone, folder, load, interrupt)?)
    };
    say("writing to the disk alone");
    let disk_write = disk(Access::Write)?;
    say("appending and spilling");
    let appended = append_and_spill(arguments, &files, interrupt)?;
    say("reading from the disk alone");
    let disk_read = disk(Access::Read)?;
    say("reading the log back");
    let read_back = read_all(&files, &appended, interrupt)?;
    Ok(Report {
        folder: folder.clone(),
        log_memory_bytes: arguments.log_memory,
        spill_after_bytes: arguments.spill_after,
        message_bytes: arguments.message,
        in_flight: arguments.in_flight,
        disk_direct: alone[0].is_direct(),
        disk_write,
        disk_read,
        appended,
        read_back,
    })
}

/// For people who wait.
fn say(step: &str) {
    eprintln!("{step} …");
}

#[cfg(test)]
mod tests;
