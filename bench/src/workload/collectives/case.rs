//! One collective of the workload: its arguments, its buffers, and the plainest way to its result.

use super::spread::{Spread, UNTOUCHED};
use crate::workload::prng::{Prng, combine};
use refrain::collective::{
    self, Arguments, Blocks, By, Collective, InPlace, Input, LaidOutBlocks, Neighbours, Operator,
    Prefix, Reduction,
};
use refrain::{Error, Group};

/// A kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    NeighbourAllgather,
    NeighbourAllgatherv,
    NeighbourAlltoall,
    NeighbourAlltoallv,
    NeighbourAlltoallw,
}

impl Kind {
    pub const ALL: [Self; 22] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Alltoallw,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatterBlock,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::NeighbourAllgather,
        Self::NeighbourAllgatherv,
        Self::NeighbourAlltoall,
        Self::NeighbourAlltoallv,
        Self::NeighbourAlltoallw,
    ];

    fn has_root(self) -> bool {
        use Kind::*;
        matches!(self, Gather | Gatherv | Scatter | Scatterv | Reduce)
    }

    fn may_be_in_place(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Gather
                | Gatherv
                | Allgather
                | Allgatherv
                | Alltoall
                | Alltoallv
                | Alltoallw
                | Reduce
                | Allreduce
                | ReduceScatterBlock
                | ReduceScatter
                | Scan
                | Exscan
        )
    }

    fn combines(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Reduce | Allreduce | ReduceScatterBlock | ReduceScatter | Scan | Exscan
        )
    }

    /// Whether blocks have layouts of their own.
    fn has_own_layouts(self) -> bool {
        matches!(self, Self::Alltoallw | Self::NeighbourAlltoallw)
    }

    /// Whether blocks have lengths of their own.
    fn is_listed(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Gatherv
                | Scatterv
                | Allgatherv
                | Alltoallv
                | Alltoallw
                | ReduceScatter
                | NeighbourAllgatherv
                | NeighbourAlltoallv
                | NeighbourAlltoallw
        )
    }
}

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combination {
    Sum,
    Max,
    BitXor,
    /// Affine maps x ↦ ax + b modulo [`PRIME`], one after the other: does not commute.
    Affine,
    /// A sum of floating-point numbers, whose last bits depend on the order.
    Floats,
}

const PRIME: u64 = 65_521;

impl Combination {
    const ALL: [Self; 5] = [
        Self::Sum,
        Self::Max,
        Self::BitXor,
        Self::Affine,
        Self::Floats,
    ];

    fn by(self) -> By {
        let own = |commutative| {
            Reduction::own(8, commutative, move |left, right| {
                for (left, right) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
                    let [one, two] = [&left, &&*right]
                        .map(|it| u64::from_ne_bytes(it[..8].try_into().expect("8 bytes")));
                    right.copy_from_slice(&self.combine(one, two).to_ne_bytes());
                }
            })
        };
        match self {
            Self::Sum => Operator::Sum.into(),
            Self::Max => Operator::Max.into(),
            Self::BitXor => Operator::BitXor.into(),
            Self::Affine => own(false).into(),
            Self::Floats => own(true).into(),
        }
    }

    fn combine(self, left: u64, right: u64) -> u64 {
        match self {
            Self::Sum => left.wrapping_add(right),
            Self::Max => left.max(right),
            Self::BitXor => left ^ right,
            Self::Affine => {
                let map = |it: u64| ((it >> 32) % PRIME, (it & 0xffff_ffff) % PRIME);
                let ((a, b), (c, d)) = (map(left), map(right));
                ((a * c % PRIME) << 32) | ((a * d + b) % PRIME)
            }
            Self::Floats => (f64::from_bits(left) + f64::from_bits(right)).to_bits(),
        }
    }

    /// A contribution.
    fn value(self, random: u64) -> u64 {
        match self {
            Self::Affine => (((random >> 20) % PRIME) << 32) | (random % PRIME),
            Self::Floats => (1.0 / (1 + random % 1000) as f64).to_bits(),
            _ => random,
        }
    }
}

/// A collective; all members make the same one from the plan.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: Kind,
    places: u32,
    root: u32,
    combination: Combination,
    in_place: bool,
    /// Elements of a block or vector; the most, if blocks are listed.
    count: u64,
    seed: u64,
}

/// Counts and first elements of blocks.
#[derive(Debug, Default)]
struct Lists {
    counts: Vec<u64>,
    starts: Vec<u64>,
    /// Elements of all, with gaps.
    total: u64,
}

