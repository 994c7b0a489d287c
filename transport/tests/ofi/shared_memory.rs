//! The files that providers leave in `/dev/shm`.

use std::path::PathBuf;

/// Files there that are named after one of the processes.
pub fn files_of(processes: &[u32]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else {
        return Vec::new();
    };
    let is_named_after = |name: &str| {
        name.split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u32>().ok())
            .any(|number| processes.contains(&number))
    };
    entries
        .flatten()
        .filter(|entry| is_named_after(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect()
}

/// Removes the segments of the provider `shm`, `PID:UID:N`, of a process that was
/// killed and reaped.
pub fn remove_segments_of(process: u32) {
    let prefix = format!("{process}:");
    for file in files_of(&[process]) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&prefix) {
            std::fs::remove_file(&file).expect("it is ours");
        }
    }
}
