//! [`DiskAhead`]: chunks that are read from disk before they are needed.

use crate::chunk::{ChunkError, ChunkReader};
use crate::{Frontier, Incarnation, Rank};
use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;
use thiserror::Error;

/// The bytes of a chunk that came from disk; when dropped, their memory returns to its owner.
pub struct ChunkBytes(Box<dyn AsRef<[u8]> + Send>);

impl ChunkBytes {
    /// Wraps the [`CHUNK_BYTES`](crate::CHUNK_BYTES) bytes of a chunk, or the part up to its last record.
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

    /// The file of a chunk, for people; `None` if not known.
    fn place(&self, _sequence: u64) -> Option<String> {
        None
    }
}

/// Why a log cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadBackError {
    /// The disk gave no bytes; the next step tries again.
    #[error("chunk {sequence} of the log to rank {destination} cannot be read from disk: {why}")]
    Disk {
        /// The receiver of the log.
        destination: Rank,
        /// Sequence number of the chunk.
        sequence: u64,
        /// The disk's error.
        why: String,
    },
    /// The bytes have changed since they were written; the next step tries again.
    #[error("chunk {sequence} of the log to rank {destination} is damaged in {place}: {damage}")]
    Damaged {
        /// The receiver of the log.
        destination: Rank,
        /// Sequence number of the chunk.
        sequence: u64,
        /// Place of the chunk, for people.
        place: String,
        /// The kind of damage.
        damage: ChunkError,
    },
    /// The disk gave another chunk; the next step tries again.
    #[error(
        "the disk returned another chunk in place of chunk {sequence} of the log to rank {destination}"
    )]
    Another {
        /// The receiver of the log.
        destination: Rank,
        /// Sequence number of the requested chunk.
        sequence: u64,
    },
    /// The chunk is neither in memory nor on disk, and no horizon has passed it.
    #[error("chunk {sequence} of the log to rank {destination} is lost")]
    Lost {
        /// The receiver of the log.
        destination: Rank,
        /// Sequence number of the chunk.
        sequence: u64,
    },
}

#[derive(Debug)]
struct Ahead {
    sequence: u64,
    token: u64,
    bytes: Option<Result<ChunkBytes, String>>,
}

/// State of a chunk requested from disk.
pub(crate) enum Found {
    /// The chunk has arrived and is undamaged.
    Here(ChunkBytes),
    /// The read is under way.
    Coming,
    /// The chunk was not requested, or is not on disk.
    Nowhere,
}

/// Chunks of one log that are being read from disk.
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

    /// Number of chunks whose reads are under way or completed.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn waits_for(&self, token: u64) -> bool {
        self.queue.iter().any(|ahead| ahead.token == token)
    }

    /// Handles a completed read; returns whether it was one of these.
    pub(crate) fn arrived(&mut self, token: u64, bytes: Result<ChunkBytes, String>) -> bool {
        let ahead = self.queue.iter_mut().find(|ahead| ahead.token == token);
        ahead.map(|ahead| ahead.bytes = Some(bytes)).is_some()
    }

    /// Begins to read the `wanted` chunks in order, while at
    /// most `chunks_max` are held. Earlier chunks are dropped.
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
            // A horizon has passed this chunk: that is handled when the reader comes to it.
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

    /// Takes the first chunk, if it has arrived and is undamaged.
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

    /// Checks a chunk: no record is given before all checksums are verified.
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
