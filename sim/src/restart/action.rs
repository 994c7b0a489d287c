//! What may happen next, and in which words.

use super::life::Doing;
use super::size::{Bug, Order};
use super::world::World;
use core::fmt;
use refrain_transport::fabric::sim::LaneKind;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The first frame of a lane arrives.
    Deliver {
        /// From this rank,
        from: u8,
        /// in this life,
        life: u8,
        /// to this rank.
        to: u8,
        /// On its lane for records, else on that for control frames.
        is_data: bool,
    },
    /// A rank is told what has become of another: of what it was not told, this.
    Tell {
        /// The rank,
        rank: u8,
        /// the other,
        peer: u8,
        /// and which.
        nth: u8,
    },
    /// What happened in a rank is stable.
    Stable {
        /// The rank.
        rank: u8,
    },
    /// The checkpoint that a rank has taken is stable.
    Saved {
        /// The rank.
        rank: u8,
    },
    /// A rank dies.
    Die {
        /// The rank.
        rank: u8,
        /// So many batches that nobody confirmed are stable all the same.
        stable: u8,
    },
    /// The next life of a dead rank begins.
    Begin {
        /// The rank.
        rank: u8,
    },
}

impl Action {
    /// Whether it need not happen.
    pub(super) fn is_fault(self) -> bool {
        matches!(self, Self::Die { .. })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Deliver {
                from,
                life,
                to,
                is_data,
            } => {
                let what = if is_data { "record" } else { "control frame" };
                write!(f, "a {what} of rank {from}, life {life}, reaches rank {to}")
            }
            Self::Tell { rank, peer, nth } => {
                let which = if nth == 0 { "the next" } else { "later" };
                write!(f, "rank {rank} is told {which} news of rank {peer}")
            }
            Self::Stable { rank } => write!(f, "what happened in rank {rank} is stable"),
            Self::Saved { rank } => write!(f, "the checkpoint of rank {rank} is stable"),
            Self::Die { rank, stable } => {
                write!(f, "rank {rank} dies")?;
                match stable {
                    0 => Ok(()),
                    _ => write!(f, "; {stable} batches that nobody confirmed are stable"),
                }
            }
            Self::Begin { rank } => write!(f, "the next life of rank {rank} begins"),
        }
    }
}

impl World {
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut all = Vec::new();
        self.add_arrivals(&mut all);
        for rank in 0..self.lives.len() {
            let Some(life) = &self.lives[rank] else {
                all.push(Action::Begin { rank: rank as u8 });
                continue;
            };
            self.add_news(rank, &mut all);
            let pending = life.desk.0.borrow().pending.len();
            let rank = rank as u8;
            if pending > 0 {
                all.push(Action::Stable { rank });
            }
            if matches!(life.doing, Doing::Saving(_)) {
                all.push(Action::Saved { rank });
            }
            if self.deaths > 0 {
                let each = 0..=pending as u8;
                all.extend(each.map(|stable| Action::Die { rank, stable }));
            }
        }
        all
    }

    fn add_arrivals(&self, all: &mut Vec<Action>) {
        for on_its_way in self.network.on_their_way() {
            let (from, to) = (on_its_way.route.from, on_its_way.route.to);
            let Some(life) = &self.lives[to.rank.index()] else {
                continue;
            };
            let connected = life.engine.connected(from.rank);
            let is_data = on_its_way.lane == LaneKind::Data;
            let is_believed = self.size.bug == Some(Bug::StaleRestart) && !is_data;
            if life.incarnation != to.incarnation
                || !(connected == Some(from.incarnation) || is_believed)
            {
                continue;
            }
            let action = Action::Deliver {
                from: from.rank.0 as u8,
                life: from.incarnation.0 as u8,
                to: to.rank.0 as u8,
                is_data,
            };
            // Of a lane the first one.
            if !all.contains(&action) {
                all.push(action);
            }
        }
    }

    fn add_news(&self, rank: usize, all: &mut Vec<Action>) {
        for (peer, news) in self.news[rank].iter().enumerate() {
            let may_come = match self.size.order {
                Order::AsTheyCame => news.len().min(1),
                Order::Any => news.len(),
            };
            all.extend((0..may_come).map(|nth| Action::Tell {
                rank: rank as u8,
                peer: peer as u8,
                nth: nth as u8,
            }));
        }
    }
}
