//! What carries a write out: the joint between a folder and the system.

use super::disk::{Ended, Stage, Write};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// One write at a time; see [`Disk`](super::disk::Disk).
pub(super) trait Engine: fmt::Debug + Send {
    fn begin(&mut self, file: Arc<File>, write: Write);

    /// A write that cannot even begin.
    fn refuse(&mut self, write: Write, error: io::Error);

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>>;

    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    fn name(&self) -> String;
}

/// Carries a write out, and says each step.
pub(super) fn carry_out(file: &File, write: Write, mut say: impl FnMut(Ended)) {
    let mut result = file
        .write_all_at(&write.bytes, write.place)
        .map_err(|error| (Stage::Write, error));
    if write.sync && result.is_ok() {
        say(Ended::Written);
        result = file.sync_data().map_err(|error| (Stage::Sync, error));
    }
    let bytes = write.bytes;
    say(Ended::Done { bytes, result });
}

/// Writes at once, into the page cache: no other thread is woken for that.
#[derive(Debug, Default)]
pub(super) struct Inline {
    ended: VecDeque<Ended>,
}

impl Engine for Inline {
    fn begin(&mut self, file: Arc<File>, write: Write) {
        carry_out(&file, write, |ended| self.ended.push_back(ended));
    }

    fn refuse(&mut self, write: Write, error: io::Error) {
        self.ended.push_back(Ended::Done {
            bytes: write.bytes,
            result: Err((Stage::Write, error)),
        });
    }

    fn take_ended(&mut self, _wait: bool) -> io::Result<Option<Ended>> {
        Ok(self.ended.pop_front())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        "plain writes".into()
    }
}
