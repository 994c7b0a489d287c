//! Asking ranks how they are, and ordering checkpoints: what the schedule says.

use super::Job;
use super::scheduling::{Request, Scheduler};
use super::verdict::Membership;
use refrain_checkpoint::policy::Choice;
use refrain_job::JobError;
use refrain_job::config::RecoveryConfig;
use refrain_job::control::message::ToRank;
use std::time::{Duration, Instant};

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
    /// [`JobError::Config`] for a policy that does not exist, or that has nobody to go on
    /// from its checkpoints.
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

    /// By rank: it has joined, plays nothing again, and has not left.
    fn runs(&self) -> Vec<bool> {
        let ranks = self.ranks.iter().zip(&self.lives);
        let runs = ranks.map(|(process, lives)| {
            let is_there = process.end.is_none() && process.membership == Membership::Member;
            is_there && lives.has_caught_up
        });
        runs.collect()
    }
}
