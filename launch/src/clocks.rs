//! What ranks need for `librefrain_clocks.so`: its path in `LD_PRELOAD`, and for each rank
//! a file in memory that all its lives share.

use super::start::Wanted;
use crate::preload::{is_preloaded_into, library};
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

const PRELOAD: &str = "LD_PRELOAD";
/// The library knows this variable, and the file by its name.
const VARIABLE: &str = "REFRAIN_CLOCKS_FD";
const FILE: &str = "refrain-clocks";
/// Most that a rank stores there; only written pages take memory.
const FILE_BYTES: u64 = 64 << 10;

/// Adds these for the ranks of this host, if ranks may be started again, clocks are
/// recorded, and the library serves the program. If it does not serve it, `--verbose`
/// prints why.
///
/// # Errors
/// Of the system.
pub fn add(config: &JobConfig, wanted: &mut Wanted, program: &Path) -> Result<(), JobError> {
    if config.recovery.max_restarts == 0 || !config.recovery.record_clocks {
        return Ok(());
    }
    let served = is_preloaded_into(program).and_then(|()| library());
    let library = match served {
        Ok(library) => library,
        Err(why) => {
            if config.verbose {
                report(format_args!(
                    "the program's clocks and process ids are not recorded: {why}"
                ));
            }
            return Ok(());
        }
    };
    let mut given = wanted.environment.iter().rev();
    let before = given
        .find(|(name, _)| name == PRELOAD)
        .map(|(_, value)| value.clone())
        .or_else(|| std::env::var_os(PRELOAD));
    let preloaded = behind(before, library.as_os_str());
    if config.verbose {
        report(format_args!(
            "{} records the program's clocks and process ids",
            library.display()
        ));
    }
    wanted.environment.push((PRELOAD.into(), preloaded));
    for rank in &wanted.ranks {
        let file = file().map_err(|error| JobError::Control {
            attempted: format!("making the file for the clocks of rank {rank}"),
            error,
        })?;
        wanted.descriptors.push((*rank, VARIABLE.into(), file));
    }
    Ok(())
}

/// `library` comes after the libraries that the user preloads.
fn behind(before: Option<OsString>, library: &OsStr) -> OsString {
    let mut names = before.unwrap_or_default();
    if !names.is_empty() {
        names.push(":");
    }
    names.push(library);
    names
}

fn file() -> io::Result<OwnedFd> {
    let file = memfd_create(FILE, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, FILE_BYTES)?;
    // Lives map it: it must not become shorter.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays() {
        let behind = |before: Option<&str>| behind(before.map(Into::into), OsStr::new("/l.so"));
        assert_eq!(behind(None), "/l.so");
        assert_eq!(behind(Some("")), "/l.so");
        assert_eq!(behind(Some("/a.so:/b.so")), "/a.so:/b.so:/l.so");
    }
}
