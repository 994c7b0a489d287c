//! Waiting until processes that were killed have ended.

use super::stat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, pidfd_send_signal, test_kill_process_group};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a group.
const LOOK: Duration = Duration::from_micros(200);

/// Signals a child that is not reaped, or another process whose descriptor is open. A
/// filter of system calls may refuse the way by the descriptor; the other way is by
/// its id, which a process keeps until it has ended.
pub fn signal(id: Pid, process: &OwnedFd, signal: Signal) {
    match pidfd_send_signal(process, signal) {
        // One that has ended needs no signal.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(_) if ends_within(process, Duration::ZERO) => {}
        Err(_) => {
            let _ = kill_process(id, signal);
        }
    }
}

/// Whether a process ends within a time.
pub fn ends_within(process: &OwnedFd, longest: Duration) -> bool {
    let give_up_at = Instant::now() + longest;
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let ended = rustix::io::retry_on_intr(|| {
        let left = give_up_at.saturating_duration_since(Instant::now());
        poll(&mut polled, Timespec::try_from(left).ok().as_ref())
    });
    ended.is_ok_and(|ended| ended > 0)
}

/// Whether all processes of a group whose leader was just reaped end within a
/// time. Its id is not given to others while it has any.
///
/// One that has ended and is not reaped by whoever its parent is now (nobody, in
/// a container without an init) counts as ended: its memory is gone.
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
    stat::all().any(|stat| stat.group == group && !stat.has_ended())
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
