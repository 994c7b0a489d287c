//! Recipient the launcher asks for a checkpoint, and when (MPICH-V2, section 4.6.2). Pure:
//! time, what ranks tell and who runs come in; whom to ask what goes out.
//!
//! In rounds: all ranks that run are asked for their status; when all have answered, or
//! have had the time to, the policy chooses the rank whose checkpoint is worth most, and
//! that rank gets a request. The next round begins when its checkpoint is stable, and no sooner
//! than the job's `--checkpoint-every`. A rank that does not take one holds the others
//! up for a while only, and has its next turn later.
//!
//! Checkpoints that ranks request because their logs are full come first, with every policy.
//! LOG-3

use super::Job;
use super::outcome::CheckpointCounts;
use super::verdict::Membership;
use refrain_checkpoint::policy::{Choice, Policy, RankStatus};
use refrain_job::JobError;
use refrain_job::config::RecoveryConfig;
use refrain_job::control::message::{StatusFigures, ToRank};
use refrain_ring::Rank;
use std::time::{Duration, Instant};

/// How long a round waits for answers: a rank that computes gives none meanwhile.
const ANSWERS_WAIT: Duration = Duration::from_millis(100);
/// How long no other rank is asked for a checkpoint after one was.
const ORDER_WAIT: Duration = Duration::from_secs(1);
/// And when it has begun. A checkpoint that fails is not reported.
const TAKING_WAIT: Duration = Duration::from_secs(60);
/// How often the time until the next request doubles, for a rank that takes no checkpoint.
const DOUBLINGS_MAX: u32 = 6;
/// The shortest time between two rounds.
const ROUND_MIN: Duration = Duration::from_millis(1);

/// A message to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for its status.
    Status(usize),
    /// Take a checkpoint.
    Checkpoint(usize),
}

/// What a rank has to do, as far as its launcher knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Duty {
    #[default]
    None,
    /// It was asked for a checkpoint.
    Ordered { at: Duration },
    /// It has begun one.
    Taking { at: Duration },
}

impl Duty {
    /// When the wait for it ends.
    fn ends(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Ordered { at } => Some(at + ORDER_WAIT),
            Self::Taking { at } => Some(at + TAKING_WAIT),
        }
    }
}

/// A rank as it is known.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// It has not answered yet.
    is_asked: bool,
    /// Of this life.
    figures: Option<StatusFigures>,
    /// Of its last checkpoint, without its log.
    state_bytes: u64,
    /// When its last checkpoint was stable; of no life in particular.
    since: Duration,
    duty: Duty,
    /// Orders in a row that came to nothing.
    refusals: u32,
    not_before: Duration,
    /// Logs of others are full for it. LOG-3
    is_requested: bool,
    counts: CheckpointCounts,
}

/// Orders checkpoints; see the [module](self).
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    /// Between two rounds.
    period: Duration,
    next_round: Duration,
    /// Since when answers are waited for.
    asked_at: Option<Duration>,
    /// Of the last step.
    stepped_at: Duration,
    ranks: Vec<Seen>,
}

impl Scheduler {
    /// For `ranks` ranks; `every` as in `--checkpoint-every`.
    pub fn new(choice: Choice, every: Duration, ranks: usize) -> Self {
        let period = match choice {
            // All of them within that time.
            Choice::Interval { .. } => every / ranks.max(1) as u32,
            _ => every,
        };
        let period = period.max(ROUND_MIN);
        Self {
            policy: Policy::new(choice),
            period,
            next_round: period,
            asked_at: None,
            stepped_at: Duration::ZERO,
            ranks: vec![Seen::default(); ranks],
        }
    }

    /// Whether there is nothing to do until a rank requests a checkpoint.
    pub fn is_idle(&self) -> bool {
        let is_idle = |seen: &Seen| !seen.is_requested && seen.duty == Duty::None;
        self.policy.choice() == Choice::None && self.ranks.iter().all(is_idle)
    }

    /// A rank has sent its status.
    pub fn answered(&mut self, rank: usize, figures: StatusFigures) {
        let seen = &mut self.ranks[rank];
        seen.is_asked = false;
        seen.figures = Some(figures);
    }

    /// The last statuses of ranks in their lives that run.
    pub fn figures(&self) -> impl Iterator<Item = &StatusFigures> {
        self.ranks.iter().filter_map(|seen| seen.figures.as_ref())
    }

