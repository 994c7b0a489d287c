//! `refrain log bench`: what a payload log costs on a disk, without a network.
//!
//! Four steps on one folder, each over the whole length: the disk alone is
//! written; a log is appended to and spilled; the disk alone is read; the log is
//! read back. The disk's own steps stand before the log's, so that what was
//! written last is never what is read next. Both read files that were written
//! two steps earlier.

mod append;
mod files;
mod read_back;
mod report;

pub use append::append_and_spill;
pub use files::BenchFiles;
pub use read_back::read_all;

use crate::disk::{self, Access, DiskFile, Load, Until};
use crate::error::{BenchError, status};
use crate::interrupt::Interrupt;
use crate::report::print;
use refrain_launch::size;
use refrain_ring::CHUNK_BYTES;
use refrain_storage::Io;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status when what was asked for cannot be.
const USAGE: u8 = 2;
/// Logs beyond this are a typing error.
const SIZE_BYTES_MAX: u64 = 1 << 44;
/// As many as stores have under way at most.
const IN_FLIGHT_MAX: u64 = 64;

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
    #[arg(long, value_name = "auto|uring|plain", default_value = "auto", value_parser = engine)]
    pub spill_io: Io,
    /// Maximum number of writes in flight
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub in_flight: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

impl Arguments {
    /// Checks the options, and that the folder has room for all files.
    fn files(&self) -> Result<BenchFiles, BenchError> {
        let chunk = CHUNK_BYTES as u64;
        for (option, value, least, most) in [
            ("--size", self.size, 16 * chunk, SIZE_BYTES_MAX),
            ("--log-memory", self.log_memory, 4 * chunk, SIZE_BYTES_MAX),
            ("--message", self.message, 1, self.size),
            ("--in-flight", self.in_flight, 1, IN_FLIGHT_MAX),
        ] {
            if !(least..=most).contains(&value) {
                return Err(BenchError::option(
                    option,
                    format!("{value} is out of range"),
                    format!("give {least} to {most}"),
                ));
            }
        }
        BenchFiles::new(&self.folder, self.size)
    }
}

fn engine(name: &str) -> Result<Io, String> {
    match name {
        "auto" => Ok(Io::Auto),
        "uring" => Ok(Io::Uring),
        "plain" => Ok(Io::Plain),
        _ => Err("give auto, uring or plain".into()),
    }
}

/// Measures and prints. A wrong option is explained, and the status is 2.
///
/// # Errors
/// When the disk or the log fails. No file is left behind.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let files = match arguments.files() {
        Ok(files) => files,
        Err(error) => {
            eprintln!("{:?}", miette::Report::new(error));
            return Ok(ExitCode::from(USAGE));
        }
    };
    status(Interrupt::install().and_then(|interrupt| {
        let report = measure(arguments, files, &interrupt)?;
        print(&match arguments.json {
            true => report.json(),
            false => report.table(),
        })
    }))
}

/// All steps. Removes its files on every way out.
fn measure(
    arguments: &Arguments,
    files: BenchFiles,
    interrupt: &Interrupt,
) -> Result<Report, BenchError> {
    let folder = &arguments.folder;
    let alone = [DiskFile::create(folder, arguments.size, true)?];
    let disk = |access| {
        let load = Load {
            access,
            in_flight: arguments.in_flight as usize,
            until: Until::Through,
        };
        disk::run(&alone, folder, load, interrupt)
    };
    let step = |name: &str| eprintln!("{name} …");
    step("writing to the disk alone");
    let disk_write = disk(Access::Write)?;
    step("appending and spilling");
    let appended = append_and_spill(arguments, &files, interrupt)?;
    step("reading from the disk alone");
    let disk_read = disk(Access::Read)?;
    step("reading the log back");
    let read_back = read_all(&files, &appended, interrupt)?;
    Ok(Report {
        arguments: arguments.clone(),
        disk_direct: alone[0].is_direct(),
        disk_write,
        disk_read,
        appended,
        read_back,
    })
}

#[cfg(test)]
mod tests;