impl Lists {
    fn new(counts: Vec<u64>, gap: u64) -> Self {
        let mut total = 0;
        let starts = counts.iter().map(|count| {
            let start = total;
            total += count + gap;
            start
        });
        Self {
            starts: starts.collect(),
            counts,
            total,
        }
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::Listed {
            counts: &self.counts,
            starts: &self.starts,
        }
    }
}

/// The buffers of a case at one place.
#[derive(Debug)]
pub struct Buffers {
    input: Vec<u64>,
    pub output: Vec<u64>,
    /// Blocks of the input.
    send: Lists,
    /// Blocks of the output; of the input of a reduce-scatter.
    receive: Lists,
    sources: Vec<u32>,
    destinations: Vec<u32>,
    /// How input and output lie in memory.
    spreads: Option<[Spread; 2]>,
    /// The blocks of both, where each has a layout of its own.
    own: Option<[LaidOutBlocks; 2]>,
    /// The output afterwards; `None` if it depends on the order of operands.
    pub expected: Option<Vec<u64>>,
}

impl Case {
    pub fn random(places: u32, elements_max: u64, seed: u64) -> Self {
        let mut random = Prng::new(seed);
        let kind = random.pick(&Kind::ALL);
        let count = match random.below(4) {
            0 => random.below(3) as u64,
            1 => random.below(64) as u64,
            _ => random.below(elements_max as usize + 1) as u64,
        };
        Self {
            kind,
            places,
            root: random.below(places as usize) as u32,
            combination: random.pick(&Combination::ALL),
            in_place: kind.may_be_in_place() && random.chance(3),
            count,
            seed,
        }
    }

    /// Whether a second execution with the same buffers has the same result.
    pub fn may_repeat(&self) -> bool {
        !self.in_place
    }

    fn is_root(&self, me: u32) -> bool {
        !self.kind.has_root() || me == self.root
    }

    /// Elements that place `from` has for place `to`, where each pair has its own number.
    fn pair_count(&self, from: u32, to: u32) -> u64 {
        match self.kind.is_listed() {
            true => combine(&[self.seed, 1, from.into(), to.into()]) % (self.count + 1),
            false => self.count,
        }
    }

    /// Elements of the block of `place`.
    fn count_of(&self, place: u32) -> u64 {
        self.pair_count(place, u32::MAX)
    }

    fn counts(&self) -> Vec<u64> {
        (0..self.places).map(|place| self.count_of(place)).collect()
    }

    fn gap(&self) -> u64 {
        u64::from(self.kind.is_listed()) * (self.seed % 3)
    }

    /// Element `index` of what `place` has for `to`; `u32::MAX`: for all.
    fn value(&self, place: u32, to: u32, index: u64) -> u64 {
        let random = combine(&[self.seed, place.into(), to.into(), index]);
        self.combination.value(random)
    }

    fn values(&self, place: u32, to: u32, count: u64) -> Vec<u64> {
        (0..count)
            .map(|index| self.value(place, to, index))
            .collect()
    }

    /// Element `index` of all places up to `last`, combined from the left.
    fn combined(&self, last: u32, index: u64) -> u64 {
        let mut operands = (0..=last).map(|place| self.value(place, u32::MAX, index));
        let first = operands.next().expect("at least one place");
        operands.fold(first, |left, right| self.combination.combine(left, right))
    }

    /// Edges of a graph: to the next places, and to itself.
    fn neighbours(&self, me: u32) -> (Vec<u32>, Vec<u32>) {
        let (places, degree) = (self.places, 1 + (self.seed >> 8) as u32 % 3);
        let above = |distance| (me + distance) % places;
        let below = |distance| (me + places - distance % places) % places;
        (
            (0..degree).map(below).collect(),
            (0..degree).map(above).collect(),
        )
    }

