//! An engine on io_uring: several concurrent transfers without a thread.

#![allow(
    unsafe_code,
    reason = "the kernel uses the memory of transfers that are under way"
)]

use crate::engine::{Bytes, Ended, Engine, Memory, Next, Stage, Transfer};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use slab::Slab;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A transfer that was given to the kernel.
#[derive(Debug)]
struct UnderWay<M> {
    transfer: Transfer<M>,
    /// Number of completions that have not arrived.
    to_come: u8,
    failed: Option<(Stage, io::Error)>,
    is_synced: bool,
}

/// The io_uring engine.
pub(crate) struct Uring<M> {
    ring: IoUring,
    /// Never grows, so that its entries do not move; only completions remove entries.
    under_way: Slab<UnderWay<M>>,
    under_way_max: usize,
}

impl<M> fmt::Debug for Uring<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uring({} transfers)", self.under_way.len())
    }
}

impl<M: Memory> Uring<M> {
    /// A ring for `under_way_max` concurrent transfers, or for fewer if the system has no memory
    /// for that.
    ///
    /// # Errors
    /// When the system gives no ring, or a ring that cannot read and write files.
    pub fn new(under_way_max: usize) -> io::Result<Self> {
        let mut under_way_max = under_way_max.max(1);
        loop {
            // Two entries for each transfer: a write and its sync.
            match make_ring(2 * under_way_max as u32) {
                Ok(ring) => {
                    return Ok(Self {
                        ring,
                        under_way: Slab::with_capacity(under_way_max),
                        under_way_max,
                    });
                }
                // Before Linux 5.12, the ring counted as locked memory.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory && under_way_max > 1 => {
                    under_way_max /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the rest of a transfer, and the sync after it, to the kernel.
    fn submit(&mut self, number: usize) {
        let now = &mut self.under_way[number];
        let descriptor = types::Fd(now.transfer.file.descriptor().as_raw_fd());
        let sync = now.transfer.sync;
        let (place, rest) = now.transfer.rest();
        let mut entry = match rest {
            Bytes::Write(bytes) => {
                opcode::Write::new(descriptor, bytes.as_ptr(), bytes.len() as u32)
                    .offset(place)
                    .build()
            }
            Bytes::Read(bytes) => {
                opcode::Read::new(descriptor, bytes.as_mut_ptr(), bytes.len() as u32)
                    .offset(place)
                    .build()
            }
        };
        now.to_come = 1 + u8::from(sync);
        if sync {
            // A short write also cancels the linked sync.
            entry = entry.flags(squeue::Flags::IO_LINK);
        }
        let entries = [
            entry.user_data(2 * number as u64),
            opcode::Fsync::new(descriptor)
                .flags(types::FsyncFlags::DATASYNC)
                .build()
                .user_data(2 * number as u64 + 1),
        ];
        let entries = &entries[..now.to_come.into()];
        // SAFETY: the transfer owns its file and its memory, and the bytes were borrowed from that
        // memory in its place. It stays there, untouched, until all `to_come` completions have
        // arrived: `under_way` never grows. `drop` waits for them, too.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        // The next `enter` always empties the queue.
        pushed.expect("a place for everything that can be under way");
        // Submits at once, so that the disk works meanwhile. An error here occurs again when
        // completions are collected.
        let _ = enter(&self.ring, 0);
    }

    fn take_completions(&mut self, ended: &mut Vec<Ended<M>>) {
        loop {
            let next = self.ring.completion().next();
            let Some(completion) = next else { return };
            let number = completion.user_data() as usize / 2;
            let is_sync = completion.user_data() % 2 == 1;
            let now = &mut self.under_way[number];
            now.to_come -= 1;
            if now.take(is_sync, completion.result()) {
                ended.push(Ended::Written);
            }
            if now.to_come > 0 {
                continue;
            }
            if now.failed.is_none() && !now.is_over() {
                // The write was cut short, and its sync cancelled.
                self.submit(number);
                continue;
            }
            let UnderWay {
                transfer, failed, ..
            } = self.under_way.remove(number);
            let Transfer { file, memory, .. } = transfer;
            drop(file);
            let result = failed.map_or(Ok(()), Err);
            ended.push(Ended::Done { memory, result });
        }
    }
}

impl<M: Memory> UnderWay<M> {
    fn is_over(&self) -> bool {
        self.transfer.is_whole() && (self.is_synced || !self.transfer.sync)
    }

    /// Records a completion; returns whether all bytes are written and the sync remains.
    fn take(&mut self, is_sync: bool, result: i32) -> bool {
        let result = match result {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            bytes => Ok(bytes as usize),
        };
        if !is_sync {
            let was_whole = self.transfer.is_whole();
            return match self.transfer.advance(result) {
                Next::Done => self.transfer.sync && !was_whole,
                Next::Again => false,
                Next::Failed(error) => {
                    self.failed = Some((Stage::Transfer, error));
                    false
                }
            };
        }
        match result {
            Ok(_) => self.is_synced = true,
            // Cancelled because the write before it failed or was short.
            Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {}
            Err(error) => self.failed = Some((Stage::Sync, error)),
        }
        false
    }
}

impl<M: Memory + Send> Engine<M> for Uring<M> {
    fn room(&self) -> usize {
        self.under_way_max - self.under_way.len()
    }

    fn begin(&mut self, transfer: Transfer<M>) {
        assert!(self.room() > 0, "more transfers than the ring has room for");
        let number = self.under_way.insert(UnderWay {
            transfer,
            to_come: 0,
            failed: None,
            is_synced: false,
        });
        self.submit(number);
    }

    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()> {
        let before = ended.len();
        self.take_completions(ended);
        loop {
            let is_waiting = wait && ended.len() == before && !self.under_way.is_empty();
            let is_submitting = !self.ring.submission().is_empty();
            if !is_waiting && !is_submitting {
                return Ok(());
            }
            enter(&self.ring, usize::from(is_waiting))?;
            self.take_completions(ended);
            if !wait || ended.len() > before {
                return Ok(());
            }
        }
    }

    fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring is open as long as this engine.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }

    fn name(&self) -> String {
        format!("io_uring, {} at once", self.under_way_max)
    }
}

impl<M> Drop for Uring<M> {
    fn drop(&mut self) {
        while self.under_way.iter().any(|(_, now)| now.to_come > 0) {
            if enter(&self.ring, 1).is_err() {
                // The kernel may still use the memory, so it is never freed.
                core::mem::forget(core::mem::take(&mut self.under_way));
                return;
            }
            for completion in self.ring.completion() {
                self.under_way[completion.user_data() as usize / 2].to_come -= 1;
            }
        }
    }
}

fn enter(ring: &IoUring, want: usize) -> io::Result<()> {
    match ring.submit_and_wait(want) {
        Ok(_) => Ok(()),
        // Completions must be taken first, or a signal interrupted the wait: the queue stays as it
        // is.
        Err(error) => match error.kind() {
            io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::ResourceBusy => Ok(()),
            _ => Err(error),
        },
    }
}

fn make_ring(entries: u32) -> io::Result<IoUring> {
    // Completions are not deferred to calls that ask for them; otherwise polls would not see them.
    let ring = IoUring::builder().setup_clamp().build(entries)?;
    // This feature exists since Linux 5.6, like reads and writes of plain memory.
    match ring.params().is_feature_rw_cur_pos() {
        true => Ok(ring),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}
