//! The launcher notices the death of a rank, or suspects it; has its peers fence the rank; then
//! starts its next life. It sends news to the other ranks: which lives are over, and which can be
//! reached. A rank handles its news late, in order; it fences and connects as the runtime does.

use super::World;
use super::rank::RankProcess;
use super::rank::RankSlot;
use super::recovery::Collecting;
use super::stage::Count;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::plan::Process;
use crate::planted::Planted;
use crate::recollect::Remains;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::{Address, Fabric};

/// Maximum number of steps until a death is noticed.
const NOTICE_STEPS_MAX: u64 = 60;
/// Maximum number of steps between the fence and the next life.
const START_STEPS_MAX: u64 = 40;

/// What the launcher knows of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankStatus {
    /// The rank runs.
    Fine,
    /// The rank's death will be noticed at this step; then its peers fence it. FENCE-1
    Dead(u64),
    /// Its peers have been sent the news to fence it; its next life starts at this step, without
    /// waiting for them. REC-6
    Fenced(u64),
}

/// On average, a rank handles its next news in one of this many steps.
const LATE: u32 = 4;

/// News of a life of another rank.
#[derive(Clone, Debug)]
pub enum News {
    /// This life and all before it are over.
    Down(Life),
    /// This life can be reached at this address.
    Up(Life, Address),
}

impl News {
    /// The rank that the news are about.
    pub fn of(&self) -> Rank {
        match self {
            Self::Down(life) | Self::Up(life, _) => life.rank,
        }
    }
}

impl World<'_> {
    /// Queues news for all other ranks that have an engine.
    pub(super) fn tell_others(&mut self, of: Rank, news: &News) {
        for peer in self.ranks().filter(|peer| *peer != of) {
            if let RankSlot::Living(_) | RankSlot::Starting(_) = self.slots[peer.index()] {
                self.news[peer.index()].push_back(news.clone());
            }
        }
    }

    /// Whether the news that this life is over are still unhandled at some rank.
    pub(super) fn is_still_heard(&self, life: Life) -> bool {
        let is_it = |news: &News| matches!(news, News::Down(of) if *of == life);
        self.news.iter().any(|news| news.iter().any(is_it))
    }

    /// A living rank may handle its next news. Returns whether there were any.
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
        let is_down = matches!(news, News::Down(_));
        let connected = process.engine.connected(of.rank);
        // The life whose frames are no longer taken, if there is one.
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
                // Connecting a later life fences the one before it.
                let before = connected.filter(|before| *before < of.incarnation);
                fenced = before.map(|incarnation| Life { incarnation, ..of });
                of.incarnation
            }
        };
        if is_down && let Some(holdings) = process.holdings() {
            let held = holdings.answer(of.rank);
            holdings.note_death(of.rank, of.incarnation);
            let loss = (of.rank, of.incarnation);
            self.losses.held(rank, loss, &held, true);
        }
        self.stage.facts.tell(rank, of.rank, told);
        if let Some(of) = fenced {
            self.stage.tell(&Happening::Fenced(by, of));
        }
        Ok(())
    }
}

/// Maximum number of steps of a life after it was replaced.
const REPLACED_STEPS_MAX: u64 = 40;

