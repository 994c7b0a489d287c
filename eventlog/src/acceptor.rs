//! Decides which batches a logger accepts. Pure, and the same code in the server, the
//! simulator and the model checker.
//!
//! Each (job, rank) has a [`RankLog`]: the latest incarnation, the number of the first
//! determinant that is kept, and the end of the log. A batch is taken if it is
//! of that incarnation and continues at the log's end. A batch that the log already has is
//! taken again without effect (GATE-3: sending again is idempotent). Any other batch is
//! refused. A hello with a higher incarnation fences all earlier lives (FENCE-1). Before the
//! new life may write, it is [admitted](RankLog::admit): what an earlier life wrote beyond
//! what the new life has recovered was never stable, and is cut.
//!
//! A life gives each of its numbers to one determinant only. So (incarnation, number)
//! names the same content on all replicas, and a log is described by the numbers at which
//! its lives begin ([`Life`]), as a replicated log is by its terms.

mod admission;

pub use admission::{Beginning, Fit};

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchError, BatchHeader, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The outcome of a batch that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The batch was appended to the log.
    Taken,
    /// The log already had the batch: acknowledge it again. GATE-3
    Known,
}

/// Why a hello or a batch is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The rank is not registered: it has sent no hello.
    #[error("rank {rank} of job {job:016x} is not registered: send Hello first")]
    UnknownRank {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// The incarnation is fenced. FENCE-1
    #[error("incarnation {said} of rank {rank} is fenced: incarnation {latest} has taken over")]
    Stale {
        /// The rank.
        rank: u32,
        /// Incarnation of the client or batch.
        said: u32,
        /// Latest incarnation of the rank.
        latest: u32,
    },
    /// The incarnation has sent no hello.
    #[error(
        "incarnation {said} of rank {rank} is not registered, {latest} is the latest: send Hello first"
    )]
    UnknownIncarnation {
        /// The rank.
        rank: u32,
        /// Incarnation of the client or batch.
        said: u32,
        /// Latest incarnation of the rank.
        latest: u32,
    },
    /// Determinants before the batch are missing.
    #[error("determinants {end} to {first} of rank {rank} are missing before this batch")]
    Gap {
        /// The rank.
        rank: u32,
        /// Where the log ends.
        end: u64,
        /// Where the batch begins.
        first: u64,
    },
    /// The batch begins inside the log, and differs from it.
    #[error(
        "a batch of determinants {first} to {batch_end} of rank {rank} does not fit its log, \
         which ends at {end}"
    )]
    Overlap {
        /// The rank.
        rank: u32,
        /// Where the batch begins.
        first: u64,
        /// Where the batch ends.
        batch_end: u64,
        /// Where the log ends.
        end: u64,
    },
    /// The batch's clocks begin before the log's last clock.
    #[error("the clock of rank {rank} goes back from {last} to {said}")]
    ClockBack {
        /// The rank.
        rank: u32,
        /// Clock at the end of the log.
        last: u64,
        /// First clock of the batch.
        said: u64,
    },
    /// The clock that a new life claims for the determinant before its beginning differs from
    /// the log's.
    #[error(
        "rank {rank} claims clock {said} for the last event before determinant {at}: its log has clock {last}"
    )]
    OtherClock {
        /// The rank.
        rank: u32,
        /// Where the life begins.
        at: u64,
        /// The log's clock before that.
        last: u64,
        /// The clock that the life claims.
        said: u64,
    },
    /// A later life begins before the first determinant that is kept.
    #[error(
        "determinant {first} of rank {rank} cannot be written again: a published checkpoint covers all determinants before {kept}"
    )]
    Trimmed {
        /// The rank.
        rank: u32,
        /// Where the batch begins.
        first: u64,
        /// Number of the first determinant that may be written again.
        kept: u64,
    },
    /// A later life begins inside a batch of an earlier one.
    #[error("no batch of rank {rank} ends before determinant {first}: its log cannot be cut there")]
    NoBoundary {
        /// The rank.
        rank: u32,
        /// Where the batch begins.
        first: u64,
    },
    /// The batch is of another job than the hello.
    #[error("this batch is of another job (tag {tag:08x}) than {job:016x}")]
    OtherJob {
        /// The job of the hello.
        job: u64,
        /// The tag of the batch.
        tag: u32,
    },
    /// The bytes are not a valid batch.
    #[error("this is no batch: {0}")]
    Unreadable(#[from] BatchError),
    /// Too many bytes wait to be written.
    #[error("{unwritten_bytes} bytes wait to be written: send it again later")]
    Busy {
        /// Bytes that wait to be written.
        unwritten_bytes: u64,
    },
    /// The store has failed.
    #[error("{reason}")]
    Store {
        /// Its error.
        reason: String,
    },
}

