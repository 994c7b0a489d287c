//! The standard input of a rank, which the launcher sends.

use crate::standard_input::{left_in, pipe_of_one_page};
use rustix::event::PollFlags;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The pipe of a rank.
#[derive(Debug)]
pub(super) struct Input {
    /// Kept open, since the kernel reports a pipe without readers again and again.
    reader: OwnedFd,
    /// `None` at the end of the input.
    writer: Option<OwnedFd>,
    /// The launcher does not know yet that the rank has read all.
    is_filled: bool,
}

impl Input {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_of_one_page()?;
        Ok(Self {
            reader,
            writer: Some(writer),
            is_filled: false,
        })
    }

    /// The rank's end.
    pub(super) fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Ready when the rank has read all.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let writer = self.writer.as_ref().filter(|_| self.is_filled)?;
        Some((writer.as_fd(), PollFlags::OUT))
    }

    /// Gives the rank these bytes; none: the end. It has read all earlier ones.
    pub(super) fn give(&mut self, bytes: &[u8]) {
        match &self.writer {
            Some(writer) if !bytes.is_empty() => {
                // The pipe is empty.
                self.is_filled = rustix::io::write(writer, bytes).is_ok();
            }
            _ => self.writer = None,
        }
    }

    /// Number of bytes that the rank has not read, to be sent to the launcher: 0, or if the rank
    /// `has_ended`.
    pub(super) fn take_left(&mut self, has_ended: bool) -> Option<usize> {
        let writer = self.writer.as_ref().filter(|_| self.is_filled)?;
        let left = left_in(writer);
        self.is_filled = left > 0 && !has_ended;
        (!self.is_filled).then_some(left)
    }
}
