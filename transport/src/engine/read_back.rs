//! Reading a channel's log again while the rank continues, for a receiver that
//! lost its messages. LOG-2

use super::Engine;
use super::spilling::Spilling;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::read_back::{
    ChunkBytes, DiskChunks, Progress, ReadBack as LogReader, ReadBackError, Writer,
};
use refrain_ring::{Frontier, Position, Rank, RecordHeader};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A chunk that was read from disk, with the token of its read.
type Arrival = (u64, Result<ChunkBytes, String>);
pub(super) type Mailbox = RefCell<Vec<Arrival>>;

/// A reader of the log to one rank. Several readers may exist at the same time, also of one log.
pub struct ReadBack {
    reader: LogReader,
    mailbox: Rc<Mailbox>,
}

impl fmt::Debug for ReadBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reader.fmt(f)
    }
}

impl<P: Protocol> Engine<P> {
    /// Creates a reader of all messages sent to `destination` from `from` on, of all streams. It is
    /// useful only with a protocol that keeps payload. Does not wait.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn read_back(&self, destination: Rank, from: impl Into<Frontier>) -> ReadBack {
        let destinations = &self.outbox.destinations;
        let reader = match destinations.get(destination) {
            Some(stored) => LogReader::new(&stored.log, from),
            // Its log is empty.
            None => LogReader::new(&destinations.fresh(destination).log, from),
        };
        ReadBack {
            reader,
            mailbox: Rc::default(),
        }
    }

    /// Where the log to a rank ends.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_end(&self, to: Rank) -> Position {
        self.outbox.destination(to).log.tail()
    }

    /// Whether all records of a log before `end` can be read.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn is_posted(&self, to: Rank, end: Position) -> bool {
        end <= self.outbox.destination(to).posted()
    }

    /// Passes the next records that are present to `give`, of one chunk at most, in the order in
    /// which they were sent. Never waits: after [`Progress::Waiting`] the rank makes progress, and
    /// calls again.
    ///
    /// # Errors
    /// When the log cannot be read there; the reader keeps its place, and the next call tries
    /// again.
    pub fn read_on(
        &mut self,
        reader: &mut ReadBack,
        give: &mut dyn FnMut(&RecordHeader, &[u8]),
    ) -> Result<Progress, ReadBackError> {
        self.outbox.after_disk(&mut self.spilling);
        for (token, bytes) in reader.mailbox.borrow_mut().drain(..) {
            reader.reader.arrived(token, bytes);
        }
        let to = reader.reader.destination();
        let Some(destination) = self.outbox.destinations.get(to) else {
            // Its log is empty.
            self.has_read = false;
            return Ok(Progress::End);
        };
        let writer = Writer {
            log: &destination.log,
            arena: &self.arena,
            posted: destination.posted(),
            horizon: &destination.horizon,
        };
        let mut disk = Disk {
            spilling: &mut self.spilling,
            mailbox: &reader.mailbox,
            to,
        };
        let progress = reader.reader.step(writer, &mut disk, give);
        self.has_read = matches!(progress, Ok(Progress::Records(_) | Progress::Passed(_)));
        progress
    }
}

impl ReadBack {
    /// The receiver of the log.
    pub fn destination(&self) -> Rank {
        self.reader.destination()
    }

    /// The first message of each stream that the reader gives; a horizon may have raised it.
    pub fn from(&self) -> &Frontier {
        self.reader.from()
    }
}

/// The disk of one channel, for one reader.
pub(super) struct Disk<'a> {
    pub spilling: &'a mut Spilling,
    pub mailbox: &'a Rc<Mailbox>,
    pub to: Rank,
}

impl DiskChunks for Disk<'_> {
    fn find(&self, from: &Frontier) -> Option<u64> {
        self.spilling.disk()?.find(self.to, from)
    }

    fn begin_read(&mut self, sequence: u64) -> Option<u64> {
        let token = self.spilling.disk_mut()?.read(self.to, sequence)?;
        self.spilling.reads.expect(token, self.mailbox);
        Some(token)
    }

    fn place(&self, sequence: u64) -> Option<String> {
        self.spilling.disk()?.place(self.to, sequence)
    }
}

/// The reader of each read in progress.
#[derive(Default)]
pub(super) struct Reads {
    expected: Vec<(u64, Weak<Mailbox>)>,
}

impl Reads {
    fn expect(&mut self, token: u64, mailbox: &Rc<Mailbox>) {
        self.expected.push((token, Rc::downgrade(mailbox)));
    }

    /// Passes the bytes of an ended read to its reader, if the reader still exists.
    pub fn ended(&mut self, token: u64, bytes: Result<ChunkBytes, String>) {
        let at = self.expected.iter().position(|(known, _)| *known == token);
        let reader = at.and_then(|at| self.expected.swap_remove(at).1.upgrade());
        if let Some(mailbox) = reader {
            mailbox.borrow_mut().push((token, bytes));
        }
    }
}
