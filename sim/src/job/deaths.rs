//! Deaths, as they are noticed, and lives that begin.

use super::Job;
use super::launcher::Order;
use super::news::News;
use super::process::RankProcess;
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
                self.leave(&zombie);
                self.loggers.died(zombie.life);
            }
        }
    }

    /// What a life leaves: the memory and the files of its logs.
    fn leave(&mut self, process: &RankProcess) {
        let life = process.life;
        self.network.kill_life(life.rank, life.incarnation);
        let (memory, disk) = process.leave();
        let remains = &mut self.remains[life.rank.index()];
        if remains.last().is_some_and(|later| later.life > life) {
            return;
        }
        if process.has_caught_up() {
            remains.clear();
        }
        remains.push(Remains {
            life,
            job: JOB,
            memory,
            files: disk.map(|disk| disk.crash()).unwrap_or_default(),
        });
    }

    /// A rank ends; its memory and files remain.
    fn lay_down(&mut self, rank: Rank) {
        let index = rank.index();
        let life = self.seats[index].life();
        self.news[index].clear();
        let seat = core::mem::replace(&mut self.seats[index], Seat::Dead(life));
        self.loggers.died(life);
        self.checkpoints.give_up(rank);
        // Later lives have no log yet.
        match &seat {
            Seat::Living(process) => self.leave(process),
            Seat::Starting(_) => self.network.kill_life(rank, life.incarnation),
            Seat::Returning(_) | Seat::Dead(_) => {}
        }
        drop(seat);
        self.places[index] = None;
        self.facts.set_alive(rank, None);
    }

    /// The launcher will notice that this one is gone.
    pub(super) fn lose(&mut self, rank: Rank) {
        self.launcher.lose(rank, self.step, &mut self.rng);
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

    /// Everybody is told to fence a rank. One whose program has not begun does it
    /// at once. FENCE-1
    fn fence(&mut self, rank: Rank) {
        let of = self.seats[rank.index()].life();
        self.cards[rank.index()] = None;
        let forgets = self.plan.planted == Some(Planted::NoFence);
        for peer in self.ranks().filter(|peer| *peer != rank) {
            let is_starting = matches!(self.seats[peer.index()], Seat::Starting(_));
            if let (true, Some(place)) = (is_starting && !forgets, &mut self.places[peer.index()]) {
                place.fabric.disconnect(rank);
            }
        }
        self.tell_others(rank, &News::Down(of));
        self.launcher.fenced(rank, self.step, &mut self.rng);
    }

    /// The next life of a rank begins. If the last one lives, it goes on for a
    /// while, as it does not know.
    fn start_again(&mut self, rank: Rank) {
        let index = rank.index();
        let last = self.seats[index].life();
        if matches!(self.seats[index], Seat::Living(_)) && self.is_still_heard(last) {
            self.launcher.put_off(rank, self.step);
            return;
        }
        let life = Life {
            rank,
            incarnation: Incarnation(last.incarnation.0 + 1),
        };
        if let Seat::Living(_) = &self.seats[index] {
            let seat = core::mem::replace(&mut self.seats[index], Seat::Dead(last));
            if let Seat::Living(mut process) = seat {
                self.checkpoints.give_up(rank);
                process.doom(self.rng.u64(1..=ZOMBIE_STEPS_MAX));
                self.litters[rank.index()].1 = true;
                self.zombies.push(*process);
            }
            self.faults.rank_kills += 1;
        }
        let mortal = self.mortals[index].successor();
        self.mortals[index] = mortal.clone();
        self.news[index].clear();
        self.stage.tell(&Happening::Began(life));
        self.facts.set_alive(rank, Some(life.incarnation));
        self.seats[index] = Seat::Returning(Box::new(Collecting::new(
            self.join(life, mortal),
            self.plan.ranks,
        )));
    }
}
