//! Engines, which move bytes between memory and files.

use crate::directory::File;
use crate::memory::BLOCK_BYTES;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// The choice of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// The best one: plain calls on tmpfs, else io_uring, else a thread.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Plain calls in a separate thread.
    Thread,
    /// Plain calls in the caller's thread.
    Plain,
}

/// The bytes of a transfer.
#[derive(Debug)]
pub enum Bytes<'a> {
    /// From memory to the file.
    Write(&'a [u8]),
    /// From the file to memory.
    Read(&'a mut [u8]),
}

/// Memory that a transfer owns until it comes back. The engine calls [`Memory::bytes`] once for
/// each system call; nothing else touches the memory during the transfer.
pub trait Memory: 'static {
    /// The bytes, with the direction of the transfer.
    fn bytes(&mut self) -> Bytes<'_>;
}

/// A transfer of bytes between memory and a file.
#[derive(Debug)]
pub struct Transfer<M> {
    pub(crate) file: File,
    pub(crate) place: u64,
    bytes: usize,
    done: usize,
    pub(crate) sync: bool,
    pub(crate) memory: M,
}

/// The step of a transfer that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The transfer itself: the content at its place in the file is unknown.
    Transfer,
    /// The sync after it: everything that was written and not synced counts as lost.
    Sync,
}

/// A report about a transfer.
#[derive(Debug)]
pub enum Ended<M> {
    /// A write with a sync is written, and its sync is in progress.
    Written,
    /// The transfer has ended. Its file is closed if nothing else holds it.
    Done {
        /// The memory of the transfer.
        memory: M,
        /// On success, a later read returns these bytes, also after the death of the process; with
        /// a sync, also after a loss of power.
        result: Result<(), (Stage, io::Error)>,
    },
}

/// Carries out transfers. Each transfer comes back once, in any order. On drop, an engine ends the
/// transfers in progress first.
pub trait Engine<M>: fmt::Debug + Send {
    /// Number of further transfers that may be begun.
    fn room(&self) -> usize;

    /// Begins a transfer. May be called only if there is room.
    fn begin(&mut self, transfer: Transfer<M>);

    /// Appends the reports since the last call. With `wait`, waits for at least one if a transfer
    /// is in progress.
    ///
    /// # Errors
    /// When the system does not report completions.
    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()>;

    /// Number of transfers that have not come back.
    fn under_way(&self) -> usize;

    /// Readable when there is something to collect; `None`: there always is while a transfer is in
    /// progress.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The name of the engine for messages, such as "io_uring".
    fn name(&self) -> String;
}

/// The next step after one part of a transfer.
#[derive(Debug)]
pub(crate) enum Next {
    Done,
    /// The rest must be moved.
    Again,
    Failed(io::Error),
}

impl<M: Memory> Transfer<M> {
    /// Moves the first `bytes` bytes of the memory at offset `place` of the file. `sync`, for
    /// writes only, syncs the file's data after the write.
    pub fn new(file: File, place: u64, bytes: usize, sync: bool, memory: M) -> Self {
        Self {
            file,
            place,
            bytes,
            done: 0,
            sync,
            memory,
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.done >= self.bytes
    }

    /// The bytes that are not moved yet, and their offset in the file.
    pub(crate) fn rest(&mut self) -> (u64, Bytes<'_>) {
        let range = self.done..self.bytes;
        let bytes = match self.memory.bytes() {
            Bytes::Write(bytes) => Bytes::Write(&bytes[range]),
            Bytes::Read(bytes) => Bytes::Read(&mut bytes[range]),
        };
        (self.place + self.done as u64, bytes)
    }

    /// Records the result of one system call.
    pub(crate) fn advance(&mut self, result: io::Result<usize>) -> Next {
        let done = match result {
            Ok(moved) => self.done + moved,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Next::Again,
                    _ => Next::Failed(error),
                };
            }
        };
        if done >= self.bytes {
            self.done = done;
            return Next::Done;
        }
        // Direct I/O must continue at a block: the part of the last block is moved again.
        let whole = match self.file.is_direct() {
            true => done - done % BLOCK_BYTES,
            false => done,
        };
        if whole > self.done {
            self.done = whole;
            return Next::Again;
        }
        match self.memory.bytes() {
            Bytes::Write(_) => Next::Failed(io::ErrorKind::WriteZero.into()),
            // The file ends here.
            Bytes::Read(bytes) => {
                bytes[done..self.bytes].fill(0);
                self.done = self.bytes;
                Next::Done
            }
        }
    }

    /// Carries the transfer out in this thread, by `call` for each part; passes each report to
    /// `say`.
    pub(crate) fn carry_out(
        mut self,
        mut call: impl FnMut(&File, u64, Bytes<'_>) -> io::Result<usize>,
        mut say: impl FnMut(Ended<M>),
    ) {
        let mut result = loop {
            let file = self.file.clone();
            let (place, rest) = self.rest();
            let moved = call(&file, place, rest);
            match self.advance(moved) {
                Next::Again => {}
                Next::Done => break Ok(()),
                Next::Failed(error) => break Err((Stage::Transfer, error)),
            }
        };
        if self.sync && result.is_ok() {
            say(Ended::Written);
            result = self.file.sync_data().map_err(|error| (Stage::Sync, error));
        }
        let Self { file, memory, .. } = self;
        drop(file);
        say(Ended::Done { memory, result });
    }
}

/// Plain calls in the thread that calls [`Engine::begin`].
#[derive(Debug)]
pub struct Inline<M> {
    ended: VecDeque<Ended<M>>,
    /// The reason why io_uring is not used, if it was wanted.
    reason: Option<String>,
}

impl<M> Inline<M> {
    /// `reason`: why io_uring is not used, if it was wanted.
    pub fn new(reason: Option<String>) -> Self {
        Self {
            ended: VecDeque::new(),
            reason,
        }
    }
}

impl<M: Memory + fmt::Debug + Send> Engine<M> for Inline<M> {
    fn room(&self) -> usize {
        // Room for one transfer: its completion is reported before the next one begins.
        1 - self.under_way()
    }

    fn begin(&mut self, transfer: Transfer<M>) {
        transfer.carry_out(File::transfer, |ended| self.ended.push_back(ended));
    }

    fn collect(&mut self, _wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()> {
        ended.extend(self.ended.drain(..));
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.ended.len().min(1)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        match &self.reason {
            Some(reason) => format!("plain writes ({reason})"),
            None => "plain writes".into(),
        }
    }
}