    /// What became of a job's checkpoints, by rank; empty where there was none.
    pub fn counts(&self) -> Vec<CheckpointCounts> {
        let counts = self.ranks.iter().map(|seen| seen.counts);
        let is_none = |counts: CheckpointCounts| counts == CheckpointCounts::default();
        match counts.clone().all(is_none) {
            true => Vec::new(),
            false => counts.collect(),
        }
    }

    /// A rank has begun a checkpoint, ordered or not.
    pub fn begun(&mut self, rank: usize, now: Duration) {
        self.ranks[rank].duty = Duty::Taking { at: now };
    }

    /// A rank has a new stable checkpoint: its length, and how much of it is log.
    pub fn stable(&mut self, rank: usize, (bytes, log_bytes): (u64, u64), now: Duration) {
        let seen = &mut self.ranks[rank];
        seen.duty = Duty::None;
        seen.refusals = 0;
        seen.not_before = Duration::ZERO;
        seen.is_requested = false;
        seen.since = now;
        seen.state_bytes = bytes.saturating_sub(log_bytes);
        seen.counts.stable += 1;
        seen.counts.bytes += bytes;
        if let Some(figures) = &mut seen.figures {
            (figures.received_bytes, figures.sent_bytes) = (0, 0);
        }
    }

    /// The log of some rank is filled by messages to this one. LOG-3
    pub fn request(&mut self, of: usize) {
        if let Some(seen) = self.ranks.get_mut(of) {
            seen.is_requested = true;
        }
    }

    /// A life is over: requests to it are void.
    pub fn died(&mut self, rank: usize) {
        let seen = &mut self.ranks[rank];
        seen.is_asked = false;
        seen.figures = None;
        seen.duty = Duty::None;
        seen.refusals = 0;
        seen.not_before = Duration::ZERO;
    }

    /// Asks all that run how they are, but those that have not answered yet.
    pub fn ask_all(&mut self, runs: &[bool]) -> Vec<Request> {
        let mut requests = Vec::new();
        for (rank, seen) in self.ranks.iter_mut().enumerate() {
            if runs[rank] && !seen.is_asked {
                seen.is_asked = true;
                requests.push(Request::Status(rank));
            }
        }
        requests
    }

    /// The messages to send now. `runs`, by rank: it has joined, does not replay, and has not
    /// left.
    pub fn step(&mut self, now: Duration, runs: &[bool]) -> Vec<Request> {
        self.stepped_at = now;
        self.give_up(now);
        let mut requests = self.order_requested(now, runs);
        if self.policy.choice() == Choice::None {
            return requests;
        }
        if self.asked_at.is_none() && now >= self.next_round && !self.is_under_way() {
            self.asked_at = Some(now);
            requests.extend(self.ask_all(runs));
        }
        if let Some(asked_at) = self.asked_at
            && (self.all_have_answered(runs) || now >= asked_at + ANSWERS_WAIT)
        {
            self.asked_at = None;
            self.next_round = now + self.period;
            requests.extend(self.order_next(now, runs));
        }
        requests
    }

    /// When there is something to do, if nothing happens before; that may be over by
    /// now.
    pub fn next_due(&self) -> Option<Duration> {
        let of_duties = self.ranks.iter().filter_map(|seen| seen.duty.ends());
        let requested = self.ranks.iter().filter(|seen| seen.is_requested);
        let of_requests = requested.map(|seen| seen.not_before);
        let of_round = match (self.policy.choice(), self.asked_at) {
            (Choice::None, _) => None,
            (_, Some(asked_at)) => Some(asked_at + ANSWERS_WAIT),
            // The rank reports its end.
            (_, None) if self.is_under_way() => None,
            (_, None) => Some(self.next_round),
        };
        let times = of_duties.chain(of_requests).chain(of_round);
        // What was due at the last step waits for something that happens.
        times.filter(|at| *at > self.stepped_at).min()
    }

    fn is_under_way(&self) -> bool {
        self.ranks.iter().any(|seen| seen.duty != Duty::None)
    }

    fn all_have_answered(&self, runs: &[bool]) -> bool {
        let mut ranks = self.ranks.iter().zip(runs);
        ranks.all(|(seen, runs)| !(*runs && seen.is_asked))
    }

    /// Waits no longer for those that have had their time.
    fn give_up(&mut self, now: Duration) {
        for seen in &mut self.ranks {
            if seen.duty.ends().is_some_and(|ends| now >= ends) {
                seen.duty = Duty::None;
                seen.not_before = now + ORDER_WAIT * (1 << seen.refusals.min(DOUBLINGS_MAX));
                seen.refusals += 1;
            }
        }
    }

