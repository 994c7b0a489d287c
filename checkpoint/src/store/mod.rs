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
use crate::store_spec::CheckpointStoreSpec;
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
    /// Opens a store for a job's checkpoints. A folder must exist. A server is not connected yet.
    ///
    /// # Errors
    /// When the store does not exist, or cannot be used.
    pub fn open(place: &CheckpointStoreSpec, job: JobName) -> Result<Self, CheckpointError> {
        let place: Arc<dyn Checkpoints> = match place {
            CheckpointStoreSpec::Folder(path) => {
                Arc::new(Folder::new(Disk::open(path)?, job.clone()))
            }
            CheckpointStoreSpec::Server(address) => {
                Arc::new(Client::new(address.clone(), job.clone()))
            }
        };
        Ok(Self { job, place })
    }

    /// Connects to the store once. A job that starts detects by it that a server is not there, or
    /// that the server and the job do not have the same secret, instead of at its first checkpoint.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub fn reach(&self) -> Result<(), CheckpointError> {
        self.place.reach()
    }

    /// Checkpoints in any other store.
    pub fn on(place: Arc<dyn Checkpoints>, job: JobName) -> Self {
        Self { job, place }
    }

    /// Begins checkpoint `number` of a rank. The first number is 1, or [`Reading::next_number`];
    /// each further one is higher by one, also after an error. One checkpoint of a rank is written
    /// at a time: an earlier one that is not committed is given up.
    ///
    /// # Errors
    /// When the rank has a later life, or a checkpoint with this number or a higher one, or nothing
    /// can be written.
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
            // The beginning of the program counts as checkpoint 0.
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
            // A random value that cannot be guessed.
            salt: RandomState::new().hash_one(number),
        };
        Ok(Writing::new(header, self.place.begin(key)?))
    }

    /// For a life that begins: from here on, no checkpoint of an earlier life is committed
    /// (FENCE-1), and those behind `last` are removed. Then as [`Store::newest`].
    ///
    /// # Errors
    /// As [`Store::newest`], and when the rank has a later life.
    pub fn recover(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        last: Option<u64>,
    ) -> Result<Option<Reading>, CheckpointError> {
        let recovers = (incarnation, last.unwrap_or(u64::MAX));
        let found = self.place.newest(rank, Some(recovers))?;
        found.map(Reading::new).transpose()
    }

    /// The newest whole checkpoint of a rank, checked completely; `None` when there never was one.
    /// [`Reading::passed_over`] lists newer ones that cannot be used. Fences nothing: a life that
    /// begins calls [`Store::recover`].
    ///
    /// # Errors
    /// When the rank has checkpoints and none can be used, or they cannot be read.
    pub fn newest(&self, rank: Rank) -> Result<Option<Reading>, CheckpointError> {
        let found = self.place.newest(rank, None)?;
        found.map(Reading::new).transpose()
    }

    /// Removes all checkpoints of the job, when it has ended well.
    ///
    /// # Errors
    /// When some checkpoints cannot be removed; the others are removed.
    pub fn remove_all(&self) -> Result<(), CheckpointError> {
        self.place.remove_all()
    }

    /// The store and how it is written, for messages.
    pub fn describe(&self) -> String {
        self.place.describe()
    }
}