impl World<'_> {
    /// Collects the logs of ranks that died in this step.
    pub(super) fn bury(&mut self) {
        for rank in self.ranks() {
            let slot = &self.slots[rank.index()];
            if slot
                .crash_point()
                .is_some_and(|crash_point| crash_point.is_dead())
            {
                self.stage.count(Count::RankKills);
                self.stage.tell(&Happening::Died(Process::Rank(rank)));
                self.lay_down(rank);
                self.lose(rank);
            }
        }
        self.end_replaced();
    }

    /// Collects the logs of replaced lives that have ended.
    fn end_replaced(&mut self) {
        for at in (0..self.replaced.len()).rev() {
            if self.replaced[at].crash_point.is_dead() {
                let old = self.replaced.swap_remove(at);
                self.leave(&old);
            }
        }
    }

    /// Keeps the memory and files of a dead life's logs.
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

    /// Ends a rank; its memory and files remain.
    fn lay_down(&mut self, rank: Rank) {
        let index = rank.index();
        let life = self.slots[index].life();
        self.news[index].clear();
        self.orders[index].clear();
        let slot = core::mem::replace(&mut self.slots[index], RankSlot::Dead(life));
        self.checkpoints.give_up(rank);
        // A returning life has no log yet.
        match &slot {
            RankSlot::Living(process) => self.leave(process),
            RankSlot::Starting(_) => self.network.kill_life(rank, life.incarnation),
            RankSlot::Returning(_) | RankSlot::Dead(_) => {}
        }
        drop(slot);
        self.ends[index] = None;
        self.stage.facts.alive.borrow_mut()[rank.index()] = None;
    }

    /// Schedules the step at which the launcher notices a death.
    pub(super) fn lose(&mut self, rank: Rank) {
        let noticed = self.step + self.rng.u64(0..=NOTICE_STEPS_MAX);
        self.statuses[rank.index()] = RankStatus::Dead(noticed);
    }

    /// Fences and restarts the ranks for which that is due.
    pub(super) fn launch(&mut self) {
        for rank in self.ranks() {
            match self.statuses[rank.index()] {
                RankStatus::Dead(at) if at <= self.step => self.fence(rank),
                RankStatus::Fenced(at) if at <= self.step => self.start_set_again(rank),
                _ => {}
            }
        }
    }

    /// Starts the next life of a rank, with those of its set. SET-4
    fn start_set_again(&mut self, rank: Rank) {
        let members = self.rounds.members(rank);
        if members.is_empty() || self.plan.planted == Some(Planted::SetLeftBehind) {
            return self.start_again(rank);
        }
        if self.may_set_start(rank) {
            members.into_iter().for_each(|it| self.start_again(it));
        }
    }

    /// Sends all peers the news that a rank is over. A peer whose program has not begun disconnects
    /// it at once. FENCE-1
    fn fence(&mut self, rank: Rank) {
        self.take_set_along(rank);
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
        for peer in self.ranks().filter(|peer| *peer != rank) {
            if let RankSlot::Returning(_) = self.slots[peer.index()] {
                self.news[peer.index()].push_back(News::Down(of));
            }
        }
        // A rank that is dead counts as a survivor until the launcher has noticed it.
        let is_survivor = |peer: &Rank| {
            *peer != rank
                && !matches!(self.statuses[peer.index()], RankStatus::Fenced(_))
                && matches!(
                    self.slots[peer.index()],
                    RankSlot::Living(_) | RankSlot::Dead(_)
                )
        };
        let survivors: Vec<_> = self.ranks().filter(is_survivor).collect();
        if self.losses.died(rank, of.incarnation, survivors).is_err() {
            self.stage.count(Count::Stops);
            self.has_stopped = true;
        }
        let starts = self.step + self.rng.u64(0..=START_STEPS_MAX);
        self.statuses[rank.index()] = RankStatus::Fenced(starts);
    }

    /// Starts the next life of a rank. If the previous life still runs, it continues for a while:
    /// it does not know that it was replaced.
    fn start_again(&mut self, rank: Rank) {
        let index = rank.index();
        let last = self.slots[index].life();
        if matches!(self.slots[index], RankSlot::Living(_)) && self.is_still_heard(last) {
            // A peer still takes frames of the previous life: its successor waits.
            return;
        }
        self.statuses[index] = RankStatus::Fine;
        let life = Life {
            rank,
            incarnation: Incarnation(last.incarnation.0 + 1),
        };
        if let RankSlot::Living(_) = &self.slots[index] {
            let slot = core::mem::replace(&mut self.slots[index], RankSlot::Dead(last));
            if let RankSlot::Living(mut process) = slot {
                self.checkpoints.give_up(rank);
                process.doom(self.rng.u64(1..=REPLACED_STEPS_MAX));
                self.litters[rank.index()].1 = true;
                self.replaced.push(*process);
            }
            self.stage.count(Count::RankKills);
        }
        let crash_point = self.crash_points[index].successor();
        self.crash_points[index] = crash_point.clone();
        self.news[index].clear();
        self.stage.tell(&Happening::Began(life));
        self.stage.facts.alive.borrow_mut()[rank.index()] = Some(life.incarnation);
        self.slots[index] = RankSlot::Returning(Box::new(Collecting::new(
            self.join(life, crash_point),
            self.plan.ranks,
        )));
    }
}
