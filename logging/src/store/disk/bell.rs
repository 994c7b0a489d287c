//! Wakes the thread of a store: by one system call when it sleeps, by none
//! when it is awake.

use core::sync::atomic::{AtomicBool, Ordering, fence};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Wakes the store's thread for its user.
#[derive(Debug)]
pub(super) struct Bell {
    counter: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            counter: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            asleep: AtomicBool::new(false),
        })
    }

    /// Wakes the thread if it sleeps; call it after queueing work.
    pub fn ring(&self) {
        // Pairs with the fence in `fall_asleep`: either the thread sees the queued
        // work, or this call sees that the thread sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // The counter cannot be full: it grows by one each time the thread sleeps.
            let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
        }
    }

    /// Marks the thread as asleep; it must check for work once more before it sleeps.
    pub fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sleeps until the bell rings, or the other descriptor is readable.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bell = self.counter.as_fd();
        let mut watched =
            [bell, other.unwrap_or(bell)].map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().contains(PollFlags::IN) => {
                let _ = rustix::io::read(&self.counter, &mut [0; 8]);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(bell: &Bell) -> bool {
        let mut watched = [PollFd::new(&bell.counter, PollFlags::IN)];
        poll(&mut watched, Some(&rustix::event::Timespec::default())).unwrap() == 1
    }

    #[test]
    fn only_a_sleeper_costs_a_system_call_and_only_one() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(!rung(&bell), "the thread is awake");
        bell.fall_asleep();
        bell.ring();
        assert!(rung(&bell));
        bell.wait(None).unwrap();
        bell.ring();
        assert!(!rung(&bell), "it has been woken already");
        bell.fall_asleep();
        bell.wake_up();
        bell.ring();
        assert!(!rung(&bell), "it woke by itself");
    }
}
