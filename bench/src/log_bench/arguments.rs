//! The options of `refrain log bench`.

use super::files::BenchFiles;
use crate::error::BenchError;
use refrain_launch::size;
use refrain_ring::CHUNK_BYTES;
use refrain_storage::Io;
use std::path::PathBuf;

/// Maximum length of a log; longer ones are typing errors.
const SIZE_BYTES_MAX: u64 = 1 << 44;
/// Maximum number of writes in flight.
const IN_FLIGHT_MAX: u64 = 64;

/// The cost of a payload log on a disk: the disk alone, the log spilled to it, the log read back.
/// The files are removed at the end.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder on the disk.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Length of the log; the disk needs twice this space.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = size::parse)]
    pub size: u64,
    /// Memory of the log.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub log_memory: u64,
    /// Log size above which the log is written.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub spill_after: u64,
    /// Bytes of each message.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
    pub message: u64,
    /// How the files of the log are written.
    #[arg(long, value_name = "auto|uring|plain", default_value = "auto", value_parser = engine)]
    pub spill_io: Io,
    /// Maximum number of writes in flight.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub in_flight: u64,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
}

impl Arguments {
    /// Checks the options, and that the folder has room for all files.
    pub fn files(&self) -> Result<BenchFiles, BenchError> {
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
