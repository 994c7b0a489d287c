//! The contract of stores of checkpoints: a folder and a server.

use crate::error::CheckpointError;
use crate::message::Whole;
use crate::packing::Strips;
use core::fmt;
use refrain_ring::{Incarnation, Rank};

/// Most bytes of a job's prefix.
const PREFIX_BYTES_MAX: usize = 160;

/// The job that checkpoints belong to. Several jobs may share a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    /// The id of the job, which every checkpoint contains.
    pub id: u64,
    /// The prefix of the job's file names; no other job in the store uses it.
    pub prefix: String,
}

impl JobName {
    /// A job whose file names begin with `prefix`.
    ///
    /// # Errors
    /// [`CheckpointError::Prefix`] if `prefix` cannot be the beginning of a file name.
    pub fn new(id: u64, prefix: impl Into<String>) -> Result<Self, CheckpointError> {
        let prefix = prefix.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = prefix.len() <= PREFIX_BYTES_MAX && prefix.bytes().all(is_plain);
        match is_name {
            true => Ok(Self { id, prefix }),
            false => Err(CheckpointError::Prefix(prefix)),
        }
    }
}

/// Names a checkpoint of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The rank.
    pub rank: Rank,
    /// The life that writes it.
    pub incarnation: Incarnation,
    /// From 1; higher than the number of every earlier checkpoint of the rank.
    pub number: u64,
}

/// A stable checkpoint: synced, under its final name. It survives the death of every process and
/// the loss of power.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stable {
    /// The length of the checkpoint, in bytes.
    pub bytes: u64,
    /// Older checkpoints that are not needed and could not be removed, with the reason. The next
    /// checkpoint tries again.
    pub left: Vec<String>,
}

/// Takes the strips of a checkpoint. If it is dropped before it is committed, no valid checkpoint
/// remains of it.
pub trait Sink: Strips<Error = CheckpointError> + Send {
    /// Makes the checkpoint stable, with a length of `bytes` bytes, and removes those that are not
    /// needed any more.
    ///
    /// # Errors
    /// After an error, the checkpoint may or may not exist; a later one needs a higher number.
    fn commit(self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError>;
}

/// Returns the strips of a checkpoint, in order.
pub trait Source: fmt::Debug + Send {
    /// Reads the next strip; the last one may be shorter. Returns its length, 0 after the end.
    ///
    /// # Errors
    /// When the strip cannot be read.
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError>;

    /// The name of the checkpoint, for messages.
    fn name(&self) -> String;
}

/// A whole checkpoint that was found.
#[derive(Debug)]
pub struct Found {
    /// The description of the checkpoint.
    pub whole: Whole,
    /// The strips of the checkpoint.
    pub source: Box<dyn Source>,
}

/// Stores the checkpoints of a job. The contract is the same for a folder and a server:
/// - A checkpoint counts from the moment that [`Sink::commit`] makes it stable; before that, after
///   any crash, the previous one counts.
/// - The newest two whole checkpoints of a rank are kept (GC-1): an older one is removed only after
///   a newer one is stable.
/// - A checkpoint behind the last one that counts is removed, and its number is free again (SET-4).
/// - A checkpoint that [`Checkpoints::newest`] returns is stable and was checked completely.
pub trait Checkpoints: Send + Sync {
    /// Begins a checkpoint.
    ///
    /// # Errors
    /// When the rank has a later life, or a checkpoint with this number or a higher one, or nothing
    /// can be written.
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError>;

    /// The newest whole checkpoint of a rank; `None`: there is none. `recovers`: the life that
    /// recovers, and the last checkpoint that counts. From here on, no checkpoint of an earlier life
    /// is committed, not even one that is being written (FENCE-1); later checkpoints are removed.
    ///
    /// # Errors
    /// When the rank has checkpoints and none is whole, or they cannot be read, or the rank has a
    /// later life.
    fn newest(
        &self,
        rank: Rank,
        recovers: Option<(Incarnation, u64)>,
    ) -> Result<Option<Found>, CheckpointError>;

    /// Removes all checkpoints of the job, when it has ended well.
    ///
    /// # Errors
    /// When some checkpoints cannot be removed; the others are removed.
    fn remove_all(&self) -> Result<(), CheckpointError>;

    /// Connects to the store once, if it is a server.
    ///
    /// # Errors
    /// When the store cannot be reached.
    fn reach(&self) -> Result<(), CheckpointError> {
        Ok(())
    }

    /// The store and how it is written, for messages.
    fn describe(&self) -> String;
}
