//! Errors of libfabric.

use crate::sys::constants::{FI_EINVAL, FI_ENODATA};
use std::borrow::Cow;
use thiserror::Error as ThisError;

/// An error of libfabric or of one of its providers.
// One pointer large, so that results of operations fit into registers.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("cannot {}: {} (libfabric error {})", .0.attempted, .0.words, .0.code)]
pub struct Error(Box<Cause>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    attempted: Cow<'static, str>,
    code: i32,
    words: String,
}

impl Error {
    pub(crate) fn new(
        attempted: impl Into<Cow<'static, str>>,
        code: i32,
        words: impl Into<String>,
    ) -> Self {
        Self(Box::new(Cause {
            attempted: attempted.into(),
            code,
            words: words.into(),
        }))
    }

    /// An error of a request that must not reach a provider.
    #[cold]
    pub(crate) fn invalid(attempted: &'static str, words: impl Into<String>) -> Self {
        Self::new(attempted, FI_EINVAL, words)
    }

    /// What was attempted.
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// The libfabric error code, `FI_E…` of [`crate::constants`]; positive.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// The provider's error text, or libfabric's text for the code.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// Whether no provider offers what was requested.
    pub fn is_no_data(&self) -> bool {
        self.code() == FI_ENODATA
    }
}

/// The reason why an operation was not begun.
pub type Refused = crate::native::Refused<Error>;
