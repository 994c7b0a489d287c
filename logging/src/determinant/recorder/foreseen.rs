//! The batch that comes next, made before its event happens.
//!
//! A rank that waits for a message has time, and one that has just been given it has
//! none: its answer waits until the match is stable. Most programs receive in a
//! rhythm. So while nothing arrives, the batch is made (and placed, but for its first
//! word) that says the next match as the last two let expect it; when the match is
//! just that, the batch is there. When it is another, nothing was lost but time that
//! nobody used: no batch that was foreseen is seen by anybody before its event has
//! happened, and batches are the same with and without.

use super::super::Matched;
use super::super::batch::BatchHeader;
use core::hash::{Hash, Hasher};
use refrain_ring::{Clock, Ssn};

/// A match that is all that its batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alone {
    pub at: Clock,
    pub matched: Matched,
    pub is_named: bool,
    pub is_completed: bool,
}

impl Alone {
    /// What comes next, if it is as far behind this one as this one is behind
    /// `before`, from the same source.
    fn follow(self, before: Self) -> Option<Self> {
        let step = |now: Clock, before: Clock| {
            let step = now.0.checked_sub(before.0)?;
            Some(Clock(now.0.checked_add(step)?))
        };
        let (now, then) = (self.matched, before.matched);
        let is_alike = (now.source, self.is_named, self.is_completed)
            == (then.source, before.is_named, before.is_completed)
            && then.ssn.0.checked_add(1) == Some(now.ssn.0);
        if !is_alike {
            return None;
        }
        Some(Self {
            at: step(self.at, before.at)?,
            matched: Matched {
                request: step(now.request, then.request)?,
                source: now.source,
                ssn: Ssn(now.ssn.0.checked_add(1)?),
            },
            ..self
        })
    }
}

/// The last two matches that were alone in their batches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    last: Option<Alone>,
    before: Option<Alone>,
}

impl Rhythm {
    #[inline]
    pub fn note(&mut self, alone: Alone) {
        self.before = self.last.replace(alone);
    }

    pub fn next(&self) -> Option<Alone> {
        self.last?.follow(self.before?)
    }
}

/// It decides only how early a batch is made, never what it says.
impl Hash for Rhythm {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A batch that was made before its event: see
/// [`Recorder::foresee`](super::Recorder::foresee).
#[derive(Clone, Copy, Debug)]
pub struct Foreseen {
    pub(super) alone: Alone,
    pub(super) header: BatchHeader,
}

impl Foreseen {
    /// What the batch says of itself.
    #[inline]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }
}
