//! The suite on the simulated fabric, calm and rough, and the proof that it finds a broken fence.

use super::{
    Endpoint, Harness, Outcome, check_late_frames_are_fenced, run_all, start_all, to_check,
};
use core::time::Duration;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::sim::{
    LaneKind, Network, Options, POLL_CALLS_MAX, SimFabric, TICK_NS,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes networks by one set of options.
pub struct SimHarness {
    options: Options,
    network: Network,
}

impl SimHarness {
    pub fn new(options: Options) -> Self {
        Self {
            network: Network::new(options.clone()),
            options,
        }
    }

    /// The network of the last job.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Begins a new network.
    pub fn clear(&mut self) {
        self.network = Network::new(self.options.clone());
    }

    /// A rank without connections.
    pub fn start(&self, rank: Rank, incarnation: Incarnation) -> Endpoint<SimFabric> {
        let window_bytes = self.options.window_bytes;
        let log_bytes = 8 * window_bytes as usize;
        let (fabric, arena) = self.network.start(rank, incarnation, log_bytes);
        Endpoint {
            rank,
            incarnation,
            fabric,
            arena,
            window_bytes,
        }
    }
}

impl Harness for SimHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.clear();
        to_check(start_all(ranks, |rank| self.start(rank, Incarnation(0))))
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        self.network.kill_life(endpoint.rank, endpoint.incarnation);
    }

    fn progress(&mut self) -> bool {
        self.network.step()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.network.now() * TICK_NS)
    }

    fn poll_calls_max(&self) -> usize {
        POLL_CALLS_MAX
    }

    fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        self.network.inject(from, to, lane, bytes)
    }
}

/// The same networks as a harness sees real ones: frames arrive in their own time, and the harness
/// does not know of them.
struct RealHarness {
    sim: SimHarness,
    drives_all: bool,
}

impl Harness for RealHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.sim.make(ranks)
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.sim.restart(rank, incarnation)
    }

    fn kill(&mut self, endpoint: Endpoint) {
        self.sim.kill(endpoint);
    }

    fn progress(&mut self) -> bool {
        false
    }

    /// Every reading of the clock takes time.
    fn now(&self) -> Duration {
        self.sim.network().advance(3);
        self.sim.now()
    }

    fn poll_calls_max(&self) -> usize {
        self.sim.poll_calls_max()
    }

    fn drives_all(&self) -> bool {
        self.drives_all
    }

    /// Longer than any frame is late.
    fn silence(&self) -> Duration {
        Duration::from_millis(6)
    }

    fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        self.sim.inject(from, to, lane, bytes)
    }
}

#[test]
fn the_suite_waits_for_what_comes_in_its_own_time() {
    for drives_all in [false, true] {
        for distant_bytes_min in [None, Some(1000)] {
            let mut options = Options::rough(1);
            options.distant_bytes_min = distant_bytes_min;
            run_all(&mut RealHarness {
                sim: SimHarness::new(options),
                drives_all,
            });
        }
    }
}

/// Seeds of the rough networks; `REFRAIN_SEED` replaces them.
fn seeds() -> Vec<u64> {
    match std::env::var("REFRAIN_SEED") {
        Ok(seed) => vec![seed.parse().expect("REFRAIN_SEED is a number")],
        Err(_) => (1..=6).collect(),
    }
}

fn both_modes(options: &Options) -> [Options; 2] {
    [false, true].map(|in_place| options.clone().reading_in_place(in_place))
}

/// In both modes, with each of these lengths of distant frames.
fn modes_with(options: &Options, distant: &[Option<usize>]) -> Vec<Options> {
    let modes = distant.iter().map(|distant_bytes_min| {
        both_modes(&Options {
            distant_bytes_min: *distant_bytes_min,
            ..options.clone()
        })
    });
    modes.flatten().collect()
}

#[test]
fn calm_network_keeps_the_contract() {
    for options in modes_with(&Options::calm(0), &[None, Some(1), Some(4096)]) {
        eprintln!("{options:?}");
        let report = run_all(&mut SimHarness::new(options.clone()));
        // Checks that are skipped because nothing is distant are shown by the other modes.
        let shown = options.distant_bytes_min.is_some();
        let words = "none of its frames is distant";
        let mut skipped = report.skipped.iter();
        let missing = skipped.find(|(_, why)| shown || *why != words);
        assert_eq!(missing, None);
    }
}

#[test]
fn rough_network_keeps_the_contract() {
    for seed in seeds() {
        // All frames that are not empty are distant, or all long ones.
        let distant = [Some(1), Some(4096)][(seed % 2) as usize];
        for options in modes_with(&Options::rough(seed), &[None, distant]) {
            eprintln!("{options:?}");
            run_all(&mut SimHarness::new(options));
        }
    }
}

#[test]
fn a_fence_that_is_off_is_found() {
    for options in [Options::calm(1), Options::rough(1), Options::rough(2)] {
        for mut options in both_modes(&options) {
            assert_eq!(
                check_late_frames_are_fenced(&mut SimHarness::new(options.clone())),
                Outcome::Holds
            );
            options.faults.fence_off = true;
            let found = catch_unwind(AssertUnwindSafe(|| {
                check_late_frames_are_fenced(&mut SimHarness::new(options))
            }));
            let words = super::words_of(&*found.expect_err("the planted bug was not found"));
            assert!(
                words.contains("FENCE-1"),
                "found for another reason: {words}"
            );
        }
    }
}
