//! `refrain log bench`: the cost of a payload log on a disk, without a network.
//!
//! Four steps on one folder, each over the whole length: the disk alone is
//! written; a log is appended to and spilled; the disk alone is read; the log is
//! read back. Each read step reads the files that were written two steps earlier, so that
//! no step reads the file that was written last.

mod append;
mod arguments;
mod files;
mod read_back;
mod report;

pub use append::append_and_spill;
pub use arguments::Arguments;
pub use files::BenchFiles;
pub use read_back::read_all;

use crate::disk::{self, Access, DiskFile, Load, Until};
use crate::error::{BenchError, status};
use crate::interrupt::Interrupt;
use crate::report::print;
use report::Report;
use std::process::ExitCode;

/// Exit status for invalid options.
const USAGE: u8 = 2;
/// Measures and prints. Explains an invalid option; the status is then 2.
///
/// # Errors
/// The disk or the log fails. No file is left behind.
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

/// Runs all steps. The files are removed in every case.
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
