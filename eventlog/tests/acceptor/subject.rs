//! The acceptor, or one with a bug.

use refrain_eventlog::acceptor::{Origin, RankLog, Refusal, Step, Verdict, check_job};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    OnlyTheFirstOfMany,
    StaleLifeTaken,
    FutureLifeTaken,
    GapTaken,
    CutOneTooLate,
    CutInsideABatch,
    ClockGoesBack,
    NarrowNumbers,
    KnownOfAnotherLife,
    CopyOfAnotherLifeTaken,
    TakenTwice,
}

impl Bug {
    pub const ALL: [Self; 11] = [
        Self::OnlyTheFirstOfMany,
        Self::StaleLifeTaken,
        Self::FutureLifeTaken,
        Self::GapTaken,
        Self::CutOneTooLate,
        Self::CutInsideABatch,
        Self::ClockGoesBack,
        Self::NarrowNumbers,
        Self::KnownOfAnotherLife,
        Self::CopyOfAnotherLifeTaken,
        Self::TakenTwice,
    ];
}

pub struct Subject {
    pub row: RankLog,
    job: u64,
    bug: Option<Bug>,
}

impl Subject {
    pub fn new(job: u64, rank: Rank, start: u64, bug: Option<Bug>) -> Self {
        let mut row = RankLog::default();
        row.hello(rank, Incarnation(0)).expect("the first");
        row.trim(Clock(10));
        row.drop_before(EventIndex(start), Clock(10));
        row.last_clock = Clock(10);
        row.clock_before = Clock(10);
        Self { row, job, bug }
    }

    pub fn accept(
        &mut self,
        batch: &BatchHeader,
        origin: Origin,
        boundary: Option<u64>,
    ) -> Result<Verdict, Refusal> {
        let mut batch = *batch;
        let mut boundary = boundary.map(Clock);
        if let Some(bug) = self.bug {
            let row = &self.row;
            if bug == Bug::KnownOfAnotherLife && batch.first < row.end && batch.end() <= row.end {
                return Ok(Verdict::Known);
            }
            plant(bug, row, &mut batch, &mut boundary, origin);
        }
        check_job(self.job, &batch)?;
        match self.row.judge(&batch, origin)? {
            Step::Known => return Ok(Verdict::Known),
            Step::Take => {}
            Step::CutAndTake => self.row.cut(&batch, boundary)?,
        }
        self.row.take(&batch);
        Ok(Verdict::Taken)
    }
}

fn plant(
    bug: Bug,
    row: &RankLog,
    batch: &mut BatchHeader,
    boundary: &mut Option<Clock>,
    origin: Origin,
) {
    let cuts = batch.first < row.end
        && row
            .last_life()
            .is_some_and(|life| life.incarnation < batch.incarnation);
    match bug {
        Bug::OnlyTheFirstOfMany => batch.count = 1,
        Bug::StaleLifeTaken if origin == Origin::Writer => {
            batch.incarnation = batch.incarnation.max(row.incarnation);
        }
        Bug::FutureLifeTaken => batch.incarnation = batch.incarnation.min(row.incarnation),
        Bug::GapTaken => batch.first = batch.first.min(row.end),
        Bug::CutOneTooLate if cuts => batch.first = EventIndex(batch.first.0 + 1),
        Bug::CutInsideABatch if cuts => *boundary = boundary.or(Some(batch.first_clock)),
        Bug::ClockGoesBack => batch.first_clock = batch.first_clock.max(row.last_clock),
        Bug::NarrowNumbers => batch.first = EventIndex(u64::from(batch.first.0 as u32)),
        Bug::CopyOfAnotherLifeTaken if origin == Origin::Replica => {
            batch.incarnation = row
                .last_life()
                .map_or(batch.incarnation, |life| life.incarnation);
        }
        Bug::TakenTwice if batch.end() == row.end => batch.first = row.end,
        _ => {}
    }
}
