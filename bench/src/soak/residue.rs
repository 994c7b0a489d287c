//! What jobs leave, and what their launchers take.

use std::fs;
use std::path::Path;

/// Names of what is in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Command lines of processes with this variable in their environment.
pub fn processes(variable: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|process| {
        // Gone meanwhile, or somebody else's.
        let environment = fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let has_it = variables.any(|it| it == variable.as_bytes());
        let line = fs::read(process.path().join("cmdline")).ok()?;
        has_it.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}

/// Resident memory of a process; `None` if it is gone.
pub fn resident_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    crate::resident::status_bytes(&status, "VmRSS:")
}
