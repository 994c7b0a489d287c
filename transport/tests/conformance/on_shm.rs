//! The suite on shared memory, several ranks in this process.

use super::*;
use core::time::Duration;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use std::time::Instant;

struct ShmHarness {
    begin: Instant,
    ranks: u32,
    window_bytes: u64,
}

impl ShmHarness {
    fn new(window_bytes: u64) -> Self {
        Self {
            begin: Instant::now(),
            ranks: 0,
            window_bytes,
        }
    }

    fn start(&self, rank: Rank, incarnation: Incarnation) -> Endpoint<Shm> {
        let window_bytes = self.window_bytes;
        let (fabric, arena) = Shm::create(ShmOptions {
            job: 42,
            rank,
            incarnation,
            size: self.ranks,
            log_bytes: 8 * window_bytes,
            window_bytes,
        })
        .expect("shared memory can be made");
        Endpoint {
            rank,
            incarnation,
            fabric,
            arena,
            window_bytes,
        }
    }
}

impl Harness for ShmHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.ranks = ranks;
        to_check(start_all(ranks, |rank| self.start(rank, Incarnation(0))))
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        drop(endpoint);
    }

    /// A store is visible once it is made.
    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// 64 frames and 64 control frames from the one peer, twice if the peer rings.
    fn poll_calls_max(&self) -> usize {
        256
    }
}

/// A window of two chunks is the smallest that exists.
#[test]
fn shared_memory_keeps_the_contract() {
    let report = run_all(&mut ShmHarness::new(512 << 10));
    for (check, why) in &report.skipped {
        eprintln!("skipped {check}: {why}");
    }
}

#[test]
fn wide_windows_keep_order() {
    let mut harness = ShmHarness::new(4 << 20);
    for check in [
        check_nothing_is_lost_when_busy,
        check_log_memory_is_reused,
        check_chunks_are_left,
        check_payload_sizes,
        check_peers_interleaved,
        check_keep_and_let_go_in_any_order,
    ] {
        assert_eq!(check(&mut harness), Outcome::Holds);
    }
}
