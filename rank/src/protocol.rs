//! Glue: a member of `logging`'s protocol family as the engine wants it. Who
//! makes events stable is behind [`Commitments`], who wants to know of them
//! behind [`Watch`].

use refrain_logging::Member;
use refrain_logging::determinant::Matched;
use refrain_logging::determinant::recorder::Counts;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::Clock;
use refrain_transport::protocol::{Event, Protocol};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Where batches become stable, for as long as the rank lives.
pub trait Commitments: Commits {
    /// Determinants up to this operation will not be asked for again: they may
    /// be dropped. GC-1
    fn trim(&mut self, before: Clock);

    /// The rank leaves the job, and all it has committed is stable: returns
    /// whether nothing more is to be said. Asked again until then.
    fn leave(&mut self) -> bool;

    /// Why something does not become stable, for people.
    fn explain(&self) -> Option<String>;
}

/// Who looks on while events happen and become stable.
pub trait Watch {
    /// An event has happened, and is about to be recorded.
    #[inline]
    fn happened(&mut self, event: &Event<'_>) {
        let _ = event;
    }

    /// So many events, the first, are waited for by others than emissions of the
    /// engine.
    #[inline]
    fn wanted(&self) -> u64 {
        0
    }

    /// So many events, the first, are stable.
    #[inline]
    fn stable(&mut self, events: u64) {
        let _ = events;
    }

    /// Commits were moved on for emissions.
    #[inline]
    fn advanced(&mut self, advance: Advance) {
        let _ = advance;
    }
}

/// Nobody looks on.
impl Watch for () {}

/// What one look after commits came to; all count events from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Emissions wait for so many.
    pub wanted: u64,
    /// So many were known to be stable before.
    pub stable_before: u64,
    /// So many are stable.
    pub stable: u64,
}

/// As the engine and whoever tells of events have them.
pub type SharedEvents<C, W> = Rc<RefCell<Events<C, W>>>;

/// The events of one rank on their way to where they are stable: shared by the
/// engine, which creates them, and whoever tells of them.
#[derive(Debug)]
pub struct Events<C, W> {
    pessimist: Pessimist<C>,
    watch: W,
    /// Clocks that are given up when so many events, the first, are stable.
    to_trim: VecDeque<(u64, Clock)>,
}

impl<C: Commitments, W: Watch> Events<C, W> {
    /// Joins those two.
    pub fn new(pessimist: Pessimist<C>, watch: W) -> Self {
        Self {
            pessimist,
            watch,
            to_trim: VecDeque::new(),
        }
    }

    /// The same, to be shared.
    pub fn shared(pessimist: Pessimist<C>, watch: W) -> SharedEvents<C, W> {
        Rc::new(RefCell::new(Self::new(pessimist, watch)))
    }

    /// What was recorded so far.
    pub fn counts(&self) -> Counts {
        self.pessimist.counts()
    }

    /// Events so far, and how many of them, the first, are known to be stable.
    pub fn progress(&self) -> (u64, u64) {
        (self.pessimist.recorded(), self.pessimist.stable())
    }

    /// Where batches become stable.
    pub fn commitments(&self) -> &C {
        self.pessimist.commits_ref()
    }

    /// Where batches become stable.
    pub fn commitments_mut(&mut self) -> &mut C {
        self.pessimist.commits()
    }

    /// Who looks on.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// Who looks on.
    pub fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }

    fn record(&mut self, event: &Event<'_>) {
        self.watch.happened(event);
        let recorder = self.pessimist.record();
        match *event {
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
            Event::Number { clock, lane, value } => recorder.number(clock, lane, value),
            Event::Bytes { clock, bytes } => recorder.bytes(clock, bytes),
            Event::Nothing { clock } => recorder.nothing(clock),
        }
    }

    // GATE-1: what others wait for is an emission too.
    fn advance(&mut self, wanted: u64) -> u64 {
        let stable_before = self.pessimist.stable();
        let to_trim = self.to_trim.front().map_or(0, |(events, _)| *events);
        let all_wanted = wanted.max(self.watch.wanted()).max(to_trim);
        let stable = self.pessimist.advance(all_wanted);
        self.watch.stable(stable);
        if !self.to_trim.is_empty() {
            self.trim();
        }
        self.watch.advanced(Advance {
            wanted,
            stable_before,
            stable,
        });
        stable
    }

    /// Gives up what is before a checkpoint, once all that has happened is
    /// stable: loggers take what was given up for stable. GC-1, EL-5
    fn trim_when_stable(&mut self, before: Clock) {
        self.to_trim.push_back((self.pessimist.recorded(), before));
        self.trim();
    }

    #[cold]
    fn trim(&mut self) {
        let stable = self.pessimist.stable();
        while let Some((events, before)) = self.to_trim.front().copied()
            && events <= stable
        {
            self.to_trim.pop_front();
            self.pessimist.commits().trim(before);
        }
    }

    fn leave(&mut self) -> bool {
        let all = self.pessimist.recorded();
        let stable = self.pessimist.advance(all);
        self.watch.stable(stable);
        stable >= all && self.pessimist.commits().leave()
    }
}

/// A protocol at work in one rank.
#[derive(Debug)]
pub struct Logging<C, W> {
    member: Member,
    /// `None`: nothing is logged, or there is nobody who could ask for it.
    events: Option<SharedEvents<C, W>>,
    /// The clock of the newest checkpoint that was published.
    published: Clock,
}

impl<C: Commitments, W: Watch> Logging<C, W> {
    /// `events`: where they go, of a member that logs them; without it, no
    /// emission waits.
    pub fn new(member: Member, events: Option<SharedEvents<C, W>>) -> Self {
        Self {
            member,
            events,
            published: Clock(0),
        }
    }
}

impl<C: Commitments, W: Watch> Protocol for Logging<C, W> {
    fn name(&self) -> &'static str {
        self.member.name()
    }

    fn keeps_payload(&self) -> bool {
        self.member.keeps_payload()
    }

    fn logs_every_reception(&self) -> bool {
        self.member.logs_every_reception()
    }

    // GATE-1: whatever is recorded shuts the gate.
    fn event(&mut self, event: Event<'_>) -> bool {
        match &self.events {
            Some(events) => {
                events.borrow_mut().record(&event);
                true
            }
            None => false,
        }
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        let events = self.events.as_ref();
        events.map_or(u64::MAX, |events| events.borrow_mut().advance(wanted))
    }

    fn operation_ended(&mut self) {
        if let Some(events) = &self.events {
            events.borrow_mut().pessimist.operation_ended();
        }
    }

    fn idle(&mut self) {
        if let Some(events) = &self.events {
            events.borrow_mut().pessimist.idle();
        }
    }

    // GC-1: two generations are kept.
    fn checkpoint_published(&mut self, clock: Clock) {
        if let Some(events) = &self.events {
            let before = std::mem::replace(&mut self.published, clock);
            events.borrow_mut().trim_when_stable(before);
        }
    }

    fn leave(&mut self) -> bool {
        let events = self.events.as_ref();
        events.is_none_or(|events| events.borrow_mut().leave())
    }

    fn explain(&self) -> Option<String> {
        self.events.as_ref()?.borrow().commitments().explain()
    }
}
