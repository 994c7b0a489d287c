//! The status of a message, as C reads it.

use refrain::{Ended, Error};

/// `refrain_status` of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    bytes: u64,
    source: i32,
    tag: i32,
    cancelled: i32,
    truncated: i32,
}

const _: () = assert!(size_of::<Status>() == 24 && align_of::<Status>() == 8);

impl Status {
    /// The status of a truncated message; `None` for other errors.
    pub fn of_truncated(error: &Error) -> Option<Self> {
        match *error {
            Error::Truncated {
                source_rank,
                tag,
                message_bytes,
                ..
            } => Some(Self {
                bytes: message_bytes,
                source: source_rank.0 as i32,
                tag,
                cancelled: 0,
                truncated: 1,
            }),
            _ => None,
        }
    }
}

impl From<refrain::Status> for Status {
    fn from(status: refrain::Status) -> Self {
        Self {
            bytes: status.bytes,
            source: status.source.0 as i32,
            tag: status.tag,
            cancelled: status.cancelled.into(),
            truncated: 0,
        }
    }
}

impl From<&Ended> for Status {
    fn from(ended: &Ended) -> Self {
        Self {
            truncated: ended.truncated_to.is_some().into(),
            ..ended.status.into()
        }
    }
}
