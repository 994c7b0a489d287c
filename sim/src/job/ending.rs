//! Whether a job is over, and what it came to.

use super::seat::Seat;
use super::{Job, Totals};
use crate::happening::Breach;
use crate::oracle::Oracle;
use refrain_ring::Rank;
use std::collections::VecDeque;

impl Job<'_> {
    /// What was seen in this step.
    pub(super) fn check(&self) -> Result<(), Breach> {
        match self.stage.first_breach() {
            Some(breach) if !self.may_still_stop(&breach) => return Err(breach),
            _ => {}
        }
        let oracle = "loggers";
        let lost = self.loggers.breach();
        lost.map_or(Ok(()), |what| Err(Breach { oracle, what }))
    }

    /// A rank whose records are lost does something else until it hears from its peers
    /// what they have. If it stops then, that counts for nothing. REC-9
    fn may_still_stop(&self, breach: &Breach) -> bool {
        self.lossy.is_some() && matches!(breach.oracle, "channel" | "orphan")
    }

    pub(super) fn is_over(&self) -> bool {
        self.seats.iter().all(Seat::is_over)
            && self.launcher.is_idle()
            && self.zombies.is_empty()
            && self.news.iter().all(VecDeque::is_empty)
            && !self.injector.waits_for_step()
    }

    /// Nothing more goes wrong, and everything works again. Whether that is
    /// news.
    pub(super) fn heal(&mut self) -> bool {
        if core::mem::replace(&mut self.is_healed, true) {
            return false;
        }
        self.injector.stop();
        for back in self.logger_back.iter_mut().chain(&mut self.disk_back) {
            *back = back.map(|_| 0);
        }
        self.checkpoints_back = self.checkpoints_back.map(|_| 0);
        for seat in &mut self.seats {
            if let Seat::Living(process) = seat {
                process.pause_steps = 0;
            }
        }
        self.come_back();
        self.loggers.heal();
        true
    }

    pub(super) fn end(&mut self) -> Result<Totals, Breach> {
        // It has not stopped.
        if let Some(breach) = self.stage.first_breach() {
            return Err(breach);
        }
        for seat in &self.seats {
            let waits = match seat {
                Seat::Living(process) => process.holds_back() || !process.is_finished(),
                Seat::Starting(_) | Seat::Dead(_) | Seat::Returning(_) => true,
            };
            if waits {
                return Err(self.stands("comes to a standstill"));
            }
        }
        self.heal();
        self.check_held_back()?;
        self.read_all_logs()?;
        self.oracles.borrow_mut().at_end(&*self.facts)?;
        let state = |seat: &Seat| match seat {
            Seat::Living(process) if process.is_finished() => Some(process.state()),
            _ => None,
        };
        let states: Vec<_> = self.seats.iter().map(state).collect();
        self.oracles.borrow().outcome.judge(self.plan, &states)?;
        Ok(self.sum())
    }

    /// What the job came to.
    pub(super) fn sum(&mut self) -> Totals {
        self.stage.note(self.network.digest());
        let mut totals = *self.totals.borrow();
        totals.steps = self.step;
        totals.faults = self.faults;
        totals.digest = self.stage.digest();
        totals
    }

    /// Between the living nothing waits, unless the log has no room.
    fn check_held_back(&self) -> Result<(), Breach> {
        let is_living = |rank: &Rank| matches!(self.seats[rank.index()], Seat::Living(_));
        let oracles = self.oracles.borrow();
        for sender in self.ranks().filter(is_living) {
            let Seat::Living(process) = &self.seats[sender.index()] else {
                continue;
            };
            let others = self.ranks().filter(|other| *other != sender);
            for receiver in others.filter(is_living) {
                let waits = oracles.orphan.is_held_back(sender, receiver)
                    || oracles.log.has_begun_to_send(sender, receiver);
                if waits && process.engine.stall().is_none() {
                    let how =
                        format!("ends with a message of {sender} to {receiver} that never left");
                    return Err(self.stands(&how));
                }
            }
        }
        Ok(())
    }

    pub(super) fn stands(&self, how: &str) -> Breach {
        let seats: Vec<String> = self
            .seats
            .iter()
            .map(|seat| match seat {
                Seat::Living(process) => {
                    format!("rank {}: {}", process.life.rank, process.explain())
                }
                other => format!("rank {}: {other:?}", other.life().rank),
            })
            .collect();
        Breach {
            oracle: "liveness",
            what: format!(
                "the job {how}: {}; loggers: {:?}",
                seats.join("; "),
                self.loggers.reports().iter().take(12).collect::<Vec<_>>()
            ),
        }
    }
}
