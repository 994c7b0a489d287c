//! Packing and unpacking 64 KiB of non-contiguous data, against `memcpy`.
//!
//! `cargo bench -p refrain-bench --bench pack`
//!
//! `memcpy` copies the same number of contiguous bytes; the others read (or write) a buffer of
//! twice that length, of which every second block is used.

use core::hint::black_box;
use core::time::Duration;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use refrain_transport::layout::Layout;

const MESSAGE_BYTES: usize = 64 << 10;
/// Length that the engine packs at a time.
const FRAGMENT_BYTES: usize = 8 << 10;

fn layouts() -> [(&'static str, Layout); 5] {
    let vector =
        |block: usize| Layout::vector(MESSAGE_BYTES / block, block, 2 * block).expect("is small");
    // a particle: position and velocity (48), charge (4), species (2 + 2 + 8)
    let fields = [(0, 48), (56, 4), (64, 2), (72, 2), (80, 8)];
    let particle = Layout::structure(&fields, 128, MESSAGE_BYTES / 64).expect("is small");
    [
        ("contiguous", Layout::contiguous(MESSAGE_BYTES)),
        ("vector of 8 B", vector(8)),
        ("vector of 64 B", vector(64)),
        ("vector of 1 KiB", vector(1 << 10)),
        ("struct of 5 fields", particle),
    ]
}

fn memcpy(group: &mut BenchmarkGroup<'_, WallTime>) {
    let from = vec![1_u8; MESSAGE_BYTES];
    let mut to = vec![0_u8; MESSAGE_BYTES];
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| to.copy_from_slice(black_box(&from)));
    });
}

fn pack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pack");
    group.throughput(Throughput::Bytes(MESSAGE_BYTES as u64));
    memcpy(&mut group);
    for (name, layout) in layouts() {
        let buffer = vec![1_u8; layout.span_bytes()];
        let mut out = vec![0_u8; MESSAGE_BYTES];
        group.bench_function(name, |bencher| {
            bencher.iter(|| layout.pack(black_box(&buffer), 0, &mut out));
        });
        group.bench_function(format!("{name}, in fragments"), |bencher| {
            bencher.iter(|| {
                let mut offset = 0;
                for fragment in out.chunks_mut(FRAGMENT_BYTES) {
                    offset += layout.pack(black_box(&buffer), offset, fragment) as u64;
                }
                offset
            });
        });
    }
    group.finish();
}

fn unpack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unpack");
    group.throughput(Throughput::Bytes(MESSAGE_BYTES as u64));
    memcpy(&mut group);
    for (name, layout) in layouts() {
        let data = vec![1_u8; MESSAGE_BYTES];
        let mut buffer = vec![0_u8; layout.span_bytes()];
        group.bench_function(name, |bencher| {
            bencher.iter(|| layout.unpack(0, black_box(&data), &mut buffer));
        });
    }
    group.finish();
}

/// The cost of walking over the pieces alone, for an engine with its own copy function.
fn pieces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pieces");
    group.throughput(Throughput::Bytes(MESSAGE_BYTES as u64));
    for (name, layout) in layouts() {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let pieces = layout.pieces(black_box(0), MESSAGE_BYTES);
                pieces.fold(0, |sum, piece| {
                    sum ^ piece.buffer_offset as usize ^ piece.bytes
                })
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(10_000);
    targets = pack, unpack, pieces
}
criterion_main!(benches);
