//! The event logger: where determinants become stable (docs/design/protocol.md, EL-1
//! to EL-5; docs/design/event-logger.md).
//!
//! A client (a rank) writes [batches](refrain_logging::determinant::batch) into
//! its own [`ring`] in the logger's memory: over shared memory by stores, over
//! libfabric by RMA writes. Where neither works, it sends them as messages over its
//! socket. The server drains the rings into the [`logbook`]: an
//! [`acceptor`], which decides which batches are accepted and is pure, over a [`store`] of
//! files. The job chooses the [`Level`] that a commit must reach before the gate opens;
//! with replicas, it must reach that level at a quorum of them.
//!
//! | module | what |
//! |---|---|
//! | `acceptor` | which batches of which lives are accepted; pure |
//! | `store` | files of batches, group commit |
//! | `logbook` | both together, in a server or read from a folder |
//! | `ring` | the clients' rings in the logger's memory |
//! | `message` | messages between client and server over a socket |
//! | `remote` | rings written by RMA, over libfabric |
//! | `server` | the process that serves |
//! | `client` | commits, quorum, reconnection; its core is pure |
//!
//! Knows nothing of: ranks' programs, launchers, message passing.

pub mod acceptor;
pub mod client;
#[cfg(feature = "server")]
pub mod logbook;
pub mod message;
pub mod remote;
pub mod ring;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;

use serde::{Deserialize, Serialize};

/// The level that a commit must reach at one logger before it counts there. EL-1
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// The memory of the logger's host: survives the death of any process, including
    /// the logger, but not the failure of that host.
    Placed,
    /// The logger's disk (`fdatasync`): also survives the loss of power.
    Durable,
}

impl Level {
    /// All levels, by their names on the command line.
    pub const ALL: [(&str, Level); 2] = [("placed", Level::Placed), ("durable", Level::Durable)];
}

/// Names one logger of a job, from 0. GATE-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoggerId(pub u32);

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path, to: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, to),
                false => to.push(path),
            }
        }
    }

    /// A text continued on the next source line is one sentence: consecutive blanks come
    /// from a line continuation without its backslash.
    #[test]
    fn no_text_contains_two_blanks_in_a_row() {
        let mut files = Vec::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut files,
        );
        assert!(files.len() > 10, "{files:?}");
        let two = " ".repeat(2);
        for file in files {
            let source = std::fs::read_to_string(&file).unwrap();
            for line in source.lines().map(str::trim) {
                let is_comment = line.starts_with("//");
                assert!(is_comment || !line.contains(&two), "{file:?}: {line}");
            }
        }
    }
}
