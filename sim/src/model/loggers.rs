//! The event loggers of the model: the real `RankLog` of each rank, its batches, and the admission
//! of lives. `RankLog` and [`CatchUp`] make the server's decisions; the explorer chooses the order
//! in which a logger asks the others. The former admission without marks is a planted bug.

use super::process::{JOB, Phase, Seeking};
use super::world::World;
use super::{Bug, Joining, Reading, Size};
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::{Beginning, Origin, RankLog, Refusal, Step};
use refrain_eventlog::client::committer::{Acknowledgement, Committer, LogEnd};
use refrain_eventlog::message::{ToClient, ToLogger};
use refrain_eventlog::server::host::Wanted;
use refrain_eventlog::server::inquiry::{CatchUp, Inquiry, RankLogStore};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::{Determinant, EventIndex, Matched, record};
use refrain_ring::{Clock, Incarnation, Rank};
use std::collections::VecDeque;
use std::sync::Arc;

/// The bytes of one sealed batch.
pub(super) type Batch = Arc<[u8]>;

/// The header of a batch.
pub(super) fn header(batch: &[u8]) -> BatchHeader {
    BatchHeader::peek(batch).expect("batches are not damaged in the model")
}

/// The per-rank event log of one rank at one logger, and the messages between the two.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct LoggerRow {
    pub row: RankLog,
    pub batches: Vec<Batch>,
    /// Batches that a dead life sent and that can still arrive.
    pub late: VecDeque<Batch>,
    /// The latest acknowledgement that is under way.
    pub ack: Option<Acknowledgement>,
    /// An acknowledgement to a dead life that is still under way.
    pub stale_ack: Option<Acknowledgement>,
}

impl LoggerRow {
    /// Takes a batch as the real server does.
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

    /// Removes the batches that are no longer within the per-rank event log.
    pub fn clip(&mut self) {
        let (first, end) = (self.row.first, self.row.end);
        self.batches.retain(|batch| {
            let header = header(batch);
            header.end() > first && header.end() <= end
        });
    }

    /// The clock of the last determinant before `at`, if a batch ends at `at`.
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

    /// The answer to a survey; `client/survey.rs` sends the question.
    pub fn row_end(&self) -> LogEnd {
        let row = &self.row;
        let writer = row.writer_before(row.end).unwrap_or_default();
        LogEnd {
            life: row.last_incarnation(),
            end: row.end,
            clock: row.last_clock,
            writer,
            made_by: writer,
        }
    }

    /// As [`LoggerRow::row_end`], where a life leaves no mark before its first batch.
    pub fn unmarked_end(&self) -> LogEnd {
        let last = self.batches.last().map(|batch| header(batch).incarnation);
        LogEnd {
            life: last.unwrap_or_default(),
            ..self.row_end()
        }
    }

    /// Asks another replica with the server's questions. Returns true when no other replica needs
    /// to be asked.
    fn ask(&mut self, other: &Self, wanted: &Wanted, catch_up: &mut CatchUp) -> bool {
        let (mut inquiry, question) = Inquiry::begin(wanted.clone());
        let mut question = Some(question);
        while let Some(asked) = question {
            let learned = inquiry.take(other.answer(&asked));
            let learned = learned.expect("a logger answers what it is asked");
            question = learned.question;
            for given in learned.said {
                if catch_up.take(self, given) {
                    return true;
                }
            }
        }
        false
    }

    fn answer(&self, question: &ToLogger) -> ToClient {
        let ToLogger::Read { from, .. } = question else {
            return ToClient::RankLog(RankLog {
                trimmed: Clock(0),
                ..self.row.clone()
            });
        };
        let is_wanted = |batch: &&Batch| header(batch).end().0 > *from;
        let batches = self.batches.iter().filter(is_wanted);
        ToClient::Events {
            batches: batches.flat_map(|batch| batch.iter().copied()).collect(),
            is_last: true,
        }
    }

