//! Acceptor and store together: what a server has.
//!
//! [`Logbook`] is the writer's side: it judges batches, gathers what it takes
//! into groups, and writes a group while the next one gathers. A batch that was
//! taken counts only once it is [written](Logbook::written) (it survives the
//! death of any process) or [durable](Logbook::durable) (the loss of power):
//! that is what may be acknowledged (EL-1). [`Archive`] looks at the same files
//! without touching them.

use crate::LoggerId;
pub use crate::acceptor::{Refusal, Verdict};
use crate::message::Holding;
pub use crate::store::{StoreError, StoreIo};
use core::ops::ControlFlow;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How a logbook is to be kept.
#[derive(Clone, Debug)]
pub struct LogbookOptions {
    /// Whose it is; a folder is of one logger for ever.
    pub logger: LoggerId,
    /// Whether what is written is synced too (`fdatasync`, in groups).
    pub sync: bool,
    /// How to write.
    pub io: StoreIo,
    /// Bytes of a file; [`LogbookOptions::SEGMENT_BYTES`] unless in tests.
    pub segment_bytes: u64,
}

impl LogbookOptions {
    /// Bytes of a file.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// For that logger, with `sync` or without; the rest as is best.
    pub fn new(logger: LoggerId, sync: bool) -> Self {
        Self {
            logger,
            sync,
            io: StoreIo::Auto,
            segment_bytes: Self::SEGMENT_BYTES,
        }
    }
}

/// What a logger has of a rank when one of its lives says hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The latest life: the one that said hello.
    pub incarnation: Incarnation,
    /// Number of the first determinant that is kept.
    pub first: EventIndex,
    /// One past the last.
    pub end: EventIndex,
    /// Clock of the last.
    pub last_clock: Clock,
    /// Where the last life that is in the row begins: what other replicas have
    /// from here on may differ (and theirs is right, if they have a later
    /// life there). To catch up, read there from here on, and
    /// [adopt](Logbook::adopt).
    pub last_life_start: EventIndex,
    /// When the store [has](Logbook::has_stored) this, no restart forgets that
    /// all earlier lives are fenced: the time to say welcome. FENCE-1
    pub ticket: Ticket,
}

/// Something that was given to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Why determinants cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The rank is not known here.
    #[error("nothing is known of rank {rank} of job {job:016x}")]
    Unknown {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// What was asked for has been given up. GC-1
    #[error(
        "determinants of rank {rank} are kept from number {first} on, all with clocks above \
         {trimmed}: ask for those"
    )]
    Trimmed {
        /// The rank.
        rank: u32,
        /// The first that is kept.
        first: u64,
        /// All with a higher clock are kept.
        trimmed: u64,
    },
    /// A determinant that should be there is not.
    #[error("determinants {from} to {to} of rank {rank} are missing from the files in {}", .folder.display())]
    Gap {
        /// The rank.
        rank: u32,
        /// The first that is missing.
        from: u64,
        /// The next that is there, or the end.
        to: u64,
        /// Where.
        folder: PathBuf,
    },
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The determinants of many ranks, on disk. See the [module](self).
#[derive(Debug)]
pub struct Logbook {
    _folder: PathBuf,
}

impl Logbook {
    /// Bytes that wait to be written, above which nothing more is accepted.
    pub const UNWRITTEN_BYTES_MAX: u64 = 16 << 20;

