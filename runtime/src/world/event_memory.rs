//! The memory of events that ranks hold for each other: where it gets short, checkpoints are requested that
//! free it, and where it is full, the rank keeps no events any more. LOG-7

use super::World;
use super::checkpoint_requests::{Channel, Memory};
use crate::Error;
use crate::error::EventsFull;
use refrain_job::config::LogFullPolicy;
use refrain_job::control::message::ToLauncher;
use refrain_job::statistics::AtRanksStatistics;
use refrain_logging::held::Holdings;
use refrain_ring::Ssn;
use std::time::Instant;

/// Events may take this part of as much memory as the log may take, beside the log.
const PART_OF_LOG: u64 = 4;

/// What is held at ranks, if events are.
pub(super) fn at_ranks(holdings: Option<&Holdings>) -> AtRanksStatistics {
    let Some(holdings) = holdings else {
        return AtRanksStatistics::default();
    };
    let counts = holdings.counts();
    let (own, held) = holdings.held_events();
    AtRanksStatistics {
        carried: counts.carried,
        carried_bytes: counts.carried_bytes,
        given: counts.given,
        told_bytes: counts.told_bytes,
        own,
        held,
        held_bytes: holdings.held_bytes(),
    }
}

impl World {
    /// Requests checkpoints of the ranks whose events take the most memory; stops keeping them when all of it
    /// is in use.
    #[cold]
    pub(super) fn bound_events(&mut self) -> Result<(), Error> {
        let (_, log_bytes) = self.engine.log_bytes();
        let limit_bytes = log_bytes / PART_OF_LOG;
        let Some(holdings) = self.holdings() else {
            return Ok(());
        };
        let used_bytes = holdings.held_bytes();
        if used_bytes < limit_bytes / 2 || holdings.has_stopped_keeping() {
            return Ok(());
        }
        let of_rank = holdings.bytes_by_rank();
        let of_rank = of_rank.map(|(rank, held_bytes, first)| Channel {
            to: rank,
            held_bytes,
            share_bytes: limit_bytes,
            horizon: Ssn(first.0),
        });
        let of_rank: Vec<_> = of_rank.collect();
        if used_bytes >= limit_bytes {
            let most = of_rank.iter().max_by_key(|it| it.held_bytes);
            let full = EventsFull {
                used_bytes,
                limit_bytes,
                most_of: most.map_or(self.rank, |it| it.to),
            };
            return self.stop_keeping_events(full);
        }
        if self.checkpoints.store.is_none() {
            return Ok(());
        }
        let memory = Memory {
            used_bytes,
            budget_bytes: limit_bytes,
            stays_bytes: 0,
            is_writing: false,
            is_exhausted: false,
        };
        let requests = &mut self.checkpoints.event_requests;
        for of in requests.next(Instant::now(), memory, &of_rank) {
            self.tell(|control| control.report(&ToLauncher::WantCheckpoint(of.0)))?;
        }
        Ok(())
    }

    fn stop_keeping_events(&mut self, full: EventsFull) -> Result<(), Error> {
        if self.patience.log_full == LogFullPolicy::Stop {
            return Err(Error::EventsFull(full));
        }
        if let Some(holdings) = self.holdings() {
            holdings.stop_keeping();
        }
        let report = format!("rank {} has no room for events: {full}", self.rank);
        self.tell(|control| control.report(&ToLauncher::Unprotected(report)))
    }
}
