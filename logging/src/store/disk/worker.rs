//! The store's thread: takes operations, seals chunks, and answers each operation once.

use super::bell::Bell;
use super::files::Files;
use super::pool::{Pool, PooledBuffer};
use crate::segment::slot_offset;
use crate::store::{Completion, FileNumber, Operation, ReadToken, StoreError};
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{CHUNK_BYTES, LentChunk};
use refrain_storage::{BLOCK_BYTES, Bytes, Ended, Engine, Inline, Memory, Stage, Transfer};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The memory of a transfer, with its purpose.
#[derive(Debug)]
pub(in crate::store) struct Work {
    file: FileNumber,
    slot: u32,
    data: Data,
}

#[derive(Debug)]
enum Data {
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

impl Memory for Work {
    fn bytes(&mut self) -> Bytes<'_> {
        match &mut self.data {
            Data::Write {
                copy: Some(copy), ..
            } => Bytes::Write(copy.bytes()),
            Data::Write { chunk, .. } => Bytes::Write(chunk.chunk_bytes()),
            Data::Read { buffer, .. } => Bytes::Read(buffer.bytes_mut()),
        }
    }
}

impl Work {
    /// The completion of its operation.
    pub fn ended(self, files: &Files, result: Result<(), (Stage, io::Error)>) -> Completion {
        let result = result.map_err(|(_, error)| {
            let doing = match self.data {
                Data::Write { .. } => "writing",
                Data::Read { .. } => "reading",
            };
            let attempted = files.attempt(&format!("{doing} slot {} of", self.slot), self.file);
            StoreError { attempted, error }
        });
        self.completion(result)
    }

    fn completion(self, result: Result<(), StoreError>) -> Completion {
        let file = self.file;
        match self.data {
            Data::Write { chunk, .. } => Completion::Written {
                file,
                chunk,
                result,
            },
            Data::Read { buffer, token } => Completion::Read {
                token,
                file,
                result: result.map(|()| ChunkBytes::new(buffer)),
            },
        }
    }
}

/// Number of bytes written of a chunk: whole blocks.
pub(in crate::store) fn written_bytes(chunk: &LentChunk) -> usize {
    chunk.used_bytes().next_multiple_of(BLOCK_BYTES)
}

/// Carries out operations.
#[derive(Debug)]
pub(in crate::store) struct Disk {
    pub files: Files,
    pub engine: Box<dyn Engine<Work>>,
    /// Whether offsets, lengths and addresses must be multiples of blocks.
    pub is_direct: bool,
    pub pool: Pool,
}

impl Disk {
    /// Begins an operation. Returns its completion if it has ended already.
    pub fn begin(&mut self, operation: Operation) -> Option<Completion> {
        let (file, slot, bytes, data) = match operation {
            Operation::Open {
                file,
                header,
                reuse,
            } => {
                let result = match reuse {
                    Some(old) => self.files.reuse(file, &header, old),
                    None => self.files.make(file, &header),
                };
                return Some(Completion::Opened { file, result });
            }
            Operation::Delete { file } => {
                let result = self.files.delete(file);
                return Some(Completion::Deleted { file, result });
            }
            Operation::Write { file, slot, chunk } => {
                let copy = self.copy(&chunk);
                (
                    file,
                    slot,
                    written_bytes(&chunk),
                    Data::Write { chunk, copy },
                )
            }
            Operation::Read { file, slot, token } => {
                let buffer = self.pool.take();
                (file, slot, CHUNK_BYTES, Data::Read { buffer, token })
            }
        };
        let work = Work { file, slot, data };
        match self.files.open(file) {
            Ok(open) => {
                let transfer = Transfer::new(open, slot_offset(slot), bytes, false, work);
                self.engine.begin(transfer);
                None
            }
            Err(error) => Some(work.completion(Err(error))),
        }
    }

    /// A copy of a chunk if the chunk is not aligned for direct writes: tests use heap
    /// memory.
    fn copy(&self, chunk: &LentChunk) -> Option<PooledBuffer> {
        let place = chunk.chunk_bytes().as_ptr().addr();
        let needs_copy = self.is_direct && !place.is_multiple_of(BLOCK_BYTES);
        needs_copy.then(|| {
            let bytes = written_bytes(chunk);
            let mut copy = self.pool.take();
            copy.bytes_mut()[..bytes].copy_from_slice(&chunk.chunk_bytes()[..bytes]);
            copy
        })
    }

