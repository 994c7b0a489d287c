//! What a logger accepts, and of whom: pure, and the same in the server, the
//! simulator and the model checker.
//!
//! Each (job, rank) has a [`RankLog`]: it knows the latest incarnation, how far the
//! determinants reach, and from where on they are still kept. A batch is taken if it is
//! of that incarnation and continues where the log ends; one that the log already has is
//! taken again without effect (GATE-3: sending again is idempotent); anything else is
//! refused. A hello with a higher incarnation fences all before it (FENCE-1); before it
//! may write it is [admitted](RankLog::admit): what an earlier life wrote beyond what the
//! later one has recovered was never stable, and is cut.
//!
//! A life gives each of its numbers to one determinant only. So (incarnation, number)
//! names one content on all replicas, and a log is described by where each of its lives
//! begins ([`Life`]), as a replicated log is by its terms.

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
    /// It is now the end of the log.
    Taken,
    /// The log had it already: acknowledge it again. GATE-3
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
    /// Of a life that is fenced. FENCE-1
    #[error("incarnation {said} of rank {rank} is fenced: incarnation {latest} has taken over")]
    Stale {
        /// The rank.
        rank: u32,
        /// Its own.
        said: u32,
        /// The latest.
        latest: u32,
    },
    /// Of a life that has sent no hello.
    #[error(
        "incarnation {said} of rank {rank} is not registered, {latest} is the latest: send Hello first"
    )]
    UnknownIncarnation {
        /// The rank.
        rank: u32,
        /// Its own.
        said: u32,
        /// The latest.
        latest: u32,
    },
    /// Determinants before it are missing.
    #[error("determinants {end} to {first} of rank {rank} are missing before this batch")]
    Gap {
        /// The rank.
        rank: u32,
        /// Where the log ends.
        end: u64,
        /// Where the batch begins.
        first: u64,
    },
    /// It begins inside of what is there, and is not the same.
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
    /// Its clocks begin before the last one of the log.
    #[error("the clock of rank {rank} goes back from {last} to {said}")]
    ClockBack {
        /// The rank.
        rank: u32,
        /// Clock at the end of the log.
        last: u64,
        /// First clock of the batch.
        said: u64,
    },
    /// What a new life begins with ends with another clock.
    #[error("rank {rank} claims clock {said} before determinant {at}: it is {last} here")]
    OtherClock {
        /// The rank.
        rank: u32,
        /// Where the life begins.
        at: u64,
        /// Clock before that.
        last: u64,
        /// What the life says.
        said: u64,
    },
    /// A later life begins before the first determinant that is kept.
    #[error(
        "determinant {first} of rank {rank} cannot be written again: what is covered by a \
         published checkpoint (before {kept}) stays"
    )]
    Trimmed {
        /// The rank.
        rank: u32,
        /// Where the batch begins.
        first: u64,
        /// The first place where it could.
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
    /// Of another job than the one that said hello.
    #[error("this batch is of another job (tag {tag:08x}) than {job:016x}")]
    OtherJob {
        /// The job of the hello.
        job: u64,
        /// The tag of the batch.
        tag: u32,
    },
    /// No batch.
    #[error("this is no batch: {0}")]
    Unreadable(#[from] BatchError),
    /// Too much waits to be written already: not now.
    #[error("{unwritten_bytes} bytes wait to be written: send it again later")]
    Busy {
        /// The bytes that wait.
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
    /// Whether the same may be accepted later, without the client doing
    /// anything else.
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
    /// The rank itself: only its latest life may.
    Writer,
    /// Another replica of the shard: copies of what any life wrote.
    Replica,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Append it.
    Take,
    /// Nothing.
    Known,
    /// Cut the log at the batch's first number, then append it.
    CutAndTake,
}

/// What a logger knows of one rank's determinants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankLog {
    /// Latest life that sent a hello: all before it are fenced.
    pub incarnation: Incarnation,
    /// Number of the first determinant that is still kept.
    pub first: EventIndex,
    /// Clock of the one before it.
    pub clock_before: Clock,
    /// One past the last.
    pub end: EventIndex,
    /// Clock of the last.
    pub last_clock: Clock,
    /// What has at most this clock need not be kept. Not in messages. GC-1
    #[serde(skip)]
    pub trimmed: Clock,
    /// Whose determinants they are: numbers rise, incarnations too.
    pub lives: Vec<Life>,
}

impl RankLog {
    /// The life that was admitted last; a first one only once it has written.
    pub fn last_life(&self) -> Option<Life> {
        self.lives.last().copied()
    }

    /// A life begins. Returns whether that is new. FENCE-1
    ///
    /// # Errors
    /// When a later one has begun.
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

    /// What to do with a batch.
    ///
    /// # Errors
    /// When it is not to be accepted.
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

    /// Cuts the log so that it ends where a batch begins. `clock`: that of the
    /// determinant before; `None`: no batch ends there.
    ///
    /// # Errors
    /// When it cannot be cut there; then nothing has changed.
    pub fn cut(&mut self, batch: &BatchHeader, clock: Option<Clock>) -> Result<(), Refusal> {
        if let Some(clock) = clock {
            self.check_clock(batch, clock)?;
        }
        self.cut_at(batch.rank, batch.first, clock)
    }

    fn cut_at(&mut self, rank: Rank, at: EventIndex, clock: Option<Clock>) -> Result<(), Refusal> {
        let (rank, first) = (rank.0, at.0);
        let clock = clock.ok_or(Refusal::NoBoundary { rank, first })?;
        // A checkpoint that covers what is to be cut was stable: so was that.
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
            // A life that has written nothing leaves no trace behind the next.
            self.lives.retain(|life| life.start < batch.first);
            self.lives.push(Life {
                incarnation: batch.incarnation,
                start: batch.first,
            });
        }
        self.end = batch.end();
        self.last_clock = batch.last_clock;
    }

    /// What has at most this clock need not be kept. Returns whether that is new. GC-1
    pub fn trim(&mut self, clock: Clock) -> bool {
        let is_new = clock > self.trimmed;
        self.trimmed = self.trimmed.max(clock);
        is_new
    }

    /// What lies before `first` is kept no longer; the last of it had this
    /// clock.
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
        // The writer of the one before is kept: other replicas may still have it.
        let passed = self.lives.partition_point(|life| life.start < first);
        self.lives.drain(..passed.saturating_sub(1));
    }

    /// Whether it does not contradict itself.
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