    /// Opens the logbook in a folder, which is made if it is not there. Locks it
    /// against every other server. Reads back what is there, and cuts off the
    /// end of the last file if its write never ended. EL-3
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path, options: LogbookOptions) -> Result<Self, StoreError> {
        let _ = (folder, options);
        todo!()
    }

    /// A life of a rank begins, or comes back; all before it are fenced.
    /// FENCE-1
    ///
    /// # Errors
    /// When it is fenced itself, or the store does not work.
    pub fn hello(
        &mut self,
        job: u64,
        rank: Rank,
        incarnation: Incarnation,
    ) -> Result<Standing, Refusal> {
        let _ = (job, rank, incarnation);
        todo!()
    }

    /// Takes a batch of a rank's latest life. `batch` begins with it and may go
    /// on behind it.
    ///
    /// # Errors
    /// When it is not accepted; then nothing has changed.
    pub fn accept(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        let _ = (job, batch);
        todo!()
    }

    /// Takes a copy from another replica, of any life up to the latest. One of a
    /// later life than the end of the row cuts the row. EL-3
    ///
    /// # Errors
    /// As for [`Logbook::accept`].
    pub fn adopt(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        let _ = (job, batch);
        todo!()
    }

    /// Another replica has given up all before `first`, the last of it with this
    /// clock: where this row ends before, it goes on from there. GC-1
    ///
    /// # Errors
    /// When the rank has said no hello, or the store does not work.
    pub fn skip(
        &mut self,
        job: u64,
        rank: Rank,
        first: EventIndex,
        clock: Clock,
    ) -> Result<(), Refusal> {
        let _ = (job, rank, first, clock);
        todo!()
    }

    /// Determinants with at most this clock will not be asked for any more: files
    /// that hold only such go. GC-1
    pub fn trim(&mut self, job: u64, rank: Rank, clock: Clock) {
        let _ = (job, rank, clock);
        todo!()
    }

    /// Begins to write what was gathered, if nothing is under way; takes in what
    /// has ended. Says whether anything became written or durable. Does not wait
    /// for the disk.
    ///
    /// # Errors
    /// When something could not be written. After a
    /// [temporary](StoreError::is_temporary) error it is tried again by the next
    /// call; after any other, nothing is accepted any more.
    pub fn progress(&mut self) -> Result<bool, StoreError> {
        todo!()
    }

    /// Readable when a write or sync under way has ended: then
    /// [`Logbook::progress`] has something to do. `None`: nothing is ever left
    /// under way. The same as long as the logbook lives.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        todo!()
    }

    /// Whether everything is written (and, with sync, durable).
    pub fn is_settled(&self) -> bool {
        todo!()
    }

    /// Bytes that wait to be written.
    pub fn unwritten_bytes(&self) -> u64 {
        todo!()
    }

    /// A mark behind everything that was given to the store so far.
    pub fn ticket(&self) -> Ticket {
        todo!()
    }

    /// Whether everything before that mark is written (and, with sync, durable).
    pub fn has_stored(&self, ticket: Ticket) -> bool {
        let _ = ticket;
        todo!()
    }

    /// End of what is written of a rank, and the clock there.
    pub fn written(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        let _ = (job, rank);
        todo!()
    }

    /// End of what is durable of a rank, and the clock there. Without sync:
    /// what was so when the logbook was opened.
    pub fn durable(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        let _ = (job, rank);
        todo!()
    }

    /// Writes and syncs everything, also without `sync`, and waits for it.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        todo!()
    }

    /// Gives each batch of a rank that has determinants from number `from` on
    /// and above `after_clock`, in order and without gaps, up to what is
    /// [written](Logbook::written). Complete, or an error. EL-5
    ///
    /// A batch is given whole: the first may begin before what was asked for.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(
        &self,
        job: u64,
        rank: Rank,
        from: EventIndex,
        after_clock: Option<Clock>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let _ = (job, rank, from, after_clock, each);
        todo!()
    }

    /// What there is, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        todo!()
    }
}

/// A view of a logbook's folder that changes nothing there, whether its server
/// lives or not. Shows what was written when it was opened.
#[derive(Debug)]
pub struct Archive {
    _folder: PathBuf,
}

impl Archive {
    /// Looks at a folder.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let _ = folder;
        todo!()
    }

    /// Whose folder it is; `None`: nothing was written yet.
    pub fn logger(&self) -> Option<LoggerId> {
        todo!()
    }

    /// What there is, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        todo!()
    }

    /// As [`Logbook::read`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(
        &self,
        job: u64,
        rank: Rank,
        from: EventIndex,
        after_clock: Option<Clock>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let _ = (job, rank, from, after_clock, each);
        todo!()
    }
}
