//! Deaths, as they are noticed, and lives that begin.

use super::Job;
use super::launcher::Order;
use super::recollecting::Collecting;
use super::seat::Seat;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::plan::Process;
use crate::planted::Planted;
use crate::recollect::Remains;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Fabric;

/// Steps that a life goes on after it was replaced, at most.
const ZOMBIE_STEPS_MAX: u64 = 40;
/// Memory of a life that only collects.
const COLLECTING_LOG_BYTES: usize = 1 << 20;

impl Job<'_> {
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
    pub(super) fn lose(&mut self, rank: Rank) {
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
