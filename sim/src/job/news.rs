//! What the launcher tells ranks: who is down, whose next life can be reached. A
//! rank hears it late, and in order; it fences and connects as the runtime does.

use super::Job;
use super::seat::Seat;
use crate::happening::{Breach, Happening, Life};
use crate::planted::Planted;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Address;

/// News are heard in one of so many steps.
const LATE: u32 = 4;

/// Something to tell.
#[derive(Clone, Debug)]
pub enum News {
    /// A life, and all before, are over.
    Down(Life),
    /// A life can be reached.
    Up(Life, Address),
}

impl Job<'_> {
    /// All others that have an engine are told.
    pub(super) fn tell_others(&mut self, of: Rank, news: &News) {
        for peer in self.ranks().filter(|peer| *peer != of) {
            if let Seat::Living(_) | Seat::Starting(_) = self.seats[peer.index()] {
                self.news[peer.index()].push_back(news.clone());
            }
        }
    }

    /// Whether somebody has not heard yet that this life is over.
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

    fn heed_one(&mut self, rank: Rank, news: News) -> Result<(), Breach> {
        let Seat::Living(process) = &mut self.seats[rank.index()] else {
            return Ok(());
        };
        let (of, by) = match &news {
            News::Down(life) | News::Up(life, _) => (*life, process.life),
        };
        match news {
            News::Down(life) => {
                let connected = process.engine.connected(life.rank);
                let is_over = connected.is_none_or(|it| it <= life.incarnation);
                if is_over && self.plan.planted != Some(Planted::NoFence) {
                    process.engine.fence(life.rank);
                }
                let next = Incarnation(life.incarnation.0 + 1);
                self.facts.tell(rank, life.rank, next);
            }
            News::Up(life, address) => {
                let connected = process
                    .engine
                    .connect(life.rank, life.incarnation, &address);
                connected.map_err(|error| Breach {
                    oracle: "engine",
                    what: format!("{by} connects {of}: {error}"),
                })?;
                self.facts.tell(rank, life.rank, life.incarnation);
                return Ok(());
            }
        }
        self.stage.tell(&Happening::Fenced(by, of));
        Ok(())
    }
}
