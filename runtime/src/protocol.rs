//! Glue: a member of `logging`'s protocol family, and the client of the event
//! logger, as the engine wants them.

use crate::output_gate::OutputGate;
use crate::statistics::GateWaits;
use core::time::Duration;
use refrain_eventlog::client::Client;
use refrain_logging::Member;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Counts;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::Clock;
use refrain_transport::protocol::{Event, Protocol};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// Commits between two looks after loggers that are lost.
const COMMITS_PER_LOOK: u32 = 256;

/// The client of the event logger, with a clock.
#[derive(Debug)]
pub(crate) struct Commitments {
    client: Client,
    begin: Instant,
    is_instant: bool,
    /// Commits until loggers that are lost are looked after, though a quorum of
    /// the others makes everything stable.
    until_look: u32,
    /// Batches by their numbers of determinants: 1, 2 to 3, 4 to 7 …
    pub(crate) batches: [u64; 11],
}

impl Commitments {
    pub(crate) fn new(client: Client, is_instant: bool) -> Self {
        Self {
            client,
            begin: Instant::now(),
            is_instant,
            until_look: COMMITS_PER_LOOK,
            batches: [0; 11],
        }
    }

    #[cold]
    fn look_after_lost(&mut self) {
        if self.client.needs_poll() {
            self.poll();
        }
    }
}

impl Commits for Commitments {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        let class = header.count.max(1).ilog2() as usize;
        self.batches[class.min(self.batches.len() - 1)] += 1;
        self.client.commit(header, batch);
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = COMMITS_PER_LOOK;
            self.look_after_lost();
        }
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        self.client.stable_end()
    }

    fn poll(&mut self) -> EventIndex {
        let begin = self.begin;
        self.client.poll(|| begin.elapsed())
    }

    fn is_instant(&self) -> bool {
        self.is_instant
    }
}

/// As the engine and the rank's `World` have them.
pub(crate) type SharedEvents = Rc<RefCell<Events>>;

/// The events of one rank on their way to where they are stable: shared by the
/// engine, which creates them, and the rank's `World`, which tells of them.
#[derive(Debug)]
pub(crate) struct Events {
    pessimist: Pessimist<Commitments>,
    /// Since when an emission waits.
    waits_since: Option<Instant>,
    pub(crate) waits: GateWaits,
    has_left: bool,
    /// With `--gate-output`.
    output: Option<OutputGate>,
}

impl Events {
    pub(crate) fn new(pessimist: Pessimist<Commitments>, output: Option<OutputGate>) -> Self {
        Self {
            pessimist,
            waits_since: None,
            waits: GateWaits::default(),
            has_left: false,
            output,
        }
    }

    /// What was recorded so far.
    pub(crate) fn counts(&self) -> Counts {
        self.pessimist.counts()
    }

    /// Batches by their numbers of determinants.
    pub(crate) fn batches(&self) -> [u64; 11] {
        self.pessimist.commits_ref().batches
    }

    /// How long an emission has been waiting.
    pub(crate) fn waiting(&self) -> Option<Duration> {
        self.waits_since.map(|since| since.elapsed())
    }

    fn record(&mut self, event: &Event<'_>) {
        if let Some(output) = &self.output {
            output.note_event();
        }
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
            Event::Nothing { clock } => recorder.nothing(clock),
        }
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        // GATE-1: output is an emission.
        let printed = self.output.as_ref().map_or(0, OutputGate::wanted);
        let waited_for = wanted > self.pessimist.stable();
        let stable = self.pessimist.advance(wanted.max(printed));
        if let Some(output) = &self.output {
            output.note_stable(stable);
        }
        match (stable >= wanted, self.waits_since) {
            // The clock is not asked where nothing waits.
            (true, None) => self.waits.at_once += u64::from(waited_for),
            (true, Some(since)) => {
                self.waits.record(since.elapsed());
                self.waits_since = None;
            }
            (false, None) => self.waits_since = Some(Instant::now()),
            (false, Some(_)) => {}
        }
        stable
    }

    fn leave(&mut self) -> bool {
        let all = self.pessimist.recorded();
        let stable = self.pessimist.advance(all);
        if let Some(output) = &self.output {
            output.note_stable(stable);
        }
        if stable < all {
            return false;
        }
        if !self.has_left {
            self.has_left = true;
            self.pessimist.commits().client.leave();
        }
        self.pessimist.commits().poll();
        self.pessimist.commits_ref().client.has_left()
    }
}

/// A protocol at work in one rank.
#[derive(Debug)]
pub(crate) struct Logging {
    member: Member,
    /// `None`: nothing is logged, or there is nobody who could ask for it.
    events: Option<SharedEvents>,
    /// The clock of the newest checkpoint that was published.
    published: Clock,
}

impl Logging {
    pub(crate) fn new(member: Member, events: Option<SharedEvents>) -> Self {
        Self {
            member,
            events,
            published: Clock(0),
        }
    }
}

impl Protocol for Logging {
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

    // GC-1: two generations are kept.
    fn checkpoint_published(&mut self, clock: Clock) {
        if let Some(events) = &self.events {
            let before = std::mem::replace(&mut self.published, clock);
            let pessimist = &mut events.borrow_mut().pessimist;
            pessimist.commits().client.trim(before);
        }
    }

    fn leave(&mut self) -> bool {
        let events = self.events.as_ref();
        events.is_none_or(|events| events.borrow_mut().leave())
    }

    fn explain(&self) -> Option<String> {
        let events = self.events.as_ref()?.borrow();
        events.pessimist.commits_ref().client.explain()
    }
}
