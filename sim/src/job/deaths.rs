//! Faults as they come, deaths as they are noticed, and lives that begin.

use super::Job;
use super::launcher::Order;
use super::recollecting::Collecting;
use super::seat::Seat;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::plan::{FaultKind, FaultPlan, LevelPlan, Process};
use crate::planted::Planted;
use crate::recollect::Remains;
use refrain_logging::store::faulty::{Failure, Fault, How, Kind};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Fabric;

/// Steps until a logger or the checkpoint store is started again, at most.
const BACK_STEPS_MAX: u64 = 300;
/// Steps that a life goes on after it was replaced, at most.
const ZOMBIE_STEPS_MAX: u64 = 40;
/// Memory of a life that only collects.
const COLLECTING_LOG_BYTES: usize = 1 << 20;

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
            FaultKind::Suspect | FaultKind::Disconnect => return,
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
            FaultKind::Suspect | FaultKind::Disconnect => return,
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

    /// Those who died in this step leave what survives them.
    pub(super) fn bury(&mut self) {
        for rank in self.ranks() {
            let seat = &self.seats[rank.index()];
            if seat.mortal().is_some_and(|mortal| mortal.is_dead()) {
                self.faults.rank_kills += 1;
                self.stage.tell(&Happening::Died(Process::Rank(rank)));
                self.lay_down(rank);
                self.lose(rank);
            }
        }
        self.end_zombies();
    }

    /// Replaced ranks that have come to their end leave what survives them too.
    fn end_zombies(&mut self) {
        for at in (0..self.zombies.len()).rev() {
            if self.zombies[at].mortal.is_dead() {
                let zombie = self.zombies.swap_remove(at);
                self.leave(zombie.life);
                self.loggers.died(zombie.life);
            }
        }
    }

    /// What a life leaves: the memory and the files of its logs.
    fn leave(&mut self, life: Life) {
        let index = life.rank.index();
        self.network.kill_life(life.rank, life.incarnation);
        let files = self.disks[index].as_ref().map(|disk| disk.crash());
        self.remains[index] = Some(Remains {
            life,
            job: JOB,
            memory: self.memories[index].clone(),
            files: files.unwrap_or_default(),
        });
    }

    /// A rank ends; its memory and files remain.
    fn lay_down(&mut self, rank: Rank) {
        let index = rank.index();
        let life = self.seats[index].life();
        self.network.kill_life(rank, life.incarnation);
        let seat = core::mem::replace(&mut self.seats[index], Seat::Dead(life));
        self.loggers.died(life);
        self.checkpoints.give_up(rank);
        // Later lives have no log yet.
        if let Seat::Living(_) = &seat {
            self.leave(life);
        }
        drop(seat);
        self.places[index] = None;
        self.facts.set_alive(rank, None);
    }

    /// The launcher will notice that this one is gone.
    fn lose(&mut self, rank: Rank) {
        self.facts.no_need_to_finish();
        self.launcher.lose(rank, self.step, &mut self.rng);
        self.fenced_by[rank.index()].fill(false);
    }

    /// What the launcher wants is done.
    pub(super) fn launch(&mut self) -> Result<(), Breach> {
        for order in self.launcher.orders(self.step) {
            match order {
                Order::Fence(rank) => self.fence(rank),
                Order::Start(rank) => self.start_again(rank),
            }
        }
        Ok(())
    }

    /// Every living peer fences a rank, when it is not standing still. FENCE-1
    fn fence(&mut self, rank: Rank) {
        let of = self.seats[rank.index()].life();
        let next = Incarnation(of.incarnation.0 + 1);
        let forgets = self.plan.planted == Some(Planted::NoFence);
        let mut is_all = true;
        for peer in self.ranks().filter(|peer| *peer != rank) {
            if self.fenced_by[rank.index()][peer.index()] {
                continue;
            }
            match &mut self.seats[peer.index()] {
                Seat::Living(process) if process.pause_steps > 0 => {
                    is_all = false;
                    continue;
                }
                Seat::Living(process) if !forgets => process.engine.fence(rank),
                Seat::Starting(_) => {
                    if let Some(place) = &mut self.places[peer.index()] {
                        place.fabric.disconnect(rank);
                    }
                }
                _ => {}
            }
            self.fenced_by[rank.index()][peer.index()] = true;
            self.facts.tell(peer, rank, next);
            let by = self.seats[peer.index()].life();
            self.stage.tell(&Happening::Fenced(by, of));
        }
        if is_all {
            self.launcher.fenced(rank, self.step, &mut self.rng);
        }
    }

    /// The next life of a rank begins. If the last one lives, it goes on for a
    /// while, as it does not know.
    fn start_again(&mut self, rank: Rank) {
        let index = rank.index();
        let last = self.seats[index].life();
        let life = Life {
            rank,
            incarnation: Incarnation(last.incarnation.0 + 1),
        };
        if let Seat::Living(_) = &self.seats[index] {
            let seat = core::mem::replace(&mut self.seats[index], Seat::Dead(last));
            if let Seat::Living(mut process) = seat {
                self.checkpoints.give_up(rank);
                process.doom(self.rng.u64(1..=ZOMBIE_STEPS_MAX));
                self.zombies.push(*process);
            }
            self.faults.rank_kills += 1;
        }
        let mortal = self.mortals[index].successor();
        self.mortals[index] = mortal.clone();
        let started = self
            .network
            .start(rank, life.incarnation, COLLECTING_LOG_BYTES);
        drop(started);
        self.stage.tell(&Happening::Began(life));
        self.facts.set_alive(rank, Some(life.incarnation));
        self.seats[index] = Seat::Returning(Box::new(Collecting::new(
            self.join(life, mortal),
            self.plan.ranks,
        )));
    }
}
