//! What is said about a logbook: options, standings, errors.

use crate::LoggerId;
use crate::store::StoreError;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};
use refrain_storage::Io;
use std::path::PathBuf;
use thiserror::Error;

/// How a logbook is to be kept.
#[derive(Clone, Debug)]
pub struct LogbookOptions {
    /// Whose it is; a folder is of one logger for ever.
    pub logger: LoggerId,
    /// Whether what is written is synced too (`fdatasync`, in groups).
    pub sync: bool,
    /// How to write. Without syncs, `Auto` is plain: the writes end in memory. With syncs,
    /// `Plain` is a thread.
    pub io: Io,
    /// Whether the folder was [begun](super::Logbook::begin) before, so that it is an
    /// error when its files are gone.
    pub continues: bool,
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
            io: Io::Auto,
            continues: false,
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
    /// When the store [has](super::Logbook::has_stored) this, no restart forgets that
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
