//! A client's ring in the logger's memory: one-sided commits.
//!
//! A ring is a file that the server makes and maps, for one client in one
//! incarnation: a control page, then [`DATA_BYTES`] of batches. Being a file, the ring
//! outlives the server's process: a server that starts again finds in it the batches
//! that were placed and not yet stored (EL-3). A client over shared memory maps it too
//! and stores into it; over libfabric it writes there by RMA.
//!
//! Batches lie one behind the other, each at a multiple of [`LINE_BYTES`]. None
//! crosses the end of the ring: where fewer than
//! [`BATCH_BYTES_MAX`](refrain_logging::determinant::batch::BATCH_BYTES_MAX)
//! bytes are left, the next batch lies at the beginning, whatever its length, so that
//! both sides compute its place ([`Cursor`]). Old batches are not cleared, and no separate
//! word publishes a batch. A reader takes the bytes at the next place only
//! if they are a batch of this client and incarnation, with the next number and
//! a correct checksum (EL-2); otherwise the next batch has not arrived.
//!
//! Control page (little-endian words):
//!
//! | bytes | written by | field |
//! |---|---|---|
//! | 0..8 | server, at the start | magic and version ([`RING_MAGIC`]) |
//! | 8..16 | | job |
//! | 16..24 | | rank, incarnation << 32 |
//! | 24..32 | | logger |
//! | 32..40 | | one past the last determinant that the logger had when it made the ring |
//! | 64..72 | server | position up to which batches are stored elsewhere, their room is free |
//! | 72..80 | server | clock of the last durable determinant |
//! | 80..88 | server | one past the number of the last durable determinant, written after its clock |
//! | 88..96 | server | 1: the ring is closed, its client has to join again before its commits count |
//! | 128..136 | server | 1: it sleeps; a client that wants something done rings it |

mod layout;
mod memory;
mod reader;
mod remains;
mod writer;

pub use layout::{
    CONTROL_BYTES, Cursor, DATA_BYTES, LINE_BYTES, RING_BYTES, RING_MAGIC, RingIdentity,
};
pub use memory::RingMemory;
pub use reader::RingReader;
pub use remains::RingRemains;
pub(crate) use writer::Placement;
pub use writer::{Full, RingWriter};
