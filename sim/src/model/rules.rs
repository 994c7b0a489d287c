//! Invariants that hold in every state.

use super::loggers::{LoggerRow, header};
use super::world::World;
use super::{Joining, Size};
use refrain_logging::determinant::EventIndex;
use std::collections::BTreeMap;

impl World {
    pub(super) fn check(&self, size: &Size) -> Result<(), String> {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].committer().is_none() {
                continue;
            }
            self.check_rows(rank)?;
            self.check_quorum(rank, size)?;
            for without in 0..size.replicas {
                self.check_recovery(rank, without, size)?;
            }
        }
        Ok(())
    }

    /// Each number of a life has one determinant; per-rank event logs have no gaps and end where
    /// they claim. EL-2
    fn check_rows(&self, rank: usize) -> Result<(), String> {
        let mut contents = BTreeMap::new();
        for (replica, loggers) in self.loggers.iter().enumerate() {
            let held = &loggers[rank];
            let mut end = held.row.first;
            for batch in &held.batches {
                let header = header(batch);
                if header.first > end {
                    return Err(format!(
                        "EL-5: the log of rank {rank} at logger {replica} has a gap"
                    ));
                }
                end = header.end();
                let known = contents.insert((header.incarnation, header.first), batch);
                if known.is_some_and(|known| known != batch) {
                    return Err(format!(
                        "two determinants of rank {rank} have number {} of incarnation {}",
                        header.first, header.incarnation.0
                    ));
                }
            }
            if end != held.row.end {
                return Err(format!(
                    "EL-5: logger {replica} claims batches that it does not have"
                ));
            }
        }
        Ok(())
    }

    /// EL-1: a quorum of replicas has what the committer calls stable; replicas that lost their
    /// data are counted as if they had it.
    fn check_quorum(&self, rank: usize, size: &Size) -> Result<(), String> {
        let process = &self.ranks[rank];
        let Some(committer) = process.committer() else {
            return Ok(());
        };
        let stable = committer.stable_end();
        let lost = usize::from(size.losses - self.budget.losses);
        let holds = |loggers: &&Vec<LoggerRow>| loggers[rank].row.end >= stable;
        let holders = self.loggers.iter().filter(holds).count();
        match stable == EventIndex(0) || holders + lost >= size.quorum {
            true => Ok(()),
            false => Err(format!(
                "EL-1: {holders} loggers have the determinants of rank {rank} before {stable}"
            )),
        }
    }

    /// GATE-1, EL-5, GC-1: if the rank died now and surveyed all loggers except `without`, it would
    /// learn all events before its latest emission and after the older of its checkpoints.
    fn check_recovery(&self, rank: usize, without: usize, size: &Size) -> Result<(), String> {
        let after = self.ranks[rank].checkpoints[0].clock_before();
        let said = self.said[rank].events.iter();
        let said: Vec<_> = said.filter(|(at, _)| *at > after).collect();
        if said.is_empty() {
            return Ok(());
        }
        let end = |held: &LoggerRow| match size.joining {
            Joining::FirstKept => held.unmarked_end(),
            Joining::Marked => held.row_end(),
        };
        let asked = self.loggers.iter().enumerate();
        let asked = asked.filter(|(replica, _)| *replica != without);
        let asked: Vec<&LoggerRow> = asked.map(|(_, loggers)| &loggers[rank]).collect();
        let greatest = asked.iter().map(|held| end(held)).max();
        for held in asked.iter().filter(|held| Some(end(held)) == greatest) {
            if held.row.clock_before > after {
                return Err(format!(
                    "GC-1: rank {rank} may restart from its checkpoint at {after:?}, and \
                     determinants up to {:?} were trimmed",
                    held.row.clock_before
                ));
            }
            let found = held.matches(held.row.end, after);
            let mut pairs = said.iter().enumerate();
            if !pairs.all(|(index, (_, matched))| found.get(index) == Some(matched)) {
                return Err(format!(
                    "GATE-1, EL-5: rank {rank} has emitted after {said:?}, and without logger \
                     {without} it would recover {found:?}"
                ));
            }
        }
        Ok(())
    }
}
