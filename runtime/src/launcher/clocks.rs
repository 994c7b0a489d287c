//! What ranks are started with so that the preloaded `librefrain_clocks.so` answers
//! them: the library's name, and for each rank a file in memory that its lives share.

use super::start::Wanted;
use crate::Error;
use crate::choice::clocks;
use crate::config::JobConfig;
use crate::voice::tell;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

const PRELOAD: &str = "LD_PRELOAD";
/// The library knows this variable, and the file by its name.
const VARIABLE: &str = "REFRAIN_CLOCKS_FD";
const FILE: &str = "refrain-clocks";
/// Room for what a rank keeps: memory is taken only for what is written.
const FILE_BYTES: u64 = 64 << 10;

/// Adds it to what the ranks of this host are started with, where they may be started
/// again, clocks are recorded, and the library serves the program. Where it does not
/// that is told with `--verbose`.
///
/// # Errors
/// Of the system.
pub fn add(config: &JobConfig, wanted: &mut Wanted, program: &Path) -> Result<(), Error> {
    if config.recovery.max_restarts == 0 || !config.recovery.record_clocks {
        return Ok(());
    }
    let served = clocks::is_preloaded_into(program).and_then(|()| clocks::library());
    let library = match served {
        Ok(library) => library,
        Err(why) => {
            if config.verbose {
                tell(format_args!(
                    "the clocks and process ids that a program asks for by itself are not recorded: {why}"
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
        tell(format_args!(
            "{} answers the program's clocks and process ids",
            library.display()
        ));
    }
    wanted.environment.push((PRELOAD.into(), preloaded));
    for rank in &wanted.ranks {
        let file = file().map_err(|error| Error::Control {
            attempted: format!("making the file for the clocks of rank {rank}"),
            error,
        })?;
        wanted.descriptors.push((*rank, VARIABLE.into(), file));
    }
    Ok(())
}

/// What the user preloads stays before it.
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
    // Lives map it: none may find it shorter.
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
