//! Correlated sets in a job: the launcher's rounds of checkpoints, and what ranks and launcher tell
//! each other about them. SET-2, SET-4

use super::World;
use super::launcher::RankStatus;
use super::rank::RankSlot;
use crate::happening::Happening;
use crate::planted::Planted;
use core::time::Duration;
use refrain_logging::rounds::Order;
use refrain_ring::Rank;

/// What a rank tells the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Its program takes a checkpoint.
    WantRound,
    /// It keeps its messages to members of its set.
    Keeping(u64),
    /// Its checkpoint with this number is stable.
    Stable(u32),
    /// Its checkpoints behind the first number, and before the second, are void.
    Void(u32, u32),
}

/// On average, a rank handles the next order in one of this many steps.
const LATE: u32 = 4;

impl World<'_> {
    /// A rank may handle its next order; the launcher hears what it says. Returns whether there was
    /// any of both.
    pub(super) fn look_after_round(&mut self, rank: Rank) -> bool {
        let index = rank.index();
        let is_heeded = !self.orders[index].is_empty() && self.rng.u32(0..LATE) == 0;
        let order = is_heeded.then(|| self.orders[index].pop_front()).flatten();
        let RankSlot::Living(process) = &mut self.slots[index] else {
            return false;
        };
        if let Some(order) = order {
            process.heed_order(order);
        }
        let words = process.take_words();
        let is_any = order.is_some() || !words.is_empty();
        for word in words {
            let now = self.now();
            let orders = match word {
                Word::WantRound => self.rounds.wanted(rank, now, &self.runs()),
                Word::Keeping(round) => self.rounds.keeping(rank, round),
                Word::Stable(number) => self.rounds.stable(rank, number.into()),
                Word::Void(last, next) => {
                    self.checkpoints.fence(rank, last, next);
                    Vec::new()
                }
            };
            self.say_orders(orders);
        }
        is_any || !self.orders[index].is_empty()
    }

    /// Ends rounds that take too long.
    pub(super) fn end_late_rounds(&mut self) {
        let late = self.rounds.step(self.now());
        self.say_orders(late);
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.step)
    }

    fn say_orders(&mut self, orders: Vec<Order>) {
        for order in orders {
            let (Order::Begin(rank, _) | Order::Take(rank) | Order::End(rank, ..)) = order;
            self.orders[rank.index()].push_back(order);
            if let (Order::End(_, _, true), Some(number)) = (order, self.rounds.goes_back_to(rank))
            {
                let stable = Happening::CheckpointStable(rank, number as u32);
                self.stage.tell(&stable);
            }
        }
    }

    fn runs(&self) -> Vec<bool> {
        let runs = |(slot, status): (&RankSlot, &RankStatus)| {
            let has_caught_up = match slot {
                RankSlot::Living(process) => process.has_caught_up(),
                _ => false,
            };
            has_caught_up && *status == RankStatus::Fine
        };
        self.slots.iter().zip(&self.statuses).map(runs).collect()
    }

    /// The others of a dead rank's set are killed. SET-4
    pub(super) fn take_set_along(&mut self, rank: Rank) {
        self.rounds.died(rank);
        if self.plan.planted == Some(Planted::SetLeftBehind) {
            return;
        }
        for member in self.rounds.members(rank) {
            self.orders[member.index()].clear();
            let is_fine = self.statuses[member.index()] == RankStatus::Fine;
            if let (true, Some(crash_point)) = (is_fine, self.slots[member.index()].crash_point()) {
                crash_point.kill();
            }
        }
    }

    /// Whether the next lives of this rank's set may begin: no earlier one runs. SET-4
    pub(super) fn may_set_start(&self, rank: Rank) -> bool {
        let is_over = |member: &Rank| {
            let is_due =
                matches!(self.statuses[member.index()], RankStatus::Fenced(at) if at <= self.step);
            is_due && matches!(self.slots[member.index()], RankSlot::Dead(_))
        };
        let is_alone = self.plan.planted == Some(Planted::SetLeftBehind);
        is_alone || self.rounds.members(rank).iter().all(is_over)
    }
}
