//! The faults of a plan, and when they occur.
//!
//! | fault | what must survive it |
//! |---|---|
//! | a rank is killed, before or after any of its effects (a frame or control frame posted, a commit or hello sent, an operation of its log's disk begun) | the job's other ranks; every message that others may have seen can be sent again, from loggers, peers' logs and the rank's own memory and files |
//! | several ranks are killed in one step; a rank whose new life is still collecting is killed again | the same |
//! | a rank pauses | everything; only the launcher suspects it |
//! | a living rank is suspected | the same as for one that was killed; peers that have fenced the old life take none of its frames |
//! | frames are delayed, overtake those of other channels, are refused; frames of dead lives arrive late, in part or never | every message, in order, once |
//! | a rank's connections to loggers break: requests under way are flushed, one-sided writes arrive in part, completions are lost | everything acknowledged; the rest is sent again |
//! | an event logger is killed before or after any of its effects (a message sent, an operation of its disk); it restarts with its files and the rings in its host's memory | everything acknowledged |
//! | an event logger's host loses power: unsynced data is lost or torn (level `durable` only: `placed` does not promise to survive it) | everything acknowledged |
//! | an event logger's host is lost while the other loggers have all of its data: it restarts without data | everything acknowledged |
//! | the checkpoint store is killed, or its host loses power | every checkpoint that was reported stable, in two generations |
//! | a disk (log of a rank, logger, checkpoint store) is full or does not answer for a time | everything; what needs the disk waits |
//! | all loggers lose acknowledged events of one rank, all of them or the last, while the rank and all loggers die; there is no other fault | not the events: the job continues exactly as before, or the rank stops with the error of lost records (REC-9) |
//!
//! No logger is lost forever: each restarts.

use super::World;
use super::rank::RankSlot;
use super::stage::Count;
use crate::crash_point::CrashPoint;
use crate::happening::Happening;
use crate::plan::{FaultKind, FaultPlan, Moment, Plan, Process};
use refrain_eventlog::Level;
use refrain_logging::store::faulty::Failure;
use refrain_ring::Rank;

/// The pending faults of a plan.
#[derive(Debug)]
pub struct Injector {
    pending: Vec<FaultPlan>,
}

impl Injector {
    /// All faults of the plan, except deaths at an effect: crash points hold those.
    pub fn new(plan: &Plan) -> Self {
        let is_own = |fault: &&FaultPlan| !is_death_at_effect(fault);
        let pending = plan.faults.iter().filter(is_own).copied().collect();
        Self { pending }
    }

    /// The crash point of a process, with its deaths at effects.
    pub fn crash_point(plan: &Plan, process: Process) -> CrashPoint {
        let deaths = plan.faults.iter().filter_map(|fault| match fault.moment {
            Moment::Effect { number, before }
                if fault.process == process && is_death_at_effect(fault) =>
            {
                Some((number, before))
            }
            _ => None,
        });
        CrashPoint::new(deaths.collect())
    }

    /// Removes and returns the faults that are due. `effects`: number of effects of a process so
    /// far.
    pub fn due(&mut self, step: u64, effects: impl Fn(Process) -> u64) -> Vec<FaultPlan> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let is_due = |fault: &FaultPlan| match fault.moment {
            Moment::Step(at) => at <= step,
            Moment::Effect { number, .. } => effects(fault.process) > number,
        };
        let (due, pending) = self.pending.iter().partition(|fault| is_due(fault));
        self.pending = pending;
        due
    }

    /// Drops all pending faults.
    pub fn stop(&mut self) {
        self.pending.clear();
    }

    /// Whether a fault is pending for a step.
    pub fn waits_for_step(&self) -> bool {
        let at_step = |fault: &FaultPlan| matches!(fault.moment, Moment::Step(_));
        self.pending.iter().any(at_step)
    }
}

fn is_death_at_effect(fault: &FaultPlan) -> bool {
    fault.kind == FaultKind::Kill && matches!(fault.moment, Moment::Effect { .. })
}

