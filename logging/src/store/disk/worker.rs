//! The store's thread: takes operations, seals, and answers each once.

use super::bell::Bell;
use super::files::Files;
use super::pool::{Pool, PooledBuffer};
use crate::segment::slot_offset;
use crate::store::{ChunkBuffer, Completion, FileNumber, Operation, ReadToken, StoreError};
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use refrain_ring::{CHUNK_BYTES, LentChunk};
use refrain_storage::{BLOCK_BYTES, Bytes, Ended, Engine, Inline, Memory, Transfer};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The memory of a transfer, and what it is for.
#[derive(Debug)]
pub(in crate::store) enum Work {
    /// A sealed chunk, from its own memory or from a copy.
    Write {
        file: FileNumber,
        slot: u32,
        chunk: LentChunk,
        copy: Option<PooledBuffer>,
    },
    Read {
        file: FileNumber,
        slot: u32,
        buffer: PooledBuffer,
        token: ReadToken,
    },
}

impl Memory for Work {
    fn bytes(&mut self) -> Bytes<'_> {
        match self {
            Self::Write {
                copy: Some(copy), ..
            } => Bytes::Write(copy.bytes()),
            Self::Write { chunk, .. } => Bytes::Write(chunk.chunk_bytes()),
            Self::Read { buffer, .. } => Bytes::Read(buffer.bytes_mut()),
        }
    }
}

impl Work {
    /// Begins it on an engine. Where its file is not there, its completion.
    pub fn begin(self, files: &mut Files, engine: &mut dyn Engine<Self>) -> Option<Completion> {
        let (file, slot, bytes) = match &self {
            Self::Write {
                file, slot, chunk, ..
            } => (*file, *slot, written_bytes(chunk)),
            Self::Read { file, slot, .. } => (*file, *slot, CHUNK_BYTES),
        };
        match files.open(file) {
            Ok(open) => {
                engine.begin(Transfer::new(open, slot_offset(slot), bytes, false, self));
                None
            }
            Err(error) => Some(self.ended(Err(error))),
        }
    }

    /// Its completion.
    pub fn ended(self, result: Result<(), StoreError>) -> Completion {
        match self {
            Self::Write { file, chunk, .. } => Completion::Written {
                file,
                chunk,
                result,
            },
            Self::Read {
                file,
                buffer,
                token,
                ..
            } => Completion::Read {
                token,
                file,
                result: result.map(|()| ChunkBuffer::new(buffer)),
            },
        }
    }

    /// What was tried with it.
    pub fn attempt(&self, files: &Files) -> String {
        match self {
            Self::Write { file, slot, .. } => {
                files.attempt(&format!("writing slot {slot} of"), *file)
            }
            Self::Read { file, slot, .. } => {
                files.attempt(&format!("reading slot {slot} of"), *file)
            }
        }
    }
}

/// Bytes that are written of a chunk: whole blocks.
pub(in crate::store) fn written_bytes(chunk: &LentChunk) -> usize {
    chunk.used_bytes().next_multiple_of(BLOCK_BYTES)
}

/// What the store's thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Operation(Operation),
    /// Nothing comes any more: the thread ends when nothing is left to do.
    Close,
}

/// Everything the thread has.
pub(super) struct Worker {
    pub commands: Receiver<Command>,
    pub completions: Sender<Completion>,
    pub bell: Arc<Bell>,
    pub files: Files,
    pub engine: Box<dyn Engine<Work>>,
    /// Whether places, lengths and addresses must be of whole blocks.
    pub is_direct: bool,
    pub pool: Pool,
    pub job: u64,
    /// Taken and not begun.
    pub queue: VecDeque<Command>,
    /// What has ended and is not answered yet.
    pub ended: Vec<Ended<Work>>,
    /// The store is gone: ends when nothing is left to do.
    pub closing: bool,
    /// Why nothing is done any more.
    pub broken: Option<String>,
}

