//! Which rank the launcher asks for a checkpoint, and when (MPICH-V2, section 4.6.2). Pure: time,
//! statuses of ranks and which ranks run are inputs; requests to ranks are outputs.
//!
//! In rounds: all ranks that run are asked for their status. When all have answered, or the time
//! for answers is over, the policy chooses the rank whose checkpoint frees most, and that rank
//! gets a request. The next round begins when its checkpoint is stable, and not before the
//! interval of `--checkpoint-every` has passed. A rank that does not take its checkpoint delays
//! the others for a limited time only, and is asked again later.
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
use refrain_logging::rounds::Order;
use refrain_ring::Rank;
use std::time::{Duration, Instant};

/// Time that a round waits for answers: a rank that computes does not answer meanwhile.
const ANSWERS_WAIT: Duration = Duration::from_millis(100);
/// Time after a checkpoint request during which no other rank is asked.
const ORDER_WAIT: Duration = Duration::from_secs(1);
/// The same time after the rank has begun. A checkpoint that fails is not reported.
const TAKING_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of doublings of the time until the next request to a rank that takes no
/// checkpoint.
const DOUBLINGS_MAX: u32 = 6;
/// The shortest time between two rounds.
const ROUND_MIN: Duration = Duration::from_millis(1);

/// A message to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for its status.
    Status(usize),
    /// Asks for a checkpoint.
    Checkpoint(usize),
}

/// State of a rank's checkpoint, as far as the launcher knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Duty {
    #[default]
    None,
    /// The rank was asked for a checkpoint.
    Ordered { at: Duration },
    /// The rank has begun a checkpoint.
    Taking { at: Duration },
}

impl Duty {
    /// When the launcher stops waiting for it.
    fn ends(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Ordered { at } => Some(at + ORDER_WAIT),
            Self::Taking { at } => Some(at + TAKING_WAIT),
        }
    }
}

/// What is known of a rank.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// It has not answered the last question for its status.
    is_asked: bool,
    /// The last status of this life.
    figures: Option<StatusFigures>,
    /// Length of its last checkpoint, without its log.
    state_bytes: u64,
    /// When its last checkpoint became stable, in whichever life.
    since: Duration,
    duty: Duty,
    /// Consecutive requests after which no checkpoint was taken.
    refusals: u32,
    not_before: Duration,
    /// The logs of other ranks are full of messages to it. LOG-3
    is_requested: bool,
    counts: CheckpointCounts,
}

/// Orders checkpoints; see the [module](self).
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    /// Time between two rounds.
    period: Duration,
    next_round: Duration,
    /// When the ranks of this round were asked; `None`: no answers are awaited.
    asked_at: Option<Duration>,
    /// Time of the last step.
    stepped_at: Duration,
    ranks: Vec<Seen>,
    /// By rank, the number of its correlated set; empty: each rank is alone.
    set_of_rank: Vec<u32>,
}

impl Scheduler {
    /// A schedule for `ranks` ranks; `every` as in `--checkpoint-every`.
    pub fn new(choice: Choice, every: Duration, ranks: usize) -> Self {
        let period = match choice {
            // All ranks take a checkpoint within that time.
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
            set_of_rank: Vec::new(),
        }
    }

    /// Asks the ranks of a correlated set for checkpoints together. `set_of_rank`: by rank, the number of
    /// its set.
    #[must_use]
    pub fn with_sets(self, set_of_rank: &[u32]) -> Self {
        Self {
            set_of_rank: set_of_rank.to_vec(),
            ..self
        }
    }

    /// Whether nothing is due until a rank requests a checkpoint.
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

    /// The last status of each rank, of the life that runs.
    pub fn figures(&self) -> impl Iterator<Item = &StatusFigures> {
        self.ranks.iter().filter_map(|seen| seen.figures.as_ref())
    }

    /// Number and bytes of the checkpoints, by rank; empty if there were none.
    pub fn counts(&self) -> Vec<CheckpointCounts> {
        let counts = self.ranks.iter().map(|seen| seen.counts);
        let is_none = |counts: CheckpointCounts| counts == CheckpointCounts::default();
        match counts.clone().all(is_none) {
            true => Vec::new(),
            false => counts.collect(),
        }
    }

    /// A rank has begun a checkpoint, requested or not.
    pub fn begun(&mut self, rank: usize, now: Duration) {
        self.ranks[rank].duty = Duty::Taking { at: now };
    }

    /// A rank has a new stable checkpoint: the bytes in all, and those of its log.
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

    /// The log of another rank is full of messages to rank `of`. LOG-3
    pub fn request(&mut self, of: usize) {
        if let Some(seen) = self.ranks.get_mut(of) {
            seen.is_requested = true;
        }
    }

    /// A life has ended: requests to it are void.
    pub fn died(&mut self, rank: usize) {
        let seen = &mut self.ranks[rank];
        seen.is_asked = false;
        seen.figures = None;
        seen.duty = Duty::None;
        seen.refusals = 0;
        seen.not_before = Duration::ZERO;
    }

    /// Asks all ranks that run for their status, except those that have not answered the last
    /// question.
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

    /// The messages to send now. `runs`, by rank: the rank has joined, does not replay, and has
    /// not left.
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