/// Maximum number of steps until a logger or the checkpoint store is restarted.
const BACK_STEPS_MAX: u64 = 300;

impl World<'_> {
    /// Carries out the faults that are due.
    pub(super) fn fail(&mut self) {
        let (crash_points, loggers) = (&self.crash_points, &self.logger_crash_points);
        let checkpoints = &self.checkpoints_crash_point;
        let due = self.injector.due(self.step, |process| match process {
            Process::Rank(rank) => crash_points[rank.index()].effects(),
            Process::Logger(logger) => loggers[logger as usize].effects(),
            Process::Checkpoints => checkpoints.effects(),
        });
        for fault in due {
            match fault.process {
                Process::Rank(rank) => self.rank_fails(rank, fault.kind),
                Process::Logger(logger) => self.logger_fails(logger, fault.kind),
                Process::Checkpoints => self.checkpoints_fail(&fault),
            }
        }
    }

    fn rank_fails(&mut self, rank: Rank, kind: FaultKind) {
        let until = |steps| Some(self.step + steps);
        match (kind, &mut self.slots[rank.index()]) {
            (FaultKind::Kill | FaultKind::PowerLoss, slot) => {
                if let Some(crash_point) = slot.crash_point() {
                    crash_point.kill();
                }
            }
            (FaultKind::Pause(steps), RankSlot::Living(process)) => {
                self.stage.count(Count::Pauses);
                process.pause_steps = steps;
            }
            (FaultKind::LoseEvents(percent), RankSlot::Living(process)) => {
                process.crash_point.kill();
                self.lose_events(rank, percent);
            }
            // The launcher kills whole sets, and knows of their ends.
            (FaultKind::Suspect, RankSlot::Living(process))
                if self.rounds.goes_back_to(rank).is_some() =>
            {
                process.crash_point.kill();
            }
            (FaultKind::Suspect, RankSlot::Living(_)) => self.suspect(rank),
            (FaultKind::Disconnect, slot) => {
                self.stage.count(Count::Disconnections);
                self.loggers.disconnect(slot.life());
            }
            (FaultKind::DiskFull(steps) | FaultKind::DiskSlow(steps), _) => {
                if let Some(disk) = &self.disks[rank.index()] {
                    self.stage.count(Count::DiskFaults);
                    match kind {
                        FaultKind::DiskSlow(_) => disk.stall(true),
                        _ => disk.fail_writes(Some(Failure::NoSpace)),
                    }
                    self.disk_back[rank.index()] = until(steps);
                }
            }
            _ => {}
        }
    }

    /// All loggers die; events of a rank are lost with them. Where ranks hold events, they lose them.
    /// REC-9
    fn lose_events(&mut self, rank: Rank, percent: u8) {
        for logger in 0..self.logger_back.len() as u32 {
            self.logger_fails(logger, FaultKind::Kill);
        }
        self.held_percent = Some(percent);
        if self.held.is_some() || self.loggers.lose_events(rank, percent) {
            self.stage.count(Count::Losses);
            self.lossy = Some(rank);
            let oracles = &mut *self.stage.oracles.borrow_mut();
            oracles.channel.lose_events(rank);
            oracles.log.lose_events(rank);
        }
    }

    /// The launcher takes a living rank for dead.
    fn suspect(&mut self, rank: Rank) {
        self.stage.count(Count::Suspicions);
        self.lose(rank);
    }

    fn logger_fails(&mut self, logger: u32, kind: FaultKind) {
        let index = logger as usize;
        if self.logger_back[index].is_some() {
            return;
        }
        let back = match kind {
            FaultKind::Forget if self.loggers.forget(logger) => {
                self.stage.count(Count::Forgotten);
                self.stage.tell(&Happening::Died(Process::Logger(logger)));
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::Kill | FaultKind::PowerLoss | FaultKind::Forget => {
                let is_promised = self.plan.loggers.level == Level::Durable;
                if kind == FaultKind::PowerLoss && is_promised {
                    self.loggers.logger(logger).lose_power();
                } else {
                    self.loggers.logger(logger).kill();
                }
                self.stage.count(Count::LoggerKills);
                self.stage.tell(&Happening::Died(Process::Logger(logger)));
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::Pause(steps) => {
                self.loggers.logger(logger).is_paused = true;
                self.stage.count(Count::Pauses);
                steps
            }
            FaultKind::DiskFull(steps) => {
                self.loggers.logger(logger).set_full(true);
                self.stage.count(Count::DiskFaults);
                steps
            }
            FaultKind::DiskSlow(steps) => {
                self.loggers.logger(logger).set_slow(true);
                self.stage.count(Count::DiskFaults);
                steps
            }
            FaultKind::Suspect | FaultKind::Disconnect | FaultKind::LoseEvents(_) => return,
        };
        self.logger_back[index] = Some(self.step + back);
    }

    fn checkpoints_fail(&mut self, fault: &FaultPlan) {
        if self.checkpoints_back.is_some() {
            return;
        }
        let back = match fault.kind {
            FaultKind::Kill | FaultKind::PowerLoss => {
                match fault.kind {
                    FaultKind::Kill => self.checkpoints.kill(),
                    _ => self.checkpoints.power_loss(),
                }
                self.stage.count(Count::CheckpointKills);
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::DiskFull(steps) => {
                self.checkpoints.disk_full(true);
                self.stage.count(Count::DiskFaults);
                steps
            }
            FaultKind::DiskSlow(steps) | FaultKind::Pause(steps) => {
                self.checkpoints.disk_slow(true);
                self.stage.count(Count::DiskFaults);
                steps
            }
            FaultKind::Suspect
            | FaultKind::Disconnect
            | FaultKind::LoseEvents(_)
            | FaultKind::Forget => return,
        };
        self.checkpoints_back = Some(self.step + back);
    }

    /// Restarts the processes and restores the disks that are due.
    pub(super) fn come_back(&mut self) {
        let step = self.step;
        let is_due = |back: &mut Option<u64>| back.take_if(|at| *at <= step).is_some();
        for logger in 0..self.logger_back.len() {
            let lives = self.loggers.logger(logger as u32).lives();
            if !lives && self.logger_back[logger].is_none() {
                // It died at one of its effects.
                self.stage.count(Count::LoggerKills);
                self.logger_back[logger] = Some(step + 1 + self.rng.u64(0..BACK_STEPS_MAX));
            }
            if is_due(&mut self.logger_back[logger]) {
                self.logger_comes_back(logger as u32);
            }
        }
        if self.checkpoints.is_dead() && self.checkpoints_back.is_none() {
            self.stage.count(Count::CheckpointKills);
            self.checkpoints_back = Some(step + 1 + self.rng.u64(0..BACK_STEPS_MAX));
        }
        if is_due(&mut self.checkpoints_back) {
            self.checkpoints.disk_full(false);
            self.checkpoints.disk_slow(false);
            self.checkpoints.restart();
        }
        for (back, disk) in self.disk_back.iter_mut().zip(&self.disks) {
            if let (true, Some(disk)) = (is_due(back), disk) {
                disk.fail_writes(None);
                disk.stall(false);
            }
        }
    }

    fn logger_comes_back(&mut self, logger: u32) {
        let mut it = self.loggers.logger(logger);
        it.is_paused = false;
        it.set_full(false);
        it.set_slow(false);
        if !it.lives() {
            it.restart();
            self.stage
                .tell(&Happening::Restarted(Process::Logger(logger)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_due_once() {
        let fault = |at| FaultPlan {
            process: Process::Checkpoints,
            moment: Moment::Step(at),
            kind: FaultKind::Kill,
        };
        let pending = vec![fault(3), fault(7)];
        let mut injector = Injector { pending };
        assert_eq!(injector.due(2, |_| 0), []);
        assert_eq!(injector.due(3, |_| 0), [fault(3)]);
        assert_eq!(injector.due(9, |_| 0), [fault(7)]);
        assert!(!injector.waits_for_step());
    }
}
