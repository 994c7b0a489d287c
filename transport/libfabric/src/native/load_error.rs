//! The names of a library, and the reasons why it cannot be used.

use std::path::Path;
use thiserror::Error as ThisError;

/// The names of a library, for loading it and for errors.
#[derive(Debug)]
pub struct Native {
    /// The name of the library: `libfabric`.
    pub name: &'static str,
    /// The file that the loader looks for by default: `libfabric.so.1`.
    pub file: &'static str,
    /// The versions that work: `libfabric 1.17 or newer`.
    pub wanted: &'static str,
    /// The package to install: `libfabric 1.17 or newer (Debian: libfabric1)`.
    pub install: &'static str,
}

/// A library cannot be used: the file, its problem, and what to do about it.
#[derive(Debug, ThisError)]
#[error("cannot {}: {}", .0.attempted, .0.words)]
pub struct LoadError(Box<Cause>);

#[derive(Debug)]
struct Cause {
    attempted: String,
    words: String,
    obstacle: Obstacle,
}

/// The problem with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The file does not exist.
    Missing {
        /// The loader's error text.
        words: String,
    },
    /// The file cannot be loaded: it is no library, it is for another machine, or it needs other
    /// libraries that are missing.
    NotLoadable {
        /// The loader's error text.
        words: String,
    },
    /// The file is another library, or a very old version.
    Another {
        /// The first missing symbol, with its version.
        symbol: String,
    },
    /// The library is too old.
    TooOld {
        /// The version of the library.
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

    /// The attempted operation, to be read after "cannot".
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// The file, its problem, and what to do.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// The problem with the file.
    pub fn obstacle(&self) -> &Obstacle {
        &self.0.obstacle
    }
}
