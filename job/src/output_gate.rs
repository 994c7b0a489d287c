//! Output is an emission (GATE-1): the page over which a rank tells its launcher
//! how far its events have come, so that the launcher can hold back what the
//! rank printed until everything that happened before is stable.
//!
//! The rank counts its events in `recorded` when they happen, before anything
//! that it prints afterwards can reach the launcher's end of the pipe; so the
//! count that the launcher finds after it has read some output is at least that
//! of the events which the output can depend on. `stable` follows when all
//! events up to a count are stable. `wanted` is the launcher's word that output
//! waits: what a rank would put off committing, it then commits at its next
//! call.

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
/// Offsets; each word has a line of its own.
const RECORDED: usize = 0;
const STABLE: usize = 64;
const WANTED: usize = 128;

/// The key under which a rank puts its page.
pub fn key(rank: u32) -> String {
    format!("output-gate-{rank}")
}

/// The page, at either side.
#[derive(Debug)]
pub struct OutputGate {
    map: MmapRaw,
}

impl OutputGate {
    /// Makes a page, and the descriptor that the launcher gets.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("refrain-output-gate", flags)?;
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let map = MmapOptions::new().len(PAGE_BYTES).map_raw(&file)?;
        Ok((Self { map }, file))
    }

    /// Maps the page that a rank has made.
    pub fn open(file: &OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(file)?;
        let bytes = rustix::fs::fstat(file)?.st_size;
        // A rank that shortened it would kill the launcher with SIGBUS.
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

    /// The rank: one more event has happened.
    #[inline]
    pub fn note_event(&self) {
        let word = self.word(RECORDED);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// The rank: so many events, the first, are stable.
    #[inline]
    pub fn note_stable(&self, events: u64) {
        self.word(STABLE).store(events, Ordering::Release);
    }

    /// The rank: output waits for so many events, the first.
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.word(WANTED).load(Ordering::Relaxed)
    }

    /// The launcher: events that may have happened before the output that was
    /// just read.
    pub fn recorded(&self) -> u64 {
        self.word(RECORDED).load(Ordering::Acquire)
    }

    /// The launcher: how many of them are stable.
    pub fn stable(&self) -> u64 {
        self.word(STABLE).load(Ordering::Acquire)
    }

    /// The launcher: output waits for these.
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
