//! Errors of verbs.

use std::borrow::Cow;
use thiserror::Error as ThisError;

/// An error of libibverbs, a device or the network.
// One pointer large, so that results of operations fit into registers.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("cannot {}: {}", .0.attempted, .0.words)]
pub struct Error(Box<Cause>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    attempted: Cow<'static, str>,
    words: String,
    errno: i32,
}

impl Error {
    /// An error that this crate detects.
    #[cold]
    pub(crate) fn invalid(
        attempted: impl Into<Cow<'static, str>>,
        words: impl Into<String>,
    ) -> Self {
        Self(Box::new(Cause {
            attempted: attempted.into(),
            words: words.into(),
            errno: libc::EINVAL,
        }))
    }

    /// An error of a call, with an error number of the system.
    #[cold]
    pub(crate) fn system(attempted: impl Into<Cow<'static, str>>, errno: i32) -> Self {
        let words = std::io::Error::from_raw_os_error(errno).to_string();
        Self(Box::new(Cause {
            attempted: attempted.into(),
            words,
            errno,
        }))
    }

    /// An error of an operation that was begun.
    #[cold]
    pub(crate) fn completed(attempted: &'static str, words: String, errno: i32) -> Self {
        Self(Box::new(Cause {
            attempted: attempted.into(),
            words,
            errno,
        }))
    }

    /// The same reason, for another attempted operation.
    #[must_use]
    pub(crate) fn of(mut self, attempted: &'static str) -> Self {
        self.0.attempted = attempted.into();
        self
    }

    /// The same error with a remedy.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: &str) -> Self {
        self.0.words = format!("{}; {remedy}", self.0.words);
        self
    }

    /// The attempted operation, to be read after "cannot".
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// The reason, and what to do.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// The system's error number; `EINVAL` for errors that this crate detects.
    pub fn errno(&self) -> i32 {
        self.0.errno
    }
}

/// The reason why an operation was not begun.
pub type Refused = refrain_libfabric::native::Refused<Error>;
