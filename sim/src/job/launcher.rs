//! The launcher: notices that a rank is dead, or takes it for dead; has its
//! peers fence it; then starts its next life.

use fastrand::Rng;
use refrain_ring::Rank;

/// Steps until a death is noticed, at most.
const NOTICE_STEPS_MAX: u64 = 60;
/// Steps between fencing and the next life, at most.
const START_STEPS_MAX: u64 = 40;

/// What the launcher knows of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ward {
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
    wards: Vec<Ward>,
}

impl Launcher {
    /// Of a job of so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            wards: vec![Ward::Fine; ranks as usize],
        }
    }

    /// A rank has died, or is taken for dead.
    pub fn lose(&mut self, rank: Rank, step: u64, rng: &mut Rng) {
        self.wards[rank.index()] = Ward::Dead(step + rng.u64(0..=NOTICE_STEPS_MAX));
    }

    /// All living peers are told. REC-6: its next life does not wait for them.
    pub fn fenced(&mut self, rank: Rank, step: u64, rng: &mut Rng) {
        let ward = &mut self.wards[rank.index()];
        if *ward == Ward::Fencing {
            *ward = Ward::Starting(step + rng.u64(0..=START_STEPS_MAX));
        }
    }

    /// A life that still runs has not been fenced by all: its successor waits.
    pub fn put_off(&mut self, rank: Rank, step: u64) {
        self.wards[rank.index()] = Ward::Starting(step + 1);
    }

    /// What is to be done now. Fencing is ordered again until it is done.
    pub fn orders(&mut self, step: u64) -> Vec<Order> {
        let mut orders = Vec::new();
        for (rank, ward) in (0..).map(Rank).zip(&mut self.wards) {
            match *ward {
                Ward::Dead(at) if at <= step => *ward = Ward::Fencing,
                Ward::Starting(at) if at <= step => {
                    *ward = Ward::Fine;
                    orders.push(Order::Start(rank));
                }
                _ => {}
            }
            if *ward == Ward::Fencing {
                orders.push(Order::Fence(rank));
            }
        }
        orders
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.wards.iter().all(|ward| *ward == Ward::Fine)
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
