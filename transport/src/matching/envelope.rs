//! What a message carries to be matched by, and what a receive asks for.

use refrain_ring::Rank;

/// The matching part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Communication context; messages never cross contexts.
    pub context: u32,
    /// The sender.
    pub source: Rank,
    /// The tag given by the sender.
    pub tag: i32,
}

/// The matching part of a receive or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Communication context; has no wildcard.
    pub context: u32,
    /// The sender, or `None` for any source.
    pub source: Option<Rank>,
    /// The tag, or `None` for any tag.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message with this envelope satisfies the pattern.
    #[inline]
    pub fn accepts(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }

    /// Whether the pattern names both source and tag.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact().is_some()
    }

    /// The only envelope that the pattern accepts, if it has no wildcard.
    #[inline]
    pub(super) fn exact(&self) -> Option<Envelope> {
        Some(Envelope {
            context: self.context,
            source: self.source?,
            tag: self.tag?,
        })
    }
}

impl From<Envelope> for Pattern {
    fn from(envelope: Envelope) -> Self {
        Self {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        }
    }
}