    /// Admits a life.
    pub fn admit(&mut self, rank: usize, life: &Beginning) -> Result<(), Refusal> {
        self.change(|row, clock_at| row.admit(Rank(rank as u32), life, clock_at))
    }

    fn change(
        &mut self,
        change: impl FnOnce(
            &mut RankLog,
            &dyn Fn(EventIndex) -> Result<Option<Clock>, Refusal>,
        ) -> Result<bool, Refusal>,
    ) -> Result<(), Refusal> {
        let mut row = self.row.clone();
        change(&mut row, &|at| Ok(self.clock_before(at)))?;
        self.row = row;
        self.clip();
        Ok(())
    }

    /// Trims determinants with at most this clock. GC-1
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

    /// The matches before index `until` and after clock `after`, in order.
    pub fn matches(&self, until: EventIndex, after: Clock) -> Vec<Matched> {
        let mut all = Vec::new();
        for batch in &self.batches {
            let (header, payload) = BatchHeader::read(batch).expect("whole");
            let determinants = record::decode(&header, payload).expect("as it was written");
            for (index, determinant) in (header.first.0..).zip(determinants) {
                if let Determinant::Match(it) = determinant
                    && index < until.0
                    && it.at > after
                    && !it.is_completed
                {
                    all.push(it.matched);
                }
            }
        }
        all
    }
}

impl RankLogStore for LoggerRow {
    fn row(&self) -> RankLog {
        self.row.clone()
    }

    fn follow(&mut self, rank: Rank, source: &RankLog, life: &Beginning) -> Result<(), Refusal> {
        self.change(|row, clock_at| row.follow(rank, source, life, clock_at))
    }

    fn adopt(&mut self, batch: &[u8]) -> Result<(), Refusal> {
        self.accept(&Batch::from(batch), Origin::Replica)
    }
}

impl World {
    /// A replica receives the hello of a life. FENCE-1
    fn fence(&mut self, rank: usize, replica: usize, size: &Size) -> bool {
        let incarnation = self.ranks[rank].incarnation;
        let held = &mut self.loggers[replica][rank];
        let is_heard = held.row.hello(Rank(rank as u32), incarnation).is_ok();
        if size.bug != Some(Bug::NoFence) {
            // The real `RankLog` would refuse these batches whenever they arrive; they are removed
            // now.
            let row = &held.row;
            let header = |batch: &_| header(batch);
            held.late
                .retain(|batch| row.judge(&header(batch), Origin::Writer).is_ok());
        }
        is_heard
    }

    /// A replica answers a survey with the end of its per-rank event log.
    pub(super) fn survey(&mut self, rank: usize, replica: usize, size: &Size) {
        self.fence(rank, replica, size);
        let held = &self.loggers[replica][rank];
        let end = match size.joining {
            Joining::FirstKept => held.unmarked_end(),
            Joining::Marked => held.row_end(),
        };
        let Phase::Seeking(seeking) = &mut self.ranks[rank].phase else {
            return;
        };
        seeking.note_answer(replica, end);
        seeking.hear(replica, end, size);
        if seeking.commits.committer.start().is_none() {
            return;
        }
        let greatest = seeking.answers.iter().copied().flatten().max();
        if size.bug == Some(Bug::RunsAtOnce) {
            let holders = (0..size.replicas).find(|&replica| {
                let held = &self.loggers[replica][rank];
                Some(held.unmarked_end()) == greatest || Some(held.row_end()) == greatest
            });
            if let Some(holder) = holders {
                // Ignored: a life that has begun always finds the determinants with which it began.
                let _ = self.begin(rank, &[holder]);
            }
        }
    }

