//! Implements the engine's [`Protocol`] by a member of `logging`'s protocol family.

use refrain_logging::Member;
use refrain_logging::determinant::Matched;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::Clock;
use refrain_transport::protocol::{Event, Protocol};

/// The protocol of one rank. `C`: sends determinants to the event loggers.
#[derive(Debug)]
pub struct Logging<C> {
    member: Member,
    /// `None`: no events are logged, and no emission waits.
    events: Option<Pessimist<C>>,
    /// The clock of the newest checkpoint that was published.
    published: Clock,
}

impl<C: Commits> Logging<C> {
    /// `events`: `Some` if the member logs events.
    pub fn new(member: Member, events: Option<Pessimist<C>>) -> Self {
        Self {
            member,
            events,
            published: Clock(0),
        }
    }

    /// The recorded events, if the member logs events.
    #[inline]
    pub fn events(&self) -> Option<&Pessimist<C>> {
        self.events.as_ref()
    }

    /// As [`Logging::events`], mutable.
    #[inline]
    pub fn events_mut(&mut self) -> Option<&mut Pessimist<C>> {
        self.events.as_mut()
    }
}

impl<C: Commits> Protocol for Logging<C> {
    fn name(&self) -> &'static str {
        self.member.name()
    }

    fn keeps_payload(&self) -> bool {
        self.member.keeps_payload()
    }

    fn logs_every_reception(&self) -> bool {
        self.member.logs_every_reception()
    }

    // GATE-1: every recorded event closes the gate.
    #[inline]
    fn event(&mut self, event: Event<'_>) -> bool {
        let Some(events) = &mut self.events else {
            return false;
        };
        let recorder = events.record();
        match event {
            Event::Match {
                at,
                request,
                source,
                ssn,
                is_named,
            } => {
                let matched = Matched {
                    request,
                    source,
                    ssn,
                };
                recorder.matched(at, matched, is_named);
            }
            Event::Probe {
                clock,
                source,
                ssn,
                tag,
                bytes,
            } => recorder.probed(clock, source, ssn, tag, bytes),
            Event::Completion { clock, requests } => recorder.completed(clock, requests),
            Event::Cancelled { clock, request } => recorder.cancelled(clock, request),
            Event::Number {
                clock,
                series,
                value,
            } => recorder.number(clock, series, value),
            Event::Bytes { clock, bytes } => recorder.bytes(clock, bytes),
            Event::Nothing { clock } => recorder.nothing(clock),
        }
        true
    }

    #[inline]
    fn advance(&mut self, wanted: u64) -> u64 {
        let events = self.events.as_mut();
        events.map_or(u64::MAX, |events| events.advance(wanted))
    }

    #[inline]
    fn operation_ended(&mut self) {
        if let Some(events) = &mut self.events {
            events.operation_ended();
        }
    }

    fn idle(&mut self) {
        if let Some(events) = &mut self.events {
            events.idle();
        }
    }

    // GC-1: the events after the older of two generations are kept.
    fn checkpoint_published(&mut self, clock: Clock) {
        if let Some(events) = &mut self.events {
            let before = std::mem::replace(&mut self.published, clock);
            events.trim_when_stable(before);
        }
    }

    fn leave(&mut self) -> bool {
        self.events.as_mut().is_none_or(Pessimist::leave)
    }

    fn explain(&self) -> Option<String> {
        self.events.as_ref()?.commits().explain()
    }
}
