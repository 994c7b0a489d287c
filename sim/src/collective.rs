//! Collectives of programs: what a plan says about one, the call of a member, and the result that
//! it must have, by the plainest reference.
//!
//! An element is a matrix of 2 × 2 numbers modulo 251, whose product does not commute, or a number
//! of 64 bits, whose sum does.

use refrain_collectives::choice::Table;
use refrain_collectives::reduction::{Element as Kind, Number, Operator};
use refrain_collectives::{
    Algorithm, Arguments, Blocks, Buffer, Call, Chosen, DenseBlocks, Group, Hosts, Operation,
    Parameters, Prefix, Reduction, Schedule,
};
use refrain_ring::Rank;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Bytes of an element.
pub const ELEMENT_BYTES: usize = 8;
/// The modulus of the numbers in a matrix.
const MODULUS: u32 = 251;

/// Short segments and windows, so that short vectors have several.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    table.parameters = Parameters {
        segment_bytes: 64,
        window: 2,
    };
    table
});

/// First places of hosts, as far as a group has them.
const HOSTS: [u32; 6] = [0, 2, 3, 6, 8, 12];

/// What all members of a group call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The collective.
    pub operation: Operation,
    /// Its algorithm; the first one of the collective if this one does not fit.
    pub algorithm: Algorithm,
    /// The root, modulo the size of the group. For neighbourhoods, the distance of the second edge;
    /// that of the first is 1.
    pub root: u32,
    /// Elements of a vector, or of a block.
    pub count: u64,
    /// Whether blocks differ in length.
    pub is_ragged: bool,
    /// Whether contributions are in the output, where the collective can have them there.
    pub in_place: bool,
}

/// A collective at one place of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What all members call.
    pub shape: Shape,
    /// Members of the group.
    pub size: u32,
    /// The place.
    pub me: u32,
}

/// The call of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Its number among all collectives of the plan.
    pub id: u32,
    /// What the member does.
    pub part: Part,
    /// The members of the group, by place.
    pub members: Arc<[Rank]>,
    /// The context of the group.
    pub context: u32,
    /// Number of collectives that began in the group before.
    pub number: i32,
    /// The member's contribution.
    pub input: Vec<u8>,
}

/// The bytes of a block.
fn bytes_of(blocks: &DenseBlocks, index: u32) -> Range<usize> {
    let blocks = blocks.blocks();
    let [start, count] = [blocks.start(index), blocks.count(index)].map(|it| it as usize);
    start * ELEMENT_BYTES..(start + count) * ELEMENT_BYTES
}

