//! The state of the model, and the steps that need no choice: programs run, and messages leave,
//! until the next step depends on an action.
//!
//! Doing these steps at once loses no behaviour: a blocking receive does not depend on when its
//! message arrived, and a crash before a message has left is equivalent to a crash before the
//! acknowledgement that let the message pass.

use super::loggers::LoggerRow;
use super::process::{Held, Phase, Process, mixed};
use super::{Bug, Operation, Size};
use refrain_logging::determinant::Matched;
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::gate::Gate;

/// Faults that may still occur.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Budget {
    pub crashes: u8,
    pub logger_restarts: u8,
    pub losses: u8,
}

/// Emissions of a rank in all its lives; an observer's record that no process reads.
#[derive(Clone, Debug, Hash)]
pub(super) struct Said {
    /// Contents of messages, by destination.
    pub messages: Vec<Vec<u64>>,
    /// The events before the latest of these messages.
    pub events: Vec<(Clock, Matched)>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct World {
    pub(super) ranks: Vec<Process>,
    /// Indexed by replica, then rank.
    pub(super) loggers: Vec<Vec<LoggerRow>>,
    pub(super) said: Vec<Said>,
    pub(super) budget: Budget,
}

impl World {
    pub(super) fn first(size: &Size) -> Self {
        let ranks = size.programs.len();
        let said = Said {
            messages: vec![Vec::new(); ranks],
            events: Vec::new(),
        };
        Self {
            ranks: (0..ranks).map(|rank| Process::first(rank, size)).collect(),
            loggers: vec![vec![LoggerRow::default(); ranks]; size.replicas],
            said: vec![said; ranks],
            budget: Budget {
                crashes: size.crashes,
                logger_restarts: size.logger_restarts,
                losses: size.losses,
            },
        }
    }

    /// Takes all steps that need no choice.
    pub(super) fn flow(&mut self, size: &Size) -> Result<(), String> {
        loop {
            let mut has_moved = false;
            for rank in 0..self.ranks.len() {
                while self.play(rank, size)? {
                    has_moved = true;
                }
                has_moved |= self.let_out(rank, size)?;
            }
            if !has_moved {
                return Ok(());
            }
        }
    }

    /// Runs one operation of a program, unless it has to wait.
    fn play(&mut self, rank: usize, size: &Size) -> Result<bool, String> {
        let process = &mut self.ranks[rank];
        let Some(&operation) = size.programs[rank].get(process.at.place) else {
            return Ok(false);
        };
        if !process.is_running() {
            return Ok(false);
        }
        match operation {
            Operation::Send(to) => {
                self.send(rank, to)?;
                Ok(true)
            }
            Operation::From(source) => {
                let is_here = process.arrived[source].len() > process.at.given[source];
                if is_here {
                    process.take(source);
                }
                Ok(is_here)
            }
            Operation::Any => replayed(process),
            Operation::Checkpoint => {
                if process.gate.is_closed() {
                    process.advance(true);
                }
                if process.gate.is_closed() {
                    return Ok(false);
                }
                self.checkpoint(rank, size);
                Ok(true)
            }
        }
    }

    fn send(&mut self, rank: usize, to: usize) -> Result<(), String> {
        let process = &mut self.ranks[rank];
        let content = mixed(&(rank, to, process.at.place, process.at.told));
        let number = process.at.sent[to].len();
        let before = self.said[rank].messages[to].get(number);
        if before.is_some_and(|before| *before != content) {
            return Err(format!(
                "no orphan (REC-8): message {number} of rank {rank} to rank {to} differs from \
                 that of an earlier life"
            ));
        }
        process.at.sent[to].push(content);
        process.held.push_back(Held {
            to,
            mark: process.gate.mark(),
            events_before: process.at.matches.len(),
        });
        process.at.place += 1;
        if process.gate.is_closed() {
            process.advance(true);
        }
        Ok(())
    }

