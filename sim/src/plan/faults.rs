//! What goes wrong in a plan. What it may break at once is decided where faults
//! are injected: a plan may name more than a job survives.

use super::{FaultKind, FaultPlan, LevelPlan, Moment, Plan, Process};
use fastrand::Rng;
use refrain_ring::Rank;

/// Steps of a job for each operation of a rank, roughly.
const STEPS_PER_OPERATION: u64 = 4;

/// Where faults are drawn from.
struct Draw<'a> {
    rng: &'a mut Rng,
    plan: &'a Plan,
    /// Steps that the job takes, roughly.
    steps: u64,
    /// Effects that a process has, roughly.
    effects: u64,
    faults: Vec<FaultPlan>,
}

pub(super) fn faults(rng: &mut Rng, plan: &Plan, operations: u32) -> Vec<FaultPlan> {
    // Some seeds in which nothing goes wrong: what they find is simpler. And some in
    // which events are lost: with other faults nothing would be promised.
    let is_simple = rng.u32(0..6) == 0;
    let loses_events = is_simple && rng.bool();
    if is_simple && !loses_events {
        return Vec::new();
    }
    let operations = u64::from(operations.max(1));
    let mut draw = Draw {
        rng,
        plan,
        steps: operations * STEPS_PER_OPERATION * u64::from(plan.ranks),
        effects: operations,
        faults: Vec::new(),
    };
    if loses_events {
        let kind = FaultKind::LoseEvents(draw.rng.u8(0..100));
        draw.add_at_step(kind, Draw::some_rank);
    } else {
        for _ in 0..draw.rng.u32(1..=4) {
            draw.more();
        }
    }
    draw.faults
}

impl Draw<'_> {
    fn more(&mut self) {
        match self.rng.u32(0..22) {
            0..6 => self.kill_of_rank(),
            6 => self.correlated(),
            7 => self.again_and_again(),
            8..12 => self.of_logger(),
            12..14 => self.of_checkpoints(),
            14 | 15 => self.pause(),
            16 | 17 => self.add_at_step(FaultKind::Suspect, Self::some_rank),
            18 | 19 => self.add_at_step(FaultKind::Disconnect, Self::some_rank),
            _ => self.of_disk(),
        }
    }

    fn some_rank(&mut self) -> Process {
        Process::Rank(Rank(self.rng.u32(0..self.plan.ranks)))
    }

    fn some_logger(&mut self) -> Process {
        Process::Logger(self.rng.u32(0..self.plan.loggers.replicas))
    }

    fn step(&mut self) -> Moment {
        Moment::Step(self.rng.u64(0..self.steps))
    }

    fn effect(&mut self) -> Moment {
        Moment::Effect {
            number: self.rng.u64(0..self.effects),
            before: self.rng.bool(),
        }
    }

    fn moment(&mut self) -> Moment {
        if self.rng.u32(0..3) == 0 {
            self.step()
        } else {
            self.effect()
        }
    }

    fn add(&mut self, process: Process, moment: Moment, kind: FaultKind) {
        self.faults.push(FaultPlan {
            process,
            moment,
            kind,
        });
    }

    fn add_at_step(&mut self, kind: FaultKind, whom: impl Fn(&mut Self) -> Process) {
        let (process, moment) = (whom(self), self.step());
        self.add(process, moment, kind);
    }

    fn kill_of_rank(&mut self) {
        let (process, moment) = (self.some_rank(), self.moment());
        self.add(process, moment, FaultKind::Kill);
    }

    /// Several at the same step: ranks, and perhaps a logger with them.
    fn correlated(&mut self) {
        let moment = self.step();
        let first = self.rng.u32(0..self.plan.ranks);
        for by in 0..self.rng.u32(2..=self.plan.ranks) {
            let rank = Rank((first + by) % self.plan.ranks);
            self.add(Process::Rank(rank), moment, FaultKind::Kill);
        }
        if self.rng.bool() {
            let logger = self.some_logger();
            self.add(logger, moment, FaultKind::Kill);
        }
    }

    /// The same rank, while it recovers and after.
    fn again_and_again(&mut self) {
        let process = self.some_rank();
        let begin = self.rng.u64(0..self.steps);
        let mut step = begin;
        for _ in 0..self.rng.u32(2..=4) {
            self.add(process, Moment::Step(step), FaultKind::Kill);
            step += self.rng.u64(1..200);
        }
    }

    fn of_logger(&mut self) {
        let (process, moment) = (self.some_logger(), self.moment());
        // What is in memory only does not promise to survive it.
        let is_durable = self.plan.loggers.level == LevelPlan::Durable;
        let kind = match self.rng.u32(0..6) {
            0 | 1 if is_durable => FaultKind::PowerLoss,
            2 => FaultKind::Forget,
            _ => FaultKind::Kill,
        };
        self.add(process, moment, kind);
    }

    fn of_checkpoints(&mut self) {
        let moment = self.moment();
        let kind = match self.rng.bool() {
            true => FaultKind::PowerLoss,
            false => FaultKind::Kill,
        };
        self.add(Process::Checkpoints, moment, kind);
        if self.rng.bool() {
            // Somebody asks for what it has.
            self.kill_of_rank();
        }
    }

    fn pause(&mut self) {
        let steps = self.rng.u64(10..600);
        let process = match self.rng.u32(0..4) {
            0 => self.some_logger(),
            _ => self.some_rank(),
        };
        self.add_at_step(FaultKind::Pause(steps), |_| process);
    }

    fn of_disk(&mut self) {
        let steps = self.rng.u64(10..600);
        let kind = if self.rng.bool() {
            FaultKind::DiskFull(steps)
        } else {
            FaultKind::DiskSlow(steps)
        };
        let process = match self.rng.u32(0..3) {
            // Only logs that are spilled have a disk.
            0 if self.plan.log.disk_bytes > 0 => self.some_rank(),
            1 => Process::Checkpoints,
            _ => self.some_logger(),
        };
        self.add_at_step(kind, |_| process);
    }
}
