//! The engine's part of a checkpoint as bytes: the engine's state ([`encode_engine`]), and the part
//! of its log that no horizon has freed ([`LogSaving`], [`LogLoading`]). LOG-5
//!
//! The bytes come from a disk or another host: every read checks them, and detects damage
//! (docs/formats/checkpoint-parts.md). Other crates decide where they are stored, and what else is
//! in a checkpoint.

mod engine_part;
mod loading;
mod log_part;
mod saving;

pub use engine_part::{ENGINE_VERSION, EnginePartError, decode_engine, encode_engine};
pub use loading::{LoadError, LogLoading};
pub use log_part::{LOG_VERSION, LogPartError, LogReader, LogWriter, Transfer};
pub use saving::{LogSaving, SaveError};
