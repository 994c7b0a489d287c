//! A whole job without failures.

use super::{Beginning, Choices, Reference, Stop};
use crate::plan::Plan;
use crate::program::Program;
use refrain_ring::{Clock, Rank};
use thiserror::Error;

/// What a rank came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// What its program was told, as a hash.
    pub state: u64,
    /// What it printed.
    pub prints: Vec<u64>,
    /// Its last operation.
    pub clock: Clock,
}

/// A job that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("rank {rank} stopped at {clock}: {stop:?}")]
pub struct Unfinished {
    /// The first rank that is not over.
    pub rank: Rank,
    /// Its latest operation.
    pub clock: Clock,
    /// Why.
    pub stop: Stop,
}

/// Runs all programs of a plan with these choices, by rank, from their beginnings
/// to their ends.
///
/// # Errors
/// When one does not come to its end.
pub fn run_job(plan: &Plan, choices: Vec<Choices>) -> Result<Vec<Final>, Unfinished> {
    let ranks = play(plan, choices)?;
    Ok(ranks.iter().map(Final::of).collect())
}

/// All ranks at their ends.
pub(super) fn play(plan: &Plan, choices: Vec<Choices>) -> Result<Vec<Reference>, Unfinished> {
    let begin = |(rank, choices): (u32, Choices)| {
        let program = Program::new(plan, Rank(rank));
        let beginning = Beginning::new(program, plan.ranks, Clock(plan.first_clock));
        Reference::new(Rank(rank), &beginning, choices)
    };
    let mut ranks: Vec<Reference> = (0..plan.ranks).zip(choices).map(begin).collect();
    // Of each rank's sends: so many were delivered.
    let mut delivered = vec![0; ranks.len()];
    loop {
        let stops: Vec<Stop> = ranks.iter_mut().map(Reference::run).collect();
        let has_moved = deliver(&mut ranks, &mut delivered);
        if stops.iter().all(|stop| *stop == Stop::Finished) {
            return Ok(ranks);
        }
        if !has_moved {
            let is_over = |stop: &&Stop| matches!(stop, Stop::Finished | Stop::Blocked);
            // Who waits only waits for the others.
            let at = stops.iter().position(|stop| !is_over(&stop));
            let at = at.or_else(|| stops.iter().position(|stop| *stop == Stop::Blocked));
            let at = at.unwrap_or_default();
            return Err(Unfinished {
                rank: Rank(at as u32),
                clock: ranks[at].clock(),
                stop: stops[at].clone(),
            });
        }
    }
}

/// Whether there was anything to deliver.
fn deliver(ranks: &mut [Reference], delivered: &mut [usize]) -> bool {
    let mut has_moved = false;
    for from in 0..ranks.len() {
        let new = ranks[from].sends()[delivered[from]..].to_vec();
        delivered[from] += new.len();
        has_moved |= !new.is_empty();
        for sent in new {
            let to = &mut ranks[sent.to.index()];
            to.deliver(Rank(from as u32), sent.ssn, sent.tag, sent.payload);
        }
    }
    has_moved
}

impl Final {
    /// Of a program that was played.
    pub fn of(rank: &Reference) -> Self {
        Self {
            state: rank.state(),
            prints: rank.prints().to_vec(),
            clock: rank.clock(),
        }
    }
}
