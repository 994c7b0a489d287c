//! A log that keeps every determinant.

use super::batches::Which;
use refrain_eventlog::acceptor::{Refusal, Verdict};

/// Kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    Known,
    Stale,
    Unknown,
    Gap,
    Overlap,
    ClockBack,
    Trimmed,
    NoBoundary,
    Other,
}

impl Outcome {
    pub fn of(said: &Result<Verdict, Refusal>) -> Self {
        match said {
            Ok(Verdict::Taken) => Self::Taken,
            Ok(Verdict::Known) => Self::Known,
            Err(Refusal::Stale { .. }) => Self::Stale,
            Err(Refusal::UnknownIncarnation { .. }) => Self::Unknown,
            Err(Refusal::Gap { .. }) => Self::Gap,
            Err(Refusal::Overlap { .. }) => Self::Overlap,
            Err(Refusal::ClockBack { .. }) => Self::ClockBack,
            Err(Refusal::Trimmed { .. }) => Self::Trimmed,
            Err(Refusal::NoBoundary { .. }) => Self::NoBoundary,
            Err(_) => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    incarnation: u32,
    /// Of its batch: the last.
    clock: u64,
    ends_batch: bool,
}

#[derive(Clone, Debug)]
pub struct Oracle {
    /// All determinants from `start` on, including trimmed ones.
    row: Vec<Kept>,
    start: u64,
    start_clock: u64,
    /// Number of trimmed ones among them.
    gone: usize,
    trimmed: u64,
    pub latest: u32,
    /// What a store would have said of the place where the batch begins.
    pub boundary_before_cut: Option<u64>,
}

impl Oracle {
    pub fn new(start: u64, start_clock: u64) -> Self {
        Self {
            row: Vec::new(),
            start,
            start_clock,
            gone: 0,
            trimmed: start_clock,
            latest: 0,
            boundary_before_cut: None,
        }
    }

    pub fn first(&self) -> u64 {
        self.start + self.gone as u64
    }

    pub fn end(&self) -> u64 {
        self.start + self.row.len() as u64
    }

    pub fn last_clock(&self) -> u64 {
        self.row.last().map_or(self.start_clock, |kept| kept.clock)
    }

    fn boundary(&self, at: u64) -> Option<u64> {
        if at == self.start {
            return Some(self.start_clock);
        }
        let before = self
            .row
            .get((at.checked_sub(self.start)? as usize).checked_sub(1)?)?;
        before.ends_batch.then_some(before.clock)
    }

    pub fn accept(&mut self, batch: &Which, is_copy: bool) -> Outcome {
        self.boundary_before_cut = self.boundary(batch.first);
        if batch.incarnation > self.latest {
            return Outcome::Unknown;
        }
        if batch.incarnation < self.latest && !is_copy {
            return Outcome::Stale;
        }
        let batch_end = batch.first + u64::from(batch.count);
        // An empty log (new, or trimmed up to its start) has no last life.
        let last_life = self.row.last().map(|kept| kept.incarnation);
        if Some(batch.incarnation) >= last_life {
            if batch.first > self.end() {
                return Outcome::Gap;
            }
            if batch.first == self.end() {
                if batch.first_clock < self.last_clock() {
                    return Outcome::ClockBack;
                }
                self.push(batch);
                return Outcome::Taken;
            }
        }
        if Some(batch.incarnation) > last_life {
            return self.cut(batch);
        }
        let is_given_up = batch_end <= self.first();
        if Some(batch.incarnation) < last_life && is_given_up {
            return Outcome::Known;
        }
        let at = |number: u64| self.row.get(number.checked_sub(self.start)? as usize);
        let is_there =
            |number| at(number).is_some_and(|kept| kept.incarnation == batch.incarnation);
        match (batch.first..batch_end).all(is_there) {
            true => Outcome::Known,
            false => Outcome::Overlap,
        }
    }

    fn cut(&mut self, batch: &Which) -> Outcome {
        if batch.first < self.first() {
            return Outcome::Trimmed;
        }
        let Some(clock) = self.boundary_before_cut else {
            return Outcome::NoBoundary;
        };
        if batch.first_clock < clock {
            return Outcome::ClockBack;
        }
        // Covered by a published checkpoint: whatever has at most its clock.
        let cut = &self.row[(batch.first - self.start) as usize..];
        if clock < self.trimmed && cut.iter().any(|kept| kept.clock > clock) {
            return Outcome::Trimmed;
        }
        self.row.truncate((batch.first - self.start) as usize);
        self.push(batch);
        Outcome::Taken
    }

    fn push(&mut self, batch: &Which) {
        for number in 1..=batch.count {
            self.row.push(Kept {
                incarnation: batch.incarnation,
                clock: batch.last_clock,
                ends_batch: number == batch.count,
            });
        }
    }

    /// Gives up whole batches; says where the row begins then, and the clock
    /// before.
    pub fn trim(&mut self, clock: u64) -> (u64, u64) {
        self.trimmed = self.trimmed.max(clock);
        while let Some(kept) = self.row.get(self.gone)
            && kept.clock <= self.trimmed
        {
            self.gone += 1;
        }
        let before = self.gone.checked_sub(1).map(|last| self.row[last].clock);
        (self.first(), before.unwrap_or(self.start_clock))
    }
}
