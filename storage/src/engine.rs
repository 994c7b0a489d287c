//! Engines: what moves bytes between memory and files.

use crate::directory::File;
use crate::memory::BLOCK_BYTES;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// The best way: plain calls in memory (tmpfs), else io_uring, else a thread.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Plain calls in a thread.
    Thread,
    /// Plain calls, while the caller waits.
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

/// Memory that a transfer owns until it comes back. The engine asks for the bytes once
/// for each system call, and uses them while nothing else can touch the memory.
pub trait Memory: 'static {
    /// The bytes, and the direction.
    fn bytes(&mut self) -> Bytes<'_>;
}

/// Bytes on their way between memory and a file.
#[derive(Debug)]
pub struct Transfer<M> {
    pub(crate) file: File,
    pub(crate) place: u64,
    bytes: usize,
    done: usize,
    pub(crate) sync: bool,
    pub(crate) memory: M,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The transfer: the content of the file is unknown at its place.
    Transfer,
    /// The sync after it: all that was written and not synced counts as lost.
    Sync,
}

/// What has become of a transfer.
#[derive(Debug)]
pub enum Ended<M> {
    /// A write with a sync is written; the sync is under way.
    Written,
    /// It is over; its file is closed, if nothing else holds it.
    Done {
        /// As given.
        memory: M,
        /// Success: a read that begins now gives these bytes, also after the death of
        /// the process; with sync, also after a loss of power.
        result: Result<(), (Stage, io::Error)>,
    },
}

/// Moves transfers. Each comes back once, in any order. An engine that is dropped
/// ends what is under way first.
pub trait Engine<M>: fmt::Debug + Send {
    /// How many more transfers may be begun.
    fn room(&self) -> usize;

    /// Begins a transfer. Only when there is room.
    fn begin(&mut self, transfer: Transfer<M>);

    /// Adds what has ended. With `wait`, waits until something has, if anything is
    /// under way.
    ///
    /// # Errors
    /// When the system does not report what has ended.
    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()>;

    /// Transfers that have not come back.
    fn under_way(&self) -> usize;

    /// Readable when there is something to collect; `None`: whenever anything is under
    /// way, there is.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// For messages: "io_uring".
    fn name(&self) -> String;
}

/// What follows a piece of a transfer.
#[derive(Debug)]
pub(crate) enum Next {
    Done,
    /// The rest is to be moved.
    Again,
    Failed(io::Error),
}

impl<M: Memory> Transfer<M> {
    /// Moves the first `bytes` bytes of the memory, at `place` in the file. With `sync`,
    /// which is for writes, syncs the file's data after that.
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

    /// What is left to be moved, and its place in the file.
    pub(crate) fn rest(&mut self) -> (u64, Bytes<'_>) {
        let range = self.done..self.bytes;
        let bytes = match self.memory.bytes() {
            Bytes::Write(bytes) => Bytes::Write(&bytes[range]),
            Bytes::Read(bytes) => Bytes::Read(&mut bytes[range]),
        };
        (self.place + self.done as u64, bytes)
    }

    /// Takes note of what the system has moved of the rest.
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
        // Direct I/O continues at a block: the part of the last one is moved again.
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
            // The end of the file.
            Bytes::Read(bytes) => {
                bytes[done..self.bytes].fill(0);
                self.done = self.bytes;
                Next::Done
            }
        }
    }

    /// Carries the transfer out in this thread, by `call` for each piece; `say` gets each
    /// step.
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

/// Plain calls, while the caller of [`Engine::begin`] waits.
#[derive(Debug)]
pub struct Inline<M> {
    ended: VecDeque<Ended<M>>,
    /// Why not io_uring, if that was wanted.
    reason: Option<String>,
}

impl<M> Inline<M> {
    /// `reason`: why not io_uring, if that was wanted.
    pub fn new(reason: Option<String>) -> Self {
        Self {
            ended: VecDeque::new(),
            reason,
        }
    }
}

impl<M: Memory + fmt::Debug + Send> Engine<M> for Inline<M> {
    fn room(&self) -> usize {
        // One: a completion is reported before the next transfer begins.
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
