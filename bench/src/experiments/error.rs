//! What can go wrong in an experiment, in words for the command line.

use crate::interrupt::Interrupted;
use std::path::PathBuf;

/// Why an experiment did not begin or did not end well.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum ExperimentError {
    /// An option cannot be used.
    #[error("{option}: {problem}")]
    Option {
        /// As written on the command line.
        option: &'static str,
        /// What is wrong with its value.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// The drawing library refused.
    #[error("cannot draw: {0}")]
    Drawing(String),
    /// The system refused something that every experiment needs.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: &'static str,
        /// The system's words.
        error: std::io::Error,
    },
    /// A job did not do what it must.
    #[error("{problem}: {job}")]
    Job {
        /// As it is typed.
        job: String,
        /// What is wrong.
        problem: String,
        /// What it printed on standard error, the end of it.
        #[help]
        said: String,
    },
    /// Ctrl-C or a request to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<Interrupted> for ExperimentError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl ExperimentError {
    pub(super) fn system(attempted: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { attempted, error }
    }
}
