//! Read-only access to a logbook's folder.

use crate::LoggerId;
use crate::message::Holding;
use crate::store::contents::{Contents, Tracked};
use crate::store::folder::Folder;
use crate::store::read::{Question, Reader};
use crate::store::replay::replay;
use crate::store::walk::GroupPosition;
use crate::store::{ReadError, StoreError};
use core::ops::ControlFlow;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Rank};
use refrain_storage::Directory;
use std::path::Path;

/// A view of a logbook's folder that changes nothing there; a server may be using
/// it. Shows the contents at the time of opening.
#[derive(Debug)]
pub struct Archive {
    files: Folder,
    logger: Option<LoggerId>,
    contents: Contents,
}

impl Archive {
    /// Maximum number of attempts to read the folder while files vanish.
    const ATTEMPTS_MAX: u32 = 8;

    /// Reads a folder.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::of(Folder::open(folder)?)
    }

    /// As [`Archive::open`], in any directory.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_on(directory: Directory) -> Result<Self, StoreError> {
        Self::of(directory.into())
    }

    fn of(files: Folder) -> Result<Self, StoreError> {
        let mut attempt = 1;
        let found = loop {
            match replay(&files) {
                Ok(found) => break found,
                // The folder's server may remove files meanwhile.
                Err(error) if attempt == Self::ATTEMPTS_MAX => return Err(error),
                Err(_) => attempt += 1,
            }
        };
        let mut contents = found.contents;
        for tracked in &mut contents.rows {
            tracked.written = tracked.end();
        }
        Ok(Self {
            files,
            logger: found.logger,
            contents,
        })
    }

    /// The logger that owns the folder; `None`: nothing has been written yet.
    pub fn logger(&self) -> Option<LoggerId> {
        self.logger
    }

    /// The stored determinants, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        holdings(&self.contents)
    }

    /// As [`Logbook::read`](super::Logbook::read).
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
        let question = Question {
            job,
            rank,
            from,
            after_clock,
        };
        let reader = Reader {
            files: &self.files,
            contents: &self.contents,
        };
        reader.read(&question, &mut GroupPosition::default(), each)
    }
}

/// The stored determinants, by job and rank.
pub(super) fn holdings(contents: &Contents) -> Vec<Holding> {
    let rows = contents.rows.iter();
    let mut holdings: Vec<_> = rows
        .map(|Tracked { job, rank, row, .. }| Holding {
            job: *job,
            rank: rank.0,
            incarnation: row.incarnation.0,
            first: row.first.0,
            clock_before: row.clock_before.0,
            end: row.end.0,
            last_clock: row.last_clock.0,
        })
        .collect();
    holdings.sort_unstable_by_key(|holding| (holding.job, holding.rank));
    holdings
}
