//! The protocol of a simulated rank: the real one, watched; and bent where a bug
//! is planted.

use super::stage::Stage;
use crate::happening::{Happening, Life};
use crate::planted::Planted;
use refrain_logging::determinant::Determinant;
use refrain_ring::Clock;
use refrain_transport::protocol::{Event, Protocol};

/// Tells what happens before the protocol is told.
#[derive(Debug)]
pub struct Watched<P> {
    inner: P,
    life: Life,
    stage: Stage,
    planted: Option<Planted>,
}

impl<P: Protocol> Watched<P> {
    /// The protocol of a life.
    pub fn new(inner: P, life: Life, stage: Stage, planted: Option<Planted>) -> Self {
        Self {
            inner,
            life,
            stage,
            planted,
        }
    }

    /// The real protocol.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// As [`Planted::ReplayedRecorded`] has it.
    pub fn record_again(&mut self, events: &[Determinant]) {
        for event in events {
            if let Determinant::Match {
                at,
                matched,
                is_named,
            } = event
            {
                self.inner.event(Event::Match {
                    at: *at,
                    request: matched.request,
                    source: matched.source,
                    ssn: matched.ssn,
                    is_named: *is_named,
                });
            }
        }
    }

    fn bent(&mut self, planted: Planted, event: Event<'_>) -> bool {
        match (planted, event) {
            (Planted::MatchesAroundGate, event @ Event::Match { .. })
            | (Planted::ProbesAroundGate, event @ Event::Probe { .. }) => {
                self.inner.event(event);
                false
            }
            (Planted::NumbersAroundGate, event @ Event::Number { .. }) => {
                self.inner.event(event);
                false
            }
            (Planted::VainForgotten, Event::Nothing { .. })
            | (Planted::NumberForgotten, Event::Number { .. }) => false,
            (Planted::ProbeInverted, Event::Probe { clock, .. }) => {
                self.inner.event(Event::Nothing { clock })
            }
            (Planted::CompletionCut, Event::Completion { clock, requests }) => {
                let requests = &requests[..requests.len().min(1)];
                self.inner.event(Event::Completion { clock, requests })
            }
            (Planted::ClockOf32Bits, event) => self.inner.event(cut(event)),
            (_, event) => self.inner.event(event),
        }
    }
}

fn cut(event: Event<'_>) -> Event<'_> {
    let cut = |clock: Clock| Clock(clock.0 & 0xffff_ffff);
    match event {
        Event::Match {
            at,
            request,
            source,
            ssn,
            is_named,
        } => Event::Match {
            at: cut(at),
            request: cut(request),
            source,
            ssn,
            is_named,
        },
        Event::Probe {
            clock,
            source,
            ssn,
            tag,
            bytes,
        } => Event::Probe {
            clock: cut(clock),
            source,
            ssn,
            tag,
            bytes,
        },
        Event::Completion { clock, requests } => Event::Completion {
            clock: cut(clock),
            requests,
        },
        Event::Cancelled { clock, request } => Event::Cancelled {
            clock: cut(clock),
            request: cut(request),
        },
        Event::Number { clock, lane, value } => Event::Number {
            clock: cut(clock),
            lane,
            value,
        },
        Event::Bytes { clock, bytes } => Event::Bytes {
            clock: cut(clock),
            bytes,
        },
        Event::Nothing { clock } => Event::Nothing { clock: cut(clock) },
    }
}

impl<P: Protocol> Protocol for Watched<P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn keeps_payload(&self) -> bool {
        self.inner.keeps_payload()
    }

    fn logs_every_reception(&self) -> bool {
        self.inner.logs_every_reception()
    }

    fn event(&mut self, event: Event<'_>) -> bool {
        self.stage.tell(&Happening::Event(self.life, event.clone()));
        match self.planted {
            None => self.inner.event(event),
            Some(planted) => self.bent(planted, event),
        }
    }

    fn idle(&mut self) {
        self.inner.idle();
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        let stable = self.inner.advance(wanted);
        match self.planted {
            Some(Planted::GateOpen) => u64::MAX,
            _ => stable,
        }
    }

    fn operation_ended(&mut self) {
        self.inner.operation_ended();
    }

    fn checkpoint_published(&mut self, clock: Clock) {
        self.inner.checkpoint_published(clock);
    }

    fn wants_checkpoint(&mut self) {
        self.inner.wants_checkpoint();
    }

    fn leave(&mut self) -> bool {
        self.inner.leave()
    }

    fn explain(&self) -> Option<String> {
        self.inner.explain()
    }
}
