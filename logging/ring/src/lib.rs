//! The log ring: the memory into which a rank packs what it sends, and from
//! which the network sends it.
//!
//! *The channel is the log.* A message to a rank is packed, fragment by
//! fragment, into that channel's log: a sequence of chunks taken from one
//! [`Arena`] per rank. A peer on the same host reads the records in place
//! ([`ChannelReader`]); a NIC sends them from there. Three positions
//! move along one log: the position up to which the receiver has *consumed* it, the one up to
//! which it is *trimmed* (its memory free again), and the one up to which it is *spilled* to
//! disk.
//!
//! Promises: a reader in another process sees a record wholly or not at all,
//! even if the writer is killed at any instruction; memory that a
//! reader may read is not written again before it is trimmed; one release store
//! publishes a record; no allocation, lock or system call on the append path
//! except when a new chunk is taken.
//!
//! Knows nothing of: processes, sockets, NICs, files, protocols. The caller provides memory
//! as a [`Region`]. Beside the log it holds the vocabulary of the crates
//! above: ranks, clocks, numbers of messages, [`recorded`] outcomes.

#[cfg(not(loom))]
mod ahead;
mod arena;
mod attachment;
pub mod chunk;
pub mod copy;
mod frontier;
mod header;
mod identity;
#[cfg(not(loom))]
mod in_memory;
#[cfg(not(loom))]
mod lent;
pub mod placement;
#[cfg(not(loom))]
pub mod read_back;
mod reader;
pub mod recorded;
mod region;
#[cfg(not(loom))]
pub mod resend;
mod shared;
mod sync;
mod writer;

pub use arena::{Arena, ArenaFull, CHUNK_BYTES, ChunkId, Commit};
pub use attachment::Carriage;
pub use frontier::Frontier;
pub use header::{
    HeaderError, RECORD_VERSION, RecordHeader, RecordKind, payload_offset, record_bytes,
};
pub use identity::{Clock, Incarnation, Position, Rank, Ssn, Stream};
#[cfg(not(loom))]
pub use in_memory::InMemory;
#[cfg(not(loom))]
pub use lent::{LentChunk, LoanEnd};
pub use reader::{ChannelReader, ReadError, Record};
pub use region::{Owner, Region};
pub use shared::{NO_DESTINATION, Reference, Referred, SharedPayload};
pub use writer::{ChannelLog, Frame, ReserveError};
