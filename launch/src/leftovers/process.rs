//! Whether a process lives.

use std::fs;

/// When a process was started, in clock ticks since boot (field 22 of
/// `/proc/ID/stat`).
pub(super) fn start_time(process: u32) -> Option<u64> {
    field(process, 22)?.parse().ok()
}

/// Whether any thread of `process` may still run. One that has ended and waits
/// to be reaped runs no more, but its id is not used again either; nobody may
/// ever reap it (a container without an init).
pub(super) fn is_alive(process: u32) -> bool {
    match field(process, 3).as_deref() {
        None => false,
        Some("Z" | "X") => has_other_threads(process),
        Some(_) => true,
    }
}

/// A process whose first thread has ended looks like a dead one while its other
/// threads run.
fn has_other_threads(process: u32) -> bool {
    fs::read_dir(format!("/proc/{process}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// A field of `/proc/ID/stat` behind the command, counted from 1.
fn field(process: u32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command (field 2) is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - 3).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_lives_until_it_has_ended_reaped_or_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(4_194_999), "above the largest process id");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_alive(child.id()), "it waits for input");
        child.kill().unwrap();
        let id = rustix::process::Pid::from_child(&child);
        waitid(
            WaitId::Pid(id),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert_eq!(field(child.id(), 3).as_deref(), Some("Z"));
        assert!(!is_alive(child.id()), "killed, not reaped");
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
