//! State of a rank that outlives its processes.

use super::link::Memory;
use super::recoveries::{Death, Shot};
use super::restarts::{Allowance, Stage};
use super::verdict::{Cause, End};
use refrain_job::control::message::ReplayFigures;
use signal_hook::consts::SIGKILL;
use std::time::Instant;

/// One rank over all its lives.
#[derive(Debug)]
pub struct Lives {
    /// The current life.
    pub incarnation: u32,
    /// The restarts that are left.
    pub allowance: Allowance,
    /// This life has reached the point where the earlier life died, or is the first life.
    pub has_caught_up: bool,
    /// This life has put its address.
    pub has_address: bool,
    /// Number of the newest stable checkpoint, of whichever life, and when it became stable.
    pub checkpoint: Option<(u64, Instant)>,
    /// A life of the rank has told that its program takes checkpoints on request.
    pub heeds_requests: bool,
    /// The clock at which the first life kills itself.
    pub kill_at_clock: Option<u64>,
    /// The signal with which the launcher has killed this life.
    pub shot: Option<Shot>,
    /// The replay progress that this life reported last.
    pub replay: Option<ReplayFigures>,
    /// Number of consecutive lives that died before they had caught up.
    pub repeated_deaths: u32,
    /// The rank is dead, and its next life is still to be started.
    pub pending: Option<Pending>,
    /// The number of the last fence, if this life has reached it after all ranks had passed it. SET-5
    pub leaves_by: Option<u64>,
    /// The rank has died after the last fence, and is not restarted.
    pub is_given_up: bool,
    /// A host of the rank was lost.
    pub has_moved: bool,
    /// When this life was started.
    pub started: Instant,
    /// This life has read all that it needs of the memory of earlier lives.
    has_begun: bool,
    /// The segment that this life has published with its address.
    segment: Option<Memory>,
    /// Segments of earlier lives, with their incarnations: of the last life that had caught up,
    /// and of the newest life after it.
    remains: Vec<(u32, Memory)>,
}

/// A death whose next life is still to be started.
#[derive(Debug)]
pub struct Pending {
    /// When to start the next life.
    pub start_at: Instant,
    /// The end of the earlier life.
    pub death: Death,
}

impl Lives {
    /// State of a rank before its first start.
    pub fn new(max_restarts: u32, kill_at_clock: Option<u64>) -> Self {
        Self {
            incarnation: 0,
            allowance: Allowance::new(max_restarts),
            has_caught_up: true,
            has_address: false,
            checkpoint: None,
            heeds_requests: false,
            kill_at_clock,
            shot: None,
            replay: None,
            repeated_deaths: 0,
            pending: None,
            leaves_by: None,
            is_given_up: false,
            has_moved: false,
            started: Instant::now(),
            has_begun: true,
            segment: None,
            remains: Vec::new(),
        }
    }

    /// State of a rank before its first start in a later run of the job: its earlier lives have ended
    /// with the earlier run. JOB-3
    #[must_use]
    pub fn of_later_run(mut self, incarnation: u32) -> Self {
        self.incarnation = incarnation;
        self.has_caught_up = false;
        self.has_begun = false;
        self.kill_at_clock = None;
        self
    }

    /// This life has put its address.
    pub fn put_address(&mut self, segment: Option<Memory>) {
        self.has_address = true;
        self.segment = segment;
        self.let_go();
    }

    /// This life has read all that it needs of the memory of earlier lives.
    pub fn begin(&mut self) {
        self.has_begun = true;
        self.let_go();
    }

    /// This life has reached the point where the earlier life died.
    pub fn caught_up(&mut self) {
        self.has_caught_up = true;
        self.repeated_deaths = 0;
        self.let_go();
    }

    /// Whether this life has read all that it needs of earlier lives, and told its checkpoint.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the next life of the rank is still to be started.
    pub fn is_awaited(&self) -> bool {
        self.pending.is_some()
    }

