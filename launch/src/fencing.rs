//! Waits until killed processes have ended; what `/proc/ID/stat` says of a process.

use crate::polling;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, pidfd_send_signal, test_kill_process_group};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Between two looks at a group.
const LOOK: Duration = Duration::from_micros(200);

/// Signals a child that is not reaped, or another process whose descriptor is open. A
/// filter of system calls may refuse the way by the descriptor; the other way is by
/// its id, which a process keeps until it has ended.
pub fn signal(id: Pid, process: &OwnedFd, signal: Signal) {
    match pidfd_send_signal(process, signal) {
        // One that has ended needs no signal.
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

/// Whether all processes of a group whose leader was just reaped end within a
/// time. Its id is not given to others while it has any.
///
/// One that has ended and is not reaped (in a container without an init) counts as
/// ended: its memory is gone.
pub fn group_ends_within(group: Pid, longest: Duration) -> bool {
    let give_up_at = Instant::now() + longest;
    loop {
        // The first is cheap, and is all that is asked of a group of one.
        if test_kill_process_group(group).is_err() || !has_living(group) {
            return true;
        }
        if Instant::now() >= give_up_at {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Whether a process of this group has not ended.
fn has_living(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    all().any(|stat| stat.group == group && !stat.has_ended())
}

/// A process as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R` runs, `S` sleeps, `T` is stopped, `Z` has ended …
    state: u8,
    /// Its process group.
    pub group: i32,
    /// When it was started, in clock ticks since boot.
    pub start_time: u64,
}

impl Stat {
    /// Of a process; `None`: there is none.
    pub fn of(process: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command is in parentheses and may hold anything.
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

    /// It runs no more.
    pub fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// By a signal, or by a debugger.
    pub fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// All processes that this one may see.
pub fn all() -> impl Iterator<Item = Stat> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| Stat::of(process.file_name().to_str()?.parse().ok()?))
}

/// Whether any thread of `process` may still run. One that has ended and waits
/// to be reaped runs no more, but its id is not used again either; it may never
/// be reaped (a container without an init).
pub fn is_alive(process: u32) -> bool {
    // A process whose first thread has ended looks like a dead one while its other
    // threads run.
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
