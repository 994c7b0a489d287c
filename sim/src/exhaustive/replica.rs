//! One logger: the real row of each rank, and the batches that are in it.

use refrain_eventlog::acceptor::{Beginning, Origin, Refusal, Row, Step};
use refrain_eventlog::client::committer::{Acknowledgement, RowEnd};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::{Determinant, EventIndex, Matched, record};
use refrain_ring::{Clock, Rank};
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch as it was sealed.
pub(super) type Batch = Arc<[u8]>;

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
        let row = &self.row;
        RowEnd {
            life: row.last_incarnation(),
            end: row.end,
            clock: row.last_clock,
            writer: row.writer_before(row.end).unwrap_or_default(),
        }
    }

    /// The same, where a life leaves no trace before its first batch.
    pub fn unmarked_end(&self) -> RowEnd {
        let last = self.batches.last().map(|batch| header(batch).incarnation);
        RowEnd {
            life: last.unwrap_or_default(),
            ..self.row_end()
        }
    }

    /// Becomes like another, as far as that lends to this life: as the real
    /// server does (`server/joining.rs`).
    pub fn follow(&mut self, rank: usize, theirs: &Self, life: &Beginning) -> Result<(), Refusal> {
        let Some(until) = theirs.row.lends(life) else {
            return Ok(());
        };
        self.change(|row, clock_at| row.follow(Rank(rank as u32), &theirs.row, life, clock_at))?;
        let from = self.row.end;
        let is_wanted = |batch: &&Batch| {
            let header = header(batch);
            header.end() > from && header.first < until
        };
        let mut wanted = theirs.batches.iter().filter(is_wanted);
        wanted.try_for_each(|batch| self.accept(batch, Origin::Replica))
    }

    /// Lets a life in.
    pub fn let_in(&mut self, rank: usize, life: &Beginning) -> Result<(), Refusal> {
        self.change(|row, clock_at| row.let_in(Rank(rank as u32), life, clock_at))
    }

    fn change(
        &mut self,
        change: impl FnOnce(
            &mut Row,
            &dyn Fn(EventIndex) -> Result<Option<Clock>, Refusal>,
        ) -> Result<bool, Refusal>,
    ) -> Result<(), Refusal> {
        let mut row = self.row.clone();
        change(&mut row, &|at| Ok(self.clock_before(at)))?;
        self.row = row;
        self.clip();
        Ok(())
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