    /// A replica is asked to admit a life. `reversed`: the replica asks the other ones in reversed
    /// order.
    pub(super) fn join(&mut self, rank: usize, replica: usize, reversed: bool, size: &Size) {
        let Some(committer) = self.ranks[rank].committer_mut() else {
            return;
        };
        let needs = committer.joins(replica);
        let mut peers: Vec<usize> = (0..size.replicas).filter(|peer| *peer != replica).collect();
        if reversed {
            peers.reverse();
        }
        let place = match self.fence(rank, replica, size) {
            false => None,
            true => match size.joining {
                Joining::FirstKept => self.let_in_from(rank, replica, needs, &peers),
                Joining::Marked => self.admit(rank, replica, &peers),
            },
        };
        let Some(committer) = self.ranks[rank].committer_mut() else {
            return;
        };
        match place {
            None => committer.lose(replica),
            Some((end, clock)) => {
                // An impossible answer makes the committer lose the replica.
                let _ = committer.welcomed(replica, LoggerId(replica as u32), end, clock);
            }
        }
    }

    /// A life that a quorum has admitted reads its determinants and runs.
    pub(super) fn begin_if_joined(&mut self, rank: usize, size: &Size) -> Result<(), String> {
        if size.reading != Reading::Joined || !self.is_joined(rank) {
            return Ok(());
        }
        let committer = self.ranks[rank].committer();
        let live = |replica: &usize| committer.is_some_and(|it| it.is_live(*replica));
        let live: Vec<usize> = (0..size.replicas).filter(live).collect();
        self.begin(rank, &live[..1])
    }

    /// Whether a quorum has admitted the life, so that only its determinants are missing.
    pub(super) fn is_joined(&self, rank: usize) -> bool {
        let Phase::Seeking(seeking) = &self.ranks[rank].phase else {
            return false;
        };
        let committer = &seeking.commits.committer;
        let live = (0..self.loggers.len()).filter(|replica| committer.is_live(*replica));
        live.count() >= committer.quorum()
    }

    /// Reads the determinants from these replicas and starts the program. EL-5
    pub(super) fn begin(&mut self, rank: usize, from: &[usize]) -> Result<(), String> {
        let Phase::Seeking(seeking) = &self.ranks[rank].phase else {
            return Ok(());
        };
        let commits = seeking.commits.clone();
        let start = commits.committer.start().unwrap_or_default();
        let loggers = from.iter().map(|replica| &self.loggers[*replica][rank]);
        let Some(held) = loggers.max_by_key(|held| held.unmarked_end()) else {
            return Ok(());
        };
        let after = self.ranks[rank].at.clock_before();
        if held.row.clock_before > after {
            return Err(format!(
                "GC-1: rank {rank} restarts from its checkpoint at {after:?}, and determinants \
                 up to {:?} were trimmed",
                held.row.clock_before
            ));
        }
        let replay = held.matches(start, after);
        let process = &mut self.ranks[rank];
        let found = process.at.matches.len() + replay.len();
        if found as u64 != start.0 {
            return Err(format!(
                "EL-5: incarnation {} of rank {rank} begins at number {start} and finds {found}",
                process.incarnation.0
            ));
        }
        process.replay = replay.into();
        process.run(rank, commits);
        Ok(())
    }

    /// Planted: admits a life without marks, by the first number that the life can send.
    fn let_in_from(
        &mut self,
        rank: usize,
        replica: usize,
        needs: EventIndex,
        peers: &[usize],
    ) -> Option<(EventIndex, Clock)> {
        let incarnation = self.ranks[rank].incarnation;
        let row = &self.loggers[replica][rank].row;
        let life_start = row.last_life().map_or(row.end, |life| life.start);
        let is_own = is_of_life(&self.loggers[replica][rank], incarnation);
        if needs > row.end || (needs > life_start && !is_own) {
            let needed = match incarnation {
                Incarnation(0) => 1,
                _ => (peers.len() / 2).max(1),
            };
            let mut whole = 0;
            for &peer in peers {
                let theirs = self.loggers[peer][rank].clone();
                if theirs.row.first > life_start {
                    continue;
                }
                let mine = &mut self.loggers[replica][rank];
                let is_wanted = |batch: &&Batch| header(batch).end() > life_start;
                // A refused batch ends the copying from this replica; the replica still counts as
                // asked.
                let mut wanted = theirs.batches.iter().filter(is_wanted);
                let _ = wanted.try_for_each(|batch| mine.accept(batch, Origin::Replica));
                whole += 1;
                if whole >= needed && mine.row.end >= needs {
                    break;
                }
            }
            if whole < needed || self.loggers[replica][rank].row.end < needs {
                return None;
            }
        }
        Some(common_end(&self.loggers[replica][rank], incarnation, needs))
    }

