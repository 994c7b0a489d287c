//! A whole job, driven by a seed: the steps of a run.

use super::assembly::{LifeBeginning, RankEnd};
use super::rank::{Joining, RankSlot, Stepped};
use super::stage::Count;
use super::{Failure, Totals, World};
use crate::happening::{Breach, Happening};
use crate::plan::Plan;
use refrain_logging::determinant::EventIndex;
use refrain_ring::Rank;
use refrain_transport::engine::EngineError;

/// Steps after which a job that has not ended counts as hanging.
const STEPS_MAX: u64 = 1_000_000;
/// Number of idle steps per process after which simulated time must pass for anything to move.
const QUIET_ROUNDS: u64 = 12;
/// Time by which the network advances when nothing moves, in ticks.
const QUIET_TICKS: u64 = 100_000;
/// Number of such advances in a row after which faults are healed, and then the job ends. Disks of
/// logs are retried after 5 seconds at the latest.
const QUIET_TIMES: u32 = 60;

/// Runs a plan. `is_loud`: all happenings are printed.
///
/// # Errors
/// The first violation of a rule.
pub fn run(plan: &Plan, is_loud: bool) -> Result<Totals, Box<Failure>> {
    let mut job = World::new(plan, is_loud);
    job.run().map_err(|breach| {
        Box::new(Failure {
            step: job.step,
            breach,
        })
    })
}

impl World<'_> {
    pub(super) fn run(&mut self) -> Result<Totals, Breach> {
        let actors = self.slots.len() as u64 + 5;
        let mut quiet = 0;
        let mut times = 0;
        while !self.is_over() {
            self.step += 1;
            self.stage.set_step(self.step);
            self.fail();
            self.come_back();
            self.launch();
            let moved = self.act()?;
            self.bury();
            self.look_after_losses()?;
            self.end_late_rounds();
            self.check()?;
            if self.has_stopped {
                return Ok(self.sum());
            }
            if self.step > STEPS_MAX {
                return Err(self.stands("does not end"));
            }
            quiet = if moved { 0 } else { quiet + 1 };
            times = if moved { 0 } else { times };
            if quiet > QUIET_ROUNDS * actors {
                (quiet, times) = (0, times + 1);
                self.network.advance(QUIET_TICKS);
                if times > QUIET_TIMES {
                    times = 0;
                    if !self.heal() {
                        break;
                    }
                }
            }
        }
        self.end()
    }

    /// One randomly chosen process takes one step. Returns whether anything moved.
    pub(super) fn act(&mut self) -> Result<bool, Breach> {
        let ranks = self.slots.len();
        let replaced = self.replaced.len();
        let chosen = self.rng.usize(0..ranks + replaced + 5);
        match chosen.checked_sub(ranks) {
            None => self.rank_acts(Rank(chosen as u32)),
            Some(0) => Ok(self.network.step()),
            Some(1 | 2) => Ok(self.loggers.step(&mut self.rng, self.network.now())),
            Some(3) => Ok(self.checkpoints_act()),
            Some(4) => Ok(self.network.step()),
            Some(old) => Ok(self.replaced_acts(old - 5)),
        }
    }

    fn rank_acts(&mut self, rank: Rank) -> Result<bool, Breach> {
        match &mut self.slots[rank.index()] {
            RankSlot::Starting(joining) => {
                if joining.events.start().is_some() {
                    self.start_program(rank)?;
                    return Ok(true);
                }
                Ok(false)
            }
            RankSlot::Living(process) if process.pause_steps > 0 => {
                process.pause_steps -= 1;
                Ok(true)
            }
            RankSlot::Living(process) => {
                let has_news = !self.news[rank.index()].is_empty();
                let stepped = match process.step() {
                    Err(error) if self.lossy == Some(rank) => {
                        return self.stops(rank, &error).map(|()| true);
                    }
                    stepped => process.checked(stepped)?,
                };
                let moved = self.stepped(rank, stepped) | self.look_after_round(rank);
                Ok(has_news && self.heed(rank)? || moved)
            }
            RankSlot::Returning(_) => self.recollect(rank),
            RankSlot::Dead(_) => Ok(false),
        }
    }

    /// The later life of a rank with lost events stops the job. That is right if an earlier life
    /// has posted the messages that the error names. REC-9
    fn stops(&mut self, rank: Rank, error: &EngineError) -> Result<(), Breach> {
        let oracles = self.stage.oracles.borrow();
        let is_right = matches!(error, EngineError::RecordMissing { peer, first, .. }
        if match first.is_program() {
            true => first.0 < oracles.orphan.posted(rank, *peer),
            false => oracles.collective.has_left(rank, *peer, *first),
        });
        drop(oracles);
        if let (false, RankSlot::Living(process)) = (is_right, &self.slots[rank.index()]) {
            return Err(process.broken(error));
        }
        self.stage.count(Count::Stops);
        self.has_stopped = true;
        Ok(())
    }

    fn stepped(&mut self, rank: Rank, stepped: Stepped) -> bool {
        match stepped {
            Stepped::Moved => true,
            Stepped::Idle => false,
            Stepped::Takes(taken) => {
                self.checkpoints.begin(rank, *taken);
                true
            }
        }
    }

    pub(super) fn start_program(&mut self, rank: Rank) -> Result<(), Breach> {
        let dead = RankSlot::Dead(self.slots[rank.index()].life());
        let slot = core::mem::replace(&mut self.slots[rank.index()], dead);
        let (RankSlot::Starting(mut joining), Some(place)) = (slot, self.ends[rank.index()].take())
        else {
            unreachable!("a rank starts once, in its place");
        };
        let Some(start) = joining.events.start() else {
            unreachable!("a quorum has answered");
        };
        let begins = LifeBeginning::first(self.beginning(rank));
        self.live(*joining, start, place, begins)
    }

    /// Assembles the engine of a life and makes the life a running process.
    pub(super) fn live(
        &mut self,
        joining: Joining,
        start: EventIndex,
        place: RankEnd,
        begins: LifeBeginning,
    ) -> Result<(), Breach> {
        let life = joining.life;
        let process = self.assembly().process(joining, start, place, begins);
        let process = process.map_err(|what| Breach {
            oracle: "recollect",
            what: format!("{life}: {what}"),
        })?;
        let index = life.rank.index();
        let (litter, stays) = &mut self.litters[index];
        // Explored jobs compare nothing with the logs of earlier lives.
        if !*stays && !self.plan.is_explored() {
            *litter = life.incarnation;
        }
        let process = process.with_litter(*litter);
        (_, self.disks[index]) = process.leave();
        self.disk_back[index] = None;
        self.slots[index] = RankSlot::Living(Box::new(process));
        Ok(())
    }

    /// A replaced life takes a step: it does not know that it was replaced.
    fn replaced_acts(&mut self, old: usize) -> bool {
        // Its errors do not count: the life ends soon.
        let _ = self.replaced[old].step();
        true
    }

    fn checkpoints_act(&mut self) -> bool {
        let Some((rank, number)) = self.checkpoints.step(&mut self.rng) else {
            return !self.checkpoints.is_idle();
        };
        self.checkpoint_is_stable(rank, number);
        true
    }

    /// A checkpoint can be read back from now on.
    pub(super) fn checkpoint_is_stable(&mut self, rank: Rank, number: u32) {
        // In a set it counts when all members have one.
        if self.rounds.goes_back_to(rank).is_none() {
            self.stage.tell(&Happening::CheckpointStable(rank, number));
        }
        if let RankSlot::Living(process) = &mut self.slots[rank.index()] {
            process.checkpoint_is_stable(number);
        }
    }
}
