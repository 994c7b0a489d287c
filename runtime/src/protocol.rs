//! The events of a rank that is a process: the client of the event logger, with
//! a clock, and what is told of waiting for it.

use crate::output_gate::OutputGate;
use crate::statistics::GateWaits;
use core::time::Duration;
use refrain_eventlog::client::Client;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_rank::protocol::{self, Advance, Commitments, Watch};
use refrain_ring::Clock;
use refrain_transport::protocol::Event;
use std::time::Instant;

/// Commits between two looks after loggers that are lost.
const COMMITS_PER_LOOK: u32 = 256;

/// As the engine and the rank's `World` have them.
pub(crate) type SharedEvents = protocol::SharedEvents<LoggerClient, Waiting>;

/// The client of the event logger, with a clock.
#[derive(Debug)]
pub(crate) struct LoggerClient {
    client: Client,
    begin: Instant,
    is_instant: bool,
    has_left: bool,
    /// Commits until loggers that are lost are looked after, though a quorum of
    /// the others makes everything stable.
    until_look: u32,
    /// Batches by their numbers of determinants: 1, 2 to 3, 4 to 7 …
    pub(crate) batches: [u64; 11],
}

impl LoggerClient {
    pub(crate) fn new(client: Client, is_instant: bool) -> Self {
        Self {
            client,
            begin: Instant::now(),
            is_instant,
            has_left: false,
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

impl Commits for LoggerClient {
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

impl Commitments for LoggerClient {
    fn trim(&mut self, before: Clock) {
        self.client.trim(before);
    }

    fn leave(&mut self) -> bool {
        if !self.has_left {
            self.has_left = true;
            self.client.leave();
        }
        self.poll();
        self.client.has_left()
    }

    fn explain(&self) -> Option<String> {
        self.client.explain()
    }
}

/// How long emissions wait, and output that does.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Since when an emission waits.
    since: Option<Instant>,
    pub(crate) waits: GateWaits,
    /// With `--gate-output`.
    output: Option<OutputGate>,
}

impl Waiting {
    pub(crate) fn new(output: Option<OutputGate>) -> Self {
        Self {
            since: None,
            waits: GateWaits::default(),
            output,
        }
    }

    /// How long an emission has been waiting.
    pub(crate) fn so_far(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }
}

impl Watch for Waiting {
    #[inline]
    fn happened(&mut self, _event: &Event<'_>) {
        if let Some(output) = &self.output {
            output.note_event();
        }
    }

    // GATE-1: output is an emission.
    #[inline]
    fn wanted(&self) -> u64 {
        self.output.as_ref().map_or(0, OutputGate::wanted)
    }

    #[inline]
    fn stable(&mut self, events: u64) {
        if let Some(output) = &self.output {
            output.note_stable(events);
        }
    }

    #[inline]
    fn advanced(&mut self, advance: Advance) {
        match (advance.stable >= advance.wanted, self.since) {
            // The clock is not asked where nothing waits.
            (true, None) => {
                self.waits.at_once += u64::from(advance.wanted > advance.stable_before);
            }
            (true, Some(since)) => {
                self.waits.record(since.elapsed());
                self.since = None;
            }
            (false, None) => self.since = Some(Instant::now()),
            (false, Some(_)) => {}
        }
    }
}
