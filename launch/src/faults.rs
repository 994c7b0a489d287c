//! Kills and stops ranks on request, and kills ranks that are stopped for too long.
//!
//! Silence of a rank is no sign of death: a computing rank may send nothing for any time. A
//! *stopped* process (by a signal or a debugger) is visible from outside: such a rank delays all
//! others, and is killed and replaced.

use super::Job;
use super::fault_plan::{Action, FaultSpec, Schedule, Target};
use super::hosts::message::Recipient;
use super::lives::Lives;
use super::recoveries::Shot;
use super::restarts::Departure;
use super::verdict::{Cause, Membership};
use refrain_job::JobError;
use rustix::process::Signal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time after which a kill that waits for its turn is tried again.
const TURN_LOOK: Duration = Duration::from_millis(2);

/// The faults of a job, and the search for stopped ranks.
#[derive(Debug)]
pub struct Faults {
    spec: FaultSpec,
    begin: Instant,
    schedule: Schedule,
    suspicion: Option<Suspicion>,
}

impl Faults {
    /// Faults for a job of `ranks` ranks and `loggers` event loggers.
    ///
    /// # Errors
    /// [`JobError::Argument`] for a fault of a rank or event logger that does not exist.
    pub fn new(mut spec: FaultSpec, ranks: u32, loggers: usize) -> Result<Self, JobError> {
        spec.check(ranks, loggers).map_err(JobError::Argument)?;
        let mut seed = 0;
        if let Some(random) = &mut spec.kill_random {
            seed = *random.seed.get_or_insert_with(seed_of_now);
        }
        let begin = Instant::now();
        let suspicion = spec
            .suspect_after
            .map(|after| Suspicion::new(ranks as usize, after, begin));
        Ok(Self {
            schedule: Schedule::new(&spec, seed),
            spec,
            begin,
            suspicion,
        })
    }

    /// The clock at which the first life of a rank kills itself.
    pub fn kill_at_clock(&self, rank: u32) -> Option<u64> {
        self.spec.kill_at_clock(rank)
    }

    /// When the next fault or search is due.
    pub fn next_due(&self) -> Option<Instant> {
        let scheduled = self.schedule.next_due();
        let scheduled = scheduled.and_then(|at| self.begin.checked_add(at));
        let look = self.suspicion.as_ref().map(Suspicion::next_look);
        scheduled.into_iter().chain(look).min()
    }

    /// The whole job was stopped: no rank is suspected for that time.
    pub fn forgive(&mut self) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.forgive();
        }
    }
}

/// A new seed. Seeds are printed, so it is short.
fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::from(since.subsec_nanos()) ^ since.as_secs() & 0xffff_ffff
    })
}

impl Job {
    /// All ranks run: the time of faults begins.
    pub(super) fn begin_faults(&mut self) {
        self.faults.begin = Instant::now();
        if let Some(seed) = self.faults.spec.kill_random.and_then(|random| random.seed) {
            self.say(Some(format!("--kill-random: the seed is {seed}")));
        }
    }

    /// Injects the faults that are due, and searches for stopped ranks.
    pub(super) fn inject_faults(&mut self) {
        let now = self.faults.begin.elapsed();
        while let Some(action) = self.faults.schedule.take_due(now) {
            let is_too_early = self.faults.spec.kills_in_turn && self.is_any_gone();
            match action {
                Action::Kill(Target::Rank(_), _) if is_too_early => {
                    let then = now.saturating_add(TURN_LOOK);
                    self.faults.schedule.add(then, action);
                }
                Action::KillAny if is_too_early => {}
                Action::Kill(Target::Rank(rank), cause) => self.shoot(rank as usize, cause),
                Action::Kill(Target::EventLogger(logger), _) => self.loggers.kill(logger as usize),
                Action::Stop(rank, length) => {
                    let incarnation = self.lives[rank as usize].incarnation;
                    if self.signal_life(rank as usize, Signal::STOP) {
                        let until = now.saturating_add(length);
                        self.faults
                            .schedule
                            .add(until, Action::Continue(rank, incarnation));
                    }
                }
                Action::Continue(rank, incarnation) => {
                    if self.lives[rank as usize].incarnation == incarnation {
                        self.signal_life(rank as usize, Signal::CONT);
                    }
                }
                Action::KillAny => self.shoot_any(),
            }
        }
        self.look_for_stopped();
    }

    /// A rank was killed or waits for its restart, or its death is not made good yet. TICKET-4
    fn is_any_gone(&self) -> bool {
        let is_down = |lives: &Lives| lives.shot.is_some() || lives.is_awaited();
        self.lives.iter().any(is_down) || self.losses.is_any_gone()
    }

    fn shoot_any(&mut self) {
        let living: Vec<usize> = (0..self.ranks.len())
            .filter(|rank| self.is_to_be_hit(*rank))
            .collect();
        if let Some(chosen) = self.faults.schedule.choose(living.len()) {
            self.shoot(living[chosen], Cause::KillRandom);
        }
    }

    /// Whether a signal may hit the rank: it runs, and has not left or would be restarted.
    fn is_to_be_hit(&self, rank: usize) -> bool {
        let process = &self.ranks[rank];
        let has_left = process.membership == Membership::Left;
        let comes_again = || self.restarts_ranks() && self.departure(rank) == Departure::Behind;
        process.end.is_none() && (!has_left || comes_again())
    }

