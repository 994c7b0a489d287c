//! Shrinks a failing plan: a smaller one is easier to read.

use crate::plan::STAMP_BYTES;
use crate::plan::{MessagePlan, Plan, Process, WayPlan};
use refrain_eventlog::Level;
use refrain_ring::Rank;

/// The smallest plan found for which `still_fails` returns true, after at most `budget` attempts:
/// with fewer faults, ranks, rounds and messages, shorter messages, a calmer network, fewer
/// loggers. `plan` is assumed to fail.
pub fn shrink(plan: &Plan, still_fails: impl FnMut(&Plan) -> bool, budget: u32) -> Plan {
    let mut shrinking = Shrinking {
        best: plan.clone(),
        left: budget,
        still_fails,
    };
    loop {
        let before = shrinking.best.clone();
        // The largest cuts first: they shorten runs most.
        shrinking.fewer_faults();
        shrinking.fewer_rounds();
        shrinking.fewer_ranks();
        shrinking.fewer_messages();
        shrinking.fewer_collectives();
        shrinking.plainer_rounds();
        shrinking.plainer_messages();
        shrinking.plainer_shape();
        if shrinking.best == before || shrinking.left == 0 {
            return shrinking.best;
        }
    }
}

struct Shrinking<F> {
    best: Plan,
    /// Number of plans that may still be tried.
    left: u32,
    still_fails: F,
}

impl<F: FnMut(&Plan) -> bool> Shrinking<F> {
    /// Tries the best plan with a change; keeps it if it fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if self.left == 0 || plan == self.best {
            return false;
        }
        self.left -= 1;
        let fails = (self.still_fails)(&plan);
        if fails {
            self.best = plan;
        }
        fails
    }

    /// Removes as many items of a list as possible: first half of them at a time, at last single
    /// ones. `remove`: removes this range of the list.
    fn fewer(
        &mut self,
        count: impl Fn(&Plan) -> usize,
        remove: impl Fn(&mut Plan, core::ops::Range<usize>),
    ) {
        let mut size = count(&self.best);
        while size > 0 {
            // From the end: later items rarely matter.
            let mut end = count(&self.best);
            while end > 0 {
                let begin = end.saturating_sub(size);
                self.attempt(|plan| remove(plan, begin..end));
                end = begin;
            }
            size /= 2;
        }
    }

    fn fewer_faults(&mut self) {
        self.fewer(
            |plan| plan.faults.len(),
            |plan, range| drop(plan.faults.drain(range)),
        );
    }

    fn fewer_rounds(&mut self) {
        self.fewer(
            |plan| plan.rounds.len(),
            |plan, range| drop(plan.rounds.drain(range)),
        );
    }

    fn fewer_ranks(&mut self) {
        for gone in (0..self.best.ranks).rev().map(Rank) {
            // Without an heir first, then with each of the others.
            let others = (0..self.best.ranks).map(Rank).filter(|rank| *rank != gone);
            for heir in std::iter::once(None).chain(others.map(Some)) {
                if self.best.ranks > 2 && self.attempt(|plan| without_rank(plan, gone, heir)) {
                    break;
                }
            }
        }
    }

    fn fewer_messages(&mut self) {
        self.fewer(Plan::messages, |plan, range| {
            let mut number = 0;
            for round in &mut plan.rounds {
                round.messages.retain(|_| {
                    number += 1;
                    !range.contains(&(number - 1))
                });
            }
        });
    }

    fn fewer_collectives(&mut self) {
        self.fewer(Plan::collectives, |plan, range| {
            let mut number = 0;
            for round in &mut plan.rounds {
                round.collectives.retain(|_| {
                    number += 1;
                    !range.contains(&(number - 1))
                });
            }
        });
    }

    fn plainer_rounds(&mut self) {
        for round in 0..self.best.rounds.len() {
            self.attempt(|plan| plan.rounds[round].prints.clear());
            self.attempt(|plan| plan.rounds[round].checkpoints.clear());
            for seed in 0..4 {
                if self.best.rounds[round].style_seed > seed
                    && self.attempt(|plan| plan.rounds[round].style_seed = seed)
                {
                    break;
                }
            }
        }
    }

    fn plainer_messages(&mut self) {
        let least = STAMP_BYTES as u32;
        self.attempt(|plan| for_messages(plan, |message| message.bytes = least));
        self.attempt(|plan| {
            let rounds = plan.rounds.iter_mut();
            let all = rounds.flat_map(|round| &mut round.collectives);
            all.for_each(|collective| collective.shape.count = collective.shape.count.min(1));
        });
        self.attempt(|plan| for_messages(plan, |message| message.is_synchronous = false));
        for round in 0..self.best.rounds.len() {
            for index in 0..self.best.rounds[round].messages.len() {
                let mut change = |to: &dyn Fn(&mut MessagePlan)| {
                    self.attempt(|plan| to(&mut plan.rounds[round].messages[index]))
                };
                change(&|message| message.is_synchronous = false);
                if !change(&|message| message.bytes = least) {
                    while change(&|message| message.bytes = (message.bytes / 2).max(least)) {}
                }
            }
        }
    }

    fn plainer_shape(&mut self) {
        self.attempt(|plan| plan.whole = None);
        self.attempt(|plan| plan.network.is_rough = false);
        self.attempt(|plan| plan.network.distant_bytes_min = None);
        self.attempt(|plan| plan.network.is_staged = false);
        self.attempt(|plan| plan.network.reads_in_place = false);
        self.attempt(|plan| plan.first_clock = 0);
        for replicas in 1..self.best.loggers.replicas {
            if self.attempt(|plan| with_replicas(plan, replicas)) {
                break;
            }
        }
        self.attempt(|plan| plan.loggers.quorum = plan.loggers.replicas);
        self.attempt(|plan| plan.loggers.way = WayPlan::Messages);
        self.attempt(|plan| plan.loggers.level = Level::Durable);
    }
}

