//! Faults as they come, and what was away that comes back.

use super::Job;
use super::seat::Seat;
use crate::happening::Happening;
use crate::plan::{FaultKind, FaultPlan, LevelPlan, Process};
use refrain_logging::store::faulty::{Failure, Fault, How, Kind};
use refrain_ring::Rank;

/// Steps until a logger or the checkpoint store is started again, at most.
const BACK_STEPS_MAX: u64 = 300;

impl Job<'_> {
    /// What goes wrong now.
    pub(super) fn fail(&mut self) {
        let (mortals, loggers) = (&self.mortals, &self.logger_mortals);
        let checkpoints = &self.checkpoints_mortal;
        let due = self.injector.due(self.step, |process| match process {
            Process::Rank(rank) => mortals[rank.index()].effects(),
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
        let faults = &mut self.faults;
        match (kind, &mut self.seats[rank.index()]) {
            (FaultKind::Kill | FaultKind::PowerLoss, seat) => {
                if let Some(mortal) = seat.mortal() {
                    mortal.kill();
                }
            }
            (FaultKind::Pause(steps), Seat::Living(process)) => {
                faults.pauses += 1;
                process.pause_steps = steps;
            }
            (FaultKind::LoseEvents(percent), Seat::Living(process)) => {
                process.mortal.kill();
                self.lose_events(rank, percent);
            }
            (FaultKind::Suspect, Seat::Living(_)) => self.suspect(rank),
            (FaultKind::Disconnect, seat) => {
                faults.disconnects += 1;
                self.loggers.disconnect(seat.life());
            }
            (FaultKind::DiskFull(steps), _) => {
                if let Some(disk) = &self.disks[rank.index()] {
                    faults.disks += 1;
                    disk.fail(Fault {
                        on: Kind::Write,
                        failure: Failure::NoSpace,
                        how: How::Always,
                    });
                    self.disk_back[rank.index()] = until(steps);
                }
            }
            (FaultKind::DiskSlow(steps), _) => {
                if let Some(disk) = &self.disks[rank.index()] {
                    faults.disks += 1;
                    disk.stall(true);
                    self.disk_back[rank.index()] = until(steps);
                }
            }
            _ => {}
        }
    }

    /// All loggers die, and events of a rank are lost with them. REC-9
    fn lose_events(&mut self, rank: Rank, percent: u8) {
        for logger in 0..self.logger_back.len() as u32 {
            self.logger_fails(logger, FaultKind::Kill);
        }
        if self.loggers.lose_events(rank, percent) {
            self.faults.losses += 1;
            self.lossy = Some(rank);
            let oracles = &mut *self.oracles.borrow_mut();
            oracles.channel.lose_events(rank);
            oracles.log.lose_events(rank);
        }
    }

    /// A living rank is taken for dead.
    fn suspect(&mut self, rank: Rank) {
        self.faults.suspicions += 1;
        self.lose(rank);
    }

    fn logger_fails(&mut self, logger: u32, kind: FaultKind) {
        let index = logger as usize;
        if self.logger_back[index].is_some() {
            return;
        }
        let faults = &mut self.faults;
        let back = match kind {
            FaultKind::Kill | FaultKind::PowerLoss => {
                let is_promised = self.plan.loggers.level == LevelPlan::Durable;
                if kind == FaultKind::PowerLoss && is_promised {
                    self.loggers.power_loss(logger);
                } else {
                    self.loggers.kill(logger);
                }
                faults.logger_kills += 1;
                self.stage.tell(&Happening::Died(Process::Logger(logger)));
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::Pause(steps) => {
                self.loggers.pause(logger, true);
                faults.pauses += 1;
                steps
            }
            FaultKind::DiskFull(steps) => {
                self.loggers.disk_full(logger, true);
                faults.disks += 1;
                steps
            }
            FaultKind::DiskSlow(steps) => {
                self.loggers.disk_slow(logger, true);
                faults.disks += 1;
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
        let faults = &mut self.faults;
        let back = match fault.kind {
            FaultKind::Kill => {
                self.checkpoints.kill();
                faults.checkpoint_kills += 1;
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::PowerLoss => {
                self.checkpoints.power_loss();
                faults.checkpoint_kills += 1;
                1 + self.rng.u64(0..BACK_STEPS_MAX)
            }
            FaultKind::DiskFull(steps) => {
                self.checkpoints.disk_full(true);
                faults.disks += 1;
                steps
            }
            FaultKind::DiskSlow(steps) | FaultKind::Pause(steps) => {
                self.checkpoints.disk_slow(true);
                faults.disks += 1;
                steps
            }
            FaultKind::Suspect | FaultKind::Disconnect | FaultKind::LoseEvents(_) => return,
        };
        self.checkpoints_back = Some(self.step + back);
    }

    /// What was away comes back.
    pub(super) fn come_back(&mut self) {
        let step = self.step;
        let is_due = |back: &mut Option<u64>| back.take_if(|at| *at <= step).is_some();
        for logger in 0..self.logger_back.len() {
            if !self.loggers.lives(logger as u32) && self.logger_back[logger].is_none() {
                // It died of one of its effects.
                self.faults.logger_kills += 1;
                self.logger_back[logger] = Some(step + 1 + self.rng.u64(0..BACK_STEPS_MAX));
            }
            if is_due(&mut self.logger_back[logger]) {
                self.logger_comes_back(logger as u32);
            }
        }
        if self.checkpoints.is_dead() && self.checkpoints_back.is_none() {
            self.faults.checkpoint_kills += 1;
            self.checkpoints_back = Some(step + 1 + self.rng.u64(0..BACK_STEPS_MAX));
        }
        if is_due(&mut self.checkpoints_back) {
            self.checkpoints.disk_full(false);
            self.checkpoints.disk_slow(false);
            self.checkpoints.restart();
        }
        for (back, disk) in self.disk_back.iter_mut().zip(&self.disks) {
            if let (true, Some(disk)) = (is_due(back), disk) {
                disk.heal();
                disk.stall(false);
            }
        }
    }

    fn logger_comes_back(&mut self, logger: u32) {
        self.loggers.pause(logger, false);
        self.loggers.disk_full(logger, false);
        self.loggers.disk_slow(logger, false);
        if !self.loggers.lives(logger) {
            self.loggers.restart(logger);
            self.stage
                .tell(&Happening::Restarted(Process::Logger(logger)));
        }
    }
}
