//! Tests that change limits or state of a whole process, or need their own mounts:
//! each runs itself again in a child process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MARK: &str = "REFRAIN_STORE_CHILD";

/// Whether this process is the child.
pub fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

fn again(test: &str, under: &[&str]) -> Command {
    let mut words = under.to_vec();
    let program = std::env::current_exe().unwrap();
    words.push(program.to_str().unwrap());
    let mut command = Command::new(words[0]);
    let name = format!("store::tests::disk::{test}");
    command
        .args(&words[1..])
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1");
    command
}

fn assert_passed(mut command: Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the child failed");
    assert!(text.contains("1 passed"), "the child ran no test");
}

/// Runs a test of this module's parent in a child.
pub fn run(test: &str) {
    assert_passed(again(test, &[]));
}

/// As [`run`], with mounts of the child's own; returns whether that is possible here.
pub fn run_with_own_mounts(test: &str) {
    let unshare = ["unshare", "--mount", "--propagation", "private"];
    let can = Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .stderr(Stdio::null())
        .status();
    if can.is_ok_and(|status| status.success()) {
        assert_passed(again(test, &unshare));
    } else {
        eprintln!("skipped {test}: mounting needs root");
    }
}

/// A small file system in memory, gone when this is dropped.
pub struct Mount(PathBuf);

impl Mount {
    pub fn new(kind: &str, options: &str, at: &Path) -> Self {
        let status = Command::new("mount")
            .args(["-t", kind, "-o", options, "refrain-test"])
            .arg(at)
            .status()
            .unwrap();
        assert!(status.success(), "mount");
        Self(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: after a failed test something may be open there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
