//! Events that ranks hold for each other, and that event loggers beside them have: a later life collects those of
//! its earlier lives. TICKET-2, TICKET-4, CAUSAL-5

use super::World;
use super::rank::RankSlot;
use crate::happening::Breach;
use crate::loggers::LoggerClient;
use crate::planted::Planted;
use crate::recollect::image_of;
use refrain_logging::LeftInLogs;
use refrain_logging::held::{Answers, Collected};
use refrain_rank::dead_rank::add_carried;
use refrain_ring::Rank;

impl World<'_> {
    /// Events that ranks hold for each other: which losses are made good, and which next lives have
    /// all answers. TICKET-2, TICKET-4
    pub(super) fn look_after_losses(&mut self) -> Result<(), Breach> {
        if self.held.is_none() || self.has_stopped {
            return Ok(());
        }
        for rank in self.ranks() {
            if let RankSlot::Living(process) = &mut self.slots[rank.index()]
                && let Some(holdings) = process.holdings()
            {
                self.losses.joined(rank);
                while let Some(of) = holdings.next_restored() {
                    self.losses.restored(rank, of);
                }
            }
        }
        for rank in self.ranks() {
            // A life that was replaced and still runs leaves its logs later. FENCE-1
            let still_runs = self.replaced.iter().any(|old| old.life.rank == rank);
            if let RankSlot::Returning(collecting) = &mut self.slots[rank.index()]
                && collecting.joining.events.start().is_none()
                && !still_runs
                && self.is_admitted(rank)
            {
                self.losses.asked(rank);
            }
        }
        while let Some(Answers { rank, mut held }) = self.losses.next_answers() {
            let breach = |what| Breach {
                oracle: "recollect",
                what,
            };
            let forgets = self.plan.planted == Some(Planted::OwnCarriersForgotten);
            if self.plan.protocol.carries() && !forgets {
                let mut events = LeftInLogs::default();
                for remains in &self.remains[rank.index()] {
                    let added = add_carried(&image_of(remains, None), &mut events);
                    added.map_err(|error| breach(error.to_string()))?;
                }
                held.push((rank, events.answer()));
            }
            let RankSlot::Returning(collecting) = &mut self.slots[rank.index()] else {
                continue;
            };
            let Some(store) = collecting.joining.events.held() else {
                continue;
            };
            let logged = |it: &LoggerClient| (it.logged_end(), it.made_by());
            let logged = store.loggers.as_deref().map(logged);
            if self.plan.planted == Some(Planted::HoldersLeftOut) && logged.is_some() {
                held.clear();
            }
            let logged = logged.unwrap_or_default();
            let answers = held.iter().map(|(holder, bytes)| (*holder, &**bytes));
            let collected = Collected::behind(logged, answers);
            let collected = collected.map_err(|error| breach(error.to_string()))?;
            let collected = match self.held_percent.filter(|_| self.lossy == Some(rank)) {
                Some(percent) => cut(collected, percent),
                None => collected,
            };
            let incarnation = store.life.incarnation;
            let bent = self.plan.planted == Some(Planted::TicketsReused);
            let began = store.ledger.began(rank, incarnation, collected.end);
            if self.lossy != Some(rank) {
                began.map_err(breach)?;
            }
            store.collected = Some(match bent {
                true => Collected {
                    end: collected.floor,
                    ..collected
                },
                false => collected,
            });
        }
        Ok(())
    }

    /// Whether a quorum of event loggers has admitted a rank that collects, if the job has loggers.
    fn is_admitted(&mut self, rank: Rank) -> bool {
        let RankSlot::Returning(collecting) = &mut self.slots[rank.index()] else {
            return false;
        };
        match collecting.joining.events.held() {
            Some(store) => store.loggers.as_mut().is_none_or(|client| {
                client.start().is_some() && client.live() >= self.plan.loggers.quorum as usize
            }),
            None => false,
        }
    }
}

/// The first batches of what was collected, in percent.
fn cut(collected: Collected, percent: u8) -> Collected {
    let left = collected.row.count() * usize::from(percent) / 100;
    let mut cut = Collected {
        floor: collected.floor,
        end: collected.floor,
        ..Collected::default()
    };
    for (batch, holders) in collected.row.batches().zip(&collected.holders).take(left) {
        cut.row.push(&batch);
        cut.holders.push(holders.clone());
        cut.end = batch.end();
    }
    cut
}
