//! Compares a small window of log memory that is reused with stores that bypass the cache.
//!
//! ```text
//! cargo bench -p refrain-bench --bench log_window
//! ```
//!
//! Messages of 1 MiB are copied fragment by fragment into a window that is used in rotation:
//! `cached` by ordinary stores, `streaming` by non-temporal stores. `append`: only the copy.
//! `append_and_seal`: each fragment is checksummed 256 KiB later, as by spilling.
//! `append_and_receive`: each fragment is copied out 32 KiB later, as by a receiver that keeps up.
//! One thread, so one cache: a receiver on another core gets the cache lines from the sender's
//! core in both cases.

#![allow(
    unsafe_code,
    reason = "packs and unpacks by the copies of the fast path, which take raw pointers"
)]

use criterion::{BenchmarkId, Criterion, Throughput};
use refrain_ring::copy::{Target, into_log, out_of_log};
use std::hint::black_box;
use std::time::Duration;

const WINDOWS_KIB: [usize; 9] = [
    64,
    256,
    1 << 10,
    2 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
];
const FRAGMENT_BYTES: usize = 16 << 10;
const MESSAGE_BYTES: usize = 1 << 20;
/// Distance of sealing and receiving behind appending; at most half of the window.
const SEAL_LAG_BYTES: usize = 256 << 10;
const RECEIVE_LAG_BYTES: usize = 32 << 10;

/// Use of a fragment after it was appended.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Seal,
    Receive,
}

/// Log memory that is used in rotation, and the user's buffers.
struct Window {
    memory: Vec<u8>,
    next: usize,
    target: Target,
    message: Vec<u8>,
    received: Vec<u8>,
}

impl Window {
    fn new(bytes: usize, target: Target) -> Self {
        Self {
            // Written once, so that all pages are mapped.
            memory: vec![0x11; bytes],
            next: 0,
            target,
            message: vec![0x5a; MESSAGE_BYTES],
            received: vec![0; MESSAGE_BYTES],
        }
    }

    /// Offset of the fragment that was appended `lag_bytes` before `next`.
    fn behind(&self, lag_bytes: usize) -> usize {
        let lag_bytes = lag_bytes.min(self.memory.len() / 2);
        (self.next + self.memory.len() - lag_bytes) % self.memory.len()
    }

    #[inline]
    fn send(&mut self, then: Then) {
        for at in (0..MESSAGE_BYTES).step_by(FRAGMENT_BYTES) {
            let from = &self.message[at..at + FRAGMENT_BYTES];
            let to = &mut self.memory[self.next..self.next + FRAGMENT_BYTES];
            // SAFETY: both are as long, and apart.
            unsafe { into_log(from.as_ptr(), to.as_mut_ptr(), FRAGMENT_BYTES, self.target) };
            match then {
                Then::Nothing => {}
                Then::Seal => {
                    let old = self.behind(SEAL_LAG_BYTES);
                    black_box(crc32fast::hash(&self.memory[old..old + FRAGMENT_BYTES]));
                }
                Then::Receive => {
                    let old = self.behind(RECEIVE_LAG_BYTES);
                    let from = &self.memory[old..old + FRAGMENT_BYTES];
                    let to = &mut self.received[at..at + FRAGMENT_BYTES];
                    // SAFETY: both are as long, and apart.
                    unsafe { out_of_log(from.as_ptr(), to.as_mut_ptr(), FRAGMENT_BYTES) };
                }
            }
            self.next = (self.next + FRAGMENT_BYTES) % self.memory.len();
        }
    }
}

fn windows(criterion: &mut Criterion, name: &str, then: Then) {
    let mut group = criterion.benchmark_group(format!("log_window/{name}"));
    group.throughput(Throughput::Bytes(MESSAGE_BYTES as u64));
    for kib in WINDOWS_KIB {
        for (stores, target) in [("cached", Target::Cached), ("streaming", Target::Streaming)] {
            let mut window = Window::new(kib << 10, target);
            let id = BenchmarkId::new(stores, format!("{kib}K"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    black_box(&mut window.message);
                    window.send(then);
                    black_box(&mut window.received);
                });
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000))
        .sample_size(20)
        .configure_from_args();
    windows(&mut criterion, "append", Then::Nothing);
    windows(&mut criterion, "append_and_seal", Then::Seal);
    windows(&mut criterion, "append_and_receive", Then::Receive);
    criterion.final_summary();
}
