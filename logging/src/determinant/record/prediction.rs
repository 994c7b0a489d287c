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
    known: usize,
    /// Place of the source that is replaced next.
    oldest: usize,
    ranks: [u32; SOURCES_MAX],
    numbers: [Numbers; SOURCES_MAX],
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
    /// The difference that came twice in a row last. Not always 1: receives that are not
    /// logged may have got the messages between them.
    stride: u64,
    /// Difference between the last two SSNs.
    difference: u64,
}

impl Numbers {
    /// Before the first message, which usually has the number 0.
    const NEW: Self = Self {
        latest: u64::MAX,
        stride: 1,
        difference: 1,
    };
}

impl Sources {
    fn new() -> Self {
        Self {
            ranks: [0; SOURCES_MAX],
            numbers: [Numbers::NEW; SOURCES_MAX],
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

    /// The source at a place, if there is one.
    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<Rank> {
        self.ranks[..self.known].get(place).copied().map(Rank)
    }

    /// The predicted SSN of the source at a place.
    #[inline]
    pub(super) fn expected(&self, place: usize) -> Ssn {
        let Numbers { latest, stride, .. } = self.numbers[place];
        Ssn(latest.wrapping_add(stride))
    }

    /// Updates the prediction: this message of the source at this place was received, or found.
    #[inline]
    pub(super) fn note(&mut self, place: usize, ssn: Ssn) {
        let numbers = &mut self.numbers[place];
        let difference = ssn.0.wrapping_sub(numbers.latest);
        if difference == numbers.difference {
            numbers.stride = difference;
        }
        (numbers.latest, numbers.difference) = (ssn.0, difference);
    }

    /// Gives a source a place that has none; returns it.
    #[inline]
    pub(super) fn meet(&mut self, source: Rank) -> usize {
        let place = if self.known < SOURCES_MAX {
            self.known += 1;
            self.known - 1
        } else {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % SOURCES_MAX;
            oldest
        };
        self.ranks[place] = source.0;
        self.numbers[place] = Numbers::NEW;
        place
    }
}

/// The kinds of determinants that name requests: each has its own predictions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Naming {
    Match,
    CompletedMatch,
    Set,
}

const NAMING: usize = 3;
/// In the row of kinds: any other kind.
const OTHER_KIND: u8 = NAMING as u8;
const KIND_BITS: u8 = 2;
/// Number of different rows of two kinds.
const ROWS: usize = 1 << (2 * KIND_BITS);

/// How a determinant that names a request follows those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Advance {
    /// From the clock of the determinant before.
    pub(super) step: u64,
    /// From the last request that a determinant named.
    pub(super) further: u64,
    /// Clocks from the request to the determinant.
    pub(super) lag: u64,
}

/// The last [`Advance`] of each kind behind each row of two kinds: programs repeat themselves.
#[derive(Clone, Debug)]
struct Advances {
    /// A bit for each in `last` that was met.
    met: u64,
    /// The last two kinds.
    row: u8,
    /// The place in `last` of the latest one of each kind.
    latest: [u8; NAMING],
    /// Behind them, one of nothing.
    last: [Advance; NAMING * ROWS + 1],
}

const NO_ADVANCE: u8 = (NAMING * ROWS) as u8;
const NO_ROW: u8 = OTHER_KIND << KIND_BITS | OTHER_KIND;

/// Without those that were not met.
impl Hash for Advances {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.latest, self.met, self.row).hash(state);
        let met = |at: &usize| self.met >> at & 1 != 0;
        for at in (0..NAMING * ROWS).filter(met) {
            self.last[at].hash(state);
        }
    }
}

impl Advances {
    fn new() -> Self {
        Self {
            met: 0,
            row: NO_ROW,
            latest: [NO_ADVANCE; NAMING],
            last: [Advance::default(); NAMING * ROWS + 1],
        }
    }

    #[inline]
    fn begin(&mut self) {
        (self.latest, self.met, self.row) = ([NO_ADVANCE; NAMING], 0, NO_ROW);
    }

    #[inline]
    fn place(&self, naming: Naming) -> usize {
        naming as usize * ROWS + usize::from(self.row)
    }

    /// The last one behind the same row, or the latest one of this kind.
    #[inline]
    fn expected(&self, naming: Naming) -> &Advance {
        let place = self.place(naming);
        let latest = usize::from(self.latest[naming as usize]);
        let is_met = self.met >> place & 1 != 0;
        &self.last[if is_met { place } else { latest }]
    }

    #[inline]
    fn follow(&mut self, naming: Naming, advance: Advance) {
        let place = self.place(naming);
        self.last[place] = advance;
        self.met |= 1 << place;
        self.latest[naming as usize] = place as u8;
        self.follow_kind(naming as u8);
    }

