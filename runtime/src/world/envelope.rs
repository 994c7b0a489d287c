//! Where messages go and come from.

use super::World;
use crate::Error;
use refrain_ring::Rank;
use refrain_transport::engine::SendTo;
use refrain_transport::matching::Pattern;

/// Contexts from here on belong to the library.
pub(super) const CONTEXT_RESERVED_MIN: u32 = 0xffff_0000;

/// Where a message goes: made by [`to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub(super) rank: Rank,
    pub(super) tag: i32,
    pub(super) context: u32,
}

/// Where a message may come from: made by [`from`] and [`from_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub(super) rank: Option<Rank>,
    pub(super) tag: Option<i32>,
    pub(super) context: u32,
}

/// To `rank`, with tag 0 in context 0.
pub fn to(rank: u32) -> Destination {
    Destination {
        rank: Rank(rank),
        tag: 0,
        context: 0,
    }
}

/// From `rank`, with tag 0 in context 0.
pub fn from(rank: u32) -> Source {
    Source {
        rank: Some(Rank(rank)),
        tag: Some(0),
        context: 0,
    }
}

/// From any rank, with tag 0 in context 0.
pub fn from_any() -> Source {
    Source {
        rank: None,
        tag: Some(0),
        context: 0,
    }
}

impl Destination {
    /// With this tag.
    #[must_use]
    pub fn tag(self, tag: i32) -> Self {
        Self { tag, ..self }
    }

    /// In this context: messages of different contexts never meet. Contexts
    /// from 0xffff0000 on are the library's.
    #[must_use]
    pub fn context(self, context: u32) -> Self {
        Self { context, ..self }
    }
}

impl Source {
    /// With this tag.
    #[must_use]
    pub fn tag(self, tag: i32) -> Self {
        Self {
            tag: Some(tag),
            ..self
        }
    }

    /// With any tag.
    #[must_use]
    pub fn any_tag(self) -> Self {
        Self { tag: None, ..self }
    }

    /// In this context.
    #[must_use]
    pub fn context(self, context: u32) -> Self {
        Self { context, ..self }
    }
}

impl World {
    #[inline]
    pub(super) fn send_to(&self, to: Destination, synchronous: bool) -> Result<SendTo, Error> {
        super::forked::check()?;
        self.check_rank(to.rank)?;
        check_context(to.context)?;
        Ok(SendTo {
            rank: to.rank,
            context: to.context,
            tag: to.tag,
            synchronous,
        })
    }

    #[inline]
    pub(super) fn pattern(&self, from: Source) -> Result<Pattern, Error> {
        if let Some(rank) = from.rank {
            self.check_rank(rank)?;
        }
        check_context(from.context)?;
        Ok(Pattern {
            context: from.context,
            source: from.rank,
            tag: from.tag,
        })
    }

    #[inline]
    fn check_rank(&self, rank: Rank) -> Result<(), Error> {
        if rank.0 < self.size {
            Ok(())
        } else {
            Err(Error::NoSuchRank {
                rank,
                last: self.size - 1,
            })
        }
    }
}

#[inline]
fn check_context(context: u32) -> Result<(), Error> {
    if context < CONTEXT_RESERVED_MIN {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "context {context:#x} is the library's: use one below {CONTEXT_RESERVED_MIN:#x}"
    )))
}
