//! Admits a new life at a replica, as a replicated log accepts the leader of a new term.
//!
//! A survey gives the life its [beginning](Beginning): the end of the log that it
//! continues, and the writer of the last determinant there. A replica whose log is the same
//! up to that number cuts what lies beyond it and keeps a *mark*: a [`Life`] that begins at
//! the log's end and has written nothing yet. Any other replica first copies the log of a
//! replica that has it ([`RankLog::follow`]), or does not admit the life. So a log that names
//! a life is that life's log up to its end. A survey finds the latest life that a quorum has
//! admitted, even if that life died before it wrote. EL-3, EL-5, FENCE-1

use super::{Life, RankLog, Refusal};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};

/// The beginning that a life states for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Beginning {
    /// The life.
    pub incarnation: Incarnation,
    /// Number of the life's first determinant.
    pub start: EventIndex,
    /// Clock of the determinant before `start`.
    pub clock_before: Clock,
    /// Incarnation that wrote the determinant before `start`.
    pub follows: Incarnation,
    /// Number of the first determinant that the life can still send; a replica must have all
    /// earlier ones. Never less than `start`.
    pub first_kept: EventIndex,
}

/// How a log fits a life that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fit {
    /// The life is admitted, and the log has all that the life cannot send again.
    Admitted,
    /// The log has all that the life begins with, and perhaps more: it must be cut and
    /// marked.
    Fits,
    /// The log must become like that of another replica first.
    Lacks,
}

impl RankLog {
    /// Whether the log is this life's up to its end. A first life has no mark: no life precedes
    /// it.
    pub fn is_of(&self, incarnation: Incarnation) -> bool {
        self.last_incarnation() == incarnation
    }

    /// The latest life that was admitted.
    pub fn last_incarnation(&self) -> Incarnation {
        self.last_life()
            .map_or(Incarnation(0), |life| life.incarnation)
    }

    /// Incarnation that wrote the determinant before `at`, if the log has that determinant.
    pub fn writer_before(&self, at: EventIndex) -> Option<Incarnation> {
        let before = self.lives.iter().rfind(|life| life.start < at);
        before
            .filter(|_| at <= self.end)
            .map(|life| life.incarnation)
    }

    /// Whether the log has, up to `at`, the same determinants as every log in which `writer`
    /// wrote the determinant before `at`. Determinants that a log has dropped were stable: all
    /// logs are the same there.
    pub fn matches(&self, at: EventIndex, writer: Incarnation) -> bool {
        at == self.first || (at > self.first && self.writer_before(at) == Some(writer))
    }

    /// How the log fits a life that begins.
    pub fn fit(&self, life: &Beginning) -> Fit {
        if self.is_of(life.incarnation) {
            return match self.end >= life.first_kept {
                true => Fit::Admitted,
                false => Fit::Lacks,
            };
        }
        match life.first_kept == life.start && self.matches(life.start, life.follows) {
            true => Fit::Fits,
            false => Fit::Lacks,
        }
    }

    /// Number up to which another replica may copy this log for that life; `None`: the log
    /// cannot be used.
    pub fn can_supply(&self, life: &Beginning) -> Option<EventIndex> {
        if self.incarnation > life.incarnation {
            // FENCE-1
            return None;
        }
        // Even if the life needs more: other replicas may have the rest.
        match self.is_of(life.incarnation) {
            true => Some(self.end),
            false => self.matches(life.start, life.follows).then_some(life.start),
        }
    }

    /// The number up to which both logs are the same. `None`: at the higher of their beginnings,
    /// they differ or one of them has already ended.
    pub fn common_end(&self, other: &Self) -> Option<EventIndex> {
        let base = self.first.max(other.first);
        if base > self.end || base > other.end {
            return None;
        }
        // Determinants that this log has dropped were stable, and so are the other's there.
        if other.first > self.first && self.writer_before(base) != other.writer_before(base) {
            return None;
        }
        // A number of a life has one content: where both logs have the life, they are the
        // same.
        let common = self.parts().filter_map(|(life, end)| {
            let theirs = other
                .parts()
                .find(|(it, _)| it.incarnation == life.incarnation);
            let end = end.min(theirs?.1);
            (end > life.start && end > base).then_some(end)
        });
        Some(common.max().unwrap_or(base))
    }

