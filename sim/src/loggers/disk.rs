//! The disk under a logger, as a process has it that may die at each step.

use super::ledger::{Ledger, batches_in};
use crate::mortal::Mortal;
use refrain_eventlog::store::disk::{Disk, Ended, ReadFiles, Write};
use refrain_eventlog::store::faulty::FaultyDisk;
use refrain_logging::determinant::batch::BatchHeader;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct MortalDisk {
    pub(super) inner: FaultyDisk,
    pub(super) mortal: Mortal,
    pub(super) logger: usize,
    pub(super) ledger: Ledger,
    /// It does not answer.
    pub(super) is_slow: Arc<AtomicBool>,
    /// What the write under way brings, if one is.
    pub(super) under_way: Option<Vec<BatchHeader>>,
}

impl MortalDisk {
    fn act<R>(&mut self, effect: impl FnOnce(&mut FaultyDisk) -> io::Result<R>) -> io::Result<R> {
        let inner = &mut self.inner;
        self.mortal
            .act(|| effect(inner))
            .unwrap_or_else(|| Err(dead()))
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl ReadFiles for MortalDisk {
    fn files(&self) -> io::Result<Vec<u64>> {
        self.inner.files()
    }

    fn length(&self, file: u64) -> io::Result<u64> {
        self.inner.length(file)
    }

    fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(file, place, into)
    }

    fn watermark(&self) -> io::Result<Option<u64>> {
        self.inner.watermark()
    }

    fn path(&self, file: u64) -> PathBuf {
        self.inner.path(file)
    }

    fn folder(&self) -> PathBuf {
        self.inner.folder()
    }
}

impl Disk for MortalDisk {
    fn create(&mut self, file: u64, bytes: u64, header: &[u8], sync: bool) -> io::Result<()> {
        self.act(|disk| disk.create(file, bytes, header, sync))
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        self.act(|disk| disk.sync(file))
    }

    fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.act(|disk| disk.overwrite(file, place, bytes))
    }

    fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        self.act(|disk| disk.shorten(file, bytes))
    }

    fn remove(&mut self, file: u64, sync: bool) -> io::Result<()> {
        self.act(|disk| disk.remove(file, sync))
    }

    fn set_watermark(&mut self, group: u64) -> io::Result<()> {
        self.act(|disk| disk.set_watermark(group))
    }

    fn begin(&mut self, write: Write) {
        let headers = batches_in(&write.bytes);
        let inner = &mut self.inner;
        self.mortal.act(|| inner.begin(write));
        self.under_way = Some(headers);
    }

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>> {
        if self.under_way.is_none() {
            return Ok(None);
        }
        if self.is_slow.load(Ordering::Relaxed) && !wait {
            return Ok(None);
        }
        // What has ended is told to nobody when the process dies of it.
        let ended = self.act(|disk| disk.take_ended(wait))?;
        if let Some(Ended::Done { result, .. }) = &ended {
            let headers = self.under_way.take().unwrap_or_default();
            if result.is_ok() {
                self.ledger.holds(self.logger, &headers);
            }
        }
        Ok(ended)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
