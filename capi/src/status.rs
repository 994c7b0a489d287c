//! What C learns of a message.

use refrain::Error;

/// `refrain_status` of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    bytes: u64,
    source: i32,
    tag: i32,
    cancelled: i32,
    reserved: i32,
}

const _: () = assert!(size_of::<Status>() == 24 && align_of::<Status>() == 8);

impl Status {
    fn new(source: u32, tag: i32, bytes: u64) -> Self {
        Self {
            bytes,
            source: source as i32,
            tag,
            ..Self::default()
        }
    }

    /// Of a message that was longer than its buffer; `None` for other errors.
    pub fn of_truncated(error: &Error) -> Option<Self> {
        match *error {
            Error::Truncated {
                source_rank,
                tag,
                message_bytes,
                ..
            } => Some(Self::new(source_rank.0, tag, message_bytes)),
            _ => None,
        }
    }
}

impl From<refrain::Status> for Status {
    fn from(status: refrain::Status) -> Self {
        Self {
            cancelled: status.cancelled.into(),
            ..Self::new(status.source.0, status.tag, status.bytes)
        }
    }
}
