//! Stops the ranks of the host while its agent has no lease: they must not run beside later lives
//! on another host. FENCE-2
//!
//! Ranks are stopped by SIGSTOP and not killed: the launcher may only be stopped or slow. If it has
//! given up the host, it has closed the connection, and the agent ends. A thread of its own, since
//! the agent's loop may wait for a disk or for the end of a process.

use crate::boot_clock::since_boot;
use crate::hosts::lease::{Lease, LeaseLength};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// See the [module](self). Dropping it ends its thread.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Expires when the lease does.
    timer: OwnedFd,
    watched: Mutex<Watched>,
}

#[derive(Debug)]
struct Watched {
    lease: Lease,
    /// The process groups of the ranks.
    groups: Vec<Pid>,
    are_stopped: bool,
    /// The agent ends.
    is_done: bool,
}

impl Watched {
    fn signal(&self, signal: Signal) {
        for group in &self.groups {
            // A group may have ended.
            let _ = kill_process_group(*group, signal);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the timer expire at a time since boot.
    fn set_timer(&self, at: Duration) -> io::Result<()> {
        let timer = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(at).map_err(io::Error::other)?,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        Ok(())
    }

    /// Stops the ranks each time the lease is over.
    fn stop_ranks(&self) {
        let mut expirations = [0; 8];
        loop {
            let mut polled = [PollFd::new(&self.timer, PollFlags::IN)];
            let _ = poll(&mut polled, None);
            let mut watched = self.lock();
            if watched.is_done {
                return;
            }
            // Not ready if the lease was renewed meanwhile.
            let _ = rustix::io::read(&self.timer, &mut expirations[..]);
            if watched.lease.is_over(since_boot()) && !watched.are_stopped {
                watched.are_stopped = true;
                watched.signal(Signal::STOP);
            }
        }
    }
}

impl Watch {
    /// Begins without a lease; the first one is asked for now.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn begin(length: LeaseLength) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            timer: timerfd_create(TimerfdClockId::Boottime, flags)?,
            watched: Mutex::new(Watched {
                lease: Lease::ask_first(length, since_boot()),
                groups: Vec::new(),
                are_stopped: true,
                is_done: false,
            }),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("lease".into())
            .spawn(move || of_thread.stop_ranks())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Time until the next request; `None`: the launcher has not answered the last one.
    pub(super) fn next_request(&self) -> Option<Duration> {
        let due = self.shared.lock().lease.next_request()?;
        Some(due.saturating_sub(since_boot()))
    }

    /// Time since a request that has no answer.
    pub(super) fn unanswered_for(&self) -> Option<Duration> {
        let since = self.shared.lock().lease.unanswered_since()?;
        Some(since_boot().saturating_sub(since))
    }

    /// Whether to ask the launcher now; the request counts as sent.
    pub(super) fn ask(&self) -> bool {
        self.shared.lock().lease.ask(since_boot())
    }

    /// The launcher has answered: ranks run again.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn granted(&self) -> io::Result<()> {
        let mut watched = self.shared.lock();
        watched.lease.granted();
        self.shared.set_timer(watched.lease.ends_at())?;
        if watched.are_stopped && !watched.lease.is_over(since_boot()) {
            watched.are_stopped = false;
            watched.signal(Signal::CONT);
        }
        Ok(())
    }

    /// A rank was started.
    pub(super) fn add(&self, group: Pid) {
        let mut watched = self.shared.lock();
        watched.groups.push(group);
        if watched.are_stopped {
            let _ = kill_process_group(group, Signal::STOP);
        }
    }

    /// A rank has ended; its group is signalled no more.
    pub(super) fn remove(&self, group: Pid) {
        self.shared.lock().groups.retain(|other| *other != group);
    }

    /// Does something that lets ranks run, unless they are stopped: then they continue with the
    /// next lease.
    pub(super) fn unless_stopped(&self, act: impl FnOnce()) {
        let watched = self.shared.lock();
        if !watched.are_stopped {
            act();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().is_done = true;
        // A time that has passed.
        let woken = self.shared.set_timer(Duration::from_nanos(1));
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fencing::Stat;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    fn sleeping() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    #[track_caller]
    fn expect(child: &Child, is_stopped: bool) {
        while Stat::of(child.id()).unwrap().is_stopped() != is_stopped {
            thread::yield_now();
        }
    }

    // FENCE-2
    #[test]
    fn ranks_run_only_with_a_lease() {
        let watch = Watch::begin(LeaseLength(Duration::from_millis(200))).unwrap();
        let mut ranks = [sleeping(), sleeping()];
        watch.add(Pid::from_child(&ranks[0]));
        expect(&ranks[0], true);
        watch.unless_stopped(|| unreachable!("there is no lease yet"));
        loop {
            watch.granted().unwrap();
            // The lease may be over at once on a slow machine.
            if !watch.shared.lock().are_stopped {
                break;
            }
            thread::sleep(watch.next_request().unwrap());
            assert!(watch.ask());
        }
        // Not renewed: the thread stops them.
        expect(&ranks[0], true);
        watch.add(Pid::from_child(&ranks[1]));
        expect(&ranks[1], true);
        watch.remove(Pid::from_child(&ranks[1]));
        drop(watch);
        for rank in &mut ranks {
            rank.kill().unwrap();
            rank.wait().unwrap();
        }
    }
}
