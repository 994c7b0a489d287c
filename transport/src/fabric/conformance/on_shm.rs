//! The suite on shared memory, several ranks in this process.

use super::{Endpoint, Harness, run_all};
use crate::fabric::shm::{Shm, ShmOptions};
use core::time::Duration;
use refrain_ring::{Incarnation, Rank};
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
}

impl Harness for ShmHarness {
    type F = Shm;

    fn make(&mut self, ranks: u32) -> Vec<Endpoint<Shm>> {
        self.ranks = ranks;
        let mut endpoints: Vec<_> = (0..ranks)
            .map(|rank| self.restart(Rank(rank), Incarnation(0)))
            .collect();
        super::connect_all(&mut endpoints);
        endpoints
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Shm> {
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

    fn kill(&mut self, endpoint: Endpoint<Shm>) {
        drop(endpoint);
    }

    /// A store is there when it was made.
    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// 64 frames and 64 control frames from the one peer, twice if it rings.
    fn poll_calls_max(&self) -> usize {
        256
    }
}

#[test]
fn shared_memory_keeps_the_contract() {
    for window_bytes in [512 << 10, 4 << 20] {
        eprintln!("window of {window_bytes} bytes");
        run_all(&mut ShmHarness::new(window_bytes));
    }
}