impl Part {
    /// Blocks of the shape.
    fn blocks<'a>(&self, ragged: &'a DenseBlocks) -> Blocks<'a> {
        match self.shape.is_ragged {
            true => ragged.blocks(),
            false => Blocks::Even(self.shape.count),
        }
    }

    fn root(&self) -> u32 {
        self.shape.root % self.size
    }

    /// Elements of the block of a place.
    fn count_of(&self, place: u32) -> u64 {
        let count = self.shape.count;
        match self.shape.is_ragged {
            true => (count + 3 * u64::from(place % self.size)) % (2 * count + 1),
            false => count,
        }
    }

    /// A block for each place.
    fn of_places(&self) -> DenseBlocks {
        DenseBlocks::of((0..self.size).map(|place| self.count_of(place)))
    }

    /// A block for each of these partners of a place; both partners have the same count.
    fn of_partners(&self, place: u32, partners: &[u32]) -> DenseBlocks {
        DenseBlocks::of(partners.iter().map(|other| self.count_of(place + other)))
    }

    fn places(&self) -> Vec<u32> {
        (0..self.size).collect()
    }

    fn sources(&self) -> [u32; 2] {
        [1, self.shape.root].map(|by| (self.me + self.size - by % self.size) % self.size)
    }

    fn destinations(&self) -> [u32; 2] {
        [1, self.shape.root].map(|by| (self.me + by % self.size) % self.size)
    }

    /// Elements of the contribution.
    pub fn input_count(&self) -> u64 {
        let is_root = self.me == self.root();
        match self.shape.operation {
            Operation::Barrier => 0,
            Operation::Bcast | Operation::Scatter if !is_root => 0,
            Operation::Scatter | Operation::ReduceScatter => self.of_places().sum(),
            Operation::Gather | Operation::Allgather | Operation::NeighbourAllgather => {
                self.count_of(self.me)
            }
            Operation::Alltoall => self.of_partners(self.me, &self.places()).sum(),
            Operation::NeighbourAlltoall => self.of_partners(self.me, &self.destinations()).sum(),
            Operation::Bcast
            | Operation::Reduce
            | Operation::Allreduce
            | Operation::Scan
            | Operation::Exscan => self.shape.count,
        }
    }

    /// Elements of the result.
    fn result_count(&self) -> u64 {
        let is_root = self.me == self.root();
        match self.shape.operation {
            Operation::Barrier => 0,
            Operation::Gather | Operation::Reduce if !is_root => 0,
            Operation::Gather | Operation::Allgather => self.of_places().sum(),
            Operation::Scatter | Operation::ReduceScatter => self.count_of(self.me),
            Operation::Alltoall => self.of_partners(self.me, &self.places()).sum(),
            Operation::NeighbourAllgather => {
                self.sources().iter().map(|from| self.count_of(*from)).sum()
            }
            Operation::NeighbourAlltoall => self.of_partners(self.me, &self.sources()).sum(),
            Operation::Bcast
            | Operation::Reduce
            | Operation::Allreduce
            | Operation::Scan
            | Operation::Exscan => self.shape.count,
        }
    }

    /// The bytes of the result, which are at the beginning of the output.
    pub fn result_bytes(&self) -> usize {
        self.result_count() as usize * ELEMENT_BYTES
    }

    /// The first element of the contribution in the output; `None`: it is in the input.
    fn in_output(&self) -> Option<u64> {
        let is_root = self.me == self.root();
        let of_place = |place: u32| self.of_places().blocks().start(place);
        match self.shape.operation {
            Operation::Bcast => is_root.then_some(0),
            _ if !self.shape.in_place => None,
            Operation::Gather => is_root.then(|| of_place(self.me)),
            Operation::Reduce => is_root.then_some(0),
            Operation::Allgather => Some(of_place(self.me)),
            Operation::Alltoall
            | Operation::Allreduce
            | Operation::ReduceScatter
            | Operation::Scan
            | Operation::Exscan => Some(0),
            _ => None,
        }
    }

    /// A contribution of the place that follows from these numbers: any matrices.
    pub fn contribution(&self, mut numbers: impl FnMut() -> u64) -> Vec<u8> {
        let numbers = (0..self.input_count()).flat_map(|_| {
            let number = numbers();
            [0, 16, 32, 48].map(|at| ((number >> at & 0xffff) as u32 % MODULUS) as u16)
        });
        numbers.flat_map(u16::to_le_bytes).collect()
    }

    /// Input and output before the collective.
    pub fn buffers(&self, contribution: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut output = vec![0; self.result_bytes()];
        let Some(start) = self.in_output() else {
            return (contribution.to_vec(), output);
        };
        let start = start as usize * ELEMENT_BYTES;
        let end = start + contribution.len();
        output.resize(output.len().max(end), 0);
        output[start..end].copy_from_slice(contribution);
        (Vec::new(), output)
    }

    fn commutes(&self) -> bool {
        self.shape.algorithm == Algorithm::Ring
    }

    /// The operator, if the collective combines; `bent`: with its operands exchanged.
    pub fn reduction(&self, bent: bool) -> Reduction {
        match (self.commutes(), bent) {
            (true, _) => Reduction::new(Operator::Sum, Kind::Number(Number::U64)).expect("a sum"),
            (false, false) => Reduction::own(ELEMENT_BYTES, false, multiply),
            (false, true) => Reduction::own(ELEMENT_BYTES, false, |left, right| {
                let mut product = left.to_vec();
                multiply(right, &mut product);
                right.copy_from_slice(&product);
            }),
        }
    }

    /// The steps of this place, by the algorithm of the shape; `bent`: by the next one of the
    /// collective that fits.
    pub fn schedule(&self, bent: bool) -> Chosen {
        let (places, sources, destinations) = (self.places(), self.sources(), self.destinations());
        let of_places = self.of_places();
        let of_all = self.of_partners(self.me, &places);
        let to = self.of_partners(self.me, &destinations);
        let from = self.of_partners(self.me, &sources);
        let gathered = DenseBlocks::of(sources.iter().map(|from| self.count_of(*from)));
        let (root, count) = (self.root(), self.shape.count);
        let own = self.count_of(self.me);
        let (sources, destinations) = (&sources[..], &destinations[..]);
        let arguments = match self.shape.operation {
            Operation::Barrier => Arguments::Barrier,
            Operation::Bcast => Arguments::Bcast { root, count },
            Operation::Gather => Arguments::Gather {
                root,
                count: own,
                blocks: self.blocks(&of_places),
            },
            Operation::Scatter => Arguments::Scatter {
                root,
                count: own,
                blocks: self.blocks(&of_places),
            },
            Operation::Allgather => Arguments::Allgather {
                blocks: self.blocks(&of_places),
            },
            Operation::Alltoall => Arguments::Alltoall {
                send: self.blocks(&of_all),
                receive: self.blocks(&of_all),
            },
            Operation::Reduce => Arguments::Reduce { root, count },
            Operation::Allreduce => Arguments::Allreduce {
                count,
                commutative: self.commutes(),
            },
            Operation::ReduceScatter => Arguments::ReduceScatter {
                blocks: self.blocks(&of_places),
            },
            Operation::Scan => Arguments::Scan {
                count,
                prefix: Prefix::Inclusive,
            },
            Operation::Exscan => Arguments::Scan {
                count,
                prefix: Prefix::Exclusive,
            },
            Operation::NeighbourAllgather => Arguments::NeighbourAllgather {
                sources,
                destinations,
                count: own,
                receive: self.blocks(&gathered),
            },
            Operation::NeighbourAlltoall => Arguments::NeighbourAlltoall {
                sources,
                destinations,
                send: self.blocks(&to),
                receive: self.blocks(&from),
            },
        };
        let hosts = HOSTS.iter().filter(|first| **first < self.size).count();
        let call = Call {
            group: Group {
                size: self.size,
                me: self.me,
            },
            hosts: Hosts::new(&HOSTS[..hosts]),
            arguments,
            in_place: self.shape.in_place && self.shape.operation != Operation::Scatter,
            element_bytes: ELEMENT_BYTES as u64,
        };
        call.check().expect("a call that can be done");
        let fitting = self.shape.operation.algorithms().iter();
        let fitting: Vec<_> = fitting.filter(|it| it.fits(&call)).collect();
        let drawn = fitting.iter().position(|it| **it == self.shape.algorithm);
        let chosen = drawn.unwrap_or_default() + usize::from(bent);
        let algorithm = *fitting[chosen % fitting.len()];
        let mut schedule = Schedule::default();
        TABLE.schedule(algorithm, &call, &mut schedule);
        Chosen {
            results: algorithm.results(&call),
            algorithm,
            input_elements: schedule.extent(Buffer::Input),
            output_elements: schedule.extent(Buffer::Output),
            schedule,
        }
    }

    /// The result at this place for the contributions of all places; `None` if one that it depends
    /// on is missing.
    pub fn result<'a>(&self, inputs: impl Fn(u32) -> Option<&'a [u8]>) -> Option<Vec<u8>> {
        let (me, size, root) = (self.me, self.size, self.root());
        let at = |place: u32| Self { me: place, ..*self };
        let is_barrier = self.shape.operation == Operation::Barrier;
        if self.result_count() == 0 && !is_barrier {
            return Some(Vec::new());
        }
        // A place that has nothing to give need not have begun, except in a barrier.
        let inputs = |place: u32| match at(place).input_count() {
            0 if !is_barrier => Some(&[][..]),
            _ => inputs(place),
        };
        let block_of = |place: u32, bytes: Range<usize>| match bytes.is_empty() {
            true => Some(&[][..]),
            false => Some(&inputs(place)?[bytes]),
        };
        let all = |places: &[u32]| -> Option<Vec<&'a [u8]>> {
            places.iter().map(|place| inputs(*place)).collect()
        };
        let combined = |places: Range<u32>| {
            let mut inputs = all(&places.rev().collect::<Vec<_>>())?.into_iter();
            let mut result = inputs.next()?.to_vec();
            inputs.for_each(|left| match self.commutes() {
                true => add(left, &mut result),
                false => multiply(left, &mut result),
            });
            Some(result)
        };
        Some(match self.shape.operation {
            Operation::Barrier => all(&self.places()).map(|_| Vec::new())?,
            Operation::Bcast => inputs(root)?.to_vec(),
            Operation::Gather | Operation::Allgather => all(&self.places())?.concat(),
            Operation::Scatter => inputs(root)?[bytes_of(&self.of_places(), me)].to_vec(),
            Operation::Alltoall => {
                let block = |place: u32| {
                    let blocks = self.of_partners(place, &self.places());
                    block_of(place, bytes_of(&blocks, me))
                };
                (0..size).map(block).collect::<Option<Vec<_>>>()?.concat()
            }
            Operation::Reduce | Operation::Allreduce => combined(0..size)?,
            Operation::ReduceScatter => {
                combined(0..size)?[bytes_of(&self.of_places(), me)].to_vec()
            }
            Operation::Scan => combined(0..me + 1)?,
            Operation::Exscan if me == 0 && self.shape.in_place => inputs(me)?.to_vec(),
            Operation::Exscan if me == 0 => vec![0; self.result_bytes()],
            Operation::Exscan => combined(0..me)?,
            Operation::NeighbourAllgather => all(&self.sources())?.concat(),
            Operation::NeighbourAlltoall => {
                // An edge has the same index at both ends.
                let block = |(edge, source): (usize, &u32)| {
                    let blocks = self.of_partners(*source, &at(*source).destinations());
                    block_of(*source, bytes_of(&blocks, edge as u32))
                };
                let blocks = self.sources().iter().enumerate().map(block).collect();
                let blocks: Option<Vec<_>> = blocks;
                blocks?.concat()
            }
        })
    }
}

