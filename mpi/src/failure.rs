//! The failure of a call: an error class and a text.

use super::exports as abi;
use core::ffi::c_int;
use core::fmt;
use refrain::Error;

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// An error class, or a code of the program.
    pub code: c_int,
    pub text: String,
    /// The rank cannot continue, whatever the error handler.
    pub is_final: bool,
}

pub type Result<T = ()> = core::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: c_int, text: impl fmt::Display) -> Self {
        Self {
            code,
            text: text.to_string(),
            is_final: false,
        }
    }

    pub fn argument(text: impl fmt::Display) -> Self {
        Self::new(abi::ERR_ARG, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Truncated { .. } | Error::TooLong(_) => abi::ERR_TRUNCATE,
            Error::Request { .. } => abi::ERR_REQUEST,
            Error::NoSuchRank { .. } => abi::ERR_RANK,
            Error::Argument(_) => abi::ERR_ARG,
            Error::LogFull(_) | Error::EventsFull(_) => abi::ERR_NO_MEM,
            _ => abi::ERR_OTHER,
        };
        Self {
            is_final: matches!(error, Error::Engine(_)),
            ..Self::new(code, error)
        }
    }
}
