//! The launcher: notices that a rank is dead, or takes it for dead; has its peers fence
//! it; then starts its next life. It tells the other ranks which lives are over and which
//! can be reached. A rank handles that late, and in order; it fences and connects as the
//! runtime does.

use super::World;
use super::rank::RankProcess;
use super::rank::RankSlot;
use super::recovery::Collecting;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::plan::Process;
use crate::planted::Planted;
use crate::recollect::Remains;
use fastrand::Rng;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::{Address, Fabric};

/// Steps until a death is noticed, at most.
const NOTICE_STEPS_MAX: u64 = 60;
/// Steps between fencing and the next life, at most.
const START_STEPS_MAX: u64 = 40;

/// What the launcher knows of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankStatus {
    Fine,
    /// To be noticed at this step.
    Dead(u64),
    /// Its peers are being told to fence it.
    Fencing,
    /// Its next life is to be started at this step.
    Starting(u64),
}

/// What the launcher wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All living peers fence this rank. FENCE-1
    Fence(Rank),
    /// The next life of this rank begins.
    Start(Rank),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Launcher {
    ranks: Vec<RankStatus>,
}

impl Launcher {
    /// Of a job of `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks: vec![RankStatus::Fine; ranks as usize],
        }
    }

    /// A rank has died, or is taken for dead.
    pub fn lose(&mut self, rank: Rank, step: u64, rng: &mut Rng) {
        self.ranks[rank.index()] = RankStatus::Dead(step + rng.u64(0..=NOTICE_STEPS_MAX));
    }

    /// All living peers are told. REC-6: its next life does not wait for them.
    pub fn fenced(&mut self, rank: Rank, step: u64, rng: &mut Rng) {
        let status = &mut self.ranks[rank.index()];
        if *status == RankStatus::Fencing {
            *status = RankStatus::Starting(step + rng.u64(0..=START_STEPS_MAX));
        }
    }

    /// A life that still runs has not been fenced by all: its successor waits.
    pub fn put_off(&mut self, rank: Rank, step: u64) {
        self.ranks[rank.index()] = RankStatus::Starting(step + 1);
    }

    /// What is to be done now. Fencing is ordered again until it is done.
    pub fn orders(&mut self, step: u64) -> Vec<Order> {
        let mut orders = Vec::new();
        for (rank, status) in (0..).map(Rank).zip(&mut self.ranks) {
            match *status {
                RankStatus::Dead(at) if at <= step => *status = RankStatus::Fencing,
                RankStatus::Starting(at) if at <= step => {
                    *status = RankStatus::Fine;
                    orders.push(Order::Start(rank));
                }
                _ => {}
            }
            if *status == RankStatus::Fencing {
                orders.push(Order::Fence(rank));
            }
        }
        orders
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.ranks.iter().all(|status| *status == RankStatus::Fine)
    }
}

/// A rank handles its next news in one of this many of its steps, on average.
const LATE: u32 = 4;

/// Something to tell.
#[derive(Clone, Debug)]
pub enum News {
    /// A life, and all before, are over.
    Down(Life),
    /// A life can be reached.
    Up(Life, Address),
}

impl News {
    /// Of which rank they are.
    pub fn of(&self) -> Rank {
        match self {
            Self::Down(life) | Self::Up(life, _) => life.rank,
        }
    }
}

