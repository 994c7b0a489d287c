//! Attachments: bytes behind a message, in its record, that belong to the logging protocol and not to
//! the message. CAUSAL-1
//!
//! Only a message that is whole in one record has one: the message ends at the header's `extent`, and
//! the attachment is the rest of the payload. So neither needs a length of its own.

use crate::{Incarnation, Rank, RecordHeader, RecordKind};

/// A record in which events are to travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carriage {
    /// Its receiver.
    pub to: Rank,
    /// The receiver's life.
    pub life: Incarnation,
    /// Whether it may be the first one with events in its chunk of the log. CAUSAL-4
    pub may_be_first: bool,
    /// Room for the events, in bytes. Only a batch that is too long alone takes more.
    pub bytes_max: usize,
}

impl RecordHeader {
    /// Maximum length of an attachment in bytes: a short header on the wire has one byte for it.
    pub const ATTACHMENT_BYTES_MAX: usize = 255;

    /// Whether the record holds a whole message, with an attachment or without.
    #[inline]
    pub fn is_whole(&self) -> bool {
        let is_attached = self.flags & Self::ATTACHED != 0;
        self.kind == RecordKind::Eager
            && (u64::from(self.payload_bytes) == self.extent || is_attached)
    }

    /// Bytes of the attachment.
    #[inline]
    pub fn attached_bytes(&self) -> usize {
        match self.flags & Self::ATTACHED {
            0 => 0,
            _ => u64::from(self.payload_bytes).saturating_sub(self.extent) as usize,
        }
    }

    /// Splits a record into that of its message alone (header and payload), and the attachment, which
    /// is empty if there is none.
    #[inline]
    pub fn detach<'a>(&self, payload: &'a [u8]) -> (Self, &'a [u8], &'a [u8]) {
        let attached_bytes = self.attached_bytes().min(payload.len());
        let (message, attachment) = payload.split_at(payload.len() - attached_bytes);
        let header = Self {
            flags: self.flags & !Self::ATTACHED,
            payload_bytes: self.payload_bytes - attached_bytes as u32,
            ..*self
        };
        (header, message, attachment)
    }
}
