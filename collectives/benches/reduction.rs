//! Operators on vectors that fit into the nearest cache, beside a plain copy.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use refrain_collectives::Reduction;
use refrain_collectives::reduction::{Element, Number, Operands, Operator};
use std::hint::black_box;

const BYTES: usize = 8 << 10;

fn operators(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reduction");
    group.throughput(Throughput::Bytes(BYTES as u64));
    // One byte beside the best address: operands in messages are seldom aligned. As floating
    // point these are near 1: results of other sizes are slow on some processors.
    let (left, right) = (vec![0x3f_u8; BYTES + 1], vec![0x40_u8; BYTES + 1]);
    let mut into = vec![0_u8; BYTES + 1];
    group.bench_function("copy", |bench| {
        bench.iter(|| into[1..].copy_from_slice(black_box(&left[1..])));
    });
    let numbers = [
        Number::U8,
        Number::I32,
        Number::I64,
        Number::F32,
        Number::F64,
    ];
    let elements = numbers
        .map(Element::Number)
        .into_iter()
        .chain([Element::Complex64]);
    for element in elements {
        for operator in [
            Operator::Sum,
            Operator::Product,
            Operator::Max,
            Operator::LogicalAnd,
        ] {
            let Ok(reduction) = Reduction::new(operator, element) else {
                continue;
            };
            group.bench_function(format!("{operator:?} {element:?}"), |bench| {
                bench.iter(|| {
                    reduction.apply(Operands::Apart {
                        left: black_box(&left[1..]),
                        right: black_box(&right[1..]),
                        into: &mut into[1..],
                    });
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, operators);
criterion_main!(benches);