    /// The progress of this life, if it has not caught up.
    pub fn stage(&self) -> Option<Stage> {
        (!self.has_caught_up).then(|| Stage {
            replay: self.replay,
            lived: self.started.elapsed(),
            has_checkpoint: self.checkpoint.is_some(),
        })
    }

    /// Frees the memory of earlier lives as soon as the log of this life has all that they sent.
    /// REC-8
    fn let_go(&mut self) {
        if self.has_caught_up && self.has_begun && self.segment.is_some() {
            self.remains.clear();
        }
    }

    /// Segments of earlier lives, with their incarnations.
    pub fn remains(&self) -> Vec<(u32, Memory)> {
        self.remains.clone()
    }

    /// The log memory of the life that passed the last fence, with its incarnation. For a rank
    /// that has passed it: later lives publish no segment.
    pub fn last_log(&self) -> Option<(u32, Memory)> {
        let own = self.segment.clone();
        own.map(|segment| (self.incarnation, segment))
            .or_else(|| self.remains.last().cloned())
    }

    /// The host of the rank is lost, with the memory of all lives there, and its local checkpoints.
    pub fn leave_host(&mut self) {
        self.segment = None;
        self.remains.clear();
        self.has_moved = true;
    }

    /// This life has ended, and the next one is started.
    pub fn next_life(&mut self) {
        // A life that had not begun has not read the memory of the lives before it.
        if let Some(segment) = self.segment.take().filter(|_| self.has_begun) {
            // A life that died during replay holds only a part of what the earlier life sent, and
            // what it sent while another rank was dead.
            self.remains.truncate(1);
            self.remains.push((self.incarnation, segment));
        }
        if !self.has_caught_up && !self.goes_back_with_set() {
            self.repeated_deaths += 1;
        }
        self.incarnation += 1;
        self.replay = None;
        self.has_begun = false;
        self.has_caught_up = false;
        self.has_address = false;
        self.kill_at_clock = None;
        self.shot = None;
        self.leaves_by = None;
    }

    /// Whether this life was killed because another rank of its set had died. SET-4
    pub fn goes_back_with_set(&self) -> bool {
        self.shot
            .is_some_and(|shot| shot.cause == Cause::WithItsSet)
    }

    /// Why this life has ended, as far as the launcher knows. A rank kills itself at its
    /// `kill_at_clock`.
    pub fn cause(&self, end: End) -> Cause {
        match (self.shot, self.kill_at_clock) {
            (Some(shot), _) => shot.cause,
            (None, Some(_)) if end == End::Killed(SIGKILL) => Cause::Kill,
            _ => Cause::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn segment() -> Option<Memory> {
        Some(Memory::Here(Arc::new(tempfile::tempfile().unwrap().into())))
    }

    fn whose(lives: &Lives) -> Vec<u32> {
        let remains = lives.remains();
        remains
            .iter()
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    // REC-6, REC-8
    #[test]
    fn lives_that_had_begun_leave_their_memory_to_the_next_that_catches_up() {
        let mut lives = Lives::new(8, None);
        lives.put_address(segment());
        assert!(whose(&lives).is_empty());
        lives.next_life();
        assert_eq!(whose(&lives), [0]);
        lives.put_address(segment());
        lives.next_life(); // it had not begun
        assert_eq!(whose(&lives), [0]);
        lives.begin();
        assert_eq!(whose(&lives), [0], "this life has published no memory yet");
        lives.next_life();
        assert_eq!(whose(&lives), [0]);
        for incarnation in [3, 4] {
            lives.begin();
            lives.put_address(segment());
            assert_eq!(whose(&lives)[0], 0, "it has not caught up");
            lives.next_life();
            assert_eq!(whose(&lives), [0, incarnation], "and the newest life");
        }
        lives.begin();
        lives.put_address(segment());
        lives.caught_up();
        assert!(whose(&lives).is_empty(), "freed");
        lives.next_life();
        assert_eq!(whose(&lives), [5]);
    }
}
