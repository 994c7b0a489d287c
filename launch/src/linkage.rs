//! The dynamic linker and the libraries of a program. A program that is linked to another MPI library
//! would be as many jobs of one rank.

use super::program::Program;
use crate::error::LaunchError;
use refrain_job::control::claim::FD_VARIABLE;
use refrain_job::stderr::report;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Refrain's MPI library, and what is installed beside it.
const OWN: &str = "libmpi_abi.so";
const BESIDE_OWN: [&str; 2] = ["librefrain_clocks.so", "deps/librefrain_clocks.so"];
/// Beginnings of the names of other MPI libraries, if not that of [`OWN`]: of Open MPI, MPICH, Intel
/// and Cray. A library of the user may begin with `libmpi_`, too.
const OTHERS: [&str; 7] = [
    "libmpi.so",
    "libmpich.so",
    "libmpicxx.so",
    "libmpifort.so",
    "libmpi_cray.so",
    "libmpi_gnu_",
    "libmpi_intel",
];

/// Refuses a program that is linked to another MPI library, or reports it if its job has one rank.
/// `environment` has the variables of the job.
///
/// # Errors
/// [`LaunchError::Program`], with the library and what to do.
pub fn check(
    program: &Program,
    environment: &[(OsString, OsString)],
    ranks_of_job: u32,
) -> Result<(), LaunchError> {
    let list = list(program, environment).unwrap_or_default();
    let Some(library) = other_library(&list, is_own) else {
        return Ok(());
    };
    let name = program.path.display();
    let ranks = match ranks_of_job {
        1 => "it runs without Refrain".into(),
        ranks => format!("it would be {ranks} jobs of one rank"),
    };
    let what_to_do = match library.starts_with(OWN) {
        true => "put Refrain's folder lib first in LD_LIBRARY_PATH",
        false => "compile it with Refrain's mpicc, or start it with that library's mpiexec",
    };
    let reason =
        format!("{name} is linked to another MPI library, {library}: {ranks}; {what_to_do}");
    match ranks_of_job {
        1 => report(reason),
        _ => {
            return Err(LaunchError::Program {
                reason,
                found: true,
            });
        }
    }
    Ok(())
}

/// What the dynamic linker loads with the program, one library a line. `None`: it has no such
/// linker, or cannot be read.
fn list(program: &Program, environment: &[(OsString, OsString)]) -> Option<String> {
    let Linker::Glibc(linker) = linker(&mut File::open(&program.path).ok()?) else {
        return None;
    };
    let variables = program.environment.iter().chain(environment);
    let mut command = Command::new(linker);
    command
        .arg("--list")
        .arg(&program.path)
        .envs(variables.map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let listed = command.output().ok()?;
    let text = String::from_utf8_lossy(&listed.stdout);
    listed.status.success().then(|| text.into_owned())
}

/// The first library of another MPI, with its file; `is_own` says whether a file is Refrain's library.
fn other_library(list: &str, is_own: impl Fn(&Path) -> bool) -> Option<String> {
    list.lines().find_map(|line| {
        // `libc.so.6 => /lib/libc.so.6 (0x7f00)`, `libx.so => not found` or `/lib/y.so (0x7f00)`
        let (wanted, found) = line
            .trim()
            .split_once(" => ")
            .unwrap_or((line.trim(), line.trim()));
        let file = found.rsplit_once(" (").map(|(file, _)| file);
        let name = wanted.split(" (").next()?.rsplit('/').next()?;
        let is_other = match name.starts_with(OWN) {
            true => file.is_some_and(|file| !is_own(Path::new(file))),
            false => OTHERS.iter().any(|other| name.starts_with(other)),
        };
        is_other.then(|| match file {
            Some(file) => format!("{name} ({file})"),
            None => name.to_owned(),
        })
    })
}

/// Whether the file is Refrain's library: other MPI libraries have the name, too. Reads one that was
/// copied to another place, which takes some milliseconds.
fn is_own(library: &Path) -> bool {
    let Ok(file) = library.canonicalize() else {
        return true;
    };
    let beside = |name| {
        file.parent()
            .is_some_and(|folder| folder.join(name).is_file())
    };
    BESIDE_OWN.into_iter().any(beside) || holds(&file, FD_VARIABLE.as_bytes())
}

/// Whether a file has these bytes.
fn holds(file: &Path, wanted: &[u8]) -> bool {
    let read = std::fs::read(file);
    read.is_ok_and(|bytes| memchr::memmem::find(&bytes, wanted).is_some())
}

/// The dynamic linker of a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Linker {
    /// With its path.
    Glibc(PathBuf),
    Other(String),
    /// The program is linked statically.
    None,
    /// The interpreter of the script decides.
    OfAScript,
    OfOtherMachine,
}

