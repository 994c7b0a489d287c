//! Where a message goes.

use refrain_ring::Rank;

/// The destination and envelope of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTo {
    /// The receiver.
    pub rank: Rank,
    /// The context.
    pub context: u32,
    /// The tag.
    pub tag: i32,
    /// Whether the send completes only when its message is matched.
    pub synchronous: bool,
}

impl SendTo {
    /// Sets the tag.
    #[inline]
    #[must_use]
    pub fn tag(self, tag: i32) -> Self {
        Self { tag, ..self }
    }

    /// Sets the context. Messages match only within one context. Contexts from 0x80000000 on belong
    /// to groups, those from 0xffff0000 on to the library.
    #[inline]
    #[must_use]
    pub fn context(self, context: u32) -> Self {
        Self { context, ..self }
    }

    /// Makes the send synchronous: it completes only when its message is matched.
    #[inline]
    #[must_use]
    pub fn synchronous(self) -> Self {
        Self {
            synchronous: true,
            ..self
        }
    }
}
