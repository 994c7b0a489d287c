//! Packing derived types from 1 KiB to 4 MiB, against the loop that a program would write.
//!
//! `cargo bench -p refrain-datatypes --bench datatype`

use core::hint::black_box;
use core::time::Duration;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use refrain_datatypes::{Datatype, Field, Named, Order, Slice};

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 256 << 10, 4 << 20];

fn named(handle: u16) -> Datatype {
    Datatype::named(Named::of(handle).expect("is predefined"))
}

/// Blocks of (offset, bytes) that a loop copies one by one.
fn copy_each(blocks: &[(usize, usize)], from: &[u8], to: &mut [u8]) {
    let mut at = 0;
    for &(offset, bytes) in blocks {
        to[at..at + bytes].copy_from_slice(&from[offset..offset + bytes]);
        at += bytes;
    }
}

/// Every second double.
fn vector(bytes: usize) -> Datatype {
    Datatype::vector((bytes / 8) as i64, 1, 2, &named(532)).expect("is small")
}

/// Every second double, copied in the obvious loop.
fn vector_loop(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.chunks(16).zip(to.chunks_exact_mut(8)) {
        to.copy_from_slice(&from[..8]);
    }
}

/// Blocks of 1 to 4 doubles at irregular distances.
fn indexed(bytes: usize) -> Datatype {
    let (mut lengths, mut places, mut left, mut at) = (Vec::new(), Vec::new(), bytes as i64 / 8, 0);
    while left > 0 {
        let length = (1 + at * 7 % 4).min(left);
        lengths.push(length);
        places.push(at);
        left -= length;
        at += length + 1 + at % 3;
    }
    Datatype::indexed(&lengths, &places, &named(532)).expect("is small")
}

/// A particle: position and velocity, charge, species.
fn structure(bytes: usize) -> Datatype {
    let (double, float, short) = (named(532), named(528), named(520));
    let fields = [(6, 0, &double), (1, 56, &float), (6, 64, &short)];
    let fields = fields.map(|(blocklength, displacement, of)| Field {
        blocklength,
        displacement,
        of,
    });
    let particle = Datatype::structure(&fields).expect("is small");
    let particle = Datatype::resized(&particle, 0, 96).expect("is small");
    Datatype::contiguous((bytes / 64) as i64, &particle).expect("is small")
}

/// The face of a cube of doubles on which neighbours are rows apart.
fn face(bytes: usize) -> Datatype {
    let side = ((bytes / 8) as f64).sqrt() as i64;
    let slice = |size, subsize| Slice {
        size,
        subsize,
        start: 0,
    };
    let slices = [slice(side, side), slice(side, side), slice(16, 1)];
    Datatype::subarray(&slices, Order::C, &named(532)).expect("is small")
}

/// Makes a type of so many bytes.
type Make = fn(usize) -> Datatype;

fn pack(criterion: &mut Criterion) {
    let types: [(&str, Make); 4] = [
        ("vector", vector),
        ("indexed", indexed),
        ("struct", structure),
        ("face", face),
    ];
    for (name, make) in types {
        let mut group = criterion.benchmark_group(name);
        for bytes in SIZES {
            let datatype = make(bytes);
            let layout = datatype.layout().expect("is small");
            let buffer = vec![1_u8; layout.span_bytes()];
            let mut out = vec![0_u8; datatype.size() as usize];
            group.throughput(Throughput::Bytes(datatype.size() as u64));
            group.bench_function(format!("pack {bytes}"), |bencher| {
                bencher.iter(|| layout.pack(black_box(&buffer), 0, &mut out));
            });
            let pieces = layout.pieces(0, usize::MAX);
            let blocks: Vec<_> = pieces
                .map(|it| (it.buffer_offset as usize, it.bytes))
                .collect();
            group.bench_function(format!("list of blocks {bytes}"), |bencher| {
                bencher.iter(|| copy_each(&blocks, black_box(&buffer), &mut out));
            });
            if name == "vector" {
                group.bench_function(format!("loop {bytes}"), |bencher| {
                    bencher.iter(|| vector_loop(black_box(&buffer), &mut out));
                });
            }
        }
        group.finish();
    }
}

/// From the constructor to the compiled layout.
fn commit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    for (name, make) in [("vector", vector as Make), ("indexed", indexed)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| make(4 << 20).layout().map(|layout| layout.message_bytes()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .nresamples(1_000);
    targets = pack, commit
}
criterion_main!(benches);