    pub(super) fn shoot(&mut self, rank: usize, cause: Cause) {
        let at = Instant::now();
        if self.signal_life(rank, Signal::KILL) {
            self.lives[rank].shot = Some(Shot { at, cause });
        }
    }

    /// Signals the processes of a rank. `false`: the rank has left or its process has ended;
    /// nothing is sent.
    fn signal_life(&mut self, rank: usize, signal: Signal) -> bool {
        let is_to_be_hit = self.is_to_be_hit(rank);
        if is_to_be_hit {
            self.ranks[rank].signal(Recipient::Own, signal);
        } else {
            let line = match self.lives[rank].is_awaited() {
                true => format!("rank {rank} waits for its restart and gets no signal"),
                false => format!("rank {rank} has left the job and gets no signal"),
            };
            self.say_of(rank, Some(line));
        }
        is_to_be_hit
    }

    /// A peer, or the rank itself (`by`), has given up this life: it is killed, unless it has
    /// ended. FENCE-1
    pub(super) fn suspect(&mut self, rank: usize, incarnation: u32, by: usize) {
        let is_this = self
            .lives
            .get(rank)
            .is_some_and(|it| it.incarnation == incarnation);
        // Peers that have passed the last fence may end at any time.
        if is_this && !self.past_last_fence && self.restarts_ranks() && self.is_to_be_hit(rank) {
            let is_own = by == rank;
            self.shoot(
                rank,
                if is_own {
                    Cause::Disconnected
                } else {
                    Cause::Lost
                },
            );
        }
    }

    /// FENCE-1: a rank that counts as lost is killed before it is replaced.
    fn look_for_stopped(&mut self) {
        let now = Instant::now();
        let Some(suspicion) = &mut self.faults.suspicion else {
            return;
        };
        if !suspicion.is_due(now) {
            return;
        }
        let mut lost = Vec::new();
        for (rank, process) in self.ranks.iter().enumerate() {
            let incarnation = self.lives[rank].incarnation;
            let is_lost = suspicion.see(rank, incarnation, process.is_stopped(), now);
            if is_lost && process.end.is_none() && self.lives[rank].shot.is_none() {
                lost.push(rank);
            }
        }
        for rank in lost {
            if self.is_to_be_hit(rank) {
                self.shoot(rank, Cause::Suspected);
            }
        }
    }
}

/// Shortest and longest time between two searches.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(250);

/// When each rank was first seen stopped.
#[derive(Debug)]
pub struct Suspicion {
    after: Duration,
    /// By rank: the incarnation, and when it was first seen stopped.
    stopped: Vec<Option<(u32, Instant)>>,
    next_look: Instant,
}

impl Suspicion {
    /// Suspects ranks that are stopped for longer than `after`.
    pub fn new(ranks: usize, after: Duration, now: Instant) -> Self {
        Self {
            after,
            stopped: vec![None; ranks],
            next_look: now,
        }
    }

    /// When the next search is due.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Whether a search is due. If so, sets the time of the next one.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + (self.after / 4).clamp(LOOK_MIN, LOOK_MAX);
        }
        is_due
    }

    /// Notes whether a rank is stopped. `true`: it counts as lost.
    pub fn see(&mut self, rank: usize, incarnation: u32, is_stopped: bool, now: Instant) -> bool {
        let seen = &mut self.stopped[rank];
        if !is_stopped {
            *seen = None;
            return false;
        }
        let (_, since) = *seen
            .filter(|(life, _)| *life == incarnation)
            .get_or_insert((incarnation, now));
        *seen = Some((incarnation, since));
        now - since >= self.after
    }

    /// The whole job was stopped: no rank is suspected.
    pub fn forgive(&mut self) {
        self.stopped.fill(None);
    }
}

#[cfg(test)]
mod suspicion_tests {
    use super::*;

    #[test]
    fn only_a_life_that_is_stopped_for_the_whole_time_is_suspected() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut suspicion = Suspicion::new(2, Duration::from_secs(10), begin);
        assert!(!suspicion.see(1, 0, true, at(0)));
        assert!(!suspicion.see(1, 0, true, at(9)));
        assert!(suspicion.see(1, 0, true, at(10)));
        assert!(
            !suspicion.see(0, 0, true, at(10)),
            "each rank has its own time"
        );
        assert!(
            !suspicion.see(1, 1, true, at(11)),
            "the next life has its own time"
        );
        assert!(!suspicion.see(1, 1, false, at(15)));
        assert!(!suspicion.see(1, 1, true, at(22)));
        suspicion.forgive();
        assert!(!suspicion.see(1, 1, true, at(40)));
        assert!(suspicion.see(1, 1, true, at(50)));
    }

    #[test]
    fn looks_are_not_more_often_than_of_use() {
        let begin = Instant::now();
        let mut suspicion = Suspicion::new(1, Duration::from_millis(200), begin);
        assert!(suspicion.is_due(begin));
        assert_eq!(suspicion.next_look(), begin + Duration::from_millis(50));
        assert!(!suspicion.is_due(begin + Duration::from_millis(49)));
        assert!(suspicion.is_due(begin + Duration::from_millis(50)));
    }
}
