//! Tasks of other launchers: `srun --mpi=pmi2 ./program` starts the program many times, and none of
//! these processes can be started again by Refrain. Each is therefore replaced by `refrain task`,
//! before the first function of the program: that starts the ranks.
//!
//! Docs: `docs/guide/clusters.md`.

#![allow(unsafe_code, reason = "asks the loader where this library is")]

use core::ffi::CStr;
use refrain_pmi::{SWITCH, Server};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Replaces this process if another launcher has started it as a task, and `refrain` is beside this
/// library. Returns if not.
pub fn replace_task() {
    let is_off = env::var_os(SWITCH).is_some_and(|value| value == "off");
    let is_rank = ["REFRAIN_RANK", "REFRAIN_CONTROL_FD"];
    if is_off || is_rank.iter().any(|name| env::var_os(name).is_some()) || !Server::is_named() {
        return;
    }
    let Some(refrain) = refrain() else { return };
    let Ok(words) = fs::read("/proc/self/cmdline") else {
        return;
    };
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    let mut words = words.split(|byte| *byte == 0);
    let name = OsStr::from_bytes(words.next().unwrap_or_default());
    let Ok(program) = program(name) else { return };
    let arguments = words.map(|word| OsString::from_vec(word.to_vec()));
    // Returns only if it fails: the program then goes on as it is.
    let _ = Command::new(refrain)
        .arg("task")
        .arg("--")
        .arg(program)
        .args(arguments)
        .exec();
}

/// The path of this process's program. An interpreter may look at the name by which it was called.
fn program(name: &OsStr) -> std::io::Result<PathBuf> {
    let own = fs::metadata("/proc/self/exe")?;
    let is_own = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino()))
    };
    let named = match name.as_bytes().contains(&b'/') {
        true => Some(PathBuf::from(name)).filter(is_own),
        false => {
            let folders = env::var_os("PATH").unwrap_or_default();
            let mut candidates = env::split_paths(&folders).map(|folder| folder.join(name));
            candidates.find(is_own)
        }
    };
    named.map_or_else(|| fs::read_link("/proc/self/exe"), Ok)
}

/// The program `refrain` that belongs to this library: beside it, or in `bin` beside its folder.
fn refrain() -> Option<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    let address: *const libc::c_void = (refrain as *const ()).cast();
    // SAFETY: the address is of this library, and the loader fills in the structure.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text lives as long as this library is loaded.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    // A link in the folder of another package names the real place.
    let file = fs::canonicalize(OsStr::from_bytes(file.to_bytes())).ok()?;
    let folder = file.parent()?;
    let candidates = [folder.join("refrain"), folder.join("../bin/refrain")];
    candidates
        .into_iter()
        .find(|path: &PathBuf| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0)
}
