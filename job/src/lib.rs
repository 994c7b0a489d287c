//! Definitions that a launcher and the ranks of its job share: the settings of the job, the
//! messages of the control plane, and the names by which fabrics, protocols and commit paths to
//! event loggers are chosen.
//!
//! | module | subject |
//! |---|---|
//! | [`config`] | the settings that the launcher sends to each rank |
//! | [`choice`] | names of fabrics, protocols, event loggers and native libraries |
//! | [`control`] | the control socket: messages, framing, and a rank's end of it |
//! | [`introductions`] | which ranks were introduced to each other |
//! | [`output_gate`] | the page with counts of a rank's events, for gated output |
//! | [`statistics`] | statistics that a rank reports |
//! | [`same_memory`] | `--same-memory` |
//! | [`machine`] | memory and clock of the host |
//! | [`stderr`] | lines on standard error |
//!
//! Must never know: the API of programs, how processes are started.

pub mod choice;
pub mod config;
pub mod control;
mod error;
pub mod introductions;
pub mod machine;
pub mod output_gate;
pub mod same_memory;
pub mod statistics;
pub mod stderr;

pub use error::JobError;
pub use statistics::Statistics;
