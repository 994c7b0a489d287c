//! One logger: the real row of each rank, and the batches that are in it.

use refrain_eventlog::acceptor::{Life, Origin, Refusal, Row, Step};
use refrain_eventlog::client::committer::Acknowledgement;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::{Determinant, EventIndex, Matched, record};
use refrain_ring::{Clock, Incarnation};
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch as it was sealed.
pub(super) type Batch = Arc<[u8]>;

/// What a row ends with: who wrote it, where, with which clock.
pub(super) type RowEnd = (Incarnation, EventIndex, Clock);

/// What a batch says of itself.
pub(super) fn header(batch: &[u8]) -> BatchHeader {
    BatchHeader::peek(batch).expect("nobody damages batches here")
}

/// What a logger has of one rank, and what is on the way between them.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Shelf {
    pub row: Row,
    pub batches: Vec<Batch>,
    /// Batches that a dead life sent, which may arrive yet.
    pub late: VecDeque<Batch>,
    /// The latest acknowledgement that is on its way.
    pub ack: Option<Acknowledgement>,
    /// One to a dead life.
    pub stale_ack: Option<Acknowledgement>,
}

impl Shelf {
    /// As the real server takes a batch.
    pub fn accept(&mut self, batch: &Batch, origin: Origin) -> Result<(), Refusal> {
        let header = header(batch);
        match self.row.judge(&header, origin)? {
            Step::Known => return Ok(()),
            Step::Take => {}
            Step::CutAndTake => {
                let clock = self.clock_before(header.first);
                self.row.cut(&header, clock)?;
                self.clip();
            }
        }
        self.row.take(&header);
        self.batches.push(batch.clone());
        Ok(())
    }

    /// Forgets the batches that the row does not have any more.
    pub fn clip(&mut self) {
        let (first, end) = (self.row.first, self.row.end);
        self.batches.retain(|batch| {
            let header = header(batch);
            header.end() > first && header.end() <= end
        });
    }

    /// The clock of the last determinant before this one, if a batch ends there.
    pub fn clock_before(&self, at: EventIndex) -> Option<Clock> {
        if at == self.row.first {
            return Some(self.row.clock_before);
        }
        self.batch_ending(at).map(|batch| batch.last_clock)
    }

    pub fn batch_ending(&self, at: EventIndex) -> Option<BatchHeader> {
        let mut headers = self.batches.iter().map(|batch| header(batch));
        headers.find(|header| header.end() == at)
    }

    /// What a survey is told, as `client/survey.rs` asks it.
    pub fn row_end(&self) -> RowEnd {
        let (end, clock) = (self.row.end, self.row.last_clock);
        let last = self.batches.last().map(|batch| header(batch).incarnation);
        (last.unwrap_or_default(), end, clock)
    }

    /// The same, where a row keeps which lives began.
    pub fn marked_end(&self) -> RowEnd {
        let (end, clock) = (self.row.end, self.row.last_clock);
        let last = self.row.last_life().map(|life| life.incarnation);
        (last.unwrap_or_default(), end, clock)
    }

    /// A life begins at the end of the row.
    pub fn mark(&mut self, incarnation: Incarnation) {
        let start = self.row.end;
        self.row.lives.retain(|life| life.start < start);
        self.row.lives.push(Life { incarnation, start });
    }

    /// Whether the row has a batch of this life that ends there.
    pub fn reaches(&self, at: EventIndex, writer: Incarnation) -> bool {
        let is_writers = |batch: BatchHeader| batch.incarnation == writer;
        at == self.row.first || self.batch_ending(at).is_some_and(is_writers)
    }

    /// The same, but ending there.
    pub fn cut_at(&self, at: EventIndex) -> Self {
        let mut cut = self.clone();
        cut.row.last_clock = cut.clock_before(at).unwrap_or(cut.row.last_clock);
        cut.row.end = at;
        cut.row.lives.retain(|life| life.start < at);
        cut.clip();
        cut
    }

    /// Takes over the row of `source`, and keeps that this life has begun.
    pub fn become_like(&mut self, source: Self, incarnation: Incarnation) {
        let trimmed = self.row.trimmed;
        self.row = source.row;
        self.batches = source.batches;
        self.row.incarnation = incarnation;
        self.row.trimmed = self.row.trimmed.max(trimmed);
        let is_marked = self.row.last_life().map(|life| life.incarnation) == Some(incarnation);
        if !is_marked && incarnation > Incarnation(0) {
            self.mark(incarnation);
        }
    }

    /// Gives up what has at most this clock. GC-1
    pub fn trim(&mut self, clock: Clock) {
        if !self.row.trim(clock) {
            return;
        }
        let headers = self.batches.iter().map(|batch| header(batch));
        let gone = headers.take_while(|header| header.last_clock <= clock);
        if let Some(last) = gone.last() {
            self.row.drop_before(last.end(), last.last_clock);
            self.clip();
        }
    }

    /// The matches before `until` and above a clock, in order.
    pub fn matches(&self, until: EventIndex, after: Clock) -> Vec<Matched> {
        let mut all = Vec::new();
        for batch in &self.batches {
            let (header, payload) = BatchHeader::read(batch).expect("whole");
            let determinants = record::decode(&header, payload).expect("as it was written");
            for (index, determinant) in (header.first.0..).zip(determinants) {
                if let Determinant::Match { at, matched, .. } = determinant
                    && index < until.0
                    && at > after
                {
                    all.push(matched);
                }
            }
        }
        all
    }
}
