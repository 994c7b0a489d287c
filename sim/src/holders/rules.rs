//! Invariants that hold in every state.

use super::size::{Bug, Size};
use super::world::{World, collected, matches, own_answer};
use refrain_logging::held::Losses;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Incarnation, Rank};

impl World {
    pub(super) fn check(&self, size: &Size) -> Result<(), String> {
        for rank in 0..self.ranks.len() {
            if self.life(rank).is_some() {
                for beside in self.dead_beside(rank) {
                    self.check_recovery(rank, beside, size)?;
                }
            }
        }
        Ok(())
    }

    /// The ranks that may be dead beside this one, one at a time, if the launcher lets the job go on after
    /// all; `None` among them: no other one. TICKET-4
    fn dead_beside(&self, rank: usize) -> Vec<Option<usize>> {
        let mut losses = self.losses.clone();
        let stands = |losses: &mut Losses, of: usize| {
            let incarnation = self.ranks[of].incarnation;
            losses.died(Rank(of as u32), incarnation, []).is_ok()
        };
        if !stands(&mut losses, rank) {
            return Vec::new();
        }
        let others = (0..self.ranks.len()).filter(|other| *other != rank);
        let others = others.filter(|other| stands(&mut losses.clone(), *other));
        others.map(Some).chain([None]).collect()
    }

    /// If the rank died now, and one other with it, its next life would learn from the others what it calls stable, and,
    /// with its own logs, all events before its latest emission, after the older of its
    /// checkpoints. GATE-1, TICKET-1, CAUSAL-2, CAUSAL-4, GC-1
    fn check_recovery(
        &self,
        rank: usize,
        beside: Option<usize>,
        size: &Size,
    ) -> Result<(), String> {
        let state = &self.ranks[rank];
        let Some(process) = state.life.as_deref() else {
            return Ok(());
        };
        let of = Rank(rank as u32);
        let mut held = self.held_by_others(rank, beside);
        let of_others = collected(&held)?;
        let stable = process.holdings().stable_end();
        if of_others.end < stable {
            return Err(format!(
                "TICKET-1, CAUSAL-2: rank {rank} calls determinants before {stable} stable, and \
                 others would give those before {}",
                of_others.end
            ));
        }
        let carriers = [&state.remains[..], &process.carriers].concat();
        if !size.has(Bug::OwnCarriersForgotten) {
            held.extend(own_answer(of, &carriers)?);
        }
        let after = state.checkpoints[0].clock_before();
        let found = matches(of, &collected(&held)?, after)?;
        let said = state.said.events.iter().filter(|(at, _)| *at > after);
        for (index, event) in said.enumerate() {
            if found.get(index) != Some(event) {
                return Err(format!(
                    "GATE-1: rank {rank} has emitted after {event:?}, and would recover {found:?}"
                ));
            }
        }
        Ok(())
    }

    /// What the other ranks that live hold of a rank, but for one.
    fn held_by_others(&self, rank: usize, beside: Option<usize>) -> Vec<(Rank, Vec<u8>)> {
        let others = (0..self.ranks.len()).filter(|other| *other != rank && Some(*other) != beside);
        let lives = others.filter_map(|other| Some((other, self.life(other)?)));
        lives
            .map(|(other, process)| {
                let answer = process.holdings().answer(Rank(rank as u32));
                (Rank(other as u32), answer)
            })
            .collect()
    }

    /// When a message has arrived that waited for none of the events before it, other ranks hold
    /// them. CAUSAL-1
    pub(super) fn check_preceded(
        &self,
        rank: usize,
        life: Incarnation,
        events: usize,
    ) -> Result<(), String> {
        let Some(process) = self.life(rank).filter(|it| it.incarnation == life) else {
            return Ok(());
        };
        let after = self.ranks[rank].checkpoints[0].clock_before();
        let before = process.at.matches[..events].iter();
        let before: Vec<_> = before.filter(|(at, _)| *at > after).copied().collect();
        for beside in self.dead_beside(rank) {
            let held = collected(&self.held_by_others(rank, beside))?;
            let found = matches(Rank(rank as u32), &held, after)?;
            if !found.starts_with(&before) {
                return Err(format!(
                    "CAUSAL-1: a message of rank {rank} arrived after {before:?}, and others hold \
                     {found:?}"
                ));
            }
        }
        Ok(())
    }
}
