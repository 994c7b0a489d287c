//! Waiting without polling: one descriptor for completions, events and time.

#![allow(unsafe_code, reason = "makes descriptors of the system")]

use super::Open;
use super::device::Device;
use crate::Error;
use crate::objects::{check, last_errno};
use crate::sys::inline;
use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr::null_mut;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The shortest time of the timer.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// The descriptor to wait on, and its timer.
pub(super) struct Waiting {
    all: OwnedFd,
    timer: OwnedFd,
    /// The device was asked to report the next completion.
    is_armed: bool,
    timer_at: Option<Duration>,
}

/// The data of epoll events: the reasons to wake.
const COMPLETIONS: u64 = 1;
const EVENTS: u64 = 2;
const TIME: u64 = 3;

impl Waiting {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        const ATTEMPTED: &str = "make a descriptor to wait on";
        let owned = |fd: c_int| match fd {
            0.. => {
                // SAFETY: just created, with no other owner.
                Ok(unsafe { OwnedFd::from_raw_fd(fd) })
            }
            _ => Err(Error::system(ATTEMPTED, last_errno())),
        };
        // SAFETY: takes only flags.
        let all = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: takes only flags.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: both objects are open.
        let (completions, events) =
            unsafe { ((*device.channel.raw()).fd, (*device.context.raw()).async_fd) };
        for (fd, why) in [
            (completions, COMPLETIONS),
            (events, EVENTS),
            (timer.as_raw_fd(), TIME),
        ] {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: why,
            };
            // SAFETY: both descriptors are open, the event lives during the call.
            let status = unsafe {
                libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
            };
            check(ATTEMPTED, status)?;
        }
        Ok(Self {
            all,
            timer,
            is_armed: false,
            timer_at: None,
        })
    }

    /// A descriptor that is readable when there is something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Whether there is a completion event, and whether there are events of the device.
    fn woken_by(&self) -> (bool, bool) {
        // SAFETY: zero is a value of every field.
        let mut events: [libc::epoll_event; 3] = unsafe { zeroed() };
        // SAFETY: there is room for three.
        let count = unsafe { libc::epoll_wait(self.all.as_raw_fd(), events.as_mut_ptr(), 3, 0) };
        let count = usize::try_from(count).unwrap_or(0);
        let by = |why| events[..count].iter().any(|event| { event.u64 } == why);
        (by(COMPLETIONS), by(EVENTS))
    }

    /// Sets the timer to that time, but not sooner than [`SHORTEST_WAIT`]; `None`: no timer.
    fn set_timer(&mut self, now: Duration, at: Option<Duration>) -> Result<(), Error> {
        if self.timer_at == at && at.is_none_or(|at| at > now) {
            return Ok(());
        }
        let wait = at.map_or(Duration::ZERO, |at| {
            at.saturating_sub(now).max(SHORTEST_WAIT)
        });
        // SAFETY: zero is a value of every field.
        let mut time: libc::itimerspec = unsafe { zeroed() };
        time.it_value.tv_sec = wait.as_secs() as libc::time_t;
        time.it_value.tv_nsec = libc::c_long::from(wait.subsec_nanos() as i32);
        // SAFETY: the timer is open, the time lives during the call.
        let status = unsafe {
            libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const time, null_mut())
        };
        self.timer_at = at;
        check("set the timer of greetings", status)
    }
}

impl Open {
    /// Whether nothing is left to do. If true, the device wakes this process later.
    pub(super) fn may_sleep(&mut self) -> Result<bool, Error> {
        self.receives.post(&self.device, &mut self.counters)?;
        let (by_completion, by_event) = self.waiting.woken_by();
        if by_event {
            self.read_events()?;
        }
        if by_completion {
            self.take_completion_events();
        }
        if !self.waiting.is_armed {
            self.arm()?;
        }
        self.read_ahead()?;
        self.look()?;
        let is_idle = self.progress.read_ahead.is_empty()
            && self.progress.ready.is_empty()
            && self.progress.happenings.is_empty();
        if !is_idle {
            return Ok(false);
        }
        let now = self.clock.elapsed();
        let at = self.next_look_at(now);
        self.waiting.set_timer(now, at)?;
        Ok(true)
    }

    fn arm(&mut self) -> Result<(), Error> {
        // SAFETY: the queue is open.
        let status = unsafe { inline::ibv_req_notify_cq(self.device.completions.raw()) };
        check("ask to be woken by completions", status)?;
        self.counters.notifications += 1;
        self.waiting.is_armed = true;
        Ok(())
    }

    fn take_completion_events(&mut self) {
        let functions = self.device.library().functions();
        let (mut queue, mut own) = (null_mut(), null_mut());
        let mut count = 0;
        // SAFETY: the channel is open and does not block.
        while unsafe {
            (functions.get_cq_event)(self.device.channel.raw(), &raw mut queue, &raw mut own)
        } == 0
        {
            count += 1;
        }
        if count > 0 {
            // SAFETY: the only queue of the channel; `count` events were read.
            unsafe { (functions.ack_cq_events)(self.device.completions.raw(), count) };
            self.waiting.is_armed = false;
        }
    }
}