    /// When the next step is due if no message comes before. May be in the past.
    pub fn next_due(&self) -> Option<Duration> {
        let of_duties = self.ranks.iter().filter_map(|seen| seen.duty.ends());
        let requested = self.ranks.iter().filter(|seen| seen.is_requested);
        let of_requests = requested.map(|seen| seen.not_before);
        let of_round = match (self.policy.choice(), self.asked_at) {
            (Choice::None, _) => None,
            (_, Some(asked_at)) => Some(asked_at + ANSWERS_WAIT),
            // The end of the checkpoint is reported by the rank.
            (_, None) if self.is_under_way() => None,
            (_, None) => Some(self.next_round),
        };
        let times = of_duties.chain(of_requests).chain(of_round);
        // Whatever was due at the last step and is still open waits for a message of a rank.
        times.filter(|at| *at > self.stepped_at).min()
    }

    fn is_under_way(&self) -> bool {
        self.ranks.iter().any(|seen| seen.duty != Duty::None)
    }

    fn all_have_answered(&self, runs: &[bool]) -> bool {
        let mut ranks = self.ranks.iter().zip(runs);
        ranks.all(|(seen, runs)| !(*runs && seen.is_asked))
    }

    /// Stops waiting for checkpoints whose time is over.
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
        let mut statuses: Vec<RankStatus> = ranks
            .map(|(rank, (seen, runs))| seen.status(rank, *runs, now))
            .collect();
        self.sum_up_sets(&mut statuses);
        let chosen = self.policy.next(milliseconds(now), &statuses)?;
        Some(self.order(chosen.index(), now))
    }

    /// The first rank of each set stands for the set; the others are not chosen.
    fn sum_up_sets(&self, statuses: &mut [RankStatus]) {
        for (rank, set) in self.set_of_rank.iter().enumerate() {
            let first = self.set_of_rank.iter().position(|it| it == set);
            let Some(first) = first.filter(|first| *first != rank) else {
                continue;
            };
            let member = core::mem::replace(&mut statuses[rank].is_ready, false);
            let of = statuses[rank];
            let sum = &mut statuses[first];
            sum.received_bytes += of.received_bytes;
            sum.sent_bytes += of.sent_bytes;
            sum.log_bytes += of.log_bytes;
            sum.state_bytes += of.state_bytes;
            sum.since = sum.since.min(of.since);
            sum.is_ready &= member;
        }
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

/// The schedule of a job's checkpoints with the start of its clock.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) scheduler: Scheduler,
    begin: Instant,
}

impl Schedule {
    /// As configured.
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
            scheduler: Scheduler::new(choice, every, ranks as usize)
                .with_sets(&recovery.set_of_rank),
            begin: Instant::now(),
        })
    }

    /// Now, as time of the schedule.
    pub(super) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn at(&self, time: Duration) -> Option<Instant> {
        self.begin.checked_add(time)
    }
}

impl Job {
    /// When the next messages are due.
    pub(super) fn next_checkpoint_step(&self) -> Option<Instant> {
        let due = self.schedule.scheduler.next_due();
        let due = due.into_iter().chain(self.rounds.next_due()).min();
        self.schedule.at(due?)
    }

    /// Sends the messages that are due.
    pub(super) fn order_checkpoints(&mut self) {
        let late = self.rounds.step(self.schedule.now());
        self.tell_rounds(&late);
        if self.schedule.scheduler.is_idle() {
            return;
        }
        let (now, runs) = (self.schedule.now(), self.runs());
        let requests = self.schedule.scheduler.step(now, &runs);
        self.say_requests(&requests);
    }

    /// Asks all ranks for their status.
    pub(super) fn ask_for_statuses(&mut self) {
        let requests = self.schedule.scheduler.ask_all(&self.runs());
        self.say_requests(&requests);
    }

    fn say_requests(&mut self, requests: &[Request]) {
        for request in requests {
            match *request {
                Request::Status(rank) => self.tell(rank, &ToRank::AskStatus, None),
                Request::Checkpoint(rank) => {
                    let (now, runs) = (self.schedule.now(), self.runs());
                    match self.rounds.order(Rank(rank as u32), now, &runs) {
                        None => self.tell(rank, &ToRank::CheckpointWanted, None),
                        Some(orders) => self.tell_rounds(&orders),
                    }
                }
            }
        }
    }

    /// Sends the messages of rounds of correlated sets. SET-4
    pub(super) fn tell_rounds(&mut self, orders: &[Order]) {
        for order in orders {
            match *order {
                Order::Begin(rank, round) => {
                    self.tell(rank.index(), &ToRank::RoundBegins(round), None);
                }
                Order::Take(rank) => self.tell(rank.index(), &ToRank::CheckpointWanted, None),
                Order::End(rank, round, is_complete) => {
                    let ends = ToRank::RoundEnds { round, is_complete };
                    self.tell(rank.index(), &ends, None);
                    if let (true, Some(checkpoint)) = (is_complete, self.rounds.goes_back_to(rank))
                    {
                        self.forget_output_before(rank.index(), checkpoint);
                    }
                }
            }
        }
    }

    /// A life may begin with this checkpoint, or the one before it, and no earlier one.
    pub(super) fn forget_output_before(&mut self, rank: usize, checkpoint: u64) {
        let outputs = self.ranks[rank].outputs.iter_mut();
        outputs.for_each(|output| output.forget_before(checkpoint));
    }

    /// By rank: the rank has joined, does not replay, and has not left.
    pub(super) fn runs(&self) -> Vec<bool> {
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
