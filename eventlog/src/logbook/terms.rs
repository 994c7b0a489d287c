//! Options of a logbook, and what it answers to a hello.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};
use refrain_storage::Io;

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