    /// Admits a life with the server's core: the per-rank event log first catches up with what the
    /// life begins with, where they differ; then it records that the life has begun.
    fn admit(
        &mut self,
        rank: usize,
        replica: usize,
        peers: &[usize],
    ) -> Option<(EventIndex, Clock)> {
        let wanted = Wanted {
            job: JOB,
            rank: Rank(rank as u32),
            life: self.ranks[rank].committer()?.beginning()?,
            row: self.loggers[replica][rank].row.clone(),
        };
        if let Some(mut catch_up) = CatchUp::begin(&wanted) {
            for &peer in peers {
                let theirs = self.loggers[peer][rank].clone();
                let mine = &mut self.loggers[replica][rank];
                if mine.ask(&theirs, &wanted, &mut catch_up) {
                    break;
                }
            }
        }
        let mine = &mut self.loggers[replica][rank];
        mine.admit(rank, &wanted.life).ok()?;
        Some((mine.row.end, mine.row.last_clock))
    }
}

impl Seeking {
    /// Notes an answer to the survey. Answers of replicas that were lost since do not count.
    fn note_answer(&mut self, replica: usize, answer: LogEnd) {
        for (other, said) in self.answers.iter_mut().enumerate() {
            if self.commits.committer.is_lost(other) {
                *said = None;
            }
        }
        self.answers[replica] = Some(answer);
    }

    /// Passes a replica's answer to the committer.
    fn hear(&mut self, replica: usize, end: LogEnd, size: &Size) {
        let committer = &mut self.commits.committer;
        let say = |committer: &mut Committer, replica: usize, end: LogEnd| {
            committer.joins(replica);
            // An impossible answer makes the committer lose the replica.
            let _ = committer.answered(replica, LoggerId(replica as u32), end);
        };
        match size.bug {
            Some(Bug::SurveyOfOne) => {
                say(committer, replica, end);
                for other in (0..size.replicas).filter(|other| *other != replica) {
                    say(committer, other, LogEnd::default());
                }
            }
            // Planted: every replica answers with the least of all answers.
            Some(Bug::ShortestAnswer) => {
                let answers = self.answers.iter().copied().flatten();
                let least = answers.min().unwrap_or(end);
                let is_there = |other: &usize| *other != replica && !committer.is_lost(*other);
                let others: Vec<usize> = (0..size.replicas).filter(is_there).collect();
                for other in others.into_iter().chain([replica]) {
                    say(committer, other, least);
                }
            }
            _ => say(committer, replica, end),
        }
    }
}

/// Whether the last batch of a per-rank event log is of this life, or there is no batch.
fn is_of_life(held: &LoggerRow, incarnation: Incarnation) -> bool {
    let last = held.batches.last();
    last.is_none_or(|batch| header(batch).incarnation == incarnation)
}

/// Planted: the end of the part that the log and the client have in common.
fn common_end(
    held: &LoggerRow,
    incarnation: Incarnation,
    needs: EventIndex,
) -> (EventIndex, Clock) {
    if needs >= held.row.end || is_of_life(held, incarnation) {
        return (held.row.end, held.row.last_clock);
    }
    let headers = held.batches.iter().map(|batch| header(batch));
    let last = headers.rev().find(|header| header.first < needs);
    let clock = match last {
        Some(batch) if batch.end() == needs => batch.last_clock,
        Some(batch) => batch.first_clock,
        None => Clock(0),
    };
    (needs, clock)
}