fn for_messages(plan: &mut Plan, change: impl Fn(&mut MessagePlan)) {
    let rounds = plan.rounds.iter_mut();
    rounds
        .flat_map(|round| &mut round.messages)
        .for_each(change);
}

/// Removes a rank. Higher ranks move down by one; the heir, if there is one, takes over the
/// messages of the removed rank.
fn without_rank(plan: &mut Plan, gone: Rank, heir: Option<Rank>) {
    let new_name = |rank: Rank| {
        let rank = if rank == gone { heir? } else { rank };
        Some(Rank(rank.0 - u32::from(rank > gone)))
    };
    plan.ranks -= 1;
    if !plan.set_of_rank.is_empty() {
        plan.set_of_rank.remove(gone.index());
    }
    plan.fit_tolerance();
    for round in &mut plan.rounds {
        let renamed = round.messages.iter().filter_map(|message| {
            let (from, to) = (new_name(message.from)?, new_name(message.to)?);
            (from != to).then_some(MessagePlan {
                from,
                to,
                ..*message
            })
        });
        round.messages = renamed.collect();
        for ranks in [&mut round.checkpoints, &mut round.prints] {
            *ranks = ranks.iter().filter_map(|rank| new_name(*rank)).collect();
            ranks.sort_unstable();
            ranks.dedup();
        }
    }
    for members in &mut plan.groups {
        members.retain(|rank| *rank != gone);
        members
            .iter_mut()
            .for_each(|rank| rank.0 -= u32::from(*rank > gone));
    }
    plan.faults.retain_mut(|fault| match &mut fault.process {
        Process::Rank(rank) => new_name(*rank).is_some_and(|new| {
            *rank = new;
            true
        }),
        _ => true,
    });
}

fn with_replicas(plan: &mut Plan, replicas: u32) {
    plan.loggers.replicas = replicas;
    plan.loggers.quorum = plan.loggers.quorum.min(replicas);
    plan.faults.retain(|fault| match fault.process {
        Process::Logger(logger) => logger < replicas,
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FaultKind;
    use crate::plan::generate::PlanOptions;

    /// Irrelevant parts are removed, relevant ones stay.
    #[test]
    fn the_smallest_plan_is_found() {
        let mut shrunk_seeds = 0;
        for seed in 0..40 {
            let plan = Plan::generate(seed, &PlanOptions::default());
            // Fails with a kill of a rank and a long message to another one.
            let fails = |plan: &Plan| {
                let kills = plan.faults.iter().filter_map(|fault| match fault.process {
                    Process::Rank(rank) if fault.kind == FaultKind::Kill => Some(rank),
                    _ => None,
                });
                let messages = || plan.rounds.iter().flat_map(|round| &round.messages);
                kills.into_iter().any(|killed| {
                    messages().any(|message| message.bytes >= 100 && message.to != killed)
                })
            };
            if !fails(&plan) {
                continue;
            }
            shrunk_seeds += 1;
            let small = shrink(&plan, fails, 10_000);
            assert!(fails(&small));
            assert_eq!(
                (small.ranks, small.rounds.len(), small.messages()),
                (2, 1, 1),
                "{small}"
            );
            assert_eq!(small.collectives(), 0);
            assert_eq!((small.faults.len(), small.loggers.replicas), (1, 1));
            assert!(small.rounds[0].messages[0].bytes < 200, "{small}");
            assert_eq!((small.first_clock, small.network.is_rough), (0, false));
        }
        assert!(shrunk_seeds > 5, "{shrunk_seeds}");
    }

    /// The number of tried plans does not exceed the budget.
    #[test]
    fn the_budget_holds() {
        let plan = Plan::generate(1, &PlanOptions::default());
        let mut tried = 0;
        let count = |_: &Plan| {
            tried += 1;
            true
        };
        shrink(&plan, count, 7);
        assert_eq!(tried, 7);
    }
}
