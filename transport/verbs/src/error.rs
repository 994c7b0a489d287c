//! What can go wrong.

use std::borrow::Cow;
use thiserror::Error as ThisError;

/// What libibverbs, a device or the network refused.
// One word large: results of operations travel in registers.
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
    /// An error of this crate.
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

    /// A call that failed with an error number of the system.
    #[cold]
    pub(crate) fn system(attempted: impl Into<Cow<'static, str>>, errno: i32) -> Self {
        let words = std::io::Error::from_raw_os_error(errno).to_string();
        Self(Box::new(Cause {
            attempted: attempted.into(),
            words,
            errno,
        }))
    }

    /// An operation that was begun and failed.
    #[cold]
    pub(crate) fn completed(attempted: &'static str, words: String, errno: i32) -> Self {
        Self(Box::new(Cause {
            attempted: attempted.into(),
            words,
            errno,
        }))
    }

    /// The same reason, for another attempt.
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

    /// What was attempted, to be read behind "cannot".
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// Why not, and what to do.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// The system's error number, `EINVAL` for what this crate refuses itself.
    pub fn errno(&self) -> i32 {
        self.0.errno
    }
}

/// Why an operation was not begun.
pub type Refused = refrain_libfabric::native::Refused<Error>;
