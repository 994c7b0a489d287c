//! Errors of measurements, for the command line.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Exit status that shells expect of a program ended by Ctrl-C.
pub const STATUS_INTERRUPTED: u8 = 130;

/// Error of a measurement.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum BenchError {
    /// An option is invalid, or a job or a program failed.
    #[error("{problem}")]
    Failed {
        /// What failed.
        problem: String,
        /// What to do, or the last output of the failed program.
        #[help]
        help: Option<String>,
    },
    /// A system call failed.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: String,
        /// The system's error.
        error: io::Error,
    },
    /// Ctrl-C or another signal asked for the end.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// A failure without help.
    pub fn failed(problem: impl Into<String>) -> Self {
        Self::Failed {
            problem: problem.into(),
            help: None,
        }
    }

    /// An invalid value of an option.
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

/// The exit status of a command. An interruption is not an error.
///
/// # Errors
/// All errors but an interruption.
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
