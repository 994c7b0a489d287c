//! What goes wrong, and when.
//!
//! | fault | what must survive it |
//! |---|---|
//! | a rank is killed, before or after any of its effects (a frame or control frame posted, a commit or hello sent, an operation of its log's disk begun) | the job's other ranks; every message that others may have seen of it can be made again from loggers, peers' logs and its own remains |
//! | several ranks are killed in one step; a rank whose new life is still collecting is killed again | the same |
//! | a rank stands still | everything; nobody gives it up but the launcher |
//! | a living rank is suspected | the same as for one that was killed; nothing that the old life does from then on is heard by anybody who has fenced it |
//! | frames are delayed, overtake those of other channels, are refused; frames of the dead arrive long after, in part or never | every message, in order, once |
//! | a rank's connections to loggers break: what was on its way is flushed, one-sided writes arrive in part, completions are lost | everything acknowledged; what was not is sent again |
//! | an event logger is killed before or after any of its effects (a message sent, an operation of its disk); it starts again with its files and the rings in its host's memory | everything acknowledged |
//! | an event logger's host loses power: what was not synced is lost or torn (level `durable` only: `placed` does not promise to survive it) | everything acknowledged |
//! | the checkpoint store is killed, or its host loses power | every checkpoint that was called stable, two generations |
//! | a disk (log of a rank, logger, checkpoint store) is full or does not answer for a time | everything; whoever needs it waits |
//! | all loggers lose acknowledged events of one rank, all of them or the last, while it dies with them; nothing else goes wrong | no history: the job goes on exactly as it was, or the rank stops with the error of lost records (REC-9) |
//!
//! Loggers are not lost for ever: each starts again.

use crate::mortal::Mortal;
use crate::plan::{FaultKind, FaultPlan, Moment, Plan, Process};

/// Counts of what was done, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Ranks killed, or suspected and then ended.
    pub rank_kills: u64,
    /// Event loggers killed, or without power.
    pub logger_kills: u64,
    /// The checkpoint store killed, or without power.
    pub checkpoint_kills: u64,
    /// Living ranks suspected.
    pub suspicions: u64,
    /// Processes that stood still.
    pub pauses: u64,
    /// Connections broken.
    pub disconnects: u64,
    /// Disks that were full or did not answer.
    pub disks: u64,
    /// Ranks of which loggers lost acknowledged events.
    pub losses: u64,
}

/// The faults of a plan that are still to come.
#[derive(Debug)]
pub struct Injector {
    pending: Vec<FaultPlan>,
}

impl Injector {
    /// Those that are not deaths at an effect, which processes carry with them.
    pub fn new(plan: &Plan) -> Self {
        let is_own = |fault: &&FaultPlan| !is_death_at_effect(fault);
        let pending = plan.faults.iter().filter(is_own).copied().collect();
        Self { pending }
    }

    /// The deaths of a process at its effects.
    pub fn mortal(plan: &Plan, process: Process) -> Mortal {
        let deaths = plan.faults.iter().filter_map(|fault| match fault.moment {
            Moment::Effect { number, before }
                if fault.process == process && is_death_at_effect(fault) =>
            {
                Some((number, before))
            }
            _ => None,
        });
        Mortal::new(deaths.collect())
    }

    /// Those whose time has come. `effects`: of a process, so far.
    pub fn due(&mut self, step: u64, effects: impl Fn(Process) -> u64) -> Vec<FaultPlan> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let is_due = |fault: &FaultPlan| match fault.moment {
            Moment::Step(at) => at <= step,
            Moment::Effect { number, .. } => effects(fault.process) > number,
        };
        let (due, pending) = self.pending.iter().partition(|fault| is_due(fault));
        self.pending = pending;
        due
    }

    /// Nothing more goes wrong.
    pub fn stop(&mut self) {
        self.pending.clear();
    }

    /// Whether anything is to come at a step.
    pub fn waits_for_step(&self) -> bool {
        let at_step = |fault: &FaultPlan| matches!(fault.moment, Moment::Step(_));
        self.pending.iter().any(at_step)
    }
}

fn is_death_at_effect(fault: &FaultPlan) -> bool {
    fault.kind == FaultKind::Kill && matches!(fault.moment, Moment::Effect { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_due_once() {
        let fault = |at| FaultPlan {
            process: Process::Checkpoints,
            moment: Moment::Step(at),
            kind: FaultKind::Kill,
        };
        let pending = vec![fault(3), fault(7)];
        let mut injector = Injector { pending };
        assert_eq!(injector.due(2, |_| 0), []);
        assert_eq!(injector.due(3, |_| 0), [fault(3)]);
        assert_eq!(injector.due(9, |_| 0), [fault(7)]);
        assert!(!injector.waits_for_step());
    }
}