impl World<'_> {
    /// All others that have an engine are told.
    pub(super) fn tell_others(&mut self, of: Rank, news: &News) {
        for peer in self.ranks().filter(|peer| *peer != of) {
            if let RankSlot::Living(_) | RankSlot::Starting(_) = self.slots[peer.index()] {
                self.news[peer.index()].push_back(news.clone());
            }
        }
    }

    /// Whether a rank has not handled yet that this life is over.
    pub(super) fn is_still_heard(&self, life: Life) -> bool {
        let is_it = |news: &News| matches!(news, News::Down(of) if *of == life);
        self.news.iter().any(|news| news.iter().any(is_it))
    }

    /// A living rank heeds its news, sooner or later. Whether there were any.
    pub(super) fn heed(&mut self, rank: Rank) -> Result<bool, Breach> {
        if self.news[rank.index()].is_empty() {
            return Ok(false);
        }
        if self.rng.u32(0..LATE) == 0
            && let Some(news) = self.news[rank.index()].pop_front()
        {
            self.heed_one(rank, news)?;
        }
        Ok(true)
    }

    pub(super) fn heed_one(&mut self, rank: Rank, news: News) -> Result<(), Breach> {
        let RankSlot::Living(process) = &mut self.slots[rank.index()] else {
            return Ok(());
        };
        let planted = self.plan.planted;
        let (News::Down(of) | News::Up(of, _)) = &news;
        let (of, by) = (*of, process.life);
        let connected = process.engine.connected(of.rank);
        // Which life is heard no more, if one is.
        let mut fenced = None;
        let told = match news {
            News::Down(_) => {
                let is_its = connected.is_none_or(|it| it <= of.incarnation);
                if is_its || planted == Some(Planted::StaleDown) {
                    fenced = Some(of);
                    if planted != Some(Planted::NoFence) {
                        process.engine.fence(of.rank);
                    }
                }
                Incarnation(of.incarnation.0 + 1)
            }
            News::Up(..) if planted == Some(Planted::UpWithoutDown) && connected.is_some() => {
                return Ok(());
            }
            News::Up(_, address) => {
                let connects = process.engine.connect(of.rank, of.incarnation, &address);
                connects.map_err(|error| Breach {
                    oracle: "engine",
                    what: format!("{by} connects {of}: {error}"),
                })?;
                // A later life fences the one before it.
                let before = connected.filter(|before| *before < of.incarnation);
                fenced = before.map(|incarnation| Life { incarnation, ..of });
                of.incarnation
            }
        };
        self.facts.tell(rank, of.rank, told);
        if let Some(of) = fenced {
            self.stage.tell(&Happening::Fenced(by, of));
        }
        Ok(())
    }
}

/// Steps that a life goes on after it was replaced, at most.
const ZOMBIE_STEPS_MAX: u64 = 40;

impl World<'_> {
    /// Those who died in this step leave what survives them.
    pub(super) fn bury(&mut self) {
        for rank in self.ranks() {
            let slot = &self.slots[rank.index()];
            if slot.mortal().is_some_and(|mortal| mortal.is_dead()) {
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
        let life = self.slots[index].life();
        self.news[index].clear();
        let slot = core::mem::replace(&mut self.slots[index], RankSlot::Dead(life));
        self.loggers.died(life);
        self.checkpoints.give_up(rank);
        // Later lives have no log yet.
        match &slot {
            RankSlot::Living(process) => self.leave(process),
            RankSlot::Starting(_) => self.network.kill_life(rank, life.incarnation),
            RankSlot::Returning(_) | RankSlot::Dead(_) => {}
        }
        drop(slot);
        self.ends[index] = None;
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

    /// All peers get the order to fence a rank. One whose program has not begun does it
    /// at once. FENCE-1
    fn fence(&mut self, rank: Rank) {
        let of = self.slots[rank.index()].life();
        self.reachable[rank.index()] = None;
        let forgets = self.plan.planted == Some(Planted::NoFence);
        for peer in self.ranks().filter(|peer| *peer != rank) {
            let is_starting = matches!(self.slots[peer.index()], RankSlot::Starting(_));
            if let (true, Some(place)) = (is_starting && !forgets, &mut self.ends[peer.index()]) {
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
        let last = self.slots[index].life();
        if matches!(self.slots[index], RankSlot::Living(_)) && self.is_still_heard(last) {
            self.launcher.put_off(rank, self.step);
            return;
        }
        let life = Life {
            rank,
            incarnation: Incarnation(last.incarnation.0 + 1),
        };
        if let RankSlot::Living(_) = &self.slots[index] {
            let slot = core::mem::replace(&mut self.slots[index], RankSlot::Dead(last));
            if let RankSlot::Living(mut process) = slot {
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
        self.slots[index] = RankSlot::Returning(Box::new(Collecting::new(
            self.join(life, mortal),
            self.plan.ranks,
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FENCE-1
    #[test]
    fn a_rank_is_fenced_before_it_starts_again() {
        let mut launcher = Launcher::new(2);
        let mut rng = Rng::with_seed(1);
        launcher.lose(Rank(1), 10, &mut rng);
        assert!(!launcher.is_idle());
        let late = 10 + NOTICE_STEPS_MAX;
        assert_eq!(launcher.orders(late), [Order::Fence(Rank(1))]);
        assert_eq!(launcher.orders(late + 1000), [Order::Fence(Rank(1))]);
        launcher.fenced(Rank(1), late, &mut rng);
        let started = launcher.orders(late + START_STEPS_MAX);
        assert_eq!(started, [Order::Start(Rank(1))]);
        assert!(launcher.is_idle());
    }
}
