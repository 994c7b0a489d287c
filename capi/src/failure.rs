//! The failure of a call from C: a code and a text.

use core::fmt;
use refrain::{Ended, Error};

/// `enum refrain_error` of the header, without `REFRAIN_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Argument = 1,
    World = 2,
    Request = 3,
    Rank = 4,
    Truncated = 5,
    Open = 6,
    LogFull = 7,
    Events = 8,
    Fabric = 9,
    Engine = 10,
    Control = 11,
    Aborted = 12,
    Config = 13,
    Checkpoint = 14,
    Internal = 15,
}

impl Code {
    const ALL: [(Self, &core::ffi::CStr); 15] = [
        (Self::Argument, c"REFRAIN_ERR_ARGUMENT"),
        (Self::World, c"REFRAIN_ERR_WORLD"),
        (Self::Request, c"REFRAIN_ERR_REQUEST"),
        (Self::Rank, c"REFRAIN_ERR_RANK"),
        (Self::Truncated, c"REFRAIN_ERR_TRUNCATED"),
        (Self::Open, c"REFRAIN_ERR_OPEN"),
        (Self::LogFull, c"REFRAIN_ERR_LOG_FULL"),
        (Self::Events, c"REFRAIN_ERR_EVENTS"),
        (Self::Fabric, c"REFRAIN_ERR_FABRIC"),
        (Self::Engine, c"REFRAIN_ERR_ENGINE"),
        (Self::Control, c"REFRAIN_ERR_CONTROL"),
        (Self::Aborted, c"REFRAIN_ERR_ABORTED"),
        (Self::Config, c"REFRAIN_ERR_CONFIG"),
        (Self::Checkpoint, c"REFRAIN_ERR_CHECKPOINT"),
        (Self::Internal, c"REFRAIN_ERR_INTERNAL"),
    ];

    /// The name of a code in the header.
    pub fn name_of(code: i32) -> &'static core::ffi::CStr {
        match Self::ALL.iter().find(|(known, _)| *known as i32 == code) {
            Some((_, name)) => name,
            None if code == 0 => c"REFRAIN_OK",
            None => c"unknown",
        }
    }
}

/// An error as a code and a text.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub text: String,
}

impl Failure {
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self { code, text }
    }

    /// Failure for an invalid argument.
    pub fn argument(text: impl fmt::Display) -> Self {
        Self::new(Code::Argument, text)
    }
}

/// Fails if the message of the request was truncated.
pub fn whole(ended: &Ended) -> Result<(), Failure> {
    match ended.status() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(
            Code::Truncated,
            format_args!("request {} of the call: {error}", ended.index),
        )),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Truncated { .. } | Error::TooLong(_) => Code::Truncated,
            Error::Request { .. } => Code::Request,
            Error::NoSuchRank { .. } => Code::Rank,
            Error::Argument(_) => Code::Argument,
            Error::LogFull(_) | Error::EventsFull(_) => Code::LogFull,
            Error::EventsNotStable { .. } => Code::Events,
            Error::Fabric(_) => Code::Fabric,
            Error::Engine(_) => Code::Engine,
            Error::Control { .. } => Code::Control,
            Error::Aborted(_) => Code::Aborted,
            Error::Forked => Code::World,
            Error::Config(_) => Code::Config,
        };
        Self::new(code, error)
    }
}