    /// The buffers of place `me` before the collective, and what its output is afterwards.
    ///
    /// # Errors
    /// A layout that cannot be.
    pub fn buffers(&self, me: u32) -> Result<Buffers, Error> {
        use Kind::*;
        let all = u32::MAX;
        let (sources, destinations) = self.neighbours(me);
        let row = |to: &[u32]| to.iter().map(|to| self.pair_count(me, *to)).collect();
        let column = |from: &[u32]| from.iter().map(|from| self.pair_count(*from, me)).collect();
        let places: Vec<u32> = (0..self.places).collect();
        let (send, receive) = match self.kind {
            Alltoall | Alltoallv | Alltoallw if self.in_place => (vec![], self.in_place_counts(me)),
            Alltoall | Alltoallv | Alltoallw => (row(&places), column(&places)),
            NeighbourAlltoall | NeighbourAlltoallv | NeighbourAlltoallw => {
                (row(&destinations), column(&sources))
            }
            NeighbourAllgather | NeighbourAllgatherv => {
                let counts = sources.iter().map(|place| self.count_of(*place));
                (vec![], counts.collect())
            }
            Scatter | Scatterv => (self.counts(), vec![]),
            _ => (vec![], self.counts()),
        };
        let dense = matches!(self.kind, ReduceScatter | ReduceScatterBlock);
        let gap = if dense { 0 } else { self.gap() };
        let (send, receive) = (Lists::new(send, gap), Lists::new(receive, gap));
        let mut buffers = Buffers {
            input: self.input(me, &send, &destinations),
            output: vec![UNTOUCHED; self.output_elements(me, &receive) as usize],
            send,
            receive,
            sources,
            destinations,
            spreads: None,
            own: None,
            expected: None,
        };
        if self.kind == Bcast && me == self.root {
            buffers.output = self.values(me, all, self.count);
        }
        if self.in_place && self.is_root(me) {
            self.put_in_place(me, &mut buffers);
        }
        buffers.expected = self.expected(me, &buffers);
        self.spread(me, &mut buffers)?;
        Ok(buffers)
    }

    /// Lets some members lay their buffers out, where nothing is combined.
    fn spread(&self, me: u32, buffers: &mut Buffers) -> Result<(), Error> {
        let mut random = Prng::new(combine(&[self.seed, 8, me.into()]));
        let is_spread = self.kind.has_own_layouts() || random.chance(2);
        if self.kind.combines() || self.kind == Kind::Barrier || !is_spread {
            return Ok(());
        }
        let spreads = [0, 1].map(|_| random.pick(&Spread::ALL));
        buffers.input = spreads[0].memory(&buffers.input);
        buffers.output = spreads[1].memory(&buffers.output);
        buffers.expected = (buffers.expected.as_ref()).map(|it| spreads[1].memory(it));
        if self.kind.has_own_layouts() {
            let [send, receive] = [&buffers.send, &buffers.receive];
            buffers.own = Some([
                spreads[0].blocks(&send.counts, &send.starts)?,
                spreads[1].blocks(&receive.counts, &receive.starts)?,
            ]);
        }
        buffers.spreads = Some(spreads);
        Ok(())
    }

    /// In place both sides of a pair have the same count.
    fn in_place_counts(&self, me: u32) -> Vec<u64> {
        let pair = |other: u32| self.pair_count(me.min(other), me.max(other));
        (0..self.places).map(pair).collect()
    }

    fn input(&self, me: u32, send: &Lists, destinations: &[u32]) -> Vec<u64> {
        use Kind::*;
        let all = u32::MAX;
        let to: Vec<u32> = match self.kind {
            _ if self.in_place && self.is_root(me) => return vec![],
            Barrier | Bcast => return vec![],
            Scatter | Scatterv if me != self.root => return vec![],
            Scatter | Scatterv | Alltoall | Alltoallv | Alltoallw => (0..self.places).collect(),
            NeighbourAlltoall | NeighbourAlltoallv | NeighbourAlltoallw => destinations.to_vec(),
            Gather | Gatherv | Allgather | Allgatherv => {
                return self.values(me, all, self.count_of(me));
            }
            NeighbourAllgather | NeighbourAllgatherv => {
                return self.values(me, all, self.count_of(me));
            }
            Reduce | Allreduce | Scan | Exscan => return self.values(me, all, self.count),
            ReduceScatterBlock | ReduceScatter => {
                return self.values(me, all, self.counts().iter().sum());
            }
        };
        let mut input = vec![UNTOUCHED; send.total as usize];
        for ((to, start), count) in to.iter().zip(&send.starts).zip(&send.counts) {
            let values = self.values(me, *to, *count);
            input[*start as usize..][..*count as usize].copy_from_slice(&values);
        }
        input
    }

    fn output_elements(&self, me: u32, receive: &Lists) -> u64 {
        use Kind::*;
        match self.kind {
            Barrier => 0,
            _ if !self.is_root(me) && !matches!(self.kind, Scatter | Scatterv) => 0,
            Scatter | Scatterv => self.count_of(me),
            Bcast | Reduce | Allreduce | Scan | Exscan => self.count,
            ReduceScatterBlock | ReduceScatter if !self.in_place => self.count_of(me),
            _ => receive.total,
        }
    }

