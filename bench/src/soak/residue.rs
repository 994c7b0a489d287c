//! What jobs leave, and what their launchers take.

use std::fs;
use std::path::{Path, PathBuf};

/// Names of what is in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Command lines of processes with this variable in their environment.
pub fn processes(variable: &str) -> Vec<String> {
    folders_of(variable)
        .iter()
        .filter_map(|process| command_line(process))
        .collect()
}

/// Their folders in `/proc`.
pub(super) fn folders_of(variable: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.map(|process| process.path())
        .filter(|process| {
            // Gone meanwhile, or of another user.
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == variable.as_bytes())
        })
        .collect()
}

pub(super) fn command_line(process: &Path) -> Option<String> {
    let line = fs::read(process.join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Resident memory of a process; `None` if it is gone.
pub fn resident_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    crate::resident::status_bytes(&status, "VmRSS:")
}
