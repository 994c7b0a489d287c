//! What can go wrong.

use crate::constants::{FI_EAGAIN, FI_EINVAL, FI_ENODATA, FI_ENOSYS, FI_EOVERRUN, FI_ETRUNC};
use std::borrow::Cow;
use thiserror::Error as ThisError;

/// An error of libfabric or of one of its providers.
// One word large: results of operations travel in registers.
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

    /// A request that must not reach a provider.
    #[cold]
    pub(crate) fn invalid(attempted: &'static str, words: impl Into<String>) -> Self {
        Self::new(attempted, FI_EINVAL, words)
    }

    /// What was attempted.
    pub fn attempted(&self) -> &str {
        &self.0.attempted
    }

    /// Which of libfabric's errors it is: `FI_E…` of [`crate::constants`],
    /// positive.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// The provider's own words, or libfabric's for the code.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// Try again after reading the completion queue.
    pub fn is_again(&self) -> bool {
        self.code() == FI_EAGAIN
    }

    /// No provider offers what was asked for.
    pub fn is_no_data(&self) -> bool {
        self.code() == FI_ENODATA
    }

    /// The provider does not have the call.
    pub fn is_not_supported(&self) -> bool {
        matches!(
            self.code(),
            FI_ENOSYS | crate::constants::FI_EOPNOTSUPP | crate::constants::FI_ENOPROTOOPT
        )
    }

    /// The connection to the peer is gone, or never came about.
    pub fn is_disconnected(&self) -> bool {
        use crate::constants::*;
        matches!(
            self.code(),
            FI_ENOTCONN
                | FI_ECONNRESET
                | FI_ECONNREFUSED
                | FI_ECONNABORTED
                | FI_ESHUTDOWN
                | FI_EHOSTUNREACH
                | FI_EHOSTDOWN
                | FI_ENETUNREACH
                | FI_ETIMEDOUT
                | FI_EIO
        )
    }

    /// The operation was given up because its endpoint or its peer was closed.
    pub fn is_canceled(&self) -> bool {
        self.code() == crate::constants::FI_ECANCELED
    }

    /// A message was longer than the receive that it met.
    pub fn is_truncated(&self) -> bool {
        self.code() == FI_ETRUNC
    }

    /// The completion queue lost entries: nothing in flight can be trusted.
    pub fn is_overrun(&self) -> bool {
        self.code() == FI_EOVERRUN
    }
}

/// Why an operation was not begun.
pub type Refused = crate::native::Refused<Error>;
