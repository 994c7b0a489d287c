//! [`DiskStore`]: segment files in a directory, read and written by a thread of
//! its own.
//!
//! The rank's thread only hands over and polls: it never waits, and makes a
//! system call only to wake the other thread when that sleeps. That thread seals
//! chunks and moves bytes by one of two engines, io_uring (several transfers
//! under way) or plain reads and writes, past the page cache where the file
//! system can. What cannot be had is gone without: direct I/O, room taken in
//! advance, io_uring ([`DiskStore::describe`] tells). No signal handler of the
//! program runs there.
//!
//! A file's name is the prefix and the name of its header; where that is taken
//! already (a first chunk that could not be written in an earlier file), `-2`,
//! `-3`... stands before its `.log`.

mod bell;
mod directory;
mod engine;
mod files;
pub(crate) mod memory;
mod options;
mod plain;
mod signals;
mod transfer;
mod uring;
mod worker;

#[cfg(test)]
mod tests;

pub use options::{DiskEngine, DiskError, DiskOptions};

use super::{Completion, Operation, Store};
use bell::Bell;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use directory::Directory;
use engine::{Engine, MakeEngine};
use files::Files;
use memory::Pool;
use plain::Plain;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use uring::Uring;
use worker::{Command, Worker};

/// Most transfers under way at once.
const UNDER_WAY_MAX: usize = 1024;
/// Buffers for reading that are kept when nobody uses them.
const SPARE_BUFFERS_MAX: usize = 16;

/// Segment files in a directory; see the [module](self).
pub struct DiskStore {
    commands: Sender<Command>,
    completions: Receiver<Completion>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    description: String,
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore")
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

impl DiskStore {
    /// Makes sure that files can be written in the directory, and starts the
    /// thread.
    ///
    /// # Errors
    /// When no files can be made there, the cores are not this process's, or the
    /// system has no thread or no io_uring and that was demanded.
    pub fn new(options: DiskOptions) -> Result<Self, DiskError> {
        let under_way_max = options.under_way_max.clamp(1, UNDER_WAY_MAX);
        let make_engine: MakeEngine = match options.engine {
            DiskEngine::Plain => Box::new(|bell| Ok(Box::new(Plain::new(bell.clone(), None)))),
            DiskEngine::Uring => Box::new(move |bell| {
                let uring = Uring::new(bell.clone(), under_way_max)?;
                Ok(Box::new(uring))
            }),
            DiskEngine::Auto if directory::is_memory(&options.directory) => Box::new(|bell| {
                // A write is a copy: the ring would only have another thread of
                // the kernel make it.
                let reason = Some("tmpfs".to_owned());
                Ok(Box::new(Plain::new(bell.clone(), reason)))
            }),
            DiskEngine::Auto => Box::new(move |bell| {
                Ok(uring_or_plain(
                    bell,
                    Uring::new(bell.clone(), under_way_max),
                ))
            }),
        };
        Self::with_engine(options, make_engine)
    }

    fn with_engine(options: DiskOptions, make_engine: MakeEngine) -> Result<Self, DiskError> {
        let directory = Directory::new(&options.directory, &options.file_prefix)?;
        let bell = Arc::new(Bell::new().map_err(DiskError::Thread)?);
        let (send_command, commands) = unbounded();
        let (send_completion, completions) = unbounded();
        let (report, reported) = bounded(1);
        let thread_bell = bell.clone();
        let body = move || {
            let started = start(options, directory, thread_bell, make_engine);
            let (files, engine, bell, job) = match started {
                Ok(parts) => parts,
                Err(error) => return drop(report.send(Err(error))),
            };
            let how = if files.is_direct() {
                "direct"
            } else {
                "buffered"
            };
            let _ = report.send(Ok(format!("{}, {how}", engine.name())));
            let worker = Worker {
                commands,
                completions: send_completion,
                bell,
                files,
                engine,
                pool: Pool::new(SPARE_BUFFERS_MAX),
                job,
                queue: VecDeque::new(),
                ended: Vec::new(),
                closing: false,
                broken: None,
            };
            worker.run();
        };
        let builder = std::thread::Builder::new().name("refrain-spill".into());
        let thread = signals::with_all_blocked(|| builder.spawn(body))
            .and_then(|started| started)
            .map_err(DiskError::Thread)?;
        let started = reported.recv().unwrap_or_else(|_| {
            let error = io::Error::other("it panicked when it began");
            Err(DiskError::Thread(error))
        });
        let description = match started {
            Ok(description) => description,
            Err(error) => {
                let _ = thread.join();
                return Err(error);
            }
        };
        Ok(Self {
            commands: send_command,
            completions,
            bell,
            thread: Some(thread),
            description,
        })
    }

    fn hand_over(&mut self, command: Command) {
        // The thread listens until it is told to end.
        let _ = self.commands.send(command);
        self.bell.ring();
    }
}

type Parts = (Files, Box<dyn Engine>, Arc<Bell>, u64);

/// What the thread does first.
fn start(
    options: DiskOptions,
    directory: Directory,
    bell: Arc<Bell>,
    make_engine: MakeEngine,
) -> Result<Parts, DiskError> {
    if let Some(cores) = &options.cores {
        rustix::thread::sched_setaffinity(None, cores)
            .map_err(|error| DiskError::Cores(error.into()))?;
    }
    let engine = make_engine(&bell).map_err(DiskError::Uring)?;
    let files = Files::new(directory, options.descriptors_max);
    Ok((files, engine, bell, options.job))
}

fn uring_or_plain(bell: &Arc<Bell>, uring: io::Result<Uring>) -> Box<dyn Engine> {
    match uring {
        Ok(uring) => Box::new(uring),
        Err(error) => {
            let reason = format!("no io_uring: {error}");
            Box::new(Plain::new(bell.clone(), Some(reason)))
        }
    }
}

impl Store for DiskStore {
    fn submit(&mut self, operation: Operation) {
        self.hand_over(Command::Operation(operation));
    }

    fn poll(&mut self) -> Option<Completion> {
        self.completions.try_recv().ok()
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.hand_over(Command::Close);
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
    }
}
