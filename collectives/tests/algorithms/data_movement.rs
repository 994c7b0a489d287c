//! Collectives that move data.

use crate::group_run::{Buffers, Element, compare_all, input, unwritten};
use crate::{SIZES, call, counts};
use refrain_collectives::{Arguments, Blocks};

/// Blocks of odd sizes, some empty, with gaps, in another order at each place.
struct Ragged {
    counts: Vec<u64>,
    starts: Vec<u64>,
    length: u64,
}

impl Ragged {
    fn new(counts: Vec<u64>, me: u32) -> Self {
        let mut starts = vec![0; counts.len()];
        let mut length = u64::from(me % 2);
        for index in 0..counts.len() {
            let block = (index + me as usize) % counts.len();
            let block = if me.is_multiple_of(3) { index } else { block };
            starts[block] = length;
            length += counts[block] + u64::from(me % 2);
        }
        Self {
            counts,
            starts,
            length,
        }
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::Listed {
            counts: &self.counts,
            starts: &self.starts,
        }
    }

    fn put(&self, buffer: &mut [u64], block: u32, data: &[u64]) {
        let start = self.starts[block as usize] as usize;
        buffer[start..start + data.len()].copy_from_slice(data);
    }
}

/// Each count, out of place and in place.
fn with_and_without(counts: [u64; 4]) -> impl Iterator<Item = (u64, bool)> {
    counts
        .into_iter()
        .flat_map(|count| [(count, false), (count, true)])
}

fn ragged_counts(size: u32, salt: u32) -> Vec<u64> {
    (0..size)
        .map(|place| u64::from((place * 7 + salt * 3 + 2) % 5))
        .collect()
}

#[test]
fn barrier() {
    for size in SIZES {
        let buffers = Buffers::<u64> {
            inputs: vec![vec![]; size as usize],
            outputs: vec![vec![]; size as usize],
        };
        compare_all(
            &|me| call(size, me, false, Arguments::Barrier),
            &buffers,
            &buffers.outputs,
        );
    }
}

#[test]
fn bcast() {
    for size in SIZES {
        for (root, count) in (0..size).flat_map(|root| counts(size).map(|count| (root, count))) {
            bcast_once(size, root, count);
        }
    }
}

pub fn bcast_once(size: u32, root: u32, count: u64) {
    let data: Vec<u64> = input(root, count);
    let mut outputs = vec![unwritten(count); size as usize];
    outputs[root as usize] = data.clone();
    let buffers = Buffers {
        inputs: vec![vec![]; size as usize],
        outputs,
    };
    let arguments = Arguments::Bcast { root, count };
    let expected = vec![data; size as usize];
    compare_all(&|me| call(size, me, false, arguments), &buffers, &expected);
}

#[test]
fn gather_and_scatter() {
    for size in SIZES {
        for (root, count) in (0..size).flat_map(|root| counts(size).map(|count| (root, count))) {
            for in_place in [false, true] {
                gather(size, root, count, in_place);
                scatter(size, root, count, in_place);
            }
        }
    }
}

