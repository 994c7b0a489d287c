//! Files of a directory, with completion-based transfers.
//!
//! | module | what |
//! |---|---|
//! | [`directory`] | [`Directory`] and [`File`]: names, room, syncs; calls that block |
//! | [`engine`] | [`Engine`]: moves [`Transfer`]s between memory and files, many at once |
//! | `system` | files of the operating system |
//! | `uring`, `thread` | the engines for those, besides plain writes |
//! | [`simulated`] | a disk in memory that fails, stalls and loses power, from a seed |
//!
//! Promises: each transfer comes back once, with its memory, whether it succeeded or not; after the
//! drop of an engine, the system no longer uses memory of its transfers; a transfer that the system
//! cuts short is continued.
//!
//! Must not know: the meaning of the bytes, when they are written, ranks, protocols.

pub mod directory;
pub mod engine;
mod memory;
#[cfg(any(test, feature = "test-doubles"))]
pub mod simulated;
mod system;
#[cfg(test)]
mod tests;
mod thread;
mod uring;

pub use directory::{Directory, File};
pub use engine::{Bytes, Ended, Engine, Inline, Io, Memory, Stage, Transfer};
pub use memory::{AlignedBuffer, BLOCK_BYTES};
pub use system::{lock, make_private};
pub use thread::with_signals_blocked;