    /// Puts the contribution of `me` into its output.
    fn put_in_place(&self, me: u32, buffers: &mut Buffers) {
        use Kind::*;
        let (all, lists) = (u32::MAX, &buffers.receive);
        match self.kind {
            Gather | Gatherv | Allgather | Allgatherv => {
                let (start, count) = (lists.starts[me as usize], lists.counts[me as usize]);
                let values = self.values(me, all, count);
                buffers.output[start as usize..][..count as usize].copy_from_slice(&values);
            }
            Alltoall | Alltoallv | Alltoallw => {
                for (to, (start, count)) in (0..).zip(lists.starts.iter().zip(&lists.counts)) {
                    let values = self.values(me, to, *count);
                    buffers.output[*start as usize..][..*count as usize].copy_from_slice(&values);
                }
            }
            _ => buffers.output = self.values(me, all, buffers.output.len() as u64),
        }
    }

    fn expected(&self, me: u32, buffers: &Buffers) -> Option<Vec<u64>> {
        use Kind::*;
        let all = u32::MAX;
        if self.kind.combines() && self.combination == Combination::Floats {
            return None;
        }
        let mut expected = buffers.output.clone();
        let last = self.places - 1;
        let from: Vec<(u32, u32)> = match self.kind {
            Barrier => return Some(expected),
            _ if !self.is_root(me) && !matches!(self.kind, Scatter | Scatterv) => {
                return Some(expected);
            }
            Bcast => return Some(self.values(self.root, all, self.count)),
            Scatter | Scatterv => return Some(self.values(self.root, me, self.count_of(me))),
            Reduce | Allreduce => {
                return Some((0..self.count).map(|it| self.combined(last, it)).collect());
            }
            Scan => return Some((0..self.count).map(|it| self.combined(me, it)).collect()),
            Exscan => {
                return Some(match me.checked_sub(1) {
                    None => expected,
                    Some(below) => (0..self.count).map(|it| self.combined(below, it)).collect(),
                });
            }
            ReduceScatterBlock | ReduceScatter => {
                let start: u64 = self.counts()[..me as usize].iter().sum();
                for (index, it) in (start..).zip(&mut expected[..self.count_of(me) as usize]) {
                    *it = self.combined(last, index);
                }
                return self.only_the_block(me, expected);
            }
            Gather | Gatherv | Allgather | Allgatherv => {
                (0..self.places).map(|place| (place, all)).collect()
            }
            Alltoall | Alltoallv | Alltoallw => (0..self.places).map(|place| (place, me)).collect(),
            NeighbourAllgather | NeighbourAllgatherv => {
                buffers.sources.iter().map(|place| (*place, all)).collect()
            }
            NeighbourAlltoall | NeighbourAlltoallv | NeighbourAlltoallw => {
                buffers.sources.iter().map(|place| (*place, me)).collect()
            }
        };
        let blocks = buffers.receive.starts.iter().zip(&buffers.receive.counts);
        for ((place, to), (start, count)) in from.into_iter().zip(blocks) {
            let values = self.values(place, to, *count);
            expected[*start as usize..][..*count as usize].copy_from_slice(&values);
        }
        Some(expected)
    }

    /// In place, a reduce-scatter may leave anything behind its block.
    fn only_the_block(&self, me: u32, mut expected: Vec<u64>) -> Option<Vec<u64>> {
        expected.truncate(self.count_of(me) as usize);
        Some(expected)
    }

