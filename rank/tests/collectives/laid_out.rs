//! Calls whose buffers have layouts, with their results, which are written the plainest way.

use crate::job::Part;
use crate::plain::hosts;
use refrain_collectives::{Algorithm, Arguments, Blocks, Call, Group, Operation};
use refrain_rank::collective::{Layouts, Stretch};
use refrain_transport::layout::Layout;
use std::sync::Arc;

pub const KINDS: [Operation; 7] = [
    Operation::Bcast,
    Operation::Gather,
    Operation::Scatter,
    Operation::Allgather,
    Operation::Alltoall,
    Operation::NeighbourAllgather,
    Operation::NeighbourAlltoall,
];

/// What no collective writes.
const UNTOUCHED: u8 = 0xee;
/// The receiver of what all get.
const ALL: u32 = u32::MAX;

/// A call of all members of a group. An element is a byte.
#[derive(Debug)]
pub struct Case {
    pub kind: Operation,
    pub algorithm: Algorithm,
    size: u32,
    root: u32,
    /// Whether all blocks have one length.
    even: bool,
    in_place: bool,
    /// Blocks have layouts of their own.
    own: bool,
    bytes_max: u64,
    seed: u64,
}

/// A block of a buffer at one member.
#[derive(Clone, Copy, Debug)]
struct Block {
    from: u32,
    to: u32,
    bytes: u64,
    /// Whether its content is there before the collective.
    given: bool,
}

/// A buffer at one member.
#[derive(Debug, Default)]
struct Side {
    blocks: Vec<Block>,
    counts: Vec<u64>,
    /// In the dense form.
    starts: Vec<u64>,
    stretches: Option<Arc<[Stretch]>>,
    /// The address of each byte of the dense form, from the beginning of the buffer.
    addresses: Vec<i64>,
}

