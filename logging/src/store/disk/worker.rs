//! The store's thread: takes operations, seals, and answers each once.

use super::bell::Bell;
use super::engine::{Ended, Engine};
use super::files::Files;
use super::memory::{BLOCK_BYTES, Pool};
use super::transfer::{Next, Transfer, Work};
use crate::store::{ChunkBuffer, Completion, FileNumber, Operation, StoreError};
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use refrain_ring::{CHUNK_BYTES, LentChunk};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

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
    pub engine: Box<dyn Engine>,
    pub pool: Pool,
    pub job: u64,
    /// Taken and not begun.
    pub queue: VecDeque<Command>,
    /// What has ended and is not answered yet.
    pub ended: Vec<Ended>,
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
            let has_nothing = self.commands.is_empty() && !self.closing;
            let is_waiting = self.engine.under_way() > 0;
            let sleep = has_nothing || (self.commands.is_empty() && is_waiting);
            let collected = self.engine.collect(sleep, &mut self.ended);
            self.bell.wake_up();
            collected?;
            self.answer_ended();
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
                self.begin_write(file, slot, chunk);
            }
            Command::Operation(Operation::Read { file, slot, token }) => {
                match self.files.descriptor(file) {
                    Err(error) => self.answer(Completion::Read {
                        token,
                        file,
                        result: Err(error),
                    }),
                    Ok(descriptor) => {
                        let buffer = self.pool.take();
                        let work = Work::Read { buffer, token };
                        self.transfer(descriptor, (file, slot), CHUNK_BYTES, work);
                    }
                }
            }
            Command::Operation(Operation::Delete { file }) => {
                let result = self.files.delete(file);
                self.answer(Completion::Deleted { file, result });
            }
            Command::Close => self.closing = true,
        }
    }

    fn begin_write(&mut self, file: FileNumber, slot: u32, chunk: LentChunk) {
        let descriptor = match self.files.descriptor(file) {
            Ok(descriptor) => descriptor,
            Err(error) => {
                return self.answer(Completion::Written {
                    file,
                    chunk,
                    result: Err(error),
                });
            }
        };
        let direct = self.files.is_direct();
        let bytes = chunk.used_bytes().next_multiple_of(BLOCK_BYTES);
        let is_aligned = chunk
            .chunk_bytes()
            .as_ptr()
            .addr()
            .is_multiple_of(BLOCK_BYTES);
        // Memory that is no log's arena: the heap of tests.
        let copy = (direct && !is_aligned).then(|| {
            let mut copy = self.pool.take();
            copy.bytes_mut()[..bytes].copy_from_slice(&chunk.chunk_bytes()[..bytes]);
            copy
        });
        let work = Work::Write { chunk, copy };
        self.transfer(descriptor, (file, slot), bytes, work);
    }

    fn transfer(
        &mut self,
        descriptor: Rc<OwnedFd>,
        place: (FileNumber, u32),
        bytes: usize,
        work: Work,
    ) {
        let direct = self.files.is_direct();
        self.engine
            .begin(Transfer::new(descriptor, place, direct, bytes, work));
    }

    fn answer_ended(&mut self) {
        self.ended.reverse();
        while let Some(Ended {
            mut transfer,
            result,
        }) = self.ended.pop()
        {
            match transfer.advance(result) {
                Next::Again => self.engine.begin(transfer),
                Next::Done => self.answer_transfer(transfer, Ok(())),
                Next::Failed(error) => self.answer_transfer(transfer, Err(error)),
            }
        }
    }

    fn answer_transfer(&mut self, transfer: Transfer, result: io::Result<()>) {
        let Transfer {
            descriptor,
            file,
            slot,
            work,
            ..
        } = transfer;
        // Closed first, so that the next operation on the file finds it idle.
        drop(descriptor);
        let fail = |doing, error| StoreError {
            attempted: self.files.attempt(&format!("{doing} slot {slot} of"), file),
            error,
        };
        let completion = match work {
            Work::Write { chunk, .. } => Completion::Written {
                file,
                chunk,
                result: result.map_err(|error| fail("writing", error)),
            },
            Work::Read { buffer, token } => Completion::Read {
                token,
                file,
                result: match result {
                    Ok(()) => Ok(ChunkBuffer::new(buffer)),
                    Err(error) => Err(fail("reading", error)),
                },
            },
        };
        self.answer(completion);
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
        for Ended { transfer, .. } in std::mem::take(&mut self.ended) {
            let error = io::Error::other(format!("the store has failed: {why}"));
            self.answer_transfer(transfer, Err(error));
        }
        self.engine = Box::new(super::plain::Plain::new(self.bell.clone(), None));
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
