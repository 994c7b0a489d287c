//! Random types, made by the library and in the model.

use crate::map::TypeMap;
use proptest::prelude::*;
use refrain_datatypes::{Datatype, Dimension, Distribution, Field, NAMED, Named, Order, Slice};

#[derive(Clone, Debug)]
pub struct Sample {
    pub datatype: Datatype,
    pub map: TypeMap,
}

pub fn sample() -> impl Strategy<Value = Sample> {
    let leaf = proptest::sample::select(NAMED.iter().collect::<Vec<_>>()).prop_map(named);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..4i64, 0..4i64, -5..6i64).prop_map(vector),
            (inner.clone(), 0..4i64, 0..4i64, -40..41i64).prop_map(hvector),
            (inner.clone(), 0..4i64).prop_map(contiguous),
            (inner.clone(), blocks()).prop_map(indexed),
            (inner.clone(), blocks()).prop_map(hindexed),
            (
                inner.clone(),
                0..3i64,
                prop::collection::vec(-9..10i64, 0..4)
            )
                .prop_map(same_blocks),
            prop::collection::vec((0..3i64, -30..31i64, inner.clone()), 0..4).prop_map(structure),
            (inner.clone(), -20..21i64, -40..41i64).prop_map(resized),
            (inner.clone(), slices(), order()).prop_map(subarray),
            (
                inner.clone(),
                dimensions(),
                order(),
                any::<prop::sample::Index>()
            )
                .prop_map(darray),
            inner.prop_map(duplicate),
        ]
    })
    .prop_filter("small maps", |sample| sample.map.entries.len() < 3_000)
}

fn blocks() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0..3i64, -9..10i64), 0..6)
}

fn order() -> impl Strategy<Value = Order> {
    proptest::sample::select(vec![Order::C, Order::Fortran])
}

fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let slice = (1..4i64, 0..2i64, 0..3i64).prop_map(|(subsize, start, behind)| Slice {
        size: start + subsize + behind,
        subsize,
        start,
    });
    prop::collection::vec(slice, 1..4)
}

pub fn dimensions() -> impl Strategy<Value = Vec<Dimension>> {
    let cyclic = (1..9i64, prop::option::of(1..4i32), 1..4i32);
    let block = (1..9i64, prop::option::of(0..3i32), 1..4i32);
    let dimension = prop_oneof![
        (1..6i64).prop_map(|size| dimension(size, Distribution::None, None, 1)),
        cyclic.prop_map(|(size, block, processes)| {
            dimension(size, Distribution::Cyclic, block, processes)
        }),
        block.prop_map(|(size, more, processes)| {
            let least = (size as i32 + processes - 1) / processes;
            let block = more.map(|more| least + more);
            dimension(size, Distribution::Block, block, processes)
        }),
    ];
    prop::collection::vec(dimension, 1..4)
}

fn dimension(
    size: i64,
    distribution: Distribution,
    block: Option<i32>,
    processes: i32,
) -> Dimension {
    Dimension {
        size,
        distribution,
        block,
        processes,
    }
}

fn named(named: &'static Named) -> Sample {
    let mut map = TypeMap::default();
    map.entries.push((named.value, 0));
    if let Some(index) = named.index {
        let alignment = i64::from(index.alignment_bytes());
        let mut at = i64::from(named.value.bytes);
        while at % alignment > 0 {
            at += 1;
        }
        map.entries.push((index, at));
    }
    Sample {
        datatype: Datatype::named(named),
        map,
    }
}

fn contiguous((of, count): (Sample, i64)) -> Sample {
    Sample {
        datatype: Datatype::contiguous(count, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, [(count, 0)]),
    }
}

fn vector((of, count, length, stride): (Sample, i64, i64, i64)) -> Sample {
    let bytes = stride * of.map.extent();
    Sample {
        datatype: Datatype::vector(count, length, stride, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, (0..count).map(|block| (length, block * bytes))),
    }
}

fn hvector((of, count, length, stride): (Sample, i64, i64, i64)) -> Sample {
    Sample {
        datatype: Datatype::hvector(count, length, stride, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, (0..count).map(|block| (length, block * stride))),
    }
}

fn indexed((of, blocks): (Sample, Vec<(i64, i64)>)) -> Sample {
    let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
    let extent = of.map.extent();
    Sample {
        datatype: Datatype::indexed(&lengths, &places, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, blocks.into_iter().map(|(n, at)| (n, at * extent))),
    }
}

fn hindexed((of, blocks): (Sample, Vec<(i64, i64)>)) -> Sample {
    let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
    Sample {
        datatype: Datatype::hindexed(&lengths, &places, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, blocks),
    }
}