    /// Ends an operation with an error. Files are removed nevertheless.
    fn refuse(&mut self, operation: Operation, error: io::Error) -> Completion {
        let fail = |files: &Files, doing, file| StoreError {
            attempted: files.attempt(doing, file),
            error,
        };
        match operation {
            Operation::Open { file, reuse, .. } => {
                if let Some(old) = reuse {
                    let _ = self.files.delete(old);
                }
                let result = Err(fail(&self.files, "making", file));
                Completion::Opened { file, result }
            }
            Operation::Write { file, chunk, .. } => Completion::Written {
                file,
                chunk,
                result: Err(fail(&self.files, "writing", file)),
            },
            Operation::Read { file, token, .. } => Completion::Read {
                token,
                file,
                result: Err(fail(&self.files, "reading", file)),
            },
            Operation::Delete { file } => Completion::Deleted {
                file,
                result: self.files.delete(file),
            },
        }
    }
}

/// The state of the store's thread.
pub(super) struct Worker {
    /// Operations; `None`: the store is dropped.
    pub commands: Receiver<Option<Operation>>,
    pub completions: Sender<Completion>,
    pub bell: Arc<Bell>,
    pub disk: Disk,
    pub job: u64,
    /// Operations that are taken and not begun.
    pub queue: VecDeque<Operation>,
    /// Transfers that have ended and are not answered yet.
    pub ended: Vec<Ended<Work>>,
    /// The store is dropped: the thread ends when all work is done.
    pub closing: bool,
    /// The reason why all operations fail from now on, if they do.
    pub broken: Option<String>,
}

impl Worker {
    /// Runs until the store is dropped. After a panic every operation is still answered,
    /// with an error.
    pub fn run(mut self) {
        loop {
            let ended = catch_unwind(AssertUnwindSafe(|| self.serve()));
            let why = match ended {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("waiting for the disk: {error}"),
                Err(panic) => format!("its thread panicked: {}", message(&*panic)),
            };
            self.give_up(why);
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.take_commands();
            self.begin_queued();
            if self.closing && self.queue.is_empty() && self.disk.engine.under_way() == 0 {
                return Ok(());
            }
            self.bell.fall_asleep();
            let slept = self.sleep();
            self.bell.wake_up();
            slept?;
            self.disk.engine.collect(false, &mut self.ended)?;
            self.answer_ended(None);
        }
    }

    /// Sleeps until there is a command or a completed transfer.
    fn sleep(&self) -> io::Result<()> {
        let is_waiting = self.disk.engine.under_way() > 0;
        let descriptor = self.disk.engine.descriptor().filter(|_| is_waiting);
        let has_ended = is_waiting && descriptor.is_none();
        match has_ended || !self.commands.is_empty() || self.closing && !is_waiting {
            true => Ok(()),
            false => self.bell.wait(descriptor),
        }
    }

    fn take_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Some(operation)) => self.queue.push_back(operation),
                Err(TryRecvError::Empty) => return,
                Ok(None) | Err(TryRecvError::Disconnected) => {
                    self.closing = true;
                    return;
                }
            }
        }
    }

    fn begin_queued(&mut self) {
        while let Some(operation) = self.queue.front_mut() {
            if self.broken.is_none() {
                let is_transfer =
                    matches!(operation, Operation::Write { .. } | Operation::Read { .. });
                if is_transfer && self.disk.engine.room() == 0 {
                    return;
                }
                // Sealed in the queue: a panic does not lose the chunk.
                if let Operation::Write { chunk, .. } = operation {
                    chunk.seal(self.job);
                }
            }
            let Some(operation) = self.queue.pop_front() else {
                return;
            };
            let completion = match &self.broken {
                Some(why) => Some(self.disk.refuse(operation, store_failed(why))),
                None => self.disk.begin(operation),
            };
            if let Some(completion) = completion {
                self.answer(completion);
            }
        }
    }

    /// Answers the transfers that have ended; with `broken`, all of them with this error.
    fn answer_ended(&mut self, broken: Option<&str>) {
        for ended in core::mem::take(&mut self.ended) {
            if let Ended::Done { memory, result } = ended {
                let result = match broken {
                    Some(why) => Err((Stage::Transfer, store_failed(why))),
                    None => result,
                };
                self.answer(memory.ended(&self.disk.files, result));
            }
        }
    }

    fn answer(&self, completion: Completion) {
        // A store that is being dropped takes no completions.
        let _ = self.completions.send(completion);
    }

    /// Makes all operations fail from now on. Transfers that are under way end first.
    fn give_up(&mut self, why: String) {
        while self.disk.engine.under_way() > 0 {
            let collected = catch_unwind(AssertUnwindSafe(|| {
                self.disk.engine.collect(true, &mut self.ended)
            }));
            if !matches!(collected, Ok(Ok(()))) {
                // The engine keeps the memory of transfers that are still under way.
                break;
            }
        }
        self.answer_ended(Some(&why));
        self.disk.engine = Box::new(Inline::new(None));
        self.broken = Some(why);
    }
}

fn store_failed(why: &str) -> io::Error {
    io::Error::other(format!("the store has failed: {why}"))
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