    #[inline]
    fn follow_kind(&mut self, kind: u8) {
        self.row = (self.row << KIND_BITS | kind) % ROWS as u8;
    }
}

/// Number of tags that are remembered.
const TAGS: usize = 7;

/// What the last probes have found.
#[derive(Clone, Debug, Hash)]
pub(super) struct Probed {
    /// The last tags, the latest first.
    tags: [i32; TAGS],
    /// The last length in bytes.
    pub(super) bytes: u64,
}

impl Probed {
    fn new() -> Self {
        Self {
            tags: [0; TAGS],
            bytes: 0,
        }
    }

    /// The last tag.
    pub(super) fn tag(&self) -> i32 {
        self.tags[0]
    }

    /// The place of a tag among the last ones.
    pub(super) fn place(&self, tag: i32) -> Option<usize> {
        self.tags.iter().position(|&known| known == tag)
    }

    /// The tag at a place is the latest now; returns it.
    pub(super) fn take(&mut self, place: usize) -> i32 {
        self.tags[..=place].rotate_right(1);
        self.tags[0]
    }

    /// A tag that has no place is the latest now.
    pub(super) fn add(&mut self, tag: i32) {
        self.tags.rotate_right(1);
        self.tags[0] = tag;
    }
}

/// All predicted values.
#[derive(Clone, Debug, Hash)]
pub(super) struct Prediction {
    /// Clock of the previous determinant.
    clock: u64,
    /// The last request that a determinant named.
    request: u64,
    /// Step of the clock to the last match.
    step: u64,
    /// The last SSN of any source.
    pub(super) ssn: u64,
    /// Whether the last match was named.
    pub(super) is_named: bool,
    /// How determinants follow each other.
    advances: Advances,
    /// The sources that were met.
    pub(super) sources: Sources,
    /// What probes have found.
    pub(super) probed: Probed,
    /// The last number of each series.
    pub(super) numbers: [i64; SERIES],
}

impl Prediction {
    /// The prediction for a batch whose first determinant is at `clock`.
    pub(super) fn new(clock: u64) -> Self {
        Self {
            clock,
            request: clock,
            step: 0,
            ssn: 0,
            is_named: false,
            advances: Advances::new(),
            sources: Sources::new(),
            probed: Probed::new(),
            numbers: [0; SERIES],
        }
    }

    /// As [`Prediction::new`], without clearing fields that are not read again.
    #[inline]
    pub(super) fn begin(&mut self, clock: u64) {
        self.clock = clock;
        self.request = clock;
        self.advances.begin();
        self.step = 0;
        self.is_named = false;
        self.ssn = 0;
        self.sources.known = 0;
        self.sources.oldest = 0;
        self.probed = Probed::new();
        self.numbers = [0; SERIES];
    }

    /// The clock if this number of matches are left out, each like the last one.
    #[inline]
    pub(super) fn clock_behind(&self, matches: u64) -> u64 {
        self.clock.saturating_add(self.step.saturating_mul(matches))
    }

    /// What is left out ends at this clock.
    #[inline]
    pub(super) fn go_to(&mut self, clock: u64) {
        self.clock = clock;
    }

    /// Clock of the previous determinant.
    #[inline]
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// The last request that a determinant named.
    #[inline]
    pub(super) fn request(&self) -> u64 {
        self.request
    }

    /// How the next determinant follows, if it is of this kind.
    #[inline]
    pub(super) fn expected(&self, naming: Naming) -> Advance {
        *self.advances.expected(naming)
    }

    /// Updates the prediction; returns how the determinant follows.
    #[inline]
    pub(super) fn follow(&mut self, naming: Naming, at: u64, request: u64) -> Advance {
        let advance = Advance {
            step: at.wrapping_sub(self.clock),
            further: request.wrapping_sub(self.request),
            lag: at.wrapping_sub(request),
        };
        self.advances.follow(naming, advance);
        if !matches!(naming, Naming::Set) {
            self.step = advance.step;
        }
        (self.clock, self.request) = (at, request);
        advance
    }

    /// The set that is the last determinant ends with this request.
    #[inline]
    pub(super) fn ends_with(&mut self, request: u64) {
        self.request = request;
    }

    /// As [`Prediction::follow`], for a determinant that is predicted in another way; returns its step.
    #[inline]
    pub(super) fn follow_other(&mut self, at: u64) -> u64 {
        let step = at.wrapping_sub(self.clock);
        self.advances.follow_kind(OTHER_KIND);
        self.clock = at;
        step
    }
}
