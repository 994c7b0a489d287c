//! io_uring: several strips under way at once.

#![allow(
    unsafe_code,
    reason = "the kernel reads the memory of writes that are under way"
)]

use super::engine::{Engine, UNDER_WAY_MAX};
use crate::buffer::Strip;
use crate::format::PAGE_BYTES;
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

#[derive(Debug)]
struct UnderWay {
    strip: Strip,
    place: u64,
    bytes: usize,
    done: usize,
}

/// The engine. What the kernel has is in `under_way`, which is emptied by
/// completions alone.
pub(super) struct Uring {
    file: File,
    ring: IoUring,
    under_way: [Option<UnderWay>; UNDER_WAY_MAX],
    spare: Vec<Strip>,
}

impl Uring {
    /// A ring for one file.
    ///
    /// # Errors
    /// When the system gives none, or one that cannot write files.
    pub fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            file,
            ring: make_ring()?,
            under_way: Default::default(),
            spare: Vec::new(),
        })
    }

    fn is_idle(&self) -> bool {
        self.under_way.iter().all(Option::is_none)
    }

    /// Gives the rest of a write to the kernel.
    fn submit(&mut self, slot: usize, write: UnderWay) -> io::Result<()> {
        let write = self.under_way[slot].insert(write);
        let rest = &write.strip.bytes()[write.done..write.bytes];
        let descriptor = types::Fd(self.file.as_raw_fd());
        let entry = opcode::Write::new(descriptor, rest.as_ptr(), rest.len() as u32)
            .offset(write.place + write.done as u64)
            .build()
            .user_data(slot as u64);
        // SAFETY: the file is open as long as this, and the strip's memory, on the
        // heap, stays in `under_way`, untouched, until its completion; `drop` sees
        // to that, too.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("as many places as can be under way");
        self.enter(0)
    }

    fn enter(&self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // Completions come first: the queue stays as it is.
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::ResourceBusy => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes in what has ended; goes on with what was cut short.
    fn collect(&mut self) -> io::Result<()> {
        let mut failed = None;
        loop {
            let Some(completion) = self.ring.completion().next() else {
                break;
            };
            let slot = completion.user_data() as usize;
            let Some(mut write) = self.under_way[slot].take() else {
                continue;
            };
            match completion.result() {
                error if error < 0 && -error != rustix::io::Errno::INTR.raw_os_error() => {
                    failed = Some(io::Error::from_raw_os_error(-error));
                    continue;
                }
                0 => {
                    failed = Some(io::ErrorKind::WriteZero.into());
                    continue;
                }
                moved => write.done += moved.max(0) as usize,
            }
            if write.done >= write.bytes {
                self.spare.push(write.strip);
                continue;
            }
            // Direct I/O goes on at a page.
            write.done -= write.done % PAGE_BYTES;
            self.submit(slot, write)?;
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Engine for Uring {
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        self.collect()?;
        let slot = loop {
            if let Some(slot) = self.under_way.iter().position(Option::is_none) {
                break slot;
            }
            self.enter(1)?;
            self.collect()?;
        };
        let next = self.spare.pop().unwrap_or_default();
        let write = UnderWay {
            strip: core::mem::replace(strip, next),
            place,
            bytes,
            done: 0,
        };
        self.submit(slot, write)
    }

    fn wait_for_all(&mut self) -> io::Result<()> {
        while !self.is_idle() {
            self.enter(1)?;
            self.collect()?;
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        while !self.is_idle() {
            if self.enter(1).is_err() {
                // The kernel may still read the memory: it is never freed then.
                core::mem::forget(core::mem::take(&mut self.under_way));
                return;
            }
            while let Some(completion) = self.ring.completion().next() {
                self.under_way[completion.user_data() as usize] = None;
            }
        }
    }
}

fn make_ring() -> io::Result<IoUring> {
    let ring = IoUring::new(UNDER_WAY_MAX as u32)?;
    // Came with writes of plain memory, in Linux 5.6.
    match ring.params().is_feature_rw_cur_pos() {
        true => Ok(ring),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}
