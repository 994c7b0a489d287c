//! Sources and destinations of messages.

use super::World;
use crate::Error;
use refrain_ring::Rank;
use refrain_transport::engine::SendTo;
use refrain_transport::matching::Pattern;

/// Contexts from this number on are reserved for the library.
pub(super) const CONTEXT_RESERVED_MIN: u32 = refrain_rank::previous_logs::CONTEXT_RESERVED_MIN;

/// The messages that a receive or probe accepts; made by [`from`] and [`from_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub(super) rank: Option<Rank>,
    pub(super) tag: Option<i32>,
    pub(super) context: u32,
}

/// A send to `rank`, with tag 0 in context 0.
pub fn to(rank: u32) -> SendTo {
    SendTo {
        rank: Rank(rank),
        tag: 0,
        context: 0,
        synchronous: false,
    }
}

/// Messages from `rank`, with tag 0 in context 0.
pub fn from(rank: u32) -> Source {
    Source {
        rank: Some(Rank(rank)),
        tag: Some(0),
        context: 0,
    }
}

/// Messages from any rank, with tag 0 in context 0.
pub fn from_any() -> Source {
    Source {
        rank: None,
        tag: Some(0),
        context: 0,
    }
}

impl Source {
    /// Selects this tag.
    #[must_use]
    pub fn tag(self, tag: i32) -> Self {
        Self {
            tag: Some(tag),
            ..self
        }
    }

    /// Selects any tag.
    #[must_use]
    pub fn any_tag(self) -> Self {
        Self { tag: None, ..self }
    }

    /// Selects this context. Contexts from 0x80000000 on belong to groups.
    #[must_use]
    pub fn context(self, context: u32) -> Self {
        Self { context, ..self }
    }
}

impl World {
    #[inline]
    pub(super) fn pattern(&self, from: Source) -> Result<Pattern, Error> {
        if let Some(rank) = from.rank {
            self.check(rank, from.context)?;
        } else {
            self.check(self.rank, from.context)?;
        }
        Ok(Pattern {
            context: from.context,
            source: from.rank,
            tag: from.tag,
        })
    }
}
