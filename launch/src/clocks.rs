//! `librefrain_clocks.so`, which records clocks, process ids and random bytes of a program: where
//! the library is, into which programs it can be preloaded, and the memory file that all
//! incarnations of a rank share.

use super::spawn::HostPart;
use refrain_job::JobError;
use refrain_job::stderr::report;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::io::Read as _;
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
    let mut head = Vec::new();
    // The program headers follow the file's header; one of them names the interpreter.
    let _ = file.by_ref().take(1 << 16).read_to_end(&mut head);
    match linker(&head) {
        Linker::Glibc | Linker::OfAScript => Ok(()),
        Linker::Other(linker) => Err(format!(
            "{name} is loaded by {linker}: its C library is not glibc"
        )),
        Linker::None => Err(format!("{name} is linked statically")),
        Linker::OfOtherMachine => Err(format!("{name} is a program for another architecture")),
    }
}

/// The dynamic linker of a program.
#[derive(Debug, PartialEq, Eq)]
enum Linker {
    Glibc,
    Other(String),
    None,
    /// The interpreter of the script decides.
    OfAScript,
    OfOtherMachine,
}

/// Reads the linker from the beginning of a program's file.
fn linker(head: &[u8]) -> Linker {
    const CLASS_64: u8 = 2;
    const INTERPRETER: u64 = 3;
    if !head.starts_with(b"\x7fELF") {
        return Linker::OfAScript;
    }
    let number = |at: u64, bytes: usize| -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let field = head.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(field);
        Some(u64::from_le_bytes(number))
    };
    if cfg!(target_endian = "big") {
        return Linker::Glibc;
    }
    if head.get(4) != Some(&CLASS_64) || !is_of_this_machine(number(18, 2)) {
        return Linker::OfOtherMachine;
    }
    let interpreter = || -> Option<&[u8]> {
        let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        for index in 0..count {
            let header = headers.checked_add(index * size)?;
            if number(header, 4)? == INTERPRETER {
                let (at, bytes) = (number(header + 8, 8)?, number(header + 32, 8)?);
                let end = usize::try_from(at.checked_add(bytes)?).ok()?;
                return head.get(usize::try_from(at).ok()?..end);
            }
        }
        None
    };
    match interpreter() {
        None => Linker::None,
        Some(path) => {
            let path = String::from_utf8_lossy(path);
            let path = path.trim_end_matches('\0');
            let name = path.rsplit('/').next().unwrap_or(path);
            // ld-linux-x86-64.so.2, ld-linux-aarch64.so.1, ld64.so.2
            match name.starts_with("ld-linux") || name.starts_with("ld64") {
                true => Linker::Glibc,
                false => Linker::Other(path.to_owned()),
            }
        }
    }
}

fn is_of_this_machine(machine: Option<u64>) -> bool {
    match std::env::consts::ARCH {
        "x86_64" => machine == Some(62),
        "aarch64" => machine == Some(183),
        _ => true,
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

    fn head_of_this_program() -> Vec<u8> {
        let mut head = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        head.truncate(1 << 16);
        head
    }

    #[test]
    fn programs_are_distinguished() {
        let head = head_of_this_program();
        assert_eq!(linker(&head), Linker::Glibc);
        assert_eq!(linker(b"#!/bin/sh\n"), Linker::OfAScript);
        assert_eq!(linker(b""), Linker::OfAScript);
        // A file that is cut after its header names no interpreter.
        assert_eq!(linker(&head[..64]), Linker::None);
        let mut other = head.clone();
        other[18] ^= 1;
        assert_eq!(linker(&other), Linker::OfOtherMachine);
        let place = head.windows(8).position(|text| text == b"ld-linux");
        let mut musl = head.clone();
        musl[place.unwrap()..][..8].copy_from_slice(b"ld-musl-");
        assert!(matches!(linker(&musl), Linker::Other(name) if name.contains("ld-musl")));
        for end in 0..head.len().min(2000) {
            let _ = linker(&head[..end]);
        }
    }

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
