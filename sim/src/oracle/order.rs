//! A rank's clock counts its operations one by one; each event carries the clock of
//! the latest operation, so that it never goes back; one call is
//! answered before the next is made. What is new to a later life comes behind the
//! last of its records: in an operation that has not come, when that is where records
//! end.

use super::{Oracle, Witness, breach};
use crate::happening::{Breach, Happening, Life, event_clock};
use crate::plan::Process;
use crate::program::Call;
use core::ops::RangeInclusive;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_ring::{Clock, Incarnation};
use refrain_transport::protocol::Event;

const NAME: &str = "order";

/// See the [module](self).
#[derive(Debug)]
pub struct Order {
    lives: Vec<Present>,
}

#[derive(Clone, Debug, Default)]
struct Present {
    incarnation: Incarnation,
    /// The latest operation, once there was a call.
    operation: Option<Clock>,
    event: Option<Clock>,
    /// Of a later life: before this operation records tell how each ended.
    told: Option<Clock>,
    /// A call was not answered yet.
    waits: bool,
}

impl Order {
    /// Of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            lives: vec![Present::default(); ranks as usize],
        }
    }

    fn present(&mut self, life: Life) -> Option<&mut Present> {
        let present = &mut self.lives[life.rank.index()];
        (present.incarnation == life.incarnation).then_some(present)
    }

    fn called(&mut self, life: Life, clock: Clock, call: &Call) -> Result<(), Breach> {
        let Some(present) = self.present(life) else {
            return Ok(());
        };
        if present.waits {
            return Err(breach(
                NAME,
                format!("{life:?} calls {call:?} before it was answered"),
            ));
        }
        if let Some(before) = present.operation
            && !steps(call).contains(&clock.0.wrapping_sub(before.0))
        {
            return Err(breach(
                NAME,
                format!("{life:?} calls {call:?} at {clock} after {before}"),
            ));
        }
        present.operation = Some(clock);
        present.waits = true;
        Ok(())
    }

    fn answered(&mut self, life: Life, clock: Clock) -> Result<(), Breach> {
        let Some(present) = self.present(life) else {
            return Ok(());
        };
        // The first answer is to no call.
        let is_first = present.operation.is_none();
        let waited = core::mem::replace(&mut present.waits, false);
        if !waited && !is_first || present.operation.is_some_and(|called| called != clock) {
            return Err(breach(
                NAME,
                format!(
                    "{life:?} is answered at {clock}, its call was at {:?}",
                    present.operation
                ),
            ));
        }
        Ok(())
    }

    fn happened(&mut self, life: Life, event: &Event<'_>) -> Result<(), Breach> {
        let Some(present) = self.present(life) else {
            return Ok(());
        };
        let at = event_clock(event);
        let now = present.operation.max(present.told);
        let is_later = now.is_some_and(|now| now < at);
        if present.event.is_some_and(|before| before > at) || is_later {
            return Err(breach(
                NAME,
                format!(
                    "{event:?} of {life:?} comes after an event at {:?} and in operation {:?}",
                    present.event, present.operation
                ),
            ));
        }
        present.event = Some(at);
        Ok(())
    }
}

/// By how much the clock goes on.
fn steps(call: &Call) -> RangeInclusive<u64> {
    match call {
        Call::Print(_) | Call::Checkpoint | Call::Finish => 0..=0,
        _ => 1..=1,
    }
}

impl Oracle for Order {
    fn see(&mut self, happening: &Happening<'_>, _world: &dyn Witness) -> Result<(), Breach> {
        match happening {
            Happening::Began(life) => {
                self.lives[life.rank.index()] = Present {
                    incarnation: life.incarnation,
                    ..Present::default()
                };
                Ok(())
            }
            Happening::Died(Process::Rank(rank)) => {
                let present = &mut self.lives[rank.index()];
                *present = Present {
                    incarnation: present.incarnation,
                    ..Present::default()
                };
                Ok(())
            }
            Happening::Resumed { life, events, .. } => {
                if let (Some(present), Some(last)) = (self.present(*life), events.last()) {
                    let told = recorded_events(*events);
                    let told = told.map_err(|what| breach(NAME, format!("{life:?}: {what}")))?;
                    present.told = Some(told.before());
                    present.event = Some(last.at());
                }
                Ok(())
            }
            Happening::Called(life, clock, call) => self.called(*life, *clock, call),
            Happening::Answered(life, clock, _) => self.answered(*life, *clock),
            Happening::Event(life, event) => self.happened(*life, event),
            _ => Ok(()),
        }
    }
}
