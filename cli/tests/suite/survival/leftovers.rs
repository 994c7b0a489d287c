//! Leftovers that a job must not have.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable of all processes of a batch's jobs.
pub const MARK: &str = "REFRAIN_SURVIVAL";

/// The entries of a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Command lines of processes with this variable. Shared memory has no name: it exists as long as
/// these processes.
pub fn processes(mark: &Path) -> Vec<String> {
    let all = marked(mark).into_iter();
    all.map(|(_, line)| line).collect()
}

/// The ids of those whose command lines contain `program`.
pub fn processes_of_program(mark: &Path, program: &str) -> Vec<u32> {
    let all = marked(mark).into_iter();
    // The launcher has the program's name in its own command line, behind options.
    let is_it = |line: &str| {
        line.split(' ')
            .next()
            .is_some_and(|it| it.contains(program))
    };
    let of = all.filter(|(_, line)| is_it(line));
    of.map(|(process, _)| process).collect()
}

fn marked(mark: &Path) -> Vec<(u32, String)> {
    let own = format!("{MARK}={}", mark.display());
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    all.filter_map(|process| {
        // Ended meanwhile, or of another user.
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let carries = |variable: &[u8]| variable == own.as_bytes();
        let is_of_batch = environment.split(|byte| *byte == 0).any(carries);
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let id = process.file_name().to_str()?.parse().ok()?;
        is_of_batch.then(|| (id, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
    .collect()
}

/// The search finds what it searches for.
#[test]
fn a_process_with_the_mark_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new("cat")
        .env(MARK, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is cat");
    // A child that answers has its environment; a child that was just spawned may not have it yet.
    let to = child.stdin.as_mut().expect("piped");
    to.write_all(b"?").expect("it reads");
    let from = child.stdout.as_mut().expect("piped");
    from.read_exact(&mut [0]).expect("it answers");
    assert_eq!(processes(folder.path()), ["cat "]);
    drop(child.stdin.take());
    child.wait().expect("ours");
    assert!(processes(folder.path()).is_empty());
}
