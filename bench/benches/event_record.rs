//! The cost of determinants for the rank that records them: recording, merging, encoding, sealing.
//!
//! ```text
//! cargo bench -p refrain-bench --bench event_record
//! ```
//!
//! `one`: an event and its batch, as when a send follows each receive; the send waits for this
//! time. `batch`: many events, then their batch; throughput is of events. `times`: as `batch`, of
//! times that a program requests. `checksum`: the checksum alone.

use criterion::{BenchmarkId, Criterion, Throughput};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::record::decode;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use std::hint::black_box;
use std::time::Duration;

const BATCHES: [u64; 4] = [2, 8, 64, 1024];

/// Receives from four sources in turn, each from any source.
struct Receives {
    recorder: Recorder,
    count: u64,
    batch: Vec<u8>,
}

impl Receives {
    fn new() -> Self {
        let identity = Identity {
            job: 1,
            rank: Rank(0),
            incarnation: Incarnation(0),
        };
        Self {
            recorder: Recorder::new(identity, EventIndex(0)),
            count: 0,
            batch: Vec::new(),
        }
    }

    fn receive(&mut self, is_waited: bool) {
        let count = self.count;
        self.count += 1;
        let request = Clock(1_000_000 + 2 * count);
        let matched = Matched {
            request,
            source: Rank((count % 4) as u32),
            ssn: Ssn(700 + count / 4),
        };
        if is_waited {
            let at = Clock(request.0 + 1);
            self.recorder.matched(at, matched, false);
            self.recorder.completed(at, &[request]);
        } else {
            self.recorder.matched(request, matched, false);
        }
    }

    fn take(&mut self) -> Option<BatchHeader> {
        self.recorder.take_batch(true, &mut self.batch)
    }
}

fn one(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_record/one");
    for (name, is_waited) in [("match", false), ("match_and_completion", true)] {
        let mut receives = Receives::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                receives.receive(is_waited);
                black_box(receives.take())
            });
        });
    }
    let mut receives = Receives::new();
    receives.receive(false);
    receives.take();
    let batch = receives.batch;
    group.bench_function("checksum", |bencher| {
        bencher.iter(|| black_box(crc32c::crc32c(black_box(&batch[4..]))));
    });
    group.finish();
}

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_record/batch");
    for events in BATCHES {
        group.throughput(Throughput::Elements(events));
        let mut receives = Receives::new();
        group.bench_function(BenchmarkId::new("write", events), |bencher| {
            bencher.iter(|| {
                (0..events).for_each(|_| receives.receive(true));
                black_box(receives.take())
            });
        });
        let batch = receives.batch;
        group.bench_function(BenchmarkId::new("read", events), |bencher| {
            bencher.iter(|| {
                let (header, payload) = BatchHeader::read(black_box(&batch)).expect("sealed");
                decode(&header, payload).expect("encoded")
            });
        });
    }
    group.finish();
}

/// Every fourth operation requests the time, 1 µs after the previous request; full batches are
/// committed as by a rank that only requests times.
fn times(criterion: &mut Criterion) {
    const EVENTS: u64 = 512;
    let mut group = criterion.benchmark_group("event_record/times");
    group.throughput(Throughput::Elements(EVENTS));
    let mut asked = Receives::new();
    group.bench_function(BenchmarkId::new("write", EVENTS), |bencher| {
        bencher.iter(|| {
            for _ in 0..EVENTS {
                asked.count += 1;
                let (at, ns) = (Clock(4 * asked.count), 1000 * asked.count as i64);
                asked.recorder.number(at, 0, ns);
            }
            black_box(asked.take())
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000))
        .sample_size(20)
        .configure_from_args();
    one(&mut criterion);
    batch(&mut criterion);
    times(&mut criterion);
    criterion.final_summary();
}
