//! Rounds of checkpoints of correlated sets, as the launcher sees them. Pure: time and which ranks run are inputs; messages to
//! ranks are outputs.
//!
//! A round begins when a member asks for one, or the scheduler chooses a member. First all members keep
//! their messages to each other; when all do, each takes its checkpoint at a time of its own; when all
//! are stable, the round is complete, and the launcher tells all members. After a death, the set goes back to the
//! checkpoints of its last complete round. A death, or a member that takes too long, ends a round
//! without an effect. SET-2, SET-4

use core::time::Duration;
use refrain_ring::Rank;

/// Time after which a round ends in which not all members have taken a checkpoint.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// Maximum number of doublings of the time after such a round in which none begins.
const DOUBLINGS_MAX: u32 = 6;

/// A message to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A round begins.
    Begin(Rank, u64),
    /// All members keep their messages.
    Take(Rank),
    /// A round has ended, complete or not.
    End(Rank, u64, bool),
}

/// The rounds of all sets of a job; see the [module](self).
#[derive(Debug)]
pub struct Rounds {
    /// By rank, the index of its set; empty: no set has two ranks.
    set_of_rank: Vec<usize>,
    sets: Vec<Set>,
}

#[derive(Debug, Default)]
struct Set {
    members: Vec<Member>,
    /// The number of the last round.
    round: u64,
    /// When it began, if it is open.
    began: Option<Duration>,
    /// Number of rounds in a row that ended because a member took too long.
    failures: u32,
    not_before: Duration,
}

#[derive(Debug)]
struct Member {
    rank: Rank,
    /// Its checkpoint of the last complete round; 0: the beginning of the program.
    complete: u64,
    /// In the round that is open.
    keeps: bool,
    stable: Option<u64>,
}

impl Rounds {
    /// `set_of_rank`: by rank, the number of its set, as in the job's settings.
    pub fn new(set_of_rank: &[u32]) -> Self {
        let mut numbers = set_of_rank.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let index = |number: &u32| numbers.partition_point(|it| it < number);
        let set_of_rank: Vec<usize> = set_of_rank.iter().map(index).collect();
        let mut sets: Vec<Set> = numbers.iter().map(|_| Set::default()).collect();
        for (rank, set) in (0..).map(Rank).zip(&set_of_rank) {
            sets[*set].members.push(Member {
                rank,
                complete: 0,
                keeps: false,
                stable: None,
            });
        }
        Self { set_of_rank, sets }
    }

    fn set_of(&mut self, rank: Rank) -> Option<&mut Set> {
        let set = &mut self.sets[*self.set_of_rank.get(rank.index())?];
        (set.members.len() > 1).then_some(set)
    }

    /// The ranks of a rank's set, if it has others.
    pub fn members(&self, rank: Rank) -> Vec<Rank> {
        let set = self
            .set_of_rank
            .get(rank.index())
            .map(|set| &self.sets[*set]);
        let members = set.map(|set| set.members.iter().map(|it| it.rank).collect());
        members
            .filter(|all: &Vec<_>| all.len() > 1)
            .unwrap_or_default()
    }

    /// The checkpoint to which a rank goes back with its set; `None`: it is in no set. SET-4
    pub fn goes_back_to(&self, rank: Rank) -> Option<u64> {
        let set = &self.sets[*self.set_of_rank.get(rank.index())?];
        let mut members = set.members.iter().filter(|_| set.members.len() > 1);
        members.find(|it| it.rank == rank).map(|it| it.complete)
    }

    /// The scheduler requests a checkpoint of a rank. `None`: the rank is in no set.
    pub fn order(&mut self, rank: Rank, now: Duration, runs: &[bool]) -> Option<Vec<Order>> {
        let set = self.set_of(rank)?;
        let can_begin = set.members.iter().all(|it| runs[it.rank.index()]) && now >= set.not_before;
        match set.began.is_none() && can_begin {
            true => Some(set.begin(now)),
            false => Some(Vec::new()),
        }
    }