    /// Every message that passes the gate arrives at once. This also models REC-3: each message
    /// that a life has sent is available to every later life of its receiver.
    fn let_out(&mut self, rank: usize, size: &Size) -> Result<bool, String> {
        let mut has_moved = false;
        while let Some(held) = self.ranks[rank].held.front() {
            let gate = &self.ranks[rank].gate;
            if pass(gate, held, size).is_none() {
                break;
            }
            let (to, events) = (held.to, held.events_before);
            self.leave(rank, to, events)?;
            has_moved = true;
        }
        for to in 0..self.ranks.len() {
            let here = self.ranks[to].arrived[rank].len();
            let process = &self.ranks[rank];
            if process.left[to] > here {
                let new = process.at.sent[to][here..process.left[to]].to_vec();
                self.ranks[to].arrived[rank].extend(new);
                has_moved = true;
            }
        }
        Ok(has_moved)
    }

    fn leave(&mut self, rank: usize, to: usize, events: usize) -> Result<(), String> {
        let process = &mut self.ranks[rank];
        process.held.pop_front();
        let number = process.left[to];
        process.left[to] += 1;
        let said = &mut self.said[rank];
        if number == said.messages[to].len() {
            said.messages[to].push(process.at.sent[to][number]);
        }
        let before = &process.at.matches[..events];
        let common = before.len().min(said.events.len());
        if before[..common] != said.events[..common] {
            return Err(format!(
                "no orphan: rank {rank} emits after events that differ from those before its \
                 earlier emissions"
            ));
        }
        if before.len() > common {
            said.events = before.to_vec();
        }
        Ok(())
    }

    /// Takes a checkpoint. Two generations are kept; determinants before the older one are trimmed.
    /// GC-1
    fn checkpoint(&mut self, rank: usize, size: &Size) {
        let process = &mut self.ranks[rank];
        process.at.place += 1;
        let newest = process.at.clone();
        let generations = &mut process.checkpoints;
        generations.swap(0, 1);
        generations[1] = newest;
        let behind = match size.bug {
            Some(Bug::TrimAtNewest) => &generations[1],
            _ => &generations[0],
        };
        let clock = behind.clock_before();
        let process = &self.ranks[rank];
        let Some(committer) = process.committer() else {
            return;
        };
        for (replica, loggers) in self.loggers.iter_mut().enumerate() {
            if committer.is_live(replica) {
                loggers[rank].trim(clock);
            }
        }
    }

    /// Whether every program has ended and every message has left.
    pub(super) fn is_over(&self, size: &Size) -> bool {
        let mut each = self.ranks.iter().zip(&size.programs);
        each.all(|(process, program)| process.at.place == program.len() && process.held.is_empty())
    }
}

/// Runs a receive from any source whose determinant is known, if its message has arrived. REC-4
fn replayed(process: &mut Process) -> Result<bool, String> {
    let Some(&matched) = process.replay.front() else {
        return Ok(false);
    };
    let source = matched.source.0 as usize;
    let number = process.at.given[source];
    if matched.ssn != Ssn(number as u64) || matched.request != process.at.clock() {
        return Err(format!(
            "EL-5: a determinant says {matched:?} where the receive at {:?} would get number {number}",
            process.at.clock()
        ));
    }
    if process.arrived[source].len() <= number {
        return Ok(false);
    }
    process.replay.pop_front();
    process.matched(source, matched, false);
    Ok(true)
}

fn pass(gate: &Gate, held: &Held, size: &Size) -> Option<refrain_transport::gate::Pass> {
    match size.bug {
        Some(Bug::GateOpen) => Some(gate.pass_unseen()),
        _ => gate.pass_behind(held.mark),
    }
}

/// The match that a receive from any source would make with the next message of `source`, if that
/// message has arrived.
pub(super) fn next_of(process: &Process, source: usize) -> Option<Matched> {
    let number = process.at.given[source];
    (process.arrived[source].len() > number).then(|| Matched {
        request: process.at.clock(),
        source: Rank(source as u32),
        ssn: Ssn(number as u64),
    })
}

/// Whether a rank is at a receive from any source that no determinant decides.
pub(super) fn is_to_choose(process: &Process, operation: Option<&Operation>) -> bool {
    operation == Some(&Operation::Any)
        && process.replay.is_empty()
        && matches!(process.phase, Phase::Running(_))
}
