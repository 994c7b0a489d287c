//! [`DiskStore`]: segment files in a directory, read and written by the store's own
//! thread.
//!
//! The rank's thread only submits operations and polls: it never waits, and makes a
//! system call only to wake the store's thread when that sleeps. The store's thread seals
//! chunks and transfers bytes with an engine of `refrain-storage`: io_uring or plain calls,
//! bypassing the page cache where the file system allows it. The store works without direct
//! I/O, without preallocation and without io_uring ([`DiskStore::describe`] says what it
//! uses). No signal handler of the program runs in the store's thread.
//!
//! A file's name is the prefix and the name of its header. If that name is taken
//! (by an earlier file whose first chunk could not be written), `-2`,
//! `-3`... is inserted before `.log`.

mod bell;
pub(super) mod files;
mod options;
pub(super) mod pool;
pub(super) mod worker;

pub use options::{DiskError, DiskOptions};

use super::{Completion, Operation, Store};
use bell::Bell;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use files::Files;
use pool::Pool;
use refrain_storage::{Directory, Engine, Inline, Io, with_signals_blocked};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use worker::{Disk, Work, Worker};

/// Maximum number of concurrent transfers.
const UNDER_WAY_MAX: usize = 1024;
/// Maximum number of unused read buffers that are kept.
const SPARE_BUFFERS_MAX: usize = 16;

/// Segment files in a directory; see the [module](self).
pub struct DiskStore {
    /// `None`: the store is dropped.
    commands: Sender<Option<Operation>>,
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
    /// Checks that files can be written in the directory, and starts the thread.
    ///
    /// # Errors
    /// When no files can be made there, the process may not use the cores, no thread can be
    /// started, or io_uring is not available and the options demand it.
    pub fn new(options: DiskOptions) -> Result<Self, DiskError> {
        let (io, under_way_max) = (options.engine, options.under_way_max);
        let make_engine = move |directory: &Directory| {
            let uring = || directory.engine(Io::Uring, under_way_max.clamp(1, UNDER_WAY_MAX));
            Ok(match io {
                Io::Uring => uring()?,
                // A write is a copy, for which io_uring would use another thread.
                Io::Auto if directory.is_memory() => plain(Some("tmpfs".into())),
                Io::Auto => uring_or_plain(uring()),
                Io::Plain | Io::Thread => plain(None),
            })
        };
        Self::with_engine(options, Box::new(make_engine))
    }

    pub(super) fn with_engine(
        options: DiskOptions,
        make_engine: MakeEngine,
    ) -> Result<Self, DiskError> {
        if options.file_prefix.contains('/') {
            let prefix = options.file_prefix;
            let why = format!("{prefix:?} cannot begin a file name: it must not contain `/`");
            return Err(DiskError(why));
        }
        let directory = Directory::open(&options.directory)
            .map_err(|error| DiskError::of_directory(&options.directory, &error))?;
        let directory = directory
            .past_the_page_cache()
            .map_err(|error| DiskError::of_probe(&options.directory, &error))?;
        let bell = Arc::new(Bell::new().map_err(DiskError::of_thread)?);
        let (send_command, commands) = unbounded();
        let (send_completion, completions) = unbounded();
        let (report, reported) = bounded(1);
        let thread_bell = bell.clone();
        let body = move || {
            let engine = match start(&options, &directory, make_engine) {
                Ok(engine) => engine,
                Err(error) => return drop(report.send(Err(error))),
            };
            let access = directory.access();
            let _ = report.send(Ok(format!("{}, {access}", engine.name())));
            let worker = Worker {
                commands,
                completions: send_completion,
                bell: thread_bell,
                disk: Disk {
                    files: Files::new(directory, options.file_prefix, options.descriptors_max),
                    engine,
                    is_direct: access == "direct",
                    pool: Pool::new(SPARE_BUFFERS_MAX),
                },
                job: options.job,
                queue: VecDeque::new(),
                ended: Vec::new(),
                closing: false,
                broken: None,
            };
            worker.run();
        };
        let builder = std::thread::Builder::new().name("refrain-spill".into());
        let thread = with_signals_blocked(|| builder.spawn(body))
            .and_then(|started| started)
            .map_err(DiskError::of_thread)?;
        let started = reported.recv();
        let mut store = Self {
            commands: send_command,
            completions,
            bell,
            thread: Some(thread),
            description: String::new(),
        };
        // If it has not started, this drops the store and so joins the thread.
        store.description =
            started.unwrap_or_else(|_| Err(DiskError::of_thread("it panicked at its start")))?;
        Ok(store)
    }

    fn hand_over(&mut self, command: Option<Operation>) {
        // The thread receives until it takes `None`.
        let _ = self.commands.send(command);
        self.bell.ring();
    }
}

/// Makes the engine, in the thread that uses it.
pub(super) type MakeEngine =
    Box<dyn FnOnce(&Directory) -> io::Result<Box<dyn Engine<Work>>> + Send>;

/// The first steps of the thread.
fn start(
    options: &DiskOptions,
    directory: &Directory,
    make_engine: MakeEngine,
) -> Result<Box<dyn Engine<Work>>, DiskError> {
    if let Some(cores) = &options.cores {
        rustix::thread::sched_setaffinity(None, cores).map_err(DiskError::of_cores)?;
    }
    make_engine(directory).map_err(DiskError::of_uring)
}

fn plain(reason: Option<String>) -> Box<dyn Engine<Work>> {
    Box::new(Inline::new(reason))
}

pub(super) fn uring_or_plain(uring: io::Result<Box<dyn Engine<Work>>>) -> Box<dyn Engine<Work>> {
    uring.unwrap_or_else(|error| plain(Some(format!("no io_uring: {error}"))))
}

impl Store for DiskStore {
    fn submit(&mut self, operation: Operation) {
        self.hand_over(Some(operation));
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
        self.hand_over(None);
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }
}