    fn order_requested(&mut self, now: Duration, runs: &[bool]) -> Vec<Request> {
        let may = |(rank, seen): (usize, &Seen)| {
            let may = seen.is_requested && runs[rank] && seen.may_be_ordered(now);
            may.then_some(rank)
        };
        let requested: Vec<usize> = self.ranks.iter().enumerate().filter_map(may).collect();
        let order = |rank| self.order(rank, now);
        requested.into_iter().map(order).collect()
    }

    fn order_next(&mut self, now: Duration, runs: &[bool]) -> Option<Request> {
        let ranks = self.ranks.iter().zip(runs).enumerate();
        let statuses: Vec<RankStatus> = ranks
            .map(|(rank, (seen, runs))| seen.status(rank, *runs, now))
            .collect();
        let chosen = self.policy.next(milliseconds(now), &statuses)?;
        Some(self.order(chosen.index(), now))
    }

    fn order(&mut self, rank: usize, now: Duration) -> Request {
        let seen = &mut self.ranks[rank];
        seen.duty = Duty::Ordered { at: now };
        seen.counts.orders += 1;
        Request::Checkpoint(rank)
    }
}

impl Seen {
    fn may_be_ordered(&self, now: Duration) -> bool {
        self.duty == Duty::None && now >= self.not_before
    }

    fn status(&self, rank: usize, runs: bool, now: Duration) -> RankStatus {
        let figures = self.figures.clone().unwrap_or_default();
        RankStatus {
            rank: Rank(rank as u32),
            received_bytes: figures.received_bytes,
            sent_bytes: figures.sent_bytes,
            log_bytes: figures.log_bytes.saturating_add(figures.disk_bytes),
            state_bytes: self.state_bytes,
            since: milliseconds(self.since),
            is_ready: runs && figures.heeds_requests && self.may_be_ordered(now),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The schedule of a job's checkpoints, and since when it counts.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) scheduler: Scheduler,
    begin: Instant,
}

impl Schedule {
    /// As the job is configured.
    ///
    /// # Errors
    /// [`JobError::Config`] for a policy that does not exist, or that has no effect without
    /// restarts.
    pub(super) fn new(recovery: &RecoveryConfig, ranks: u32) -> Result<Self, JobError> {
        let (name, every_ms) = (&recovery.checkpoint_policy, recovery.checkpoint_every_ms);
        let choice = Choice::named(name, every_ms)
            .map_err(|error| JobError::Config(format!("--checkpoint-policy: {error}")))?;
        if choice != Choice::None && recovery.max_restarts == 0 {
            return Err(JobError::Config(format!(
                "--checkpoint-policy {name} has no effect without restarts: choose a logging --protocol and --max-restarts above 0"
            )));
        }
        let every = Duration::from_millis(every_ms);
        Ok(Self {
            scheduler: Scheduler::new(choice, every, ranks as usize),
            begin: Instant::now(),
        })
    }

    /// In the schedule's time.
    pub(super) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// When something is to be done.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.scheduler.next_due()?;
        self.begin.checked_add(due)
    }
}

impl Job {
    /// Does what is due.
    pub(super) fn order_checkpoints(&mut self) {
        if self.schedule.scheduler.is_idle() {
            return;
        }
        let (now, runs) = (self.schedule.now(), self.runs());
        let requests = self.schedule.scheduler.step(now, &runs);
        self.say_requests(&requests);
    }

    /// Asks all ranks how they are.
    pub(super) fn ask_for_statuses(&mut self) {
        let requests = self.schedule.scheduler.ask_all(&self.runs());
        self.say_requests(&requests);
    }

    fn say_requests(&mut self, requests: &[Request]) {
        for request in requests {
            match *request {
                Request::Status(rank) => self.tell(rank, &ToRank::AskStatus, None),
                Request::Checkpoint(rank) => self.tell(rank, &ToRank::CheckpointWanted, None),
            }
        }
    }

    /// By rank: it has joined, does not replay, and has not left.
    fn runs(&self) -> Vec<bool> {
        let ranks = self.ranks.iter().zip(&self.lives);
        let runs = ranks.map(|(process, lives)| {
            let is_there = process.end.is_none() && process.membership == Membership::Member;
            is_there && lives.has_caught_up
        });
        runs.collect()
    }
}

#[cfg(test)]
mod tests;
