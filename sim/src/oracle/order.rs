//! A rank's clock counts its operations one by one; each event carries the clock of the latest
//! operation, so clocks of events never decrease; a call is answered before the next one is made.
//! New events of a later life come after its last record: they may belong to an operation that the
//! program has not begun, if the records end there.

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
    /// The latest operation; `None` before the first call.
    operation: Option<Clock>,
    event: Option<Clock>,
    /// The records of a later life are complete before this operation.
    recorded: Option<Clock>,
    /// Whether a call waits for its answer.
    waits: bool,
}

impl Order {
    /// The oracle of a job with `ranks` ranks.
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
        // The first answer belongs to no call.
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
