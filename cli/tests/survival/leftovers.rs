//! What a job must not leave behind.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set in the environment of all processes of a batch's jobs.
pub const MARK: &str = "REFRAIN_SURVIVAL";

/// What is in a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Command lines of processes that carry this mark. Shared memory has no name: it
/// lives as long as they.
pub fn processes(mark: &Path) -> Vec<String> {
    let own = format!("{MARK}={}", mark.display());
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    all.filter_map(|process| {
        // Gone meanwhile, or somebody else's.
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let carries = |variable: &[u8]| variable == own.as_bytes();
        let is_of_batch = environment.split(|byte| *byte == 0).any(carries);
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        is_of_batch.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}

/// The search finds what it is for.
#[test]
fn a_process_with_the_mark_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new("cat")
        .env(MARK, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is cat");
    // A child that answers has an environment; one that was just spawned may not.
    let to = child.stdin.as_mut().expect("piped");
    to.write_all(b"?").expect("it reads");
    let from = child.stdout.as_mut().expect("piped");
    from.read_exact(&mut [0]).expect("it answers");
    assert_eq!(processes(folder.path()), ["cat "]);
    drop(child.stdin.take());
    child.wait().expect("ours");
    assert!(processes(folder.path()).is_empty());
}
