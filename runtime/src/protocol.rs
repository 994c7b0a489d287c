//! The client of the event loggers in a rank's process, with a clock, and the waiting times of
//! emissions.

use core::time::Duration;
use refrain_eventlog::client::Client;
use refrain_job::output_gate::OutputGate;
use refrain_job::statistics::GateWaits;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::{Advance, Commits};
use refrain_rank::protocol::Logging;
use refrain_ring::Clock;
use refrain_transport::engine;
use std::time::Instant;

/// Commits between two checks of lost loggers.
const COMMITS_PER_LOOK: u32 = 256;

/// The engine of a rank that is a process.
pub(crate) type Engine = engine::Engine<Logging<LoggerClient>>;

/// The client of the event loggers, with a clock.
#[derive(Debug)]
pub(crate) struct LoggerClient {
    client: Client,
    begin: Instant,
    is_instant: bool,
    has_left: bool,
    /// Commits until lost loggers are checked again. The check is needed even while a quorum of
    /// the other loggers makes all events stable.
    until_look: u32,
    /// Number of batches by their count of determinants: 1, 2 to 3, 4 to 7 …
    pub(crate) batches: [u64; 11],
    pub(crate) waiting: Waiting,
}

impl LoggerClient {
    pub(crate) fn new(client: Client, is_instant: bool, waiting: Waiting) -> Self {
        Self {
            client,
            begin: Instant::now(),
            is_instant,
            has_left: false,
            until_look: COMMITS_PER_LOOK,
            batches: [0; 11],
            waiting,
        }
    }

    #[inline(always)]
    fn committed(&mut self, header: &BatchHeader) {
        let class = header.count.max(1).ilog2() as usize;
        self.batches[class.min(self.batches.len() - 1)] += 1;
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_after_lost();
        }
    }

    #[cold]
    fn look_after_lost(&mut self) {
        self.until_look = COMMITS_PER_LOOK;
        if self.client.needs_poll() {
            self.poll();
        }
    }
}

impl Commits for LoggerClient {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.client.commit(header, batch);
        self.committed(header);
    }

    fn prepare(&mut self, _header: &BatchHeader, batch: &[u8]) {
        self.client.prepare(batch);
    }

    #[inline(always)]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.client.commit_prepared(header, batch);
        self.committed(header);
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

    #[inline]
    fn note_event(&mut self) {
        if let Some(output) = &self.waiting.output {
            output.note_event();
        }
    }

    // GATE-1: output is an emission.
    #[inline]
    fn wanted(&self) -> u64 {
        self.waiting.output.as_ref().map_or(0, OutputGate::wanted)
    }

    #[inline]
    fn advanced(&mut self, advance: Advance) {
        if let Some(output) = &self.waiting.output {
            output.note_stable(advance.stable);
        }
        self.waiting.advanced(advance);
    }

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

/// How long emissions, also output, wait for the gate.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The start of the present wait, and the number of events that must be stable to end it.
    /// Later emissions may wait for more events.
    since: Option<(Instant, u64)>,
    pub(crate) waits: GateWaits,
    /// Present with `--gate-output`.
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

    /// How long the oldest waiting emission has waited.
    pub(crate) fn so_far(&self) -> Option<Duration> {
        self.since.map(|(since, _)| since.elapsed())
    }

    #[inline]
    fn advanced(&mut self, advance: Advance) {
        let is_open = advance.stable >= advance.wanted;
        match self.since {
            // Reads no clock where no emission waits.
            None if is_open => {
                self.waits.at_once += u64::from(advance.wanted > advance.stable_before);
                return;
            }
            // Where newer emissions always wait, each emission's wait is still measured by itself.
            Some((since, until)) if is_open || advance.stable >= until => {
                self.waits.record(since.elapsed());
            }
            Some(_) => return,
            None => {}
        }
        self.since = (!is_open).then(|| (Instant::now(), advance.wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(waiting: &mut Waiting, wanted: u64, stable_before: u64, stable: u64) {
        waiting.advanced(Advance {
            wanted,
            stable_before,
            stable,
        });
    }

    #[test]
    fn who_leaves_ends_its_wait_though_others_have_come_behind_it() {
        let mut waiting = Waiting::new(None);
        look(&mut waiting, 2, 0, 0);
        let mut begun = waiting.since.expect("the first waits");
        for stable in 1..=100 {
            // Later than all before, whatever the clock's grain.
            while Instant::now() == begun.0 {}
            look(&mut waiting, stable + 2, stable - 1, stable);
            let now = waiting.since.expect("another waits");
            let has_left = stable >= begun.1;
            assert_eq!(now.0 > begun.0, has_left, "at {stable}, since {begun:?}");
            begun = now;
        }
        assert_eq!(waiting.waits.count(), 50);
        look(&mut waiting, 102, 100, 102);
        assert_eq!(waiting.so_far(), None);
        assert_eq!((waiting.waits.count(), waiting.waits.at_once), (51, 0));
    }

    #[test]
    fn a_wait_ends_also_when_nothing_waits_any_more() {
        let mut waiting = Waiting::new(None);
        look(&mut waiting, 1, 0, 1);
        look(&mut waiting, 0, 1, 1);
        assert_eq!((waiting.waits.count(), waiting.waits.at_once), (0, 1));
        look(&mut waiting, 5, 1, 2);
        look(&mut waiting, 5, 2, 3);
        assert!(waiting.so_far().is_some());
        // The waiting emission was for a peer that is gone.
        look(&mut waiting, 0, 3, 3);
        assert_eq!(waiting.so_far(), None);
        assert_eq!(waiting.waits.count(), 1);
    }
}
