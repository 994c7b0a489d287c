//! A rank's clock counts its operations one by one; each event carries the clock of
//! the latest operation, so that it never goes back; one call is
//! answered before the next is made. What is new to a later life comes behind the
//! last of its records: in an operation that has not come, when that is where records
//! end.

use super::rule::{Oracle, Witness};
use crate::choices::Choices;
use crate::happening::{Happening, Life};
use crate::plan::Process;
use crate::program::Call;
use refrain_logging::determinant::Determinant;
use refrain_ring::Clock;

/// See the [module](self).
#[derive(Debug)]
pub struct Order {
    ranks: Vec<Progress>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// The latest operation, once there was a call.
    operation: Option<Clock>,
    event: Option<Clock>,
    /// Of a later life: before this operation the records are complete.
    recorded: Option<Clock>,
    /// A call was not answered yet.
    waits: bool,
}

impl Order {
    /// Of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks: vec![Progress::default(); ranks as usize],
        }
    }

    fn of(&mut self, life: &Life) -> &mut Progress {
        &mut self.ranks[life.rank.index()]
    }
}

impl Progress {
    fn called(&mut self, clock: Clock, call: &Call) -> Result<(), String> {
        if self.waits {
            return Err(format!("calls {call:?} before it was answered"));
        }
        if let Some(before) = self.operation
            && clock.0.wrapping_sub(before.0) != u64::from(call.is_operation())
        {
            return Err(format!("calls {call:?} at {clock} after {before}"));
        }
        self.operation = Some(clock);
        self.waits = true;
        Ok(())
    }

    fn answered(&mut self, clock: Clock) -> Result<(), String> {
        let called = self.operation;
        let waited = core::mem::replace(&mut self.waits, false);
        // The first answer is to no call.
        match called {
            Some(called) if !waited || called != clock => Err(format!(
                "is answered at {clock}, its call was at {called:?}"
            )),
            _ => Ok(()),
        }
    }

    fn happened(&mut self, event: &Determinant) -> Result<(), String> {
        let at = event.at();
        let now = self.operation.max(self.recorded);
        let is_later = now.is_some_and(|now| now < at);
        if self.event.is_some_and(|before| before > at) || is_later {
            let Self {
                event: before,
                operation,
                ..
            } = self;
            return Err(format!(
                "{event:?} comes after an event at {before:?} and in operation {operation:?}"
            ));
        }
        self.event = Some(at);
        Ok(())
    }

    fn resumed(&mut self, events: &[Determinant]) -> Result<(), String> {
        if let Some(last) = events.last() {
            self.recorded = Some(Choices::of(events)?.complete_before());
            self.event = Some(last.at());
        }
        Ok(())
    }
}

impl Oracle for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        let (life, judged) = match happening {
            Happening::Began(Life { rank, .. }) | Happening::Died(Process::Rank(rank)) => {
                self.ranks[rank.index()] = Progress::default();
                return Ok(());
            }
            Happening::Resumed { life, events, .. } => (life, self.of(life).resumed(events)),
            Happening::Called(life, clock, call) if world.is_present(*life) => {
                (life, self.of(life).called(*clock, call))
            }
            Happening::Answered(life, clock, _) if world.is_present(*life) => {
                (life, self.of(life).answered(*clock))
            }
            Happening::Event(life, event) if world.is_present(*life) => {
                (life, self.of(life).happened(event))
            }
            _ => return Ok(()),
        };
        judged.map_err(|what| format!("{life}: {what}"))
    }
}
