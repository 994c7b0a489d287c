//! Checkpoints of ranks: kept where the death of any process cannot take them.
//!
//! | module | what |
//! |---|---|
//! | [`mod@format`] | the bytes (docs/formats/checkpoint-format.md) |
//! | [`packing`], [`unpacking`] | from sections to strips of bytes and back, with every check: pure |
//! | [`store`] | what a rank uses: [`Store`], [`Writing`], [`Reading`] |
//! | [`folder`] | checkpoints in a folder: which count, which go |
//! | [`disk`] | what a folder needs of the world; the real one |
//! | [`faulty`] | a disk in memory that fails, for tests |
//! | [`server`], [`client`] | the same over a socket; `message` and `framing` are what is said |
//! | [`policy`] | whose turn it is: pure |
//!
//! Promises: what [`Writing::commit`] has called stable survives the death of
//! every process and the loss of power, as far as the disk keeps what it has
//! said to have synced; a crash at any moment leaves the checkpoint before it, or
//! this one, never a part (GC-1); what is torn, damaged or somebody else's is
//! never given out.
//!
//! Knows nothing of: engines, protocols, launchers. What sections hold is bytes.

pub mod buffer;
pub mod client;
pub mod disk;
pub mod error;
pub mod faulty;
pub mod folder;
pub mod format;
pub mod framing;
pub mod message;
pub mod packing;
pub mod place;
pub mod policy;
#[cfg(feature = "server")]
pub mod server;
#[cfg_attr(
    not(feature = "server"),
    allow(dead_code, reason = "the server uses the rest")
)]
mod socket;
pub mod store;
pub mod unpacking;

pub use error::{CheckpointError, Damaged};
pub use format::{SectionInfo, SectionKind};
pub use place::{PURPOSE, Place};
pub use refrain_secure::ServerAddress;
pub use store::{JobName, Key, Reading, Section, Stable, Store, Writing};
