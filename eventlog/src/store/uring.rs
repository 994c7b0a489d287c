//! io_uring: a write and the sync linked to it, in one call and without a thread
//! of our own.

#![allow(
    unsafe_code,
    reason = "the kernel reads the memory of writes that are under way"
)]

use super::disk::{Ended, Stage, Write};
use super::engine::Engine;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const WRITE: u64 = 1;
const SYNC: u64 = 2;

/// The write that the kernel has. Its bytes stay where they are until the last
/// completion is in.
#[derive(Debug)]
struct UnderWay {
    file: Arc<File>,
    write: Write,
    /// Bytes that are written.
    done: usize,
    /// Completions that are to come.
    to_come: usize,
    /// A part of the write or the sync failed.
    failed: Option<(Stage, io::Error)>,
    is_synced: bool,
}

/// The engine.
pub(super) struct Uring {
    ring: IoUring,
    bell: OwnedFd,
    under_way: Option<UnderWay>,
    ended: VecDeque<Ended>,
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

impl Uring {
    /// # Errors
    /// When the system gives no ring, or one that cannot write files.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::new(4)?;
        // Came with writes of plain memory, in Linux 5.6.
        if !ring.params().is_feature_rw_cur_pos() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(bell.as_raw_fd())?;
        Ok(Self {
            ring,
            bell,
            under_way: None,
            ended: VecDeque::new(),
        })
    }

    /// Gives the rest of the write to the kernel, and the sync behind it.
    fn submit(&mut self) {
        let Some(under_way) = &mut self.under_way else {
            return;
        };
        let descriptor = types::Fd(under_way.file.as_raw_fd());
        let rest = &under_way.write.bytes[under_way.done..];
        let mut write = opcode::Write::new(descriptor, rest.as_ptr(), rest.len() as u32)
            .offset(under_way.write.place + under_way.done as u64)
            .build()
            .user_data(WRITE);
        let sync = opcode::Fsync::new(descriptor)
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(SYNC);
        under_way.to_come = 1;
        let wants_sync = under_way.write.sync;
        if wants_sync {
            // A short write breaks the link too.
            write = write.flags(squeue::Flags::IO_LINK);
            under_way.to_come = 2;
        }
        let entries = [write, sync];
        let entries = &entries[..under_way.to_come];
        // SAFETY: `under_way` owns the descriptor and the bytes, which lie on the
        // heap; it is kept, and its bytes untouched, until as many completions
        // have come; `drop` sees to that, too.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.expect("the queue is empty, and has four places");
        // What is wrong here comes up again when completions are collected.
        let _ = self.enter(0);
    }

    fn enter(&self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::ResourceBusy => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn take_completions(&mut self) {
        let Self {
            ring,
            under_way,
            ended,
            ..
        } = self;
        for completion in ring.completion() {
            let Some(under_way) = under_way.as_mut() else {
                continue;
            };
            under_way.to_come = under_way.to_come.saturating_sub(1);
            under_way.take(completion.user_data(), completion.result(), ended);
        }
        self.finish();
    }

    /// When all completions are in: the write has ended, or goes on.
    fn finish(&mut self) {
        let Some(now) = self.under_way.take_if(|now| now.to_come == 0) else {
            return;
        };
        let is_whole = now.done == now.write.bytes.len();
        let result = match now.failed {
            Some(failed) => Err(failed),
            None if is_whole && (now.is_synced || !now.write.sync) => Ok(()),
            None => {
                // It was cut short, and the sync with it.
                self.under_way = Some(now);
                self.submit();
                return;
            }
        };
        let bytes = now.write.bytes;
        self.ended.push_back(Ended::Done { bytes, result });
    }
}

impl UnderWay {
    fn take(&mut self, which: u64, result: i32, ended: &mut VecDeque<Ended>) {
        let error = || io::Error::from_raw_os_error(-result);
        match which {
            WRITE if result < 0 => {
                if result != -Errno::INTR.raw_os_error() && result != -Errno::AGAIN.raw_os_error() {
                    self.failed = Some((Stage::Write, error()));
                }
            }
            WRITE if result == 0 => {
                let nothing = io::ErrorKind::WriteZero.into();
                self.failed = Some((Stage::Write, nothing));
            }
            WRITE => {
                self.done += result as usize;
                if self.write.sync && self.done == self.write.bytes.len() {
                    ended.push_back(Ended::Written);
                }
            }
            // Because of the write before it.
            _ if result == -Errno::CANCELED.raw_os_error() => {}
            _ if result < 0 => self.failed = Some((Stage::Sync, error())),
            _ => self.is_synced = true,
        }
    }
}

impl Engine for Uring {
    fn begin(&mut self, file: Arc<File>, write: Write) {
        self.under_way = Some(UnderWay {
            file,
            write,
            done: 0,
            to_come: 0,
            failed: None,
            is_synced: false,
        });
        self.submit();
    }

    fn refuse(&mut self, write: Write, error: io::Error) {
        let bytes = write.bytes;
        let result = Err((Stage::Write, error));
        self.ended.push_back(Ended::Done { bytes, result });
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>> {
        // Before looking, so that no ringing is lost.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        loop {
            self.take_completions();
            let ended = self.ended.pop_front();
            if ended.is_some() || self.under_way.is_none() {
                return Ok(ended);
            }
            let is_submitting = !self.ring.submission().is_empty();
            if !wait && !is_submitting {
                return Ok(None);
            }
            self.enter(usize::from(wait))?;
            if !wait {
                self.take_completions();
                return Ok(self.ended.pop_front());
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn name(&self) -> String {
        "io_uring".into()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        while self.under_way.is_some() {
            if self.enter(1).is_err() {
                // The kernel may still read the memory: it is never freed then.
                core::mem::forget(self.under_way.take());
                return;
            }
            self.take_completions();
        }
    }
}