    /// A rank's program takes a checkpoint, and asks for a round. If none begins, the orders tell the rank so.
    pub fn wanted(&mut self, rank: Rank, now: Duration, runs: &[bool]) -> Vec<Order> {
        let orders = self.order(rank, now, runs).unwrap_or_default();
        let is_open = self.set_of(rank).is_some_and(|set| set.began.is_some());
        match is_open {
            true => orders,
            false => vec![Order::End(rank, 0, false)],
        }
    }

    /// A rank keeps its messages to the other members.
    pub fn keeping(&mut self, rank: Rank, round: u64) -> Vec<Order> {
        let Some(set) = self.set_of(rank).filter(|set| set.is_open(round)) else {
            return Vec::new();
        };
        if let Some(member) = set.member(rank) {
            member.keeps = true;
        }
        match set.members.iter().all(|it| it.keeps) {
            true => set.members.iter().map(|it| Order::Take(it.rank)).collect(),
            false => Vec::new(),
        }
    }

    /// A rank has a stable checkpoint.
    pub fn stable(&mut self, rank: Rank, checkpoint: u64) -> Vec<Order> {
        let Some(set) = self.set_of(rank).filter(|set| set.began.is_some()) else {
            return Vec::new();
        };
        if let Some(member) = set.member(rank) {
            member.stable = Some(checkpoint);
        }
        match set.members.iter().all(|it| it.stable.is_some()) {
            true => set.end(true),
            false => Vec::new(),
        }
    }

    /// A rank cannot take its checkpoint in this round.
    pub fn cannot_keep(&mut self, rank: Rank, round: u64, now: Duration) -> Vec<Order> {
        match self.set_of(rank).filter(|set| set.is_open(round)) {
            Some(set) => set.fail(now),
            None => Vec::new(),
        }
    }

    /// A life has ended: its set goes back, and the round that is open is void.
    pub fn died(&mut self, rank: Rank) {
        if let Some(set) = self.set_of(rank) {
            set.end(false);
        }
    }

    /// Ends rounds that take too long.
    pub fn step(&mut self, now: Duration) -> Vec<Order> {
        let is_late = |set: &&mut Set| set.began.is_some_and(|at| now >= at + ROUND_MAX);
        let late = self.sets.iter_mut().filter(is_late);
        late.flat_map(|set| set.fail(now)).collect()
    }

    /// When the next step is due.
    pub fn next_due(&self) -> Option<Duration> {
        let began = self.sets.iter().filter_map(|set| set.began);
        began.map(|at| at + ROUND_MAX).min()
    }
}

impl Set {
    fn is_open(&self, round: u64) -> bool {
        self.began.is_some() && self.round == round
    }

    fn member(&mut self, rank: Rank) -> Option<&mut Member> {
        self.members.iter_mut().find(|it| it.rank == rank)
    }

    fn begin(&mut self, now: Duration) -> Vec<Order> {
        self.round += 1;
        self.began = Some(now);
        let round = self.round;
        let begin = |it: &mut Member| {
            (it.keeps, it.stable) = (false, None);
            Order::Begin(it.rank, round)
        };
        self.members.iter_mut().map(begin).collect()
    }

    fn end(&mut self, is_complete: bool) -> Vec<Order> {
        if self.began.take().is_none() {
            return Vec::new();
        }
        let round = self.round;
        if is_complete {
            self.failures = 0;
            for member in &mut self.members {
                member.complete = member.stable.unwrap_or(member.complete);
            }
        }
        let end = |it: &Member| Order::End(it.rank, round, is_complete);
        self.members.iter().map(end).collect()
    }

    /// Ends the round; the next one begins later.
    fn fail(&mut self, now: Duration) -> Vec<Order> {
        let wait = Duration::from_secs(1 << self.failures.min(DOUBLINGS_MAX));
        self.failures += 1;
        self.not_before = now + wait;
        self.end(false)
    }
}

#[cfg(test)]
mod tests;
