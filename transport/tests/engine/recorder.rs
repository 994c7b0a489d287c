//! A logging protocol that the test controls, and that records its calls.

use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::engine::Status;
use refrain_transport::protocol::{Event, Protocol};
use std::cell::RefCell;
use std::rc::Rc;

/// An event as the engine reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    Match {
        at: Clock,
        request: Clock,
        source: Rank,
        ssn: Ssn,
    },
    Probe(Clock),
    Completion(Clock, Vec<Clock>),
    Cancelled(Clock, Clock),
    Number(Clock, i64),
    Bytes(Clock, Vec<u8>),
    Nothing(Clock),
}

#[derive(Debug, Default)]
struct Told {
    events: Vec<Noted>,
    /// Whether events wait for a commit that is not made yet.
    unstable: bool,
    /// Whether commits are held back.
    held: bool,
    /// Number of events, counted from the first, that are stable all the same.
    stable: u64,
    /// The clocks up to which events need not be kept any more.
    published: Vec<Clock>,
    /// Number of checkpoint requests.
    wishes: u32,
    /// Number of polls for commits.
    looks: u32,
}

/// The result of a probe, as far as events record it.
pub fn found(source: Rank) -> Status {
    Status {
        source,
        tag: 0,
        bytes: 8,
        cancelled: false,
    }
}

/// The test's handle to one rank's protocol.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Rc<RefCell<Told>>);

impl Recorder {
    /// Makes later events not stable.
    pub fn hold_commits(&self) {
        self.0.borrow_mut().held = true;
    }

    /// Makes only the first `events` of the held events stable.
    pub fn commit_first(&self, events: u64) {
        self.0.borrow_mut().stable = events;
    }

    /// Makes all events so far stable, and later ones at once.
    pub fn commit(&self) {
        let mut told = self.0.borrow_mut();
        (told.held, told.unstable) = (false, false);
    }

    /// Number of polls for commits.
    pub fn looks(&self) -> u32 {
        self.0.borrow().looks
    }

    /// Number of checkpoint requests.
    pub fn wishes(&self) -> u32 {
        self.0.borrow().wishes
    }

    /// The clock up to which events need not be kept any more, at each report.
    pub fn published(&self) -> Vec<Clock> {
        self.0.borrow().published.clone()
    }

    pub fn events(&self) -> Vec<Noted> {
        self.0.borrow().events.clone()
    }

    pub fn matches(&self) -> Vec<(Clock, Rank, Ssn)> {
        let told = self.0.borrow();
        let matches = told.events.iter().filter_map(|event| match event {
            Noted::Match {
                request,
                source,
                ssn,
                ..
            } => Some((*request, *source, *ssn)),
            _ => None,
        });
        matches.collect()
    }
}

/// The protocol of the engine under test.
#[derive(Debug)]
pub struct TestProtocol {
    pub recorder: Recorder,
    pub keeps_payload: bool,
}

impl Protocol for TestProtocol {
    fn name(&self) -> &'static str {
        "test"
    }

    fn keeps_payload(&self) -> bool {
        self.keeps_payload
    }

    fn event(&mut self, event: Event<'_>) -> bool {
        let mut told = self.recorder.0.borrow_mut();
        let noted = match event {
            Event::Match {
                at,
                request,
                source,
                ssn,
                is_named: _,
            } => Noted::Match {
                at,
                request,
                source,
                ssn,
            },
            Event::Probe { clock, .. } => Noted::Probe(clock),
            Event::Completion { clock, requests } => Noted::Completion(clock, requests.to_vec()),
            Event::Cancelled { clock, request } => Noted::Cancelled(clock, request),
            Event::Number { clock, value, .. } => Noted::Number(clock, value),
            Event::Bytes { clock, bytes } => Noted::Bytes(clock, bytes.to_vec()),
            Event::Nothing { clock } => Noted::Nothing(clock),
        };
        // Unsuccessful tests are logged lazily.
        let shuts = told.held && !matches!(noted, Noted::Nothing(_));
        told.unstable |= shuts;
        told.events.push(noted);
        shuts
    }

    fn checkpoint_published(&mut self, clock: Clock) {
        self.recorder.0.borrow_mut().published.push(clock);
    }

    fn wants_checkpoint(&mut self) {
        self.recorder.0.borrow_mut().wishes += 1;
    }

    fn advance(&mut self, _wanted: u64) -> u64 {
        let mut told = self.recorder.0.borrow_mut();
        told.looks += 1;
        match told.unstable {
            true => told.stable,
            false => u64::MAX,
        }
    }
}
