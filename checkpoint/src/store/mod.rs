//! The [`Store`] of a rank's checkpoints.

pub(crate) mod contract;
mod reading;
mod writing;

pub use contract::{Checkpoints, Found, JobName, Key, Sink, Source, Stable};
pub use reading::{Reading, Section};
pub use writing::Writing;

use crate::client::Client;
use crate::disk::Disk;
use crate::error::CheckpointError;
use crate::folder::Folder;
use crate::format::Header;
use crate::place::Place;
use core::fmt;
use refrain_ring::{Incarnation, Rank};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Checkpoints of one job; see the [module](self). Calls block.
#[derive(Clone)]
pub struct Store {
    job: JobName,
    place: Arc<dyn Checkpoints>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("job", &self.job)
            .field("place", &self.place.describe())
            .finish()
    }
}

impl Store {
    /// Opens a place for a job's checkpoints. A folder has to be there; a server is not
    /// reached yet.
    ///
    /// # Errors
    /// When there is no such place, or it cannot be used.
    pub fn open(place: &Place, job: JobName) -> Result<Self, CheckpointError> {
        let place: Arc<dyn Checkpoints> = match place {
            Place::Folder(path) => Arc::new(Folder::new(Disk::open(path)?, job.clone())),
            Place::Server(address) => Arc::new(Client::new(address.clone(), job.clone())),
        };
        Ok(Self { job, place })
    }

    /// Reaches the place once: to notice when a job starts, and not at its first
    /// checkpoint, that a server is not there, or that it and the job do not have the same
    /// secret.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn reach(&self) -> Result<(), CheckpointError> {
        self.place.reach()
    }

    /// Checkpoints that are kept elsewhere.
    pub fn on(place: Arc<dyn Checkpoints>, job: JobName) -> Self {
        Self { job, place }
    }

    /// Begins checkpoint `number` of a rank: 1, or what [`Reading::next_number`]
    /// says, and then one more each time, also after an error. One is written at a
    /// time: another one of the rank that was begun before is given up.
    ///
    /// # Errors
    /// When the rank has a later life, or such a checkpoint, or nothing can be
    /// written.
    pub fn begin(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        number: u64,
    ) -> Result<Writing, CheckpointError> {
        let key = Key {
            rank,
            incarnation,
            number,
        };
        if number == 0 {
            // The beginning of the program is checkpoint 0.
            return Err(CheckpointError::NotNext {
                rank,
                asked: 0,
                found: 0,
            });
        }
        let header = Header {
            job: self.job.id,
            rank,
            incarnation,
            number,
            // It cannot be guessed.
            salt: RandomState::new().hash_one(number),
        };
        Ok(Writing::new(header, self.place.begin(key)?))
    }

    /// For a life of a rank that begins: what lives before it still write counts
    /// no more (FENCE-1). Then as [`Store::newest`].
    ///
    /// # Errors
    /// As [`Store::newest`]; when the rank has a later life, too.
    pub fn recover(
        &self,
        rank: Rank,
        incarnation: Incarnation,
    ) -> Result<Option<Reading>, CheckpointError> {
        let found = self.place.newest(rank, Some(incarnation))?;
        found.map(Reading::new).transpose()
    }

    /// The newest whole checkpoint of a rank, checked from end to end; `None`
    /// when there never was any. [`Reading::passed_over`] says which newer ones
    /// cannot be used. Only looks: a life that begins calls [`Store::recover`].
    ///
    /// # Errors
    /// When there were some and none can be used, or they cannot be read.
    pub fn newest(&self, rank: Rank) -> Result<Option<Reading>, CheckpointError> {
        let found = self.place.newest(rank, None)?;
        found.map(Reading::new).transpose()
    }

    /// Removes all checkpoints of the job: at its good end.
    ///
    /// # Errors
    /// When some cannot be removed; the others are.
    pub fn remove_all(&self) -> Result<(), CheckpointError> {
        self.place.remove_all()
    }

    /// The place and how it is written, for messages.
    pub fn describe(&self) -> String {
        self.place.describe()
    }
}
