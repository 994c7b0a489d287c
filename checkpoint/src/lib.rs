//! Checkpoints of ranks, stored so that they survive the death of any process.
//!
//! | module | what |
//! |---|---|
//! | [`mod@format`] | the bytes (docs/formats/checkpoint-format.md) |
//! | [`packing`], [`unpacking`] | from sections to strips of bytes and back, with every check: pure |
//! | [`store`] | what a rank uses: [`Store`], [`Writing`], [`Reading`] |
//! | [`folder`] | checkpoints in a folder: which count, which go |
//! | [`disk`] | the directory: files that are written and read strip by strip |
//! | [`server`], [`client`] | the same over a connection of `refrain_wire`; `message` has the messages |
//! | [`policy`] | which rank is next: pure |
//!
//! Promises: a checkpoint that [`Writing::commit`] has reported as stable survives the death of
//! every process and the loss of power, as far as the disk keeps the data that it has reported as
//! synced. A crash at any moment leaves this checkpoint or the previous one, never a part (GC-1).
//! Torn, damaged or foreign checkpoints are never returned.
//!
//! Must not know: engines, protocols, launchers. The contents of sections are opaque bytes.

pub mod client;
pub mod disk;
pub mod error;
pub mod folder;
pub mod format;
pub mod message;
pub mod packing;
pub mod policy;
#[cfg(feature = "server")]
pub mod server;
pub mod store;
pub mod store_spec;
pub mod unpacking;

pub use error::{CheckpointError, Damaged};
pub use format::{SectionInfo, SectionKind};
pub use refrain_wire::ServerAddress;
pub use store::{JobName, Key, Reading, Section, Stable, Store, Writing};
pub use store_spec::CheckpointStoreSpec;
