//! Errors of measurements, for the command line.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What a shell expects of a program that Ctrl-C ended.
pub const STATUS_INTERRUPTED: u8 = 130;

/// Why a measurement did not begin or did not end well.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum BenchError {
    /// An option cannot be used, or a job or a program failed.
    #[error("{problem}")]
    Failed {
        /// What failed.
        problem: String,
        /// What to do, or the last output of what failed.
        #[help]
        help: Option<String>,
    },
    /// The system refused a call.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: String,
        /// The system's error.
        error: io::Error,
    },
    /// Ctrl-C or a signal to end.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// A failure with nothing to add.
    pub fn failed(problem: impl Into<String>) -> Self {
        Self::Failed {
            problem: problem.into(),
            help: None,
        }
    }

    /// The value of an option cannot be used.
    pub fn option(option: &str, problem: impl Display, help: impl Into<String>) -> Self {
        Self::Failed {
            problem: format!("{option}: {problem}"),
            help: Some(help.into()),
        }
    }

    /// Adds what was attempted to an error of the system.
    pub fn system<E: Into<io::Error>>(attempted: impl Into<String>) -> impl FnOnce(E) -> Self {
        let attempted = attempted.into();
        move |error| Self::System {
            attempted,
            error: error.into(),
        }
    }

    /// Adds the name of a file that cannot be written.
    pub fn write<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
        Self::system(format!("cannot write {}", path.display()))
    }
}

/// The exit status of a command. An interruption is no error.
///
/// # Errors
/// All others.
pub fn status(result: Result<(), BenchError>) -> miette::Result<ExitCode> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(BenchError::Interrupted) => {
            eprintln!("interrupted");
            Ok(ExitCode::from(STATUS_INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}