/// A number between 0 and `end`, by its name.
fn chosen(name: [u64; 4], end: u64) -> u64 {
    let mix = |hash: u64, it: u64| {
        (hash ^ it)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let hash = name.into_iter().fold(1, mix);
    (hash ^ hash >> 31) % end
}

impl Case {
    pub fn random(kind: Operation, size: u32, rng: &mut fastrand::Rng) -> Self {
        use Operation::*;
        let even = rng.bool();
        let mut case = Self {
            kind,
            algorithm: kind.algorithms()[0],
            size,
            root: rng.u32(..size),
            even,
            in_place: matches!(kind, Gather | Scatter | Allgather | Alltoall) && rng.u8(..3) == 0,
            own: matches!(kind, Alltoall | NeighbourAlltoall) && !even && rng.bool(),
            bytes_max: [2, 60, 3000, 20_000][rng.usize(..4)],
            seed: rng.u64(..),
        };
        let (sides, edges) = (case.sides(0), case.edges(0));
        let call = case.call(0, &sides, &edges);
        let fitting: Vec<_> = (kind.algorithms().iter().copied())
            .filter(|algorithm| algorithm.fits(&call))
            .collect();
        case.algorithm = fitting[rng.usize(..fitting.len())];
        case
    }

    fn bytes(&self, from: u32, to: u32) -> u64 {
        let pair = match self.kind {
            _ if self.even || self.kind == Operation::Bcast => (0, 0),
            // In place both members of a pair send as much.
            Operation::Alltoall if self.in_place => (from.min(to), from.max(to)),
            _ => (from, to),
        };
        chosen(
            [self.seed, 1, pair.0.into(), pair.1.into()],
            self.bytes_max + 1,
        )
    }

    fn value(&self, from: u32, to: u32, index: u64) -> u8 {
        chosen([self.seed, from.into(), to.into(), index], UNTOUCHED.into()) as u8
    }

    /// Sources and destinations: the places below and above, and this place.
    fn edges(&self, me: u32) -> [Vec<u32>; 2] {
        let degree = chosen([self.seed, 2, 0, 0], 4) as u32;
        let below = |distance| (me + self.size * degree - distance) % self.size;
        let above = |distance| (me + distance) % self.size;
        [
            (0..degree).map(below).collect(),
            (0..degree).map(above).collect(),
        ]
    }

    /// Input and output of a member, without their layouts.
    fn blocks(&self, me: u32) -> [Vec<Block>; 2] {
        use Operation::*;
        let block = |from: u32, to: u32, given: bool| Block {
            from,
            to,
            bytes: self.bytes(from, to),
            given,
        };
        let is_root = me == self.root;
        let [sources, destinations] = self.edges(me);
        let places = || 0..self.size;
        let own = |it: bool| {
            if it {
                vec![]
            } else {
                vec![block(me, ALL, true)]
            }
        };
        match self.kind {
            Bcast => [vec![], vec![block(self.root, ALL, is_root)]],
            Gather => {
                let from = |it| block(it, ALL, self.in_place && it == me);
                let output = if is_root {
                    places().map(from).collect()
                } else {
                    vec![]
                };
                [own(self.in_place && is_root), output]
            }
            Scatter => {
                let to = |it| block(self.root, it, true);
                let input = if is_root {
                    places().map(to).collect()
                } else {
                    vec![]
                };
                let stays = self.in_place && is_root;
                let output = if stays {
                    vec![]
                } else {
                    vec![block(self.root, me, false)]
                };
                [input, output]
            }
            Allgather => {
                let from = |it| block(it, ALL, self.in_place && it == me);
                [own(self.in_place), places().map(from).collect()]
            }
            Alltoall if self.in_place => [vec![], places().map(|it| block(it, me, true)).collect()],
            Alltoall => [
                places().map(|it| block(me, it, true)).collect(),
                places().map(|it| block(it, me, false)).collect(),
            ],
            NeighbourAllgather => [
                own(false),
                sources.iter().map(|it| block(*it, ALL, false)).collect(),
            ],
            _ => [
                destinations.iter().map(|it| block(me, *it, true)).collect(),
                sources.iter().map(|it| block(*it, me, false)).collect(),
            ],
        }
    }

    /// Whether the input or the output has blocks that begin anywhere.
    fn is_list(&self, index: usize) -> bool {
        use Operation::*;
        match self.kind {
            Gather | Allgather | NeighbourAllgather => index == 1,
            Scatter => index == 0,
            kind => kind != Bcast,
        }
    }

    fn sides(&self, me: u32) -> [Side; 2] {
        let mut rng = fastrand::Rng::with_seed(chosen([self.seed, 3, me.into(), 0], u64::MAX));
        let mut index = 0;
        self.blocks(me).map(|blocks| {
            let gaps = self.is_list(index) && !self.even && !self.own && rng.bool();
            index += 1;
            let mut side = Side::new(blocks, gaps, &mut rng);
            match (self.own, rng.u8(..4)) {
                (true, _) => side.lay_out_blocks(&mut rng),
                // Dense itself.
                (_, 0) => side.addresses = (0..side.dense_bytes() as i64).collect(),
                _ => side.lay_out(&mut rng),
            }
            side
        })
    }

    fn call<'a>(&self, me: u32, sides: &'a [Side; 2], edges: &'a [Vec<u32>; 2]) -> Call<'a> {
        use Operation::*;
        let [send, receive] = [0, 1].map(|index| match self.even {
            true => Blocks::Even(self.bytes(0, 0)),
            false => Blocks::Listed {
                counts: &sides[index].counts,
                starts: &sides[index].starts,
            },
        });
        let (root, own) = (self.root, self.bytes(me, ALL));
        let [sources, destinations] = edges;
        let (size, element_bytes) = (self.size, 1);
        Call {
            group: Group { size, me },
            hosts: hosts(size),
            arguments: match self.kind {
                Bcast => Arguments::Bcast { root, count: own },
                Gather => Arguments::Gather {
                    root,
                    count: own,
                    blocks: receive,
                },
                Scatter => {
                    let count = self.bytes(root, me);
                    Arguments::Scatter {
                        root,
                        count,
                        blocks: send,
                    }
                }
                Allgather => Arguments::Allgather { blocks: receive },
                Alltoall => Arguments::Alltoall { send, receive },
                NeighbourAllgather => Arguments::NeighbourAllgather {
                    sources,
                    destinations,
                    count: own,
                    receive,
                },
                _ => Arguments::NeighbourAlltoall {
                    sources,
                    destinations,
                    send,
                    receive,
                },
            },
            in_place: self.in_place,
            element_bytes,
        }
    }

    /// Calls `begin` with what a member does.
    pub fn with_part<T>(&self, me: u32, begin: impl FnOnce(Part<'_>) -> T) -> T {
        let (sides, edges) = (self.sides(me), self.edges(me));
        let [(input, input_begins), (output, output_begins)] = [0, 1].map(|index| {
            sides[index].memory(|block, byte| {
                // In place, what `me` has for a place is where that one's block comes to be.
                let exchanged = self.kind == Operation::Alltoall && self.in_place;
                let (from, to) = if exchanged {
                    (me, block.from)
                } else {
                    (block.from, block.to)
                };
                block.given.then(|| self.value(from, to, byte))
            })
        });
        let (expected, _) =
            sides[1].memory(|block, byte| Some(self.value(block.from, block.to, byte)));
        let layouts = [0, 1].map(|index: usize| sides[index].stretches.clone());
        let [of_input, of_output] = layouts;
        begin(Part {
            call: self.call(me, &sides, &edges),
            algorithm: self.algorithm,
            input,
            output,
            begins: [input_begins, output_begins],
            layouts: Some(Arc::new(Layouts {
                input: of_input,
                output: of_output,
            })),
            expected,
        })
    }
}

impl Side {
    fn new(blocks: Vec<Block>, gaps: bool, rng: &mut fastrand::Rng) -> Self {
        let (mut starts, mut end) = (Vec::new(), 0);
        for block in &blocks {
            end += if gaps { rng.u64(..20) } else { 0 };
            starts.push(end);
            end += block.bytes;
        }
        Self {
            counts: blocks.iter().map(|block| block.bytes).collect(),
            starts,
            blocks,
            ..Self::default()
        }
    }

    fn dense_bytes(&self) -> u64 {
        let ends = self
            .starts
            .iter()
            .zip(&self.counts)
            .map(|(start, count)| start + count);
        ends.max().unwrap_or(0)
    }

    /// One layout for the whole buffer. Its copies may be cut anywhere.
    fn lay_out(&mut self, rng: &mut fastrand::Rng) {
        let dense_bytes = self.dense_bytes();
        let (layout, picked) = match rng.bool() {
            true => column(dense_bytes, rng),
            false => structure(rng.u64(1..400), dense_bytes, rng),
        };
        self.addresses = picked;
        self.addresses.truncate(dense_bytes as usize);
        self.stretches = Some(Arc::from([Stretch {
            start: 0,
            offset_bytes: 0,
            layout: Arc::new(layout),
        }]));
    }

    /// A layout for each block; blocks are in any order in memory.
    fn lay_out_blocks(&mut self, rng: &mut fastrand::Rng) {
        let mut order: Vec<usize> = (0..self.counts.len()).collect();
        rng.shuffle(&mut order);
        let (mut offsets, mut layouts) = (vec![0; order.len()], vec![None; order.len()]);
        let mut end = rng.i64(-500..500);
        for index in order {
            let bytes = self.counts[index];
            let copies = [3, 2].into_iter().find(|it| bytes.is_multiple_of(*it));
            let (layout, picked) = structure(bytes / copies.unwrap_or(1), bytes, rng);
            let low = picked.iter().min().copied().unwrap_or(0);
            offsets[index] = end - low;
            end += picked.iter().max().copied().unwrap_or(0) - low + 1 + rng.i64(0..9);
            layouts[index] = Some((Arc::new(layout), picked));
        }
        let blocks = self.starts.iter().zip(offsets).zip(layouts);
        let stretches = blocks.map(|((start, offset), laid_out)| {
            let (layout, picked) = laid_out.expect("each was laid out");
            self.addresses
                .extend(picked.into_iter().map(|it| it + offset));
            Stretch {
                start: *start,
                offset_bytes: offset as isize,
                layout,
            }
        });
        self.stretches = Some(stretches.collect());
    }

    /// The memory around the buffer, and where that begins in it.
    fn memory(&self, content: impl Fn(&Block, u64) -> Option<u8>) -> (Vec<u8>, usize) {
        let low = self.addresses.iter().min().copied().unwrap_or(0).min(0);
        let end = self
            .addresses
            .iter()
            .max()
            .map_or(0, |last| last + 1)
            .max(0);
        let mut memory = vec![UNTOUCHED; (end - low) as usize + 8];
        for (block, start) in self.blocks.iter().zip(&self.starts) {
            for byte in 0..block.bytes {
                let address = self.addresses[(start + byte) as usize] - low;
                if let Some(value) = content(block, byte) {
                    memory[address as usize] = value;
                }
            }
        }
        (memory, -low as usize)
    }
}

/// A layout of `bytes` bytes, and the addresses of at least `dense_bytes` bytes in copies of it:
/// blocks in any order, some items of them, copies behind or before each other.
fn structure(bytes: u64, dense_bytes: u64, rng: &mut fastrand::Rng) -> (Layout, Vec<i64>) {
    let items = if bytes.is_multiple_of(2) {
        rng.i64(1..3)
    } else {
        1
    };
    let mut left = bytes / items as u64;
    let mut end = rng.i64(-300..100);
    let low = end;
    let mut blocks = Vec::new();
    while left > 0 {
        let length = if blocks.len() == 3 {
            left
        } else {
            rng.u64(1..=left)
        };
        blocks.push((end, length));
        end += length as i64 + rng.i64(0..20);
        left -= length;
    }
    rng.shuffle(&mut blocks);
    let sign = |rng: &mut fastrand::Rng| if rng.bool() { 1 } else { -1 };
    let stride = sign(rng) * (end - low + rng.i64(0..10));
    let extent = sign(rng) * (items * stride.abs() + rng.i64(0..10));
    picked((&blocks, stride, items), extent, bytes, dense_bytes)
}

/// A column of a matrix; its copies are the columns beside it.
fn column(dense_bytes: u64, rng: &mut fastrand::Rng) -> (Layout, Vec<i64>) {
    let (width, rows) = (rng.u64(1..20), rng.i64(1..30));
    let bytes = width * rows as u64;
    let columns = dense_bytes.div_ceil(bytes) as i64;
    let stride = width as i64 * columns + rng.i64(0..5);
    picked(
        (&[(0, width)], stride, rows),
        width as i64,
        bytes,
        dense_bytes,
    )
}

fn picked(
    (blocks, stride, items): (&[(i64, u64)], i64, i64),
    extent: i64,
    bytes: u64,
    dense_bytes: u64,
) -> (Layout, Vec<i64>) {
    let layout = Layout::signed(blocks, stride, items as u64).expect("small");
    assert_eq!(layout.message_bytes(), bytes);
    let copies = dense_bytes.div_ceil(bytes.max(1)) as i64;
    let mut addresses = Vec::new();
    for copy in 0..copies {
        for item in 0..items {
            for (offset, length) in blocks {
                let first = copy * extent + item * stride + offset;
                addresses.extend(first..first + *length as i64);
            }
        }
    }
    (layout.with_extent(extent), addresses)
}
