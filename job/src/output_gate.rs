//! Output is an emission (GATE-1): in this page, a rank counts its events for its launcher, which
//! keeps the rank's output until all events before it are stable.
//!
//! The rank counts an event in `recorded` when it happens, before output that follows can reach
//! the launcher's end of the pipe. The count that the launcher reads after it has read output is
//! therefore at least the number of events on which the output can depend. The rank sets `stable`
//! to a count when all events up to it are stable. The launcher sets `wanted` when output waits:
//! events whose commit the rank would delay are then committed at its next call.

#![allow(
    unsafe_code,
    reason = "maps a page that two processes share and touches it as atomic words"
)]

use core::sync::atomic::{AtomicU64, Ordering};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::OwnedFd;

const PAGE_BYTES: usize = 4096;
/// Offsets in the page; each word has its own cache line.
const RECORDED: usize = 0;
const STABLE: usize = 64;
const WANTED: usize = 128;

/// The key under which a rank publishes its page.
pub fn key(rank: u32) -> String {
    format!("output-gate-{rank}")
}

/// The page, at the rank or the launcher.
#[derive(Debug)]
pub struct OutputGate {
    map: MmapRaw,
}

impl OutputGate {
    /// Creates a page; returns it with the descriptor for the launcher.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("refrain-output-gate", flags)?;
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let map = MmapOptions::new().len(PAGE_BYTES).map_raw(&file)?;
        Ok((Self { map }, file))
    }

    /// Maps the page that a rank has created.
    pub fn open(file: &OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(file)?;
        let bytes = rustix::fs::fstat(file)?.st_size;
        // If a rank shortened the page, the launcher would die by SIGBUS.
        if !seals.contains(SealFlags::SHRINK) || bytes < PAGE_BYTES as i64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "the page of {bytes} bytes is not sealed: run the same refrain on every rank"
                ),
            ));
        }
        let map = MmapOptions::new().len(PAGE_BYTES).map_raw(file)?;
        Ok(Self { map })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= PAGE_BYTES && offset.is_multiple_of(8));
        // SAFETY: the mapping has a page and begins on one; `offset` is one of
        // the three above; both sides touch it as atomic words only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().wrapping_add(offset).cast()) }
    }

    /// Called by the rank: one more event has happened.
    #[inline]
    pub fn note_event(&self) {
        let word = self.word(RECORDED);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Called by the rank: the first `events` events are stable.
    #[inline]
    pub fn note_stable(&self, events: u64) {
        self.word(STABLE).store(events, Ordering::Release);
    }

    /// Called by the rank: the number of events for which output waits.
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.word(WANTED).load(Ordering::Relaxed)
    }

    /// Called by the launcher: number of events that may have happened before the output that was
    /// just read.
    pub fn recorded(&self) -> u64 {
        self.word(RECORDED).load(Ordering::Acquire)
    }

    /// Called by the launcher: number of events that are stable.
    pub fn stable(&self) -> u64 {
        self.word(STABLE).load(Ordering::Acquire)
    }

    /// Called by the launcher: output waits for the first `events` events.
    pub fn want(&self, events: u64) {
        self.word(WANTED).fetch_max(events, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_one_page() {
        let (rank, file) = OutputGate::create().unwrap();
        let launcher = OutputGate::open(&file).unwrap();
        rank.note_event();
        rank.note_event();
        assert_eq!((launcher.recorded(), launcher.stable()), (2, 0));
        assert_eq!(rank.wanted(), 0);
        launcher.want(2);
        assert_eq!(rank.wanted(), 2);
        rank.note_stable(1);
        assert_eq!(launcher.stable(), 1);
    }

    #[test]
    fn a_page_that_could_be_shortened_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64).unwrap();
        assert!(OutputGate::open(&file).is_err());
    }
}
