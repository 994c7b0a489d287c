//! What is done in one step.

use super::Job;
use super::assembly::{LifeBefore, Place};
use super::process::{RankProcess, Stepped};
use super::seat::{Joining, Seat};
use crate::happening::{Breach, Happening};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Rank;
use refrain_transport::engine::EngineError;

impl Job<'_> {
    /// Lets one process do one thing. Whether anything moved.
    pub(super) fn act(&mut self) -> Result<bool, Breach> {
        let ranks = self.seats.len();
        let zombies = self.zombies.len();
        let chosen = self.rng.usize(0..ranks + zombies + 5);
        match chosen.checked_sub(ranks) {
            None => self.rank_acts(Rank(chosen as u32)),
            Some(0) => Ok(self.network.step()),
            Some(1 | 2) => Ok(self.loggers.step(&mut self.rng, self.network.now())),
            Some(3) => Ok(self.checkpoints_act()),
            Some(4) => Ok(self.network.step()),
            Some(zombie) => Ok(self.zombie_acts(zombie - 5)),
        }
    }

    fn rank_acts(&mut self, rank: Rank) -> Result<bool, Breach> {
        match &mut self.seats[rank.index()] {
            Seat::Starting(joining) => {
                if joining.client.start().is_some() {
                    self.start_program(rank)?;
                    return Ok(true);
                }
                Ok(false)
            }
            Seat::Living(process) if process.pause_steps > 0 => {
                process.pause_steps -= 1;
                Ok(true)
            }
            Seat::Living(process) => {
                let has_news = !self.news[rank.index()].is_empty();
                let stepped = match process.step() {
                    Err(error) if self.lossy == Some(rank) => {
                        return self.stops(rank, &error).map(|()| true);
                    }
                    stepped => stepped.map_err(|error| broken(process, &error))?,
                };
                if let Some(complaint) = process.complaint() {
                    return Err(Breach {
                        oracle: "program",
                        what: format!("{}: {complaint}", process.life),
                    });
                }
                let moved = self.stepped(rank, stepped);
                Ok(has_news && self.heed(rank)? || moved)
            }
            Seat::Returning(_) => self.recollect(rank),
            Seat::Dead(_) => Ok(false),
        }
    }

    /// The later life of a rank of which events were lost stops. It may if an earlier
    /// life has posted what the error says. REC-9
    fn stops(&mut self, rank: Rank, error: &EngineError) -> Result<(), Breach> {
        let is_right = matches!(error, EngineError::RecordMissing { peer, first, .. }
            if first.0 < self.oracles.borrow().orphan.posted(rank, *peer));
        if let (false, Seat::Living(process)) = (is_right, &self.seats[rank.index()]) {
            return Err(broken(process, error));
        }
        self.totals.borrow_mut().stops += 1;
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

    fn start_program(&mut self, rank: Rank) -> Result<(), Breach> {
        let dead = Seat::Dead(self.seats[rank.index()].life());
        let seat = core::mem::replace(&mut self.seats[rank.index()], dead);
        let (Seat::Starting(mut joining), Some(place)) = (seat, self.places[rank.index()].take())
        else {
            unreachable!("a rank starts once, in its place");
        };
        let Some(start) = joining.client.start() else {
            unreachable!("a quorum has answered");
        };
        self.live(*joining, start, place, None)
    }

    /// A life has an engine now.
    pub(super) fn live(
        &mut self,
        joining: Joining,
        start: EventIndex,
        place: Place,
        past: Option<LifeBefore>,
    ) -> Result<(), Breach> {
        let life = joining.life;
        let process = self.assembly().process(joining, start, place, past);
        let process = process.map_err(|what| Breach {
            oracle: "recollect",
            what: format!("{life}: {what}"),
        })?;
        let index = life.rank.index();
        let (litter, stays) = &mut self.litters[index];
        if !*stays {
            *litter = life.incarnation;
        }
        let process = process.with_litter(*litter);
        (_, self.disks[index]) = process.leave();
        self.disk_back[index] = None;
        self.seats[index] = Seat::Living(Box::new(process));
        Ok(())
    }

    /// One that was replaced goes on as if nothing had happened.
    fn zombie_acts(&mut self, zombie: usize) -> bool {
        // What it meets is its own affair: it is about to be ended.
        let _ = self.zombies[zombie].step();
        true
    }

    fn checkpoints_act(&mut self) -> bool {
        let Some((rank, number)) = self.checkpoints.step(&mut self.rng) else {
            return !self.checkpoints.is_idle();
        };
        self.stage.tell(&Happening::CheckpointStable(rank, number));
        if let Seat::Living(process) = &mut self.seats[rank.index()] {
            process.checkpoint_is_stable(number);
        }
        true
    }
}

fn broken(process: &RankProcess, error: &EngineError) -> Breach {
    Breach {
        oracle: "engine",
        what: format!("{}: {error}", process.life),
    }
}
