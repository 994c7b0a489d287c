//! Implements the engine's [`Protocol`] by a member of `logging`'s protocol family.

use refrain_logging::Member;
use refrain_logging::determinant::Matched;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Carriage, Clock, Rank};
use refrain_transport::control::Piece;
use refrain_transport::protocol::{Event, Protocol};

/// The parts of a rank's process that depend on the stability of its events: gated output, which
/// is an emission (GATE-1), and the measurement of waits.
pub trait Watch {
    /// Called before an event is recorded.
    #[inline]
    fn note_event(&mut self) {}

    /// Number of first events for which output waits.
    #[inline]
    fn wanted(&self) -> u64 {
        0
    }

    /// Called when commits have advanced.
    #[inline]
    fn advanced(&mut self, _advance: Advance) {}
}

/// For a rank without such parts.
impl Watch for () {}

/// One advance of commits; all fields count events from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Events for which emissions of the engine wait.
    pub wanted: u64,
    /// Events known to be stable before the advance.
    pub stable_before: u64,
    /// Events known to be stable now.
    pub stable: u64,
}

/// The protocol of one rank. `C`: sends determinants to the event loggers.
#[derive(Debug)]
pub struct Logging<C, W = ()> {
    member: Member,
    /// `None`: no events are logged, and no emission waits.
    events: Option<Pessimist<C>>,
    watch: W,
    /// The clock of the newest checkpoint that was published.
    published: Clock,
}

impl<C: Commits, W: Watch> Logging<C, W> {
    /// `events`: `Some` if the member logs events.
    pub fn new(member: Member, events: Option<Pessimist<C>>, watch: W) -> Self {
        Self {
            member,
            events,
            watch,
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

    /// The watch.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// The watch, for changes.
    pub fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }
}

impl<C: Commits, W: Watch> Protocol for Logging<C, W> {
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
        self.watch.note_event();
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
                events.commits_mut().matched(source);
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
        let Some(events) = &mut self.events else {
            return u64::MAX;
        };
        let stable_before = events.stable();
        // GATE-1: output is an emission.
        let wanted_of_all = wanted.max(self.watch.wanted());
        if wanted_of_all <= stable_before && self.member.carries() && events.is_at_rest() {
            return stable_before;
        }
        let mut stable = events.advance(wanted_of_all);
        if stable < wanted_of_all {
            events.commits_mut().press();
            stable = events.stable();
        }
        self.watch.advanced(Advance {
            wanted,
            stable_before,
            stable,
        });
        stable
    }

    fn commits_early(&self) -> bool {
        self.events.as_ref().is_some_and(Pessimist::commits_early)
    }

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
        let Some(events) = &mut self.events else {
            return true;
        };
        let stable_before = events.stable();
        let has_left = events.leave();
        if events.stable() < events.recorded() {
            events.commits_mut().press();
        }
        self.watch.advanced(Advance {
            wanted: 0,
            stable_before,
            stable: events.stable(),
        });
        has_left
    }

    #[inline]
    fn next_piece(&mut self) -> Option<(Rank, Piece)> {
        let mut piece = [0; Piece::BYTES_MAX];
        let (to, bytes) = self.events.as_mut()?.commits_mut().tell(&mut piece)?;
        Some((to, Piece::first_of(&piece[..bytes])))
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        match &mut self.events {
            Some(events) => events.commits_mut().hear(from, piece),
            None => Err("this rank logs no events"),
        }
    }

    fn carries(&self) -> bool {
        self.member.carries()
    }

    #[inline]
    fn may_carry(&self, to: Rank) -> bool {
        self.events.as_ref().is_none_or(|it| it.may_carry(to))
    }

    fn unstable_at_start(&self) -> u64 {
        self.events.as_ref().map_or(0, Pessimist::recorded)
    }

    #[inline]
    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        match &mut self.events {
            Some(events) => events.carry(carriage, out),
            None => true,
        }
    }

    #[inline]
    fn carried(&mut self, to: Rank) {
        if let Some(events) = &mut self.events {
            events.carried(to);
        }
    }

    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        match &mut self.events {
            Some(events) => events.commits_mut().take_carried(from, attachment),
            None => Err("this rank logs no events"),
        }
    }

    fn fenced(&mut self, peer: Rank) {
        if let Some(events) = &mut self.events {
            events.commits_mut().fenced(peer);
        }
    }

    fn connected(&mut self, peer: Rank) {
        if let Some(events) = &mut self.events {
            events.commits_mut().connected(peer);
        }
    }

    fn explain(&self) -> Option<String> {
        self.events.as_ref()?.commits().explain()
    }
}