    /// Each life, and the end of its part of the log.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Life, EventIndex)> {
        let after = self.lives.iter().skip(1).map(|life| life.start);
        self.lives.iter().copied().zip(after.chain([self.end]))
    }

    /// Prepares the log to continue as `source` does, which [can
    /// supply](RankLog::can_supply) this life: cuts what differs, and drops what `source` has
    /// dropped. The caller then appends the source's batches from the log's end on.
    /// `clock_at`: see [`RankLog::cut`]. Returns whether the log has changed.
    ///
    /// # Errors
    /// When the log cannot be cut there; it is then unchanged.
    pub fn follow<E: From<Refusal>>(
        &mut self,
        rank: Rank,
        source: &Self,
        life: &Beginning,
        clock_at: impl FnOnce(EventIndex) -> Result<Option<Clock>, E>,
    ) -> Result<bool, E> {
        let Some(at) = self.common_end(source) else {
            if source.first <= self.first {
                let (end, first) = (source.end.0, self.first.0);
                return Err(Refusal::Gap {
                    rank: rank.0,
                    end,
                    first,
                }
                .into());
            }
            self.begin_like(source);
            return Ok(true);
        };
        let has_other_mark = self.last_life().is_some_and(|it| it.start >= at);
        // A log of the life is right up to its end, even if the source ends earlier. EL-1
        if self.is_of(life.incarnation) || at == self.end && !has_other_mark {
            return Ok(false);
        }
        let clock = match at == self.end {
            true => Some(self.last_clock),
            false => clock_at(at)?,
        };
        self.cut_at(rank, at, clock)?;
        Ok(true)
    }

    /// Empties the log and lets it continue where `source` begins. GC-1
    fn begin_like(&mut self, source: &Self) {
        let (first, clock) = (source.first, source.clock_before);
        self.trim(clock);
        (self.first, self.clock_before) = (first, clock);
        (self.end, self.last_clock) = (first, clock);
        self.lives.clone_from(&source.lives);
        self.lives.retain(|life| life.start < first);
    }

    /// Admits a life: cuts what lies beyond its beginning, and keeps a mark of it. Returns
    /// whether the log has changed. `clock_at`: see [`RankLog::cut`].
    ///
    /// # Errors
    /// When the log is not what the life begins with, or the life is not the latest; the log is
    /// then unchanged.
    pub fn admit<E: From<Refusal>>(
        &mut self,
        rank: Rank,
        life: &Beginning,
        clock_at: impl FnOnce(EventIndex) -> Result<Option<Clock>, E>,
    ) -> Result<bool, E> {
        if life.incarnation < self.incarnation {
            let (said, latest) = (life.incarnation.0, self.incarnation.0);
            let rank = rank.0;
            return Err(Refusal::Stale { rank, said, latest }.into());
        }
        let at = life.start;
        match self.fit(life) {
            Fit::Admitted => return Ok(false),
            Fit::Lacks => {
                let (first, end) = (life.first_kept.0, self.end.0);
                return Err(Refusal::Gap {
                    rank: rank.0,
                    end,
                    first,
                }
                .into());
            }
            Fit::Fits => {}
        }
        let clock = match at == self.end {
            true => Some(self.last_clock),
            false => clock_at(at)?,
        };
        if let Some(last) = clock
            && last != life.clock_before
        {
            let (rank, said) = (rank.0, life.clock_before.0);
            return Err(Refusal::OtherClock {
                rank,
                at: at.0,
                last: last.0,
                said,
            }
            .into());
        }
        self.cut_at(rank, at, clock)?;
        let (incarnation, start) = (life.incarnation, at);
        self.lives.push(Life { incarnation, start });
        Ok(true)
    }
}
