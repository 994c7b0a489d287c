//! The names of a library, and why it cannot be used.

use std::path::Path;
use thiserror::Error as ThisError;

/// The names of a library, for loading it and for errors.
#[derive(Debug)]
pub struct Native {
    /// Its name: `libfabric`.
    pub name: &'static str,
    /// The file that the loader looks for by default: `libfabric.so.1`.
    pub file: &'static str,
    /// The versions that work: `libfabric 1.17 or newer`.
    pub wanted: &'static str,
    /// What to install: `libfabric 1.17 or newer (Debian: libfabric1)`.
    pub install: &'static str,
}

/// Why a library cannot be used: the file, what is wrong with it, and what to do.
#[derive(Debug, ThisError)]
#[error("cannot {}: {}", .0.attempted, .0.words)]
pub struct LoadError(Box<Cause>);

#[derive(Debug)]
struct Cause {
    attempted: String,
    words: String,
    obstacle: Obstacle,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It does not exist.
    Missing {
        /// The loader's words.
        words: String,
    },
    /// It cannot be loaded: it is no library, one for another machine, or one that needs
    /// other libraries that are missing.
    NotLoadable {
        /// The loader's words.
        words: String,
    },
    /// It is another library, or a very old version.
    Another {
        /// The first missing symbol, with its version.
        symbol: String,
    },
    /// It is too old.
    TooOld {
        /// Its version.
        version: String,
    },
}

impl LoadError {
    #[cold]
    pub(crate) fn new(native: &Native, tried: &Path, obstacle: Obstacle) -> Self {
        let tried = tried.display();
        let Native {
            name,
            wanted,
            install,
            ..
        } = native;
        let words = match &obstacle {
            Obstacle::Missing { words } => {
                format!("{tried} was not found ({words}); install {install}, or name its file")
            }
            Obstacle::NotLoadable { words } => format!(
                "{tried} is no library that can be loaded here ({words}); name the file of {wanted}"
            ),
            Obstacle::Another { symbol } => format!(
                "{tried} is a library but not {name} (it has no {symbol}); name the file of {wanted}"
            ),
            Obstacle::TooOld { version } => {
                format!("{tried} has version {version}; install {install}, or name its file")
            }
        };
        Self(Box::new(Cause {
            attempted: format!("load {name}"),
            words,
            obstacle,
        }))
    }

    /// What was attempted, to be read behind "cannot".
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// The file, the reason, and what to do.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// What is wrong with the file.
    pub fn obstacle(&self) -> &Obstacle {
        &self.0.obstacle
    }
}
