//! The engine's part of a checkpoint as bytes: where the rank stands
//! ([`encode_engine`]), and the part of its log that no horizon has freed
//! ([`LogSaving`], [`LogLoading`]). LOG-5
//!
//! Bytes on a disk, or of another host: every read checks them, and never takes
//! damage for a checkpoint (docs/formats/checkpoint-parts.md). Other crates decide where they
//! are kept, and what else is in a checkpoint.

mod engine_part;
mod loading;
mod log_part;
mod saving;

pub use engine_part::{ENGINE_VERSION, EnginePartError, decode_engine, encode_engine};
pub use loading::{LoadError, LogLoading};
pub use log_part::{LOG_VERSION, LogPartError, LogReader, LogWriter, Transfer};
pub use saving::{LogSaving, SaveError};