/// Replaces each matrix of `right` by the product of both.
fn multiply(left: &[u8], right: &mut [u8]) {
    let matrix = |bytes: &[u8]| {
        [0, 2, 4, 6].map(|at| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])))
    };
    let pairs = left
        .chunks(ELEMENT_BYTES)
        .zip(right.chunks_mut(ELEMENT_BYTES));
    for (left, right) in pairs {
        let ([a, b, c, d], [e, f, g, h]) = (matrix(left), matrix(right));
        let product = [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h];
        for (number, bytes) in product.into_iter().zip(right.chunks_mut(2)) {
            bytes.copy_from_slice(&((number % MODULUS) as u16).to_le_bytes());
        }
    }
}

/// Adds the numbers of `left` to those of `right`.
fn add(left: &[u8], right: &mut [u8]) {
    let (left, _) = left.as_chunks::<ELEMENT_BYTES>();
    let (right, _) = right.as_chunks_mut::<ELEMENT_BYTES>();
    for (left, right) in left.iter().zip(right) {
        let sum = u64::from_ne_bytes(*left).wrapping_add(u64::from_ne_bytes(*right));
        *right = sum.to_ne_bytes();
    }
}

/// The contributions to collectives, by collective and place.
#[derive(Clone, Debug, Default, Hash)]
pub struct Contributions(BTreeMap<(u32, u32), Vec<u8>>);

impl Contributions {
    /// The contribution of a place.
    pub fn of(&self, id: u32, place: u32) -> Option<&[u8]> {
        self.0.get(&(id, place)).map(Vec::as_slice)
    }

    /// Sets the contribution of a member.
    pub fn set(&mut self, call: &Collective) {
        self.0.insert((call.id, call.part.me), call.input.clone());
    }

    /// Number of contributions.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The result for a member, if all contributions that it depends on are there.
    pub fn result(&self, call: &Collective) -> Option<Vec<u8>> {
        call.part.result(|place| self.of(call.id, place))
    }
}
