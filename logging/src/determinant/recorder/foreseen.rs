//! The next batch, made before its event happens.
//!
//! A rank that waits for a message has time; after the message arrives, its answer waits until
//! the match is stable. Most programs receive in a regular pattern. So while nothing arrives, the
//! batch of the next match is made (and placed, except its first word), as predicted from the
//! last two. If the match is as predicted, its batch is ready. If not, only idle time was
//! lost: no other process sees a predicted batch before its event has
//! happened, and batches are the same with and without prediction.

use crate::determinant::batch::BatchHeader;
use crate::determinant::{Match, Matched};
use core::hash::{Hash, Hasher};
use refrain_ring::{Clock, Ssn};

impl Match {
    /// The predicted next match: as far behind this one as this one is behind
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
    pub last: Option<Match>,
    pub before: Option<Match>,
}

impl Rhythm {
    pub fn next(&self) -> Option<Match> {
        self.last?.follow(self.before?)
    }
}

/// Hashes nothing: it affects only when a batch is made, not its contents.
impl Hash for Rhythm {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A batch that was made before its event: see
/// [`Recorder::foresee`](super::Recorder::foresee).
#[derive(Clone, Copy, Debug)]
pub struct Foreseen {
    pub(super) alone: Match,
    pub(super) header: BatchHeader,
}

impl Foreseen {
    /// The header of the batch.
    #[inline]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }
}
