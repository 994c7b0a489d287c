//! `librefrain_clocks.so`, which records clocks, process ids and random bytes of a program: where
//! the library is, into which programs it can be preloaded, and the memory file that all
//! incarnations of a rank share.

use super::linkage::{self, Linker};
use super::spawn::HostPart;
use refrain_job::JobError;
use refrain_job::stderr::report;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const PRELOAD: &str = "LD_PRELOAD";
/// The environment variable that the library reads for the descriptor of the memory file.
const VARIABLE: &str = "REFRAIN_CLOCKS_FD";
const LIFE_FILE: &str = "refrain-clocks";
/// Length of the memory file; only written pages take memory.
const FILE_BYTES: u64 = 64 << 10;

/// Adds the library and the memory files for the ranks of this host, if ranks may be restarted,
/// clocks are recorded, and the library can be preloaded into the program. If it cannot,
/// `--verbose` prints the reason.
///
/// # Errors
/// Of the system.
pub fn add(part: &mut HostPart) -> Result<(), JobError> {
    let setup = &mut part.setup;
    let config = &setup.config;
    if config.recovery.max_restarts == 0 || !config.recovery.record_clocks {
        return Ok(());
    }
    let mut programs = setup.programs.iter();
    let can_be_preloaded = programs.try_for_each(|program| is_preloaded_into(&program.path));
    let library = match can_be_preloaded.and_then(|()| library()) {
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
    if config.verbose {
        report(format_args!(
            "{} records the program's clocks and process ids",
            library.display()
        ));
    }
    // The job's variables go before those of a program.
    let of_job = last(&setup.environment);
    for program in &mut setup.programs {
        let before = of_job.clone().or_else(|| last(&program.environment));
        let before = before.or_else(|| std::env::var_os(PRELOAD));
        let preloaded = behind(before, library.as_os_str());
        program.environment.push((PRELOAD.into(), preloaded));
    }
    setup.environment.retain(|(name, _)| name != PRELOAD);
    for rank in &setup.ranks {
        let file = file().map_err(|error| {
            JobError::control(
                format!("making the file for the clocks of rank {rank}"),
                error,
            )
        })?;
        part.descriptors.push((*rank, VARIABLE.into(), file));
    }
    Ok(())
}

/// The last value of `LD_PRELOAD` among variables.
fn last(variables: &[(OsString, OsString)]) -> Option<OsString> {
    let mut values = variables.iter().rev();
    let found = values.find(|(name, _)| name == PRELOAD);
    found.map(|(_, value)| value.clone())
}

/// The value of `LD_PRELOAD`: `library` after the libraries that the user preloads.
fn behind(before: Option<OsString>, library: &OsStr) -> OsString {
    let mut names = before.unwrap_or_default();
    if !names.is_empty() {
        names.push(":");
    }
    names.push(library);
    names
}

fn file() -> io::Result<OwnedFd> {
    let file = memfd_create(LIFE_FILE, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, FILE_BYTES)?;
    // Later lives map the file: it must not become shorter.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// File name of the library.
const FILE: &str = "librefrain_clocks.so";

/// Folders in which the library is searched, relative to the folder of this program: the build
/// folder of cargo, the same folder, and the folder for libraries of an installation.
const FOLDERS: [&str; 3] = ["deps", ".", "../lib"];

/// The path of the library.
///
/// # Errors
/// The library is missing or cannot be preloaded: the reason, for people.
pub fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let mut candidates = FOLDERS.iter().map(|name| match *name {
        "." => folder.join(FILE),
        name => folder.join(name).join(FILE),
    });
    let Some(library) = candidates.find(|file| file.is_file()) else {
        return Err(format!(
            "there is no {FILE} in {0}, {0}/deps or {0}/../lib",
            folder.display()
        ));
    };
    let path = library.as_os_str().as_encoded_bytes();
    if path.iter().any(|byte| b" :".contains(byte)) {
        return Err(format!(
            "{} cannot be preloaded: its path has a blank or colon, which LD_PRELOAD takes for a separator",
            library.display()
        ));
    }
    Ok(library)
}

/// Whether the dynamic linker preloads a library into this program.
///
/// # Errors
/// The reason why not, for people.
pub fn is_preloaded_into(program: &Path) -> Result<(), String> {
    const SET_ID: u32 = 0o6000;
    let name = program.display();
    let Ok(mut file) = File::open(program) else {
        // A program may be executable but not readable: then this is not known.
        return Ok(());
    };
    let mode = file.metadata().map_or(0, |metadata| metadata.mode());
    if mode & SET_ID != 0 {
        return Err(format!("{name} runs as another user or group (set-id)"));
    }
    match linkage::linker(&mut file) {
        Linker::Glibc(_) | Linker::OfAScript => Ok(()),
        Linker::Other(linker) => Err(format!(
            "{name} is loaded by {linker}: its C library is not glibc"
        )),
        Linker::None => Err(format!("{name} is linked statically")),
        Linker::OfOtherMachine => Err(format!("{name} is a program for another architecture")),
    }
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

#[cfg(test)]
mod preload_tests {
    use super::*;

    #[test]
    fn a_program_with_another_user_is_not_served() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        assert_eq!(is_preloaded_into(&program), Ok(()));
        let set_id = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(&program, set_id).unwrap();
        assert!(is_preloaded_into(&program).unwrap_err().contains("set-id"));
    }
}
