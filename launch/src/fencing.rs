//! Waits until killed processes have ended; parses `/proc/ID/stat`.

use crate::polling;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, pidfd_send_signal, test_kill_process_group};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Time between two looks at a group.
const LOOK: Duration = Duration::from_micros(200);

/// Signals a child that is not reaped, or another process whose descriptor is open. If a filter of
/// system calls refuses `pidfd_send_signal`, signals by process id, which the process keeps until
/// it has ended.
pub fn signal(id: Pid, process: &OwnedFd, signal: Signal) {
    match pidfd_send_signal(process, signal) {
        // A process that has ended needs no signal.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(_) if polling::is_ready(process, PollFlags::IN) => {}
        Err(_) => {
            let _ = kill_process(id, signal);
        }
    }
}

/// Whether a process ends within a time.
pub fn ends_within(process: &OwnedFd, longest: Duration) -> bool {
    polling::is_ready_within(process, PollFlags::IN, longest)
}

/// Whether all processes of a group whose leader was just reaped end within a time. The kernel
/// does not reuse the id of a group that has processes.
///
/// A process that has ended but is not reaped (in a container without an init) counts as ended:
/// its memory is freed.
pub fn group_ends_within(group: Pid, longest: Duration) -> bool {
    let give_up_at = Instant::now() + longest;
    loop {
        // The first check is cheap, and is enough for a group of one process.
        if test_kill_process_group(group).is_err() || !has_living(group) {
            return true;
        }
        if Instant::now() >= give_up_at {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Whether the group has a process that has not ended.
fn has_living(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    all().any(|stat| stat.group == group && !stat.has_ended())
}

/// State of a process, from `/proc/ID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R` running, `S` sleeping, `T` stopped, `Z` ended …
    state: u8,
    /// Its process group.
    pub group: i32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
}

impl Stat {
    /// Reads the state of a process; `None`: there is no such process.
    pub fn of(process: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command is in parentheses and may contain any bytes.
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let group = fields.nth(1)?.parse().ok()?;
        let start_time = fields.nth(16)?.parse().ok()?;
        Some(Self {
            state,
            group,
            start_time,
        })
    }

    /// The process has ended.
    pub fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// The process is stopped by a signal or a debugger.
    pub fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// All processes that this process may see.
pub fn all() -> impl Iterator<Item = Stat> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| Stat::of(process.file_name().to_str()?.parse().ok()?))
}

/// Whether any thread of `process` may still run. A process that has ended but is not reaped does
/// not run, but its id is not reused; it may never be reaped (a container without an init).
pub fn is_alive(process: u32) -> bool {
    // A process whose first thread has ended looks ended while its other threads run.
    let has_other_threads = || {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        threads.is_ok_and(|threads| threads.count() > 1)
    };
    Stat::of(process).is_some_and(|stat| !stat.has_ended() || has_other_threads())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, kill_process_group, pidfd_open};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    // FENCE-1
    #[test]
    fn a_group_has_ended_when_its_last_process_has() {
        let mut leader = Command::new("sh");
        leader.args(["-c", "sleep 1000 & exec cat"]);
        leader
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut leader = leader.spawn().unwrap();
        let group = Pid::from_child(&leader);
        let pidfd = pidfd_open(group, PidfdFlags::empty()).unwrap();
        assert!(!ends_within(&pidfd, Duration::ZERO));
        drop(leader.stdin.take());
        assert!(ends_within(&pidfd, Duration::from_secs(60)));
        leader.wait().unwrap();
        assert!(!group_ends_within(group, Duration::ZERO), "its child lives");
        kill_process_group(group, Signal::KILL).unwrap();
        assert!(group_ends_within(group, Duration::from_secs(60)));
    }
}

#[cfg(test)]
mod stat_tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = |begin: &str| format!("{begin} 1 77 78 0 {}99 0", "0 ".repeat(14));
        let stat = Stat::parse(&line("5 (a) Z b) S")).unwrap();
        assert_eq!((stat.group, stat.start_time), (77, 99));
        assert!(!stat.has_ended() && !stat.is_stopped());
        assert!(Stat::parse(&line("5 (a) Z")).unwrap().has_ended());
        for state in ["T", "t"] {
            let line = line(&format!("5 (a) {state}"));
            assert!(Stat::parse(&line).unwrap().is_stopped());
        }
        for line in ["", "5 (a", "5 (a) S", "5 (a) S 1 x"] {
            assert_eq!(Stat::parse(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_among_all() {
        let own = Stat::of(std::process::id()).unwrap();
        assert!(!own.has_ended());
        assert!(all().any(|stat| stat.group == own.group));
    }
}
