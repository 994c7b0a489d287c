//! Matching of one message with one receive, while other entries are in the queue.
//!
//! `cargo bench -p refrain-bench --bench matching`
//!
//! Every round leaves the queues as they were, at the same length. The other entries of a queue
//! differ in their tag; "first" and "last" is the position of the wanted entry by age.

use core::hint::black_box;
use core::time::Duration;
use criterion::{Criterion, criterion_group, criterion_main};
use refrain_ring::Rank;
use refrain_transport::matching::{Envelope, Matcher, Pattern};

const LENGTHS: [usize; 3] = [1, 10, 1_000];
const WANTED: Envelope = message(-1);
const OTHER: i32 = 1;

/// Content of the engine's entry for a receive or message: two words.
type Value = [u64; 2];

const fn message(tag: i32) -> Envelope {
    Envelope {
        context: 0,
        source: Rank(3),
        tag,
    }
}

const ANY_SOURCE: Pattern = Pattern {
    context: 0,
    source: None,
    tag: Some(WANTED.tag),
};

/// Tags of the `length - 1` other entries.
fn others(length: usize) -> impl Iterator<Item = i32> {
    (OTHER..).take(length - 1)
}

/// A message matches its receive, which is then posted again, after the others.
fn posted(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("posted");
    for length in LENGTHS {
        let mut matcher = Matcher::<Value, Value>::new();
        for tag in others(length) {
            matcher.post(message(tag).into(), [0; 2]);
        }
        matcher.post(WANTED.into(), [0; 2]);
        group.bench_function(format!("exact/last of {length}"), |bencher| {
            bencher.iter(|| {
                let taken = matcher.take_posted(black_box(WANTED));
                let (_, value) = taken.expect("is posted again in every round");
                matcher.post(black_box(WANTED.into()), value)
            });
        });
    }
    for length in LENGTHS {
        // round robin: the oldest entry is matched, and becomes the youngest
        let mut matcher = Matcher::<Value, Value>::new();
        for tag in 0..length {
            matcher.post(message(tag as i32).into(), [0; 2]);
        }
        let mut tags = (0..length as i32).cycle();
        group.bench_function(format!("exact/first of {length}"), |bencher| {
            bencher.iter(|| {
                let envelope = message(tags.next().expect("cycles"));
                let taken = matcher.take_posted(black_box(envelope));
                let (pattern, value) = taken.expect("is posted again in every round");
                matcher.post(pattern, value)
            });
        });
    }
    for length in LENGTHS {
        let mut matcher = Matcher::<Value, Value>::new();
        for tag in others(length) {
            matcher.post(
                Pattern {
                    tag: Some(tag),
                    ..ANY_SOURCE
                },
                [0; 2],
            );
        }
        matcher.post(ANY_SOURCE, [0; 2]);
        group.bench_function(format!("wildcard/last of {length}"), |bencher| {
            bencher.iter(|| {
                let taken = matcher.take_posted(black_box(WANTED));
                let (pattern, value) = taken.expect("is posted again in every round");
                matcher.post(pattern, value)
            });
        });
    }
    for length in LENGTHS {
        // a wildcard that is older than all exact receives
        let mut matcher = Matcher::<Value, Value>::new();
        group.bench_function(format!("wildcard/first of {length}"), |bencher| {
            matcher.post(ANY_SOURCE, [0; 2]);
            let queued: Vec<_> = (others(length))
                .map(|tag| matcher.post(message(tag).into(), [0; 2]))
                .collect();
            bencher.iter(|| {
                let taken = matcher.take_posted(black_box(WANTED));
                let (pattern, value) = taken.expect("is posted again in every round");
                matcher.post(pattern, value)
            });
            for id in queued {
                matcher.cancel(id);
            }
            matcher.take_posted(WANTED);
        });
    }
    group.finish();
}

/// A message becomes unexpected, after the others, and is received.
fn unexpected(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unexpected");
    for (name, pattern) in [("exact", WANTED.into()), ("wildcard", ANY_SOURCE)] {
        for length in LENGTHS {
            let mut matcher = Matcher::<Value, Value>::new();
            for tag in others(length) {
                matcher.push_unexpected(message(tag), [0; 2]);
            }
            group.bench_function(format!("{name}/last of {length}"), |bencher| {
                bencher.iter(|| {
                    matcher.push_unexpected(WANTED, [0; 2]);
                    matcher.take_unexpected(black_box(&pattern))
                });
            });
        }
    }
    let any = Pattern {
        tag: None,
        ..ANY_SOURCE
    };
    for (name, wildcard) in [("exact", false), ("wildcard", true)] {
        for length in LENGTHS {
            // round robin: the oldest message is received, and arrives again
            let mut matcher = Matcher::<Value, Value>::new();
            for tag in 0..length {
                matcher.push_unexpected(message(tag as i32), [0; 2]);
            }
            let mut tags = (0..length as i32).cycle();
            group.bench_function(format!("{name}/first of {length}"), |bencher| {
                bencher.iter(|| {
                    let tag = tags.next().expect("cycles");
                    let pattern = if wildcard { any } else { message(tag).into() };
                    let taken = matcher.take_unexpected(black_box(&pattern));
                    let (envelope, value) = taken.expect("comes again in every round");
                    matcher.push_unexpected(envelope, value)
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(10_000);
    targets = posted, unexpected
}
criterion_main!(benches);
