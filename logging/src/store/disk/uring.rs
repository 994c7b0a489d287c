//! io_uring: several transfers under way at once, and the bell among them.

#![allow(
    unsafe_code,
    reason = "the kernel reads and writes the memory of transfers that are under way"
)]

use super::bell::Bell;
use super::engine::{Ended, Engine};
use super::transfer::{Rest, Transfer};
use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Marks the completion of the poll on the bell; no transfer has this number.
const BELL: u64 = u64::MAX;

/// The engine. The transfers that the kernel has are in `transfers`, which is
/// emptied only by completions.
pub(super) struct Uring {
    ring: IoUring,
    transfers: Slab<Transfer>,
    bell: Arc<Bell>,
    bell_is_watched: bool,
    under_way_max: usize,
}

impl Uring {
    /// A ring for `under_way_max` transfers at once: fewer, where the system has
    /// not the memory for so many.
    ///
    /// # Errors
    /// When the system gives no ring, or one that cannot read and write files.
    pub fn new(bell: Arc<Bell>, under_way_max: usize) -> io::Result<Self> {
        let mut under_way_max = under_way_max.max(1);
        loop {
            // And the bell.
            match make_ring(under_way_max as u32 + 1) {
                Ok(ring) => {
                    return Ok(Self {
                        ring,
                        transfers: Slab::with_capacity(under_way_max),
                        bell,
                        bell_is_watched: false,
                        under_way_max,
                    });
                }
                // Locked memory was counted before Linux 5.12.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory && under_way_max > 1 => {
                    under_way_max /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn watch_bell(&mut self) {
        if self.bell_is_watched {
            return;
        }
        let descriptor = types::Fd(self.bell.descriptor().as_raw_fd());
        let entry = opcode::PollAdd::new(descriptor, rustix::event::PollFlags::IN.bits().into())
            .build()
            .user_data(BELL);
        // SAFETY: it names a descriptor, which the bell keeps open, and no memory.
        unsafe { self.push(&entry) };
        self.bell_is_watched = true;
    }

    /// # Safety
    /// Memory and descriptor of the entry must be good until its completion.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // Nothing is ever left in the queue beyond the next `enter`, and all that
        // can be under way at once has a place in it.
        pushed.expect("a place for everything that can be under way");
    }

    fn enter(&self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // Completions come first, or the wait was cut short: the queue stays
            // as it is.
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::ResourceBusy => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn take_completions(&mut self, ended: &mut Vec<Ended>) {
        let mut bell_has_rung = false;
        for completion in self.ring.completion() {
            if completion.user_data() == BELL {
                bell_has_rung = true;
                continue;
            }
            let transfer = self.transfers.remove(completion.user_data() as usize);
            let result = match completion.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                bytes => Ok(bytes as usize),
            };
            ended.push(Ended { transfer, result });
        }
        if bell_has_rung {
            self.bell_is_watched = false;
            self.bell.silence();
        }
    }
}

impl Engine for Uring {
    fn room(&self) -> usize {
        self.under_way_max - self.transfers.len()
    }

    fn begin(&mut self, transfer: Transfer) {
        let number = self.transfers.insert(transfer);
        let transfer = &mut self.transfers[number];
        let descriptor = types::Fd(transfer.descriptor.as_raw_fd());
        let place = transfer.rest_place();
        let entry = match transfer.rest() {
            Rest::Write(bytes) => {
                opcode::Write::new(descriptor, bytes.as_ptr(), bytes.len() as u32)
                    .offset(place)
                    .build()
            }
            Rest::Read(bytes) => {
                opcode::Read::new(descriptor, bytes.as_mut_ptr(), bytes.len() as u32)
                    .offset(place)
                    .build()
            }
        };
        let entry = entry.user_data(number as u64);
        // SAFETY: the transfer owns its descriptor and its memory, which lies on
        // the heap or in a log's region and does not move with it. It stays in
        // `transfers`, untouched, until its completion; `drop` sees to that, too.
        unsafe { self.push(&entry) };
        // At once: the disk works while the next chunk is sealed. What is wrong
        // here comes up again when completions are collected.
        let _ = self.enter(0);
    }

    fn collect(&mut self, sleep: bool, ended: &mut Vec<Ended>) -> io::Result<()> {
        if sleep {
            self.watch_bell();
        }
        let before = ended.len();
        self.take_completions(ended);
        let is_submitting = !self.ring.submission().is_empty();
        let want = usize::from(sleep && ended.len() == before);
        // Deferred completions come only with a call that asks for them.
        if want > 0 || is_submitting || !self.transfers.is_empty() {
            self.enter(want)?;
            self.take_completions(ended);
        }
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.transfers.len()
    }

    fn name(&self) -> String {
        format!("io_uring, {} at once", self.under_way_max)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while !self.transfers.is_empty() {
            if self.enter(1).is_err() {
                // The kernel may still use the memory: it is never freed then.
                core::mem::forget(core::mem::take(&mut self.transfers));
                return;
            }
            self.take_completions(&mut ended);
        }
    }
}

fn make_ring(entries: u32) -> io::Result<IoUring> {
    // One thread uses it, and looks for completions by itself.
    let modern = IoUring::builder()
        .setup_clamp()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries);
    let ring = match modern {
        // Before Linux 6.1.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries)?,
        other => other?,
    };
    // Came with reads and writes of plain memory, in Linux 5.6.
    if ring.params().is_feature_rw_cur_pos() {
        Ok(ring)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}
