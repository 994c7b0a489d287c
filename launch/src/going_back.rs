//! The other members of a dead rank's correlated set go back with it. SET-4, SET-5

use super::Job;
use super::recoveries::Shot;
use super::verdict::{Cause, End, Membership};
use refrain_job::control::message::ToRank;
use refrain_ring::Rank;
use std::time::Instant;

impl Job {
    /// The members of a rank's set; empty: the rank is in no set.
    fn set_of(&self, rank: usize) -> Vec<usize> {
        let members = self.rounds.members(Rank(rank as u32));
        members.into_iter().map(Rank::index).collect()
    }

    /// A rank has died: the others of its set go back to their checkpoints, too. Returns those whose
    /// processes had ended well after the last fence: their next lives are to be started, too. SET-4, SET-5
    pub(super) fn take_set_along(&mut self, rank: usize) -> Vec<(usize, End)> {
        self.rounds.died(Rank(rank as u32));
        let mut ended = Vec::new();
        for member in self.set_of(rank) {
            let (process, lives) = (&mut self.ranks[member], &mut self.lives[member]);
            if member == rank || lives.shot.is_some() {
                continue;
            }
            match process.end {
                None => self.shoot(member, Cause::WithItsSet),
                Some(end @ End::Exited(0)) if self.past_last_fence && !lives.is_awaited() => {
                    let at = Instant::now();
                    let cause = Cause::WithItsSet;
                    lives.shot = Some(Shot { at, cause });
                    process.noticed = Some(at);
                    ended.push((member, end));
                }
                Some(_) => {}
            }
        }
        ended
    }

    /// Whether no earlier life of any rank of this rank's set runs: the next lives must not meet one.
    /// SET-4
    pub(super) fn has_whole_set_ended(&self, rank: usize) -> bool {
        let mut members = self.set_of(rank).into_iter();
        members.all(|member| self.lives[member].shot.is_none())
    }

    /// A later life has reached the last fence, which all ranks have passed before. It waits there for
    /// the others of its set, which may need its messages. SET-5
    pub(super) fn leave_with_set(&mut self, rank: usize, fence: u64) -> Result<(), String> {
        self.lives[rank].leaves_by = Some(fence);
        let mut set = self.set_of(rank);
        if set.is_empty() {
            set.push(rank);
        }
        let leaves = |member: &usize| {
            let (process, lives) = (&self.ranks[*member], &self.lives[*member]);
            // A killed rank may not have ended yet.
            lives.leaves_by.is_some() && lives.shot.is_none() && !process.has_ended()
        };
        if !set.iter().all(leaves) {
            return Ok(());
        }
        for member in set {
            self.ranks[member].membership = Membership::Left;
            if let Some(fence) = self.lives[member].leaves_by {
                self.answer(member, &ToRank::FenceDone(fence), None)?;
            }
        }
        Ok(())
    }

    /// Whether a rank of this rank's set has died after the last fence, and was not restarted: the set
    /// cannot go back as a whole. SET-5
    pub(super) fn is_set_given_up(&self, rank: usize) -> bool {
        let mut members = self.set_of(rank).into_iter();
        members.any(|member| self.lives[member].is_given_up)
    }

    /// A rank is not restarted after the last fence. Lives of its set that replay would wait for its
    /// messages: they end. Those that have passed the fence continue. SET-5
    pub(super) fn give_up_set(&mut self, rank: usize) {
        self.lives[rank].is_given_up = true;
        for member in self.set_of(rank) {
            self.lives[member].pending = None;
            let has_left = self.ranks[member].membership == Membership::Left;
            let has_ended = self.ranks[member].end.is_some();
            if !has_left && !has_ended && self.lives[member].shot.is_none() {
                self.shoot(member, Cause::WithItsSet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobSpec, Program};
    use refrain_logging::rounds::Rounds;
    use signal_hook::consts::SIGKILL;

    /// Ranks 0 and 1 are a set.
    fn job() -> Job {
        let spec = JobSpec {
            programs: vec![Program {
                path: "sleep".into(),
                arguments: vec!["1000".into()],
                ranks: 3,
                ..Program::default()
            }],
            ..JobSpec::default()
        };
        let mut job = Job::start(spec).unwrap();
        job.rounds = Rounds::new(&[0, 0, 1]);
        job.past_last_fence = true;
        job
    }

    // SET-5
    #[test]
    fn members_pass_the_last_fence_together() {
        let mut job = job();
        let has_left = |job: &Job| {
            let left = job.ranks.iter().map(|it| it.membership);
            left.map(|it| it == Membership::Left).collect::<Vec<_>>()
        };
        job.leave_with_set(2, 1).unwrap();
        job.leave_with_set(0, 1).unwrap();
        assert_eq!(has_left(&job), [false, false, true]);
        let at = Instant::now();
        let cause = Cause::Kill;
        job.lives[1].shot = Some(Shot { at, cause });
        job.leave_with_set(1, 1).unwrap();
        assert_eq!(has_left(&job), [false, false, true], "rank 1 will end");
        job.lives[1].shot = None;
        job.leave_with_set(1, 1).unwrap();
        assert_eq!(has_left(&job), [true; 3]);
    }

    // SET-5
    #[test]
    fn members_that_have_ended_well_go_back_once() {
        let mut job = job();
        job.ranks[1].end = Some(End::Killed(SIGKILL));
        assert!(job.take_set_along(0).is_empty(), "its own death is handled");
        let ended = End::Exited(0);
        job.ranks[1].end = Some(ended);
        job.past_last_fence = false;
        assert!(job.take_set_along(0).is_empty());
        job.past_last_fence = true;
        assert!(job.take_set_along(2).is_empty(), "it has no set");
        assert_eq!(job.take_set_along(0), [(1, ended)]);
        assert!(
            !job.has_whole_set_ended(0),
            "the next life of rank 1 is not due"
        );
        assert!(job.take_set_along(0).is_empty());
    }
}