/// Blocks of one length; an even length stands for bytes, an odd one for extents.
fn same_blocks((of, length, places): (Sample, i64, Vec<i64>)) -> Sample {
    let in_bytes = length % 2 == 0;
    let unit = if in_bytes { 1 } else { of.map.extent() };
    let make = match in_bytes {
        true => Datatype::hindexed_block,
        false => Datatype::indexed_block,
    };
    Sample {
        datatype: make(length, &places, &of.datatype).unwrap(),
        map: TypeMap::blocks(&of.map, places.iter().map(|at| (length, at * unit))),
    }
}

fn structure(fields: Vec<(i64, i64, Sample)>) -> Sample {
    let mut map = TypeMap::default();
    for (length, offset, of) in &fields {
        map.append(&TypeMap::blocks(&of.map, [(*length, *offset)]), 0);
    }
    let field = |(blocklength, displacement, of): &(i64, i64, Sample)| {
        (*blocklength, *displacement, of.datatype.clone())
    };
    let fields: Vec<_> = fields.iter().map(field).collect();
    let fields: Vec<_> = (fields.iter())
        .map(|(blocklength, displacement, of)| Field {
            blocklength: *blocklength,
            displacement: *displacement,
            of,
        })
        .collect();
    Sample {
        datatype: Datatype::structure(&fields).unwrap(),
        map,
    }
}

fn resized((of, lb, extent): (Sample, i64, i64)) -> Sample {
    Sample {
        datatype: Datatype::resized(&of.datatype, lb, extent).unwrap(),
        map: TypeMap::resized(&of.map, lb, extent),
    }
}

fn duplicate(of: Sample) -> Sample {
    Sample {
        datatype: Datatype::duplicate(&of.datatype).unwrap(),
        map: of.map,
    }
}

/// The items of an array that a function picks by their place, in the order of memory.
fn picked(of: &TypeMap, sizes: &[i64], order: Order, is_in: impl Fn(&[i64]) -> bool) -> TypeMap {
    let mut map = TypeMap::default();
    let total: i64 = sizes.iter().product();
    for item in (0..total).filter(|item| is_in(&place(*item, sizes, order))) {
        map.append(of, item * of.extent());
    }
    TypeMap::resized(&map, 0, total * of.extent())
}

/// The place in an array of its `item`th element in memory.
fn place(mut item: i64, sizes: &[i64], order: Order) -> Vec<i64> {
    let mut place = vec![0; sizes.len()];
    let dimensions: Vec<_> = match order {
        Order::C => (0..sizes.len()).rev().collect(),
        Order::Fortran => (0..sizes.len()).collect(),
    };
    for dimension in dimensions {
        place[dimension] = item % sizes[dimension];
        item /= sizes[dimension];
    }
    place
}

fn subarray((of, slices, order): (Sample, Vec<Slice>, Order)) -> Sample {
    let sizes: Vec<_> = slices.iter().map(|slice| slice.size).collect();
    let is_in = |place: &[i64]| {
        let is_in =
            |(at, slice): (&i64, &Slice)| (slice.start..slice.start + slice.subsize).contains(at);
        place.iter().zip(&slices).all(is_in)
    };
    Sample {
        datatype: Datatype::subarray(&slices, order, &of.datatype).unwrap(),
        map: picked(&of.map, &sizes, order, is_in),
    }
}

/// The process that has an element of a dimension (High Performance Fortran's rules).
fn owner(dimension: &Dimension, at: i64) -> i64 {
    let processes = i64::from(dimension.processes);
    let block = i64::from(dimension.block.unwrap_or(1));
    match (dimension.distribution, dimension.block) {
        (Distribution::None, _) => 0,
        (Distribution::Block, None) => at / ((dimension.size + processes - 1) / processes),
        (Distribution::Block, _) => at / block,
        (Distribution::Cyclic, _) => at / block % processes,
    }
}

/// The rank that has an element of a distributed array.
pub fn owner_of(dimensions: &[Dimension], place: &[i64]) -> i64 {
    let places = dimensions.iter().zip(place);
    places.fold(0, |rank, (dimension, at)| {
        rank * i64::from(dimension.processes) + owner(dimension, *at)
    })
}

type Random = prop::sample::Index;

fn darray((of, dimensions, order, rank): (Sample, Vec<Dimension>, Order, Random)) -> Sample {
    let processes: i32 = dimensions.iter().map(|it| it.processes).product();
    let rank = rank.index(processes as usize) as i32;
    let sizes: Vec<_> = dimensions.iter().map(|it| it.size).collect();
    let is_in = |place: &[i64]| owner_of(&dimensions, place) == i64::from(rank);
    Sample {
        datatype: Datatype::darray(processes, rank, &dimensions, order, &of.datatype).unwrap(),
        map: picked(&of.map, &sizes, order, is_in),
    }
}
