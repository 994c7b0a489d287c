//! The engine of a rank's process, and the parts of the process that wait for its events.

use core::time::Duration;
use refrain_eventlog::client::Client;
use refrain_job::output_gate::OutputGate;
use refrain_job::statistics::GateWaits;
use refrain_logging::Stores;
use refrain_rank::protocol::{Advance, Logging, Watch};
use refrain_transport::engine;
use std::time::Instant;

/// Where the events of a rank become stable that is a process.
pub(crate) type EventStores = Stores<Client>;

/// The engine of such a rank.
pub(crate) type Engine = engine::Engine<Logging<EventStores, Waiting>>;

/// How long emissions, also output, wait for the gate.
#[derive(Debug, Default)]
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
            output,
            ..Self::default()
        }
    }

    /// How long the oldest waiting emission has waited.
    pub(crate) fn so_far(&self) -> Option<Duration> {
        self.since.map(|(since, _)| since.elapsed())
    }

    #[inline]
    fn measure(&mut self, advance: Advance) {
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

impl Watch for Waiting {
    #[inline]
    fn note_event(&mut self) {
        if let Some(output) = &self.output {
            output.note_event();
        }
    }

    #[inline]
    fn wanted(&self) -> u64 {
        self.output.as_ref().map_or(0, OutputGate::wanted)
    }

    #[inline]
    fn advanced(&mut self, advance: Advance) {
        if let Some(output) = &self.output {
            output.note_stable(advance.stable);
        }
        self.measure(advance);
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