    /// The call at a member of `group`.
    ///
    /// # Errors
    /// A layout that cannot be.
    pub fn collective<'a>(
        &self,
        group: Group,
        buffers: &'a mut Buffers,
    ) -> Result<Collective<'a>, Error> {
        match (buffers.spreads, self.kind.has_own_layouts()) {
            (Some(_), true) => Ok(self.with_own_layouts(group, buffers)),
            (Some(spreads), false) => {
                let [input, output] = [spreads[0].layout()?, spreads[1].layout()?];
                let call = self.by_arguments(group, buffers);
                Ok(call.with_layouts(Some(&input), Some(&output)))
            }
            (None, _) => Ok(self.plain(group, buffers)),
        }
    }

    /// The contribution of a place.
    fn contribution<'a>(&self, me: u32, input: &'a [u64]) -> Input<'a, u64> {
        match self.in_place && self.is_root(me) {
            true => InPlace.into(),
            false => input.into(),
        }
    }

    /// A collective whose blocks have layouts of their own.
    fn with_own_layouts<'a>(&self, group: Group, buffers: &'a mut Buffers) -> Collective<'a> {
        let from = self.contribution(group.place(), &buffers.input);
        let own = buffers.own.as_ref();
        let [send, receive] = own.expect("made with the buffers");
        let neighbours = Neighbours {
            sources: &buffers.sources,
            destinations: &buffers.destinations,
        };
        let output = &mut buffers.output;
        match self.kind {
            Kind::Alltoallw => collective::alltoallw(group, from, send, output, receive),
            _ => collective::neighbour_alltoallw(
                group,
                neighbours,
                &buffers.input,
                send,
                output,
                receive,
            ),
        }
    }

    /// A collective whose buffers have more words than its elements.
    fn by_arguments<'a>(&self, group: Group, buffers: &'a mut Buffers) -> Collective<'a> {
        use Kind::*;
        let (root, me) = (self.root, group.place());
        let (sources, destinations) = (&buffers.sources[..], &buffers.destinations[..]);
        let [send, receive] = [&buffers.send, &buffers.receive].map(|lists| {
            let even = Blocks::Even(self.count);
            if self.kind.is_listed() {
                lists.blocks()
            } else {
                even
            }
        });
        let count = self.count_of(me);
        let arguments = match self.kind {
            Bcast => Arguments::Bcast { root, count },
            Gather | Gatherv => Arguments::Gather {
                root,
                count,
                blocks: receive,
            },
            Scatter | Scatterv => Arguments::Scatter {
                root,
                count,
                blocks: send,
            },
            Allgather | Allgatherv => Arguments::Allgather { blocks: receive },
            Alltoall | Alltoallv => Arguments::Alltoall { send, receive },
            NeighbourAllgather | NeighbourAllgatherv => Arguments::NeighbourAllgather {
                sources,
                destinations,
                count,
                receive,
            },
            NeighbourAlltoall | NeighbourAlltoallv => Arguments::NeighbourAlltoall {
                sources,
                destinations,
                send,
                receive,
            },
            other => unreachable!("{other:?} has no layouts, or its blocks have"),
        };
        let from = self.contribution(me, &buffers.input);
        Collective::new(group, from, &mut buffers.output, arguments)
    }

    fn plain<'a>(&self, group: Group, buffers: &'a mut Buffers) -> Collective<'a> {
        use Kind::*;
        let (root, by) = (self.root, self.combination.by());
        let Buffers {
            input,
            output,
            send,
            receive,
            sources,
            destinations,
            ..
        } = buffers;
        let neighbours = Neighbours {
            sources,
            destinations,
        };
        let from = self.contribution(group.place(), input);
        match self.kind {
            Barrier => collective::barrier(group),
            Bcast => collective::bcast(group, root, output),
            Gather => collective::gather(group, root, from, output),
            Gatherv => collective::gatherv(group, root, from, output, receive.blocks()),
            Scatter => collective::scatter(group, root, input, output),
            Scatterv => collective::scatterv(group, root, input, send.blocks(), output),
            Allgather => collective::allgather(group, from, output),
            Allgatherv => collective::allgatherv(group, from, output, receive.blocks()),
            Alltoall => collective::alltoall(group, from, output),
            Alltoallv => {
                collective::alltoallv(group, from, send.blocks(), output, receive.blocks())
            }
            Reduce => collective::reduce(group, root, by, from, output),
            Allreduce => collective::allreduce(group, by, from, output),
            ReduceScatterBlock => collective::reduce_scatter_block(group, by, from, output),
            ReduceScatter => collective::reduce_scatter(group, by, from, output, receive.blocks()),
            Scan => collective::scan(group, by, Prefix::Inclusive, from, output),
            Exscan => collective::scan(group, by, Prefix::Exclusive, from, output),
            NeighbourAllgather => collective::neighbour_allgather(group, neighbours, input, output),
            NeighbourAllgatherv => {
                let receive = receive.blocks();
                collective::neighbour_allgatherv(group, neighbours, input, output, receive)
            }
            NeighbourAlltoall => collective::neighbour_alltoall(group, neighbours, input, output),
            NeighbourAlltoallv => collective::neighbour_alltoallv(
                group,
                neighbours,
                input,
                send.blocks(),
                output,
                receive.blocks(),
            ),
            Alltoallw | NeighbourAlltoallw => unreachable!("its blocks have layouts"),
        }
    }
}
