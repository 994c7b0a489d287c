//! The contract of places that keep checkpoints: a folder and a server.

use crate::error::CheckpointError;
use crate::message::Whole;
use crate::packing::Strips;
use core::fmt;
use refrain_ring::{Incarnation, Rank};

/// Bytes of a job's prefix, at most.
const PREFIX_BYTES_MAX: usize = 160;

/// The job of checkpoints: two jobs may share a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    /// Stands in every checkpoint.
    pub id: u64,
    /// What the names of its files begin with: one job's alone in a place.
    pub prefix: String,
}

impl JobName {
    /// A job whose files' names begin with `prefix`.
    ///
    /// # Errors
    /// When no file name begins so: [`CheckpointError::Prefix`].
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

/// Which checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The rank.
    pub rank: Rank,
    /// The life that writes it.
    pub incarnation: Incarnation,
    /// From 1; higher than that of every checkpoint of the rank before.
    pub number: u64,
}

/// A checkpoint that is stable: synced, under its name. It survives the death of
/// every process and the loss of power.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stable {
    /// Its length.
    pub bytes: u64,
    /// Older ones that are not needed and could not be removed, with the
    /// reason. The next checkpoint tries again.
    pub left: Vec<String>,
}

/// Takes the strips of a checkpoint. Dropped before it is committed: nothing of
/// it stays, or nothing that counts.
pub trait Sink: Strips<Error = CheckpointError> + Send {
    /// Makes it stable, all `bytes` bytes of it, and removes those that are not
    /// needed any more.
    ///
    /// # Errors
    /// It may be there, or not; a later one needs a higher number.
    fn commit(self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError>;
}

/// Gives the strips of a checkpoint, in order.
pub trait Source: fmt::Debug + Send {
    /// Reads the next strip: whole, or what is left; 0 behind the end.
    ///
    /// # Errors
    /// It cannot be read on.
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError>;

    /// Its name, for messages.
    fn name(&self) -> String;
}

/// A whole checkpoint that was found, and its bytes.
#[derive(Debug)]
pub struct Found {
    /// What it is.
    pub whole: Whole,
    /// Its bytes.
    pub source: Box<dyn Source>,
}

/// Where checkpoints of a job are kept. Contract, the same for a folder and a
/// server:
/// - A checkpoint counts from the moment that [`Sink::commit`] makes it stable;
///   before that, after any crash, there is the one before.
/// - The newest two whole checkpoints of a rank are kept (GC-1): what is older is
///   removed once a newer one is stable, not before.
/// - What [`Checkpoints::newest`] gives is stable and was checked wholly.
pub trait Checkpoints: Send + Sync {
    /// Begins a checkpoint.
    ///
    /// # Errors
    /// When the rank has a later life, or one of this number or higher, or
    /// nothing can be written.
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError>;

    /// The newest whole checkpoint of a rank; `None`: there never was any. With
    /// `life`, which asks for itself: nothing that earlier lives write becomes a
    /// checkpoint from here on, also not what is under way (FENCE-1).
    ///
    /// # Errors
    /// When there were some and none is whole, or they cannot be read, or the rank
    /// has a later life.
    fn newest(
        &self,
        rank: Rank,
        life: Option<Incarnation>,
    ) -> Result<Option<Found>, CheckpointError>;

    /// Removes all checkpoints of the job: at its good end.
    ///
    /// # Errors
    /// When some cannot be removed; the others are.
    fn remove_all(&self) -> Result<(), CheckpointError>;

    /// Reaches the place once, if it is elsewhere.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn reach(&self) -> Result<(), CheckpointError> {
        Ok(())
    }

    /// The place and how it is written, for messages.
    fn describe(&self) -> String;
}
