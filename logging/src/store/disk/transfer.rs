//! A [`Transfer`]: bytes on their way between memory and a file, in as many
//! pieces as the system makes of it.

use super::memory::{BLOCK_BYTES, PooledBuffer};
use crate::store::{FileNumber, ReadToken};
use refrain_ring::LentChunk;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Owns the memory and the descriptor: whoever holds it may use both.
#[derive(Debug)]
pub(super) struct Transfer {
    pub descriptor: Rc<OwnedFd>,
    pub file: FileNumber,
    pub slot: u32,
    /// Where the first byte lies in the file.
    place: u64,
    bytes: usize,
    done: usize,
    /// Whether places and lengths must be of whole blocks.
    direct: bool,
    pub work: Work,
}

/// What is transferred.
#[derive(Debug)]
pub(super) enum Work {
    /// A sealed chunk, from its own memory or from a copy.
    Write {
        chunk: LentChunk,
        copy: Option<PooledBuffer>,
    },
    Read {
        buffer: PooledBuffer,
        token: ReadToken,
    },
}

/// What is left to be transferred.
pub(super) enum Rest<'a> {
    Write(&'a [u8]),
    Read(&'a mut [u8]),
}

/// What comes after a piece.
#[derive(Debug)]
pub(super) enum Next {
    /// Everything is there.
    Done,
    /// The rest is to be transferred.
    Again,
    Failed(io::Error),
}

impl Transfer {
    pub fn new(
        descriptor: Rc<OwnedFd>,
        (file, slot): (FileNumber, u32),
        direct: bool,
        bytes: usize,
        work: Work,
    ) -> Self {
        Self {
            descriptor,
            file,
            slot,
            place: crate::segment::slot_offset(slot),
            bytes,
            done: 0,
            direct,
            work,
        }
    }

    /// Where the rest begins in the file.
    pub fn rest_place(&self) -> u64 {
        self.place + self.done as u64
    }

    pub fn rest(&mut self) -> Rest<'_> {
        let range = self.done..self.bytes;
        match &mut self.work {
            Work::Write {
                copy: Some(copy), ..
            } => Rest::Write(&copy.bytes()[range]),
            Work::Write { chunk, copy: None } => Rest::Write(&chunk.chunk_bytes()[range]),
            Work::Read { buffer, .. } => Rest::Read(&mut buffer.bytes_mut()[range]),
        }
    }

    /// Takes note of what the system said of the rest.
    pub fn advance(&mut self, result: io::Result<usize>) -> Next {
        let moved = match result {
            Ok(moved) => moved,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Next::Again,
                    _ => Next::Failed(error),
                };
            }
        };
        let done = self.done + moved;
        if done >= self.bytes {
            return Next::Done;
        }
        // Direct I/O goes on at a block: what was moved of the last one is moved
        // again.
        let whole = if self.direct {
            done - done % BLOCK_BYTES
        } else {
            done
        };
        if whole > self.done {
            self.done = whole;
            return Next::Again;
        }
        match &mut self.work {
            Work::Write { .. } => Next::Failed(io::ErrorKind::WriteZero.into()),
            // The end of a file that somebody has cut.
            Work::Read { buffer, .. } => {
                buffer.bytes_mut()[done..].fill(0);
                Next::Done
            }
        }
    }
}