/// Reads the linker from a program's file.
pub fn linker(program: &mut File) -> Linker {
    let mut head = Vec::new();
    // The program headers follow the file's header; one of them names the interpreter.
    let _ = program.take(1 << 16).read_to_end(&mut head);
    linker_of(&head)
}

fn linker_of(head: &[u8]) -> Linker {
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
        return Linker::Other("a linker of unknown name".into());
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
                true => Linker::Glibc(path.into()),
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
    fn other_mpi_libraries_are_found_by_name_and_file() {
        let own = |file: &Path| file.starts_with("/refrain");
        let found = |list: &str| other_library(list, own);
        for (line, expected) in [
            (
                "\tlibmpi.so.40 => /lib/libmpi.so.40 (0x00007f0a)",
                Some("libmpi.so.40 (/lib/libmpi.so.40)"),
            ),
            ("\tlibmpich.so.12 => not found", Some("libmpich.so.12")),
            (
                "\t/opt/x/libmpi_cray.so (0x00007f0a)",
                Some("libmpi_cray.so (/opt/x/libmpi_cray.so)"),
            ),
            (
                "\tlibmpi_abi.so.1 => /refrain/lib/libmpi_abi.so.1 (0x7f)",
                None,
            ),
            (
                "\tlibmpi_abi.so.1 => /mpich/libmpi_abi.so.1 (0x7f)",
                Some("libmpi_abi.so.1 (/mpich/libmpi_abi.so.1)"),
            ),
            // The program itself cannot be started then.
            ("\tlibmpi_abi.so.1 => not found", None),
            (
                "\tlibmpifort_abi.so.1 => /refrain/lib/libmpifort_abi.so.1 (0x7f)",
                None,
            ),
            ("\tlibmpfr.so.6 => /lib/libmpfr.so.6 (0x7f)", None),
            ("\tlibmpi_wrap.so => /home/libmpi_wrap.so (0x7f)", None),
            ("\tstatically linked", None),
            ("", None),
        ] {
            let list = format!(
                "\tlinux-vdso.so.1 (0x7ffd)\n{line}\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"
            );
            assert_eq!(found(&list).as_deref(), expected, "{line}");
        }
    }

    fn head_of_this_program() -> Vec<u8> {
        let mut head = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        head.truncate(1 << 16);
        head
    }

    #[test]
    fn programs_are_distinguished() {
        let head = head_of_this_program();
        assert!(matches!(linker_of(&head), Linker::Glibc(path) if path.is_file()));
        assert_eq!(linker_of(b"#!/bin/sh\n"), Linker::OfAScript);
        assert_eq!(linker_of(b""), Linker::OfAScript);
        // A file that is cut after its header names no interpreter.
        assert_eq!(linker_of(&head[..64]), Linker::None);
        let mut other = head.clone();
        other[18] ^= 1;
        assert_eq!(linker_of(&other), Linker::OfOtherMachine);
        let place = head.windows(8).position(|text| text == b"ld-linux");
        let mut musl = head.clone();
        musl[place.unwrap()..][..8].copy_from_slice(b"ld-musl-");
        assert!(matches!(linker_of(&musl), Linker::Other(name) if name.contains("ld-musl")));
        for end in 0..head.len().min(2000) {
            let _ = linker_of(&head[..end]);
        }
    }
}