pub fn gather(size: u32, root: u32, count: u64, in_place: bool) {
    let all: Vec<u64> = (0..size)
        .flat_map(|place| input::<u64>(place, count))
        .collect();
    let mut buffers = Buffers {
        inputs: (0..size).map(|place| input(place, count)).collect(),
        outputs: vec![vec![]; size as usize],
    };
    let mut expected = buffers.outputs.clone();
    expected[root as usize] = all;
    buffers.outputs[root as usize] = unwritten(count * u64::from(size));
    if in_place {
        let own = std::mem::take(&mut buffers.inputs[root as usize]);
        let start = (u64::from(root) * count) as usize;
        buffers.outputs[root as usize][start..start + own.len()].copy_from_slice(&own);
    }
    let blocks = Blocks::Even(count);
    let arguments = Arguments::Gather {
        root,
        count,
        blocks,
    };
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

pub fn scatter(size: u32, root: u32, count: u64, in_place: bool) {
    let mut buffers = Buffers {
        inputs: vec![vec![]; size as usize],
        outputs: vec![unwritten(count); size as usize],
    };
    buffers.inputs[root as usize] = (0..size)
        .flat_map(|place| input::<u64>(place, count))
        .collect();
    let mut expected: Vec<_> = (0..size).map(|place| input(place, count)).collect();
    if in_place {
        expected[root as usize] = vec![];
        buffers.outputs[root as usize] = vec![];
    }
    let blocks = Blocks::Even(count);
    let arguments = Arguments::Scatter {
        root,
        count,
        blocks,
    };
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

#[test]
fn ragged_gather_and_scatter() {
    for size in SIZES {
        for (root, in_place) in (0..size).flat_map(|root| [(root, false), (root, true)]) {
            let ragged = Ragged::new(ragged_counts(size, root), root);
            let none = Blocks::Listed {
                counts: &[],
                starts: &[],
            };
            let at = |me| {
                (
                    ragged.counts[me as usize],
                    if me == root { ragged.blocks() } else { none },
                )
            };
            let data: Vec<Vec<u64>> = (0..size).map(|place| input(place, at(place).0)).collect();
            let mut long = unwritten(ragged.length);
            let before = long.clone();
            data.iter()
                .zip(0..)
                .for_each(|(data, place)| ragged.put(&mut long, place, data));
            let empty = vec![vec![]; size as usize];
            let with_root = |mut all: Vec<Vec<u64>>, root_buffer| {
                all[root as usize] = root_buffer;
                all
            };

            let mut gathering = Buffers {
                inputs: data.clone(),
                outputs: with_root(empty.clone(), before),
            };
            let mut scattered = data.clone();
            let mut scattering = Buffers {
                inputs: with_root(empty.clone(), long.clone()),
                outputs: data.iter().map(|it| unwritten(it.len() as u64)).collect(),
            };
            if in_place {
                let own = std::mem::take(&mut gathering.inputs[root as usize]);
                ragged.put(&mut gathering.outputs[root as usize], root, &own);
                scattered[root as usize] = vec![];
                scattering.outputs[root as usize] = vec![];
            }
            let gather = |me| {
                let (count, blocks) = at(me);
                call(
                    size,
                    me,
                    in_place,
                    Arguments::Gather {
                        root,
                        count,
                        blocks,
                    },
                )
            };
            compare_all(&gather, &gathering, &with_root(empty.clone(), long));
            let scatter = |me| {
                let (count, blocks) = at(me);
                call(
                    size,
                    me,
                    in_place,
                    Arguments::Scatter {
                        root,
                        count,
                        blocks,
                    },
                )
            };
            compare_all(&scatter, &scattering, &scattered);
        }
    }
}

#[test]
fn allgather() {
    for size in SIZES {
        for (count, in_place) in with_and_without(counts(size)) {
            allgather_once(size, count, in_place);
        }
    }
}

pub fn allgather_once(size: u32, count: u64, in_place: bool) {
    let all: Vec<u64> = (0..size)
        .flat_map(|place| input::<u64>(place, count))
        .collect();
    let mut buffers = Buffers {
        inputs: (0..size).map(|place| input(place, count)).collect(),
        outputs: vec![unwritten(all.len() as u64); size as usize],
    };
    if in_place {
        for (place, output) in buffers.outputs.iter_mut().enumerate() {
            let own = std::mem::take(&mut buffers.inputs[place]);
            output[place * own.len()..][..own.len()].copy_from_slice(&own);
        }
    }
    let arguments = Arguments::Allgather {
        blocks: Blocks::Even(count),
    };
    let expected = vec![all; size as usize];
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

#[test]
fn ragged_allgather() {
    for size in SIZES {
        for (salt, in_place) in (0..4).flat_map(|salt| [(salt, false), (salt, true)]) {
            ragged_allgather_once(size, &ragged_counts(size, salt), in_place);
        }
    }
}

pub fn ragged_allgather_once(size: u32, counts: &[u64], in_place: bool) {
    let ragged: Vec<_> = (0..size)
        .map(|me| Ragged::new(counts.to_vec(), me))
        .collect();
    let data: Vec<Vec<u64>> = (0..)
        .zip(counts)
        .map(|(at, count)| input(at, *count))
        .collect();
    let mut buffers = Buffers {
        inputs: data.clone(),
        outputs: ragged.iter().map(|it| unwritten(it.length)).collect(),
    };
    let mut expected = buffers.outputs.clone();
    for me in 0..size {
        let (it, output) = (&ragged[me as usize], &mut expected[me as usize]);
        data.iter()
            .zip(0..)
            .for_each(|(data, place)| it.put(output, place, data));
        if in_place {
            let own = std::mem::take(&mut buffers.inputs[me as usize]);
            it.put(&mut buffers.outputs[me as usize], me, &own);
        }
    }
    let arguments = |me: u32| Arguments::Allgather {
        blocks: ragged[me as usize].blocks(),
    };
    compare_all(
        &|me| call(size, me, in_place, arguments(me)),
        &buffers,
        &expected,
    );
}

/// What place `source` has for place `to`.
fn between(source: u32, to: u32, count: u64) -> Vec<u64> {
    (0..count)
        .map(|index| u64::of(source, u64::from(to) * 1000 + index))
        .collect()
}

#[test]
fn alltoall() {
    for size in SIZES {
        for (count, in_place) in with_and_without(counts(size)) {
            alltoall_once(size, count, in_place);
        }
    }
}

pub fn alltoall_once(size: u32, count: u64, in_place: bool) {
    let places = 0..size;
    let row = |me| {
        places
            .clone()
            .flat_map(move |to| between(me, to, count))
            .collect()
    };
    let column = |me| {
        places
            .clone()
            .flat_map(move |from| between(from, me, count))
            .collect()
    };
    let rows: Vec<Vec<u64>> = (0..size).map(row).collect();
    let expected: Vec<Vec<u64>> = (0..size).map(column).collect();
    let buffers = match in_place {
        true => Buffers {
            inputs: vec![vec![]; size as usize],
            outputs: rows,
        },
        false => Buffers {
            inputs: rows,
            outputs: vec![unwritten(count * u64::from(size)); size as usize],
        },
    };
    let (send, receive) = (Blocks::Even(count), Blocks::Even(count));
    let arguments = Arguments::Alltoall { send, receive };
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

#[test]
fn ragged_alltoall() {
    for size in SIZES {
        for (salt, in_place) in (0..4).flat_map(|salt| [(salt, false), (salt, true)]) {
            ragged_alltoall_once(size, salt, in_place);
        }
    }
}

pub fn ragged_alltoall_once(size: u32, salt: u32, in_place: bool) {
    // In place, both directions of a pair have one count.
    let count = |source: u32, to: u32| {
        let (low, high) = (source.min(to), source.max(to));
        let (a, b) = if in_place { (low, high) } else { (source, to) };
        u64::from((a * 3 + b * 5 + salt) % 4)
    };
    let sends = (0..size).map(|me| (0..size).map(|to| count(me, to)).collect());
    let receives = (0..size).map(|me| (0..size).map(|from| count(from, me)).collect());
    let ragged = |(me, counts)| Ragged::new(counts, me);
    let sends: Vec<Ragged> = (0..).zip(sends).map(ragged).collect();
    let receives: Vec<Ragged> = (0..).zip(receives).map(ragged).collect();
    let row = |me: u32| {
        let it = &sends[me as usize];
        let mut row = unwritten(it.length);
        (0..size).for_each(|to| it.put(&mut row, to, &between(me, to, count(me, to))));
        row
    };
    let column = |me: u32| {
        let it = &receives[me as usize];
        let mut column = unwritten(it.length);
        (0..size).for_each(|from| it.put(&mut column, from, &between(from, me, count(from, me))));
        column
    };
    let rows: Vec<Vec<u64>> = (0..size).map(row).collect();
    let expected: Vec<Vec<u64>> = (0..size).map(column).collect();
    let (inputs, outputs) = match in_place {
        true => (vec![vec![]; size as usize], rows),
        false => (
            rows,
            receives.iter().map(|it| unwritten(it.length)).collect(),
        ),
    };
    let arguments = |me: u32| Arguments::Alltoall {
        send: sends[me as usize].blocks(),
        receive: receives[me as usize].blocks(),
    };
    let call = |me| call(size, me, in_place, arguments(me));
    compare_all(&call, &Buffers { inputs, outputs }, &expected);
}

/// A graph with repeated edges and edges to the place itself.
fn edges(size: u32) -> Vec<(u32, u32)> {
    let ring = (0..size).flat_map(|place| {
        [
            (place, (place + 1) % size),
            (place, (place + size - 1) % size),
        ]
    });
    ring.chain(
        (0..size)
            .step_by(2)
            .flat_map(|place| [(place, place), (place, place / 2)]),
    )
    .collect()
}

#[test]
fn neighbours() {
    for (size, count) in SIZES.flat_map(|size| counts(size).map(|count| (size, count))) {
        let edges = edges(size);
        let select = |keep: &dyn Fn((u32, u32)) -> Option<u32>| {
            edges.iter().copied().filter_map(keep).collect()
        };
        let sources: Vec<Vec<u32>> = (0..size)
            .map(|me| select(&|(from, to)| (to == me).then_some(from)))
            .collect();
        let destinations: Vec<Vec<u32>> = (0..size)
            .map(|me| select(&|(from, to)| (from == me).then_some(to)))
            .collect();
        let sent = |me: u32, edge: usize| between(me, edge as u32, count);
        // The k-th edge from a place to another one is the k-th for both.
        let received = |me: u32| {
            let mut used = vec![0; size as usize];
            let mut output = vec![];
            for from in &sources[me as usize] {
                let mine = (0..)
                    .zip(&destinations[*from as usize])
                    .filter(|(_, to)| **to == me);
                let edge = mine
                    .map(|(edge, _)| edge)
                    .nth(used[*from as usize])
                    .unwrap();
                used[*from as usize] += 1;
                output.extend(sent(*from, edge));
            }
            output
        };
        let lengths = sources.iter().map(|it| it.len() as u64 * count);
        let outputs: Vec<_> = lengths.map(unwritten).collect();
        let lists = |me: u32| (&sources[me as usize][..], &destinations[me as usize][..]);
        let all_sent = |me: u32| {
            (0..lists(me).1.len())
                .flat_map(|edge| sent(me, edge))
                .collect()
        };
        let alltoall = |me| {
            let ((sources, destinations), receive) = (lists(me), Blocks::Even(count));
            let send = receive;
            call(
                size,
                me,
                false,
                Arguments::NeighbourAlltoall {
                    sources,
                    destinations,
                    send,
                    receive,
                },
            )
        };
        let buffers = Buffers {
            inputs: (0..size).map(all_sent).collect(),
            outputs: outputs.clone(),
        };
        compare_all(
            &alltoall,
            &buffers,
            &(0..size).map(received).collect::<Vec<_>>(),
        );

        let allgather = |me| {
            let ((sources, destinations), receive) = (lists(me), Blocks::Even(count));
            call(
                size,
                me,
                false,
                Arguments::NeighbourAllgather {
                    sources,
                    destinations,
                    count,
                    receive,
                },
            )
        };
        let buffers = Buffers {
            inputs: (0..size).map(|me| input::<u64>(me, count)).collect(),
            outputs,
        };
        let of_sources = |me: u32| {
            lists(me)
                .0
                .iter()
                .flat_map(|from| input(*from, count))
                .collect()
        };
        compare_all(
            &allgather,
            &buffers,
            &(0..size).map(of_sources).collect::<Vec<_>>(),
        );
    }
}