impl Refusal {
    /// Whether the same batch or hello may be accepted later, without further action of the
    /// client.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// Where a life's part of a log begins; it ends where the next begins. Only the last may
/// be empty: that life was admitted, and has written nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Life {
    /// Which life.
    pub incarnation: Incarnation,
    /// Number of the first determinant that it wrote, or will write.
    pub start: EventIndex,
}

/// The sender of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The rank itself: only its latest life may send batches.
    Writer,
    /// Another replica of the shard: copies of batches of any life.
    Replica,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Append the batch.
    Take,
    /// Do nothing: the log has the batch.
    Known,
    /// Cut the log at the batch's first number, then append it.
    CutAndTake,
}

/// A logger's log of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankLog {
    /// Latest incarnation that sent a hello; all earlier ones are fenced.
    pub incarnation: Incarnation,
    /// Number of the first determinant that is still kept.
    pub first: EventIndex,
    /// Clock of the determinant before `first`.
    pub clock_before: Clock,
    /// One past the number of the last determinant.
    pub end: EventIndex,
    /// Clock of the last determinant.
    pub last_clock: Clock,
    /// Determinants with at most this clock need not be kept. Not sent in messages. GC-1
    #[serde(skip)]
    pub trimmed: Clock,
    /// The lives that wrote the log; start numbers and incarnations rise.
    pub lives: Vec<Life>,
}

impl RankLog {
    /// The life that was admitted last. A first life is listed only once it has written.
    pub fn last_life(&self) -> Option<Life> {
        self.lives.last().copied()
    }

    /// Registers a life. Returns whether it is a new one. FENCE-1
    ///
    /// # Errors
    /// When a later life has registered.
    pub fn hello(&mut self, rank: Rank, incarnation: Incarnation) -> Result<bool, Refusal> {
        if incarnation < self.incarnation {
            return Err(Refusal::Stale {
                rank: rank.0,
                said: incarnation.0,
                latest: self.incarnation.0,
            });
        }
        let is_new = incarnation > self.incarnation;
        self.incarnation = incarnation;
        Ok(is_new)
    }

    /// Decides what to do with a batch.
    ///
    /// # Errors
    /// When it is refused.
    pub fn judge(&self, batch: &BatchHeader, origin: Origin) -> Result<Step, Refusal> {
        let rank = batch.rank.0;
        self.check_life(batch, origin)?;
        let (said, latest) = (Some(batch.incarnation), self.lives.last());
        let overlap = Refusal::Overlap {
            rank,
            first: batch.first.0,
            batch_end: batch.end().0,
            end: self.end.0,
        };
        if said < latest.map(|life| life.incarnation) {
            // Only copies: of a life that has ended in this log, whose beginning may be
            // given up.
            return match batch.end() <= self.first || self.has(batch) {
                true => Ok(Step::Known),
                false => Err(overlap),
            };
        }
        if batch.first > self.end {
            return Err(Refusal::Gap {
                rank,
                end: self.end.0,
                first: batch.first.0,
            });
        }
        if batch.first == self.end {
            return self
                .check_clock(batch, self.last_clock)
                .map(|()| Step::Take);
        }
        if said > latest.map(|life| life.incarnation) {
            return match batch.first < self.first {
                true => Err(Refusal::Trimmed {
                    rank,
                    first: batch.first.0,
                    kept: self.first.0,
                }),
                false => Ok(Step::CutAndTake),
            };
        }
        match self.has(batch) {
            true => Ok(Step::Known),
            false => Err(overlap),
        }
    }

