//! The prediction of the next determinant, the same for writer and reader: made only from the
//! determinants before it in the same batch, or on the same lane.

use crate::determinant::Determinant;
use core::hash::{Hash, Hasher};
use refrain_ring::{Rank, Ssn};

const SERIES: usize = Determinant::SERIES as usize;

/// Maximum number of sources that a batch remembers; after that a new source replaces the
/// one that was met first.
pub(super) const SOURCES_MAX: usize = 64;

/// The sources met in this batch, each with its predicted next
/// SSN.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    ranks: [u32; SOURCES_MAX],
    numbers: [Numbers; SOURCES_MAX],
    known: usize,
    /// Place of the source that is replaced next.
    oldest: usize,
}

/// Without places that no source has yet.
impl Hash for Sources {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let known = self.known;
        (&self.ranks[..known], &self.numbers[..known], self.oldest).hash(state);
    }
}

#[derive(Clone, Copy, Debug, Hash)]
struct Numbers {
    latest: u64,
    /// Difference between the last two SSNs. Not always 1: receives that are not
    /// logged may have got the messages between them.
    stride: u64,
}

impl Sources {
    fn new() -> Self {
        Self {
            ranks: [0; SOURCES_MAX],
            numbers: [Numbers {
                latest: 0,
                stride: 1,
            }; SOURCES_MAX],
            known: 0,
            oldest: 0,
        }
    }

    /// The place of a source, if it was met.
    #[inline]
    pub(super) fn place(&self, source: Rank) -> Option<usize> {
        self.ranks[..self.known]
            .iter()
            .position(|&rank| rank == source.0)
    }

    /// The source at a place, and its predicted SSN.
    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<(Rank, Ssn)> {
        let rank = *self.ranks[..self.known].get(place)?;
        let numbers = self.numbers[place];
        let expected = numbers.latest.wrapping_add(numbers.stride);
        Some((Rank(rank), Ssn(expected)))
    }

    /// Updates the prediction: the source at this place was met again.
    #[inline]
    pub(super) fn met_again(&mut self, place: usize, ssn: Ssn) {
        let numbers = &mut self.numbers[place];
        numbers.stride = ssn.0.wrapping_sub(numbers.latest);
        numbers.latest = ssn.0;
    }

    /// Adds a source that has no place.
    #[inline]
    pub(super) fn met(&mut self, source: Rank, ssn: Ssn) {
        let place = if self.known < SOURCES_MAX {
            self.known += 1;
            self.known - 1
        } else {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % SOURCES_MAX;
            oldest
        };
        self.ranks[place] = source.0;
        self.numbers[place] = Numbers {
            latest: ssn.0,
            stride: 1,
        };
    }
}

/// The rule that predicts the request of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// The same lag as the last: receives that block, or are waited for in turn.
    SameLag,
    /// The same stride as between the last two requests: many receives
    /// posted, then waited for together.
    SameStride,
}

impl Rule {
    fn other(self) -> Self {
        match self {
            Self::SameLag => Self::SameStride,
            Self::SameStride => Self::SameLag,
        }
    }
}

/// The prediction of matches' requests.
#[derive(Clone, Debug, Hash)]
pub(super) struct Requests {
    rule: Rule,
    latest: u64,
    /// Clocks from the request to the match.
    lag: u64,
    /// Clocks from the previous request to the latest.
    stride: u64,
}

/// Encoding of a request that is not the predicted one: 0, the other
/// rule holds from now on; else the difference of the lag from the last one,
/// zigzag. (A difference of 0 is never encoded: one of the two rules predicts it.)
pub(super) type RequestChange = u64;

impl Requests {
    fn new() -> Self {
        Self {
            rule: Rule::SameLag,
            latest: 0,
            lag: 0,
            stride: 0,
        }
    }

    fn expected(&self, rule: Rule, at: u64) -> u64 {
        match rule {
            Rule::SameLag => at.wrapping_sub(self.lag),
            Rule::SameStride => self.latest.wrapping_add(self.stride),
        }
    }

    fn follow(&mut self, at: u64, request: u64) {
        self.stride = request.wrapping_sub(self.latest);
        self.lag = at.wrapping_sub(request);
        self.latest = request;
    }

    /// The writer's side: updates the rule; `None` if the request is as predicted.
    #[inline]
    pub(super) fn change(&mut self, at: u64, request: u64) -> Option<RequestChange> {
        let change = if request == self.expected(self.rule, at) {
            None
        } else if request == self.expected(self.rule.other(), at) {
            self.rule = self.rule.other();
            Some(0)
        } else {
            let lag = at.wrapping_sub(request);
            Some(super::varint::zigzag(lag.wrapping_sub(self.lag)))
        };
        self.follow(at, request);
        change
    }

    /// The reader's side: returns the request.
    pub(super) fn apply(&mut self, at: u64, change: Option<RequestChange>) -> u64 {
        let request = match change {
            None => self.expected(self.rule, at),
            Some(0) => {
                self.rule = self.rule.other();
                self.expected(self.rule, at)
            }
            Some(change) => {
                let lag = self.lag.wrapping_add(super::varint::unzigzag(change));
                at.wrapping_sub(lag)
            }
        };
        self.follow(at, request);
        request
    }
}

/// All predicted values.
#[derive(Clone, Debug, Hash)]
pub(super) struct Prediction {
    /// Clock of the previous determinant.
    pub(super) clock: u64,
    /// Steps of the clock of the last match and of the last probe from the determinant before.
    pub(super) steps: [u64; 2],
    /// Flags of the last match: `MODE_COMPLETED`, `MODE_NAMED`.
    pub(super) mode: u8,
    /// The requests of matches.
    pub(super) requests: Requests,
    /// The last SSN of any source.
    pub(super) ssn: u64,
    /// The sources that were met.
    pub(super) sources: Sources,
    /// Tag and length that the last probe found.
    pub(super) probed: (i32, u64),
    /// The last number of each series.
    pub(super) numbers: [i64; SERIES],
}

impl Prediction {
    /// The prediction for a batch whose first determinant is at `clock`.
    pub(super) fn new(clock: u64) -> Self {
        Self {
            clock,
            steps: [0; 2],
            mode: 0,
            requests: Requests::new(),
            ssn: 0,
            sources: Sources::new(),
            probed: (0, 0),
            numbers: [0; SERIES],
        }
    }

    /// As [`Prediction::new`], without clearing fields that are not read again.
    #[inline]
    pub(super) fn begin(&mut self, clock: u64) {
        self.clock = clock;
        self.steps = [0; 2];
        self.mode = 0;
        self.requests = Requests::new();
        self.ssn = 0;
        self.sources.known = 0;
        self.sources.oldest = 0;
        self.probed = (0, 0);
        self.numbers = [0; SERIES];
    }

    /// The clock if this number of matches are left out, each like the last one.
    #[inline]
    pub(super) fn clock_behind(&self, matches: u64) -> u64 {
        let step = self.steps[super::Stepping::Match as usize];
        self.clock.saturating_add(step.saturating_mul(matches))
    }
}
