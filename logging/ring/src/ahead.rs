//! [`DiskAhead`]: chunks on their way from disk before it is their turn.

use crate::chunk::{ChunkError, ChunkReader};
use crate::{Frontier, Incarnation, Rank};
use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;
use thiserror::Error;

/// The bytes of a chunk that came from disk; dropped, their memory goes back to its owner.
pub struct ChunkBytes(Box<dyn AsRef<[u8]> + Send>);

impl ChunkBytes {
    /// Wraps the [`CHUNK_BYTES`] bytes of a chunk, or those up to its last record.
    pub fn new(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self(Box::new(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for ChunkBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkBytes({})", self.bytes().len())
    }
}

/// The disk under one channel's log.
pub trait DiskChunks {
    /// The first chunk on disk that ends beyond `from` in some stream.
    fn find(&self, from: &Frontier) -> Option<u64>;

    /// Begins to read a chunk and names the read; `None` when it is not on disk.
    fn begin_read(&mut self, sequence: u64) -> Option<u64>;

    /// Which file a chunk is in, for people; `None` where that is not known.
    fn place(&self, _sequence: u64) -> Option<String> {
        None
    }
}

/// Why a log cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadBackError {
    /// The disk gave no bytes; the next step asks again.
    #[error("chunk {sequence} of the log to rank {destination} cannot be read from disk: {why}")]
    Disk {
        /// Whose log.
        destination: Rank,
        /// Which chunk.
        sequence: u64,
        /// The disk's error.
        why: String,
    },
    /// It gave others than were written; the next step asks again.
    #[error("chunk {sequence} of the log to rank {destination} is damaged in {place}: {damage}")]
    Damaged {
        /// Whose log.
        destination: Rank,
        /// Which chunk.
        sequence: u64,
        /// Where, for people.
        place: String,
        /// What is wrong.
        damage: ChunkError,
    },
    /// It gave another chunk; the next step asks again.
    #[error(
        "chunk {sequence} of the log to rank {destination} was read from disk, and another chunk came"
    )]
    Another {
        /// Whose log.
        destination: Rank,
        /// Which chunk.
        sequence: u64,
    },
    /// It is neither in memory nor on disk, and no horizon has passed it.
    #[error("chunk {sequence} of the log to rank {destination} is lost")]
    Lost {
        /// Whose log.
        destination: Rank,
        /// Which chunk.
        sequence: u64,
    },
}

#[derive(Debug)]
struct Ahead {
    sequence: u64,
    token: u64,
    bytes: Option<Result<ChunkBytes, String>>,
}

/// Whether a chunk came from disk.
pub(crate) enum Found {
    /// Here it is, whole.
    Here(ChunkBytes),
    /// It is on its way.
    Coming,
    /// It was not requested, or it is not there.
    Nowhere,
}

/// Chunks of one log that are on their way from disk.
#[derive(Debug)]
pub(crate) struct DiskAhead {
    identity: (Rank, Rank, Incarnation),
    /// In the order of their sequence numbers.
    queue: VecDeque<Ahead>,
}

impl DiskAhead {
    pub(crate) fn new(identity: (Rank, Rank, Incarnation)) -> Self {
        Self {
            identity,
            queue: VecDeque::new(),
        }
    }

    /// Chunks that are on their way, or here.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn waits_for(&self, token: u64) -> bool {
        self.queue.iter().any(|ahead| ahead.token == token)
    }

    /// A read has ended; whether it was one of these.
    pub(crate) fn arrived(&mut self, token: u64, bytes: Result<ChunkBytes, String>) -> bool {
        let ahead = self.queue.iter_mut().find(|ahead| ahead.token == token);
        ahead.map(|ahead| ahead.bytes = Some(bytes)).is_some()
    }

    /// Begins to read the `wanted` chunks, the first ones first, as long as at
    /// most `chunks_max` are under way. Those before are forgotten.
    pub(crate) fn read(
        &mut self,
        wanted: Range<u64>,
        chunks_max: usize,
        disk: &mut dyn DiskChunks,
    ) {
        self.queue.retain(|ahead| ahead.sequence >= wanted.start);
        for (index, sequence) in wanted.enumerate() {
            let is_asked = self.queue.get(index).map(|ahead| ahead.sequence) == Some(sequence);
            if is_asked {
                continue;
            }
            if self.len() >= chunks_max {
                return;
            }
            // A horizon has passed this one: it shows when it is its turn.
            let Some(token) = disk.begin_read(sequence) else {
                return;
            };
            let asked = Ahead {
                sequence,
                token,
                bytes: None,
            };
            self.queue.insert(index, asked);
        }
    }

    /// Takes the first chunk, when it is here and whole.
    pub(crate) fn take(
        &mut self,
        sequence: u64,
        disk: &dyn DiskChunks,
    ) -> Result<Found, ReadBackError> {
        let Some(ahead) = self.queue.front_mut() else {
            return Ok(Found::Nowhere);
        };
        if ahead.sequence != sequence {
            return Ok(Found::Nowhere);
        }
        let Some(bytes) = ahead.bytes.take() else {
            return Ok(Found::Coming);
        };
        self.queue.pop_front();
        let bytes = bytes.map_err(|why| ReadBackError::Disk {
            destination: self.identity.1,
            sequence,
            why,
        })?;
        self.check(sequence, bytes.bytes(), disk)?;
        Ok(Found::Here(bytes))
    }

    /// Nothing of a chunk is given before all of its checksums hold.
    fn check(
        &self,
        sequence: u64,
        bytes: &[u8],
        disk: &dyn DiskChunks,
    ) -> Result<(), ReadBackError> {
        let destination = self.identity.1;
        let is_whole = || {
            let mut reader = ChunkReader::sealed(bytes)?;
            while reader.next_record()?.is_some() {}
            Ok(*reader.header())
        };
        let header = is_whole().map_err(|damage| ReadBackError::Damaged {
            destination,
            sequence,
            place: disk.place(sequence).unwrap_or_else(|| "its file".into()),
            damage,
        })?;
        let identity = (header.source, header.destination, header.incarnation);
        match identity == self.identity && header.sequence == sequence {
            true => Ok(()),
            false => Err(ReadBackError::Another {
                destination,
                sequence,
            }),
        }
    }
}