    fn check_life(&self, batch: &BatchHeader, origin: Origin) -> Result<(), Refusal> {
        let (rank, said, latest) = (batch.rank.0, batch.incarnation.0, self.incarnation.0);
        if said > latest {
            return Err(Refusal::UnknownIncarnation { rank, said, latest });
        }
        // FENCE-1
        if said < latest && origin == Origin::Writer {
            return Err(Refusal::Stale { rank, said, latest });
        }
        Ok(())
    }

    fn check_clock(&self, batch: &BatchHeader, last: Clock) -> Result<(), Refusal> {
        match batch.first_clock < last {
            true => Err(Refusal::ClockBack {
                rank: batch.rank.0,
                last: last.0,
                said: batch.first_clock.0,
            }),
            false => Ok(()),
        }
    }

    /// Whether the log has, or had before it was trimmed, exactly these determinants:
    /// what its life wrote in the part that is that life's.
    pub fn has(&self, batch: &BatchHeader) -> bool {
        self.parts().any(|(life, end)| {
            life.incarnation == batch.incarnation && life.start <= batch.first && batch.end() <= end
        })
    }

    /// Cuts the log so that it ends where a batch begins. `clock` is that of the
    /// determinant before the batch; `None`: no batch of the log ends there.
    ///
    /// # Errors
    /// When the log cannot be cut there; it is then unchanged.
    pub fn cut(&mut self, batch: &BatchHeader, clock: Option<Clock>) -> Result<(), Refusal> {
        if let Some(clock) = clock {
            self.check_clock(batch, clock)?;
        }
        self.cut_at(batch.rank, batch.first, clock)
    }

    fn cut_at(&mut self, rank: Rank, at: EventIndex, clock: Option<Clock>) -> Result<(), Refusal> {
        let (rank, first) = (rank.0, at.0);
        let clock = clock.ok_or(Refusal::NoBoundary { rank, first })?;
        // A stable checkpoint covers what would be cut: so it was stable.
        if at < self.first || clock < self.trimmed.min(self.last_clock) {
            let kept = self.first.0;
            return Err(Refusal::Trimmed { rank, first, kept });
        }
        self.lives.retain(|life| life.start < at);
        self.end = at;
        self.last_clock = clock;
        Ok(())
    }

    /// Appends a batch that was [judged](RankLog::judge).
    pub fn take(&mut self, batch: &BatchHeader) {
        debug_assert_eq!(batch.first, self.end);
        if self.lives.last().map(|life| life.incarnation) != Some(batch.incarnation) {
            // A life that has written nothing is removed when the next one writes.
            self.lives.retain(|life| life.start < batch.first);
            self.lives.push(Life {
                incarnation: batch.incarnation,
                start: batch.first,
            });
        }
        self.end = batch.end();
        self.last_clock = batch.last_clock;
    }

    /// Lets determinants with at most this clock be removed. Returns whether more may be removed
    /// than before. GC-1
    pub fn trim(&mut self, clock: Clock) -> bool {
        let is_new = clock > self.trimmed;
        self.trimmed = self.trimmed.max(clock);
        is_new
    }

    /// Drops the determinants before `first`; `clock` is that of the last one dropped.
    pub fn drop_before(&mut self, first: EventIndex, clock: Clock) {
        if first <= self.first {
            return;
        }
        self.first = first;
        self.clock_before = clock;
        if first > self.end {
            self.end = first;
            self.last_clock = clock;
            self.lives.clear();
        }
        // The life that wrote the determinant before `first` is kept: other replicas may still
        // have that determinant.
        let passed = self.lives.partition_point(|life| life.start < first);
        self.lives.drain(..passed.saturating_sub(1));
    }

    /// Whether the log's fields are consistent.
    pub fn is_sound(&self) -> bool {
        let rises = |pair: &[Life]| {
            pair[0].incarnation < pair[1].incarnation && pair[0].start < pair[1].start
        };
        let last = self.lives.last();
        self.first <= self.end
            && self.lives.windows(2).all(rises)
            && last
                .is_none_or(|life| life.start <= self.end && life.incarnation <= self.incarnation)
    }
}

/// Checks that a batch is of the job for which it was sent.
///
/// # Errors
/// When it is not.
pub fn check_job(job: u64, batch: &BatchHeader) -> Result<(), Refusal> {
    let tag = batch.job_tag;
    match tag == job_tag(job) {
        true => Ok(()),
        false => Err(Refusal::OtherJob { job, tag }),
    }
}
