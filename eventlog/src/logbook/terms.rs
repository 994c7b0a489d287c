//! Options of a logbook, and its answer to a hello.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};
use refrain_storage::Io;

/// Settings of a logbook.
#[derive(Clone, Debug)]
pub struct LogbookOptions {
    /// The logger; a folder always belongs to one logger.
    pub logger: LoggerId,
    /// Whether writes are also synced (`fdatasync`, in groups).
    pub sync: bool,
    /// I/O engine. Without syncs, `Auto` is plain: the writes end in memory. With syncs,
    /// `Plain` is a thread.
    pub io: Io,
    /// Whether the folder was [begun](super::Logbook::begin) before, so that it is an
    /// error when its files are gone.
    pub continues: bool,
    /// Length of a file in bytes; [`LogbookOptions::SEGMENT_BYTES`] except in tests.
    pub segment_bytes: u64,
}

impl LogbookOptions {
    /// Default length of a file in bytes.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// Settings for that logger, with or without syncs; defaults for the rest.
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

/// A logger's log of a rank at a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The latest incarnation: that of the hello.
    pub incarnation: Incarnation,
    /// Number of the first determinant that is kept.
    pub first: EventIndex,
    /// One past the number of the last determinant.
    pub end: EventIndex,
    /// Clock of the last determinant.
    pub last_clock: Clock,
    /// Once the store [has](super::Logbook::has_stored) this, every restart knows that all
    /// earlier lives are fenced: then the welcome may be sent. FENCE-1
    pub ticket: Ticket,
}

/// Identifies what was given to the store up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);