impl Worker {
    /// Until the store is dropped. A panic ends the store's work, not its
    /// answers.
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
            if self.closing && self.queue.is_empty() && self.engine.under_way() == 0 {
                return Ok(());
            }
            self.bell.fall_asleep();
            let slept = self.sleep();
            self.bell.wake_up();
            slept?;
            self.engine.collect(false, &mut self.ended)?;
            self.answer_ended();
        }
    }

    /// Until there is a command or something to collect, if there is neither now.
    fn sleep(&self) -> io::Result<()> {
        let is_waiting = self.engine.under_way() > 0;
        let descriptor = self.engine.descriptor().filter(|_| is_waiting);
        let has_ended = is_waiting && descriptor.is_none();
        match has_ended || !self.commands.is_empty() || self.closing && !is_waiting {
            true => Ok(()),
            false => self.bell.wait(descriptor),
        }
    }

    fn take_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Close) | Err(TryRecvError::Disconnected) => {
                    self.closing = true;
                    return;
                }
                Ok(command) => self.queue.push_back(command),
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn begin_queued(&mut self) {
        while let Some(command) = self.queue.front_mut() {
            if let Some(why) = &self.broken {
                let error = io::Error::other(format!("the store has failed: {why}"));
                self.refuse_first(error);
                continue;
            }
            match command {
                Command::Operation(Operation::Write { .. } | Operation::Read { .. })
                    if self.engine.room() == 0 =>
                {
                    return;
                }
                // While it stands in the queue: it is not lost when this panics.
                Command::Operation(Operation::Write { chunk, .. }) => {
                    chunk.seal(self.job);
                }
                _ => {}
            }
            if let Some(command) = self.queue.pop_front() {
                self.begin(command);
            }
        }
    }

    fn begin(&mut self, command: Command) {
        match command {
            Command::Operation(Operation::Open {
                file,
                header,
                reuse,
            }) => {
                let result = match reuse {
                    Some(old) => self.files.reuse(file, &header, old),
                    None => self.files.make(file, &header),
                };
                self.answer(Completion::Opened { file, result });
            }
            Command::Operation(Operation::Write { file, slot, chunk }) => {
                let copy = self.copy(&chunk);
                self.transfer(Work::Write {
                    file,
                    slot,
                    chunk,
                    copy,
                });
            }
            Command::Operation(Operation::Read { file, slot, token }) => {
                let buffer = self.pool.take();
                self.transfer(Work::Read {
                    file,
                    slot,
                    buffer,
                    token,
                });
            }
            Command::Operation(Operation::Delete { file }) => {
                let result = self.files.delete(file);
                self.answer(Completion::Deleted { file, result });
            }
            Command::Close => self.closing = true,
        }
    }

    /// For memory that is no log's arena: the heap of tests.
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

    fn transfer(&mut self, work: Work) {
        if let Some(completion) = work.begin(&mut self.files, &mut *self.engine) {
            self.answer(completion);
        }
    }

    fn answer_ended(&mut self) {
        for ended in core::mem::take(&mut self.ended) {
            if let Ended::Done { memory, result } = ended {
                let attempted = || memory.attempt(&self.files);
                let result = result.map_err(|(_, error)| StoreError {
                    attempted: attempted(),
                    error,
                });
                self.answer(memory.ended(result));
            }
        }
    }

    fn answer(&self, completion: Completion) {
        // A store that is being dropped listens no more.
        let _ = self.completions.send(completion);
    }

    /// Nothing is done from now on; what is under way ends first.
    fn give_up(&mut self, why: String) {
        while self.engine.under_way() > 0 {
            let collected = catch_unwind(AssertUnwindSafe(|| {
                self.engine.collect(true, &mut self.ended)
            }));
            if !matches!(collected, Ok(Ok(()))) {
                // The engine keeps their memory from being used by anybody.
                break;
            }
        }
        for ended in core::mem::take(&mut self.ended) {
            if let Ended::Done { memory, .. } = ended {
                let attempted = memory.attempt(&self.files);
                let error = io::Error::other(format!("the store has failed: {why}"));
                self.answer(memory.ended(Err(StoreError { attempted, error })));
            }
        }
        self.engine = Box::new(Inline::new(None));
        self.broken = Some(why);
    }

    /// Answers the first command of the queue with an error.
    fn refuse_first(&mut self, error: io::Error) {
        let fail = |files: &Files, doing, file| StoreError {
            attempted: files.attempt(doing, file),
            error,
        };
        let completion = match self.queue.pop_front() {
            None | Some(Command::Close) => return,
            Some(Command::Operation(operation)) => match operation {
                Operation::Open { file, reuse, .. } => {
                    if let Some(old) = reuse {
                        let _ = self.files.delete(old);
                    }
                    Completion::Opened {
                        file,
                        result: Err(fail(&self.files, "making", file)),
                    }
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
                Operation::Delete { file } => {
                    let result = self.files.delete(file);
                    Completion::Deleted { file, result }
                }
            },
        };
        self.answer(completion);
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word")
}
