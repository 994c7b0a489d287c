//! Calls with their results, which are written the plainest way. Elements are matrices of
//! 2 × 2 bytes: their product does not commute.

use refrain_collectives::{
    Algorithm, Arguments, Blocks, Call, Group, Hosts, Operation, Prefix, Reduction,
};

pub const ELEMENT_BYTES: usize = 4;

pub const KINDS: [Operation; 7] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Allgather,
    Operation::Alltoall,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Scan,
];

/// A call of all members of a group.
pub struct Case {
    kind: Operation,
    pub algorithm: Algorithm,
    size: u32,
    root: u32,
    count: u64,
    salt: u8,
}

/// Hosts of two places and of one in turn.
pub fn hosts(size: u32) -> Hosts<'static> {
    const STARTS: [u32; 8] = [0, 2, 3, 5, 6, 8, 9, 11];
    let number = STARTS.iter().filter(|start| **start < size).count();
    Hosts::new(&STARTS[..number])
}

fn product(left: &[u8], right: &mut [u8]) {
    for (left, right) in left
        .chunks(ELEMENT_BYTES)
        .zip(right.chunks_mut(ELEMENT_BYTES))
    {
        let ([a, b, c, d], [e, f, g, h]) = (wide(left), wide(right));
        let result = [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h];
        right.copy_from_slice(&result.map(|it| (it % 251) as u8));
    }
}

fn wide(element: &[u8]) -> [u32; ELEMENT_BYTES] {
    core::array::from_fn(|index| u32::from(element[index]))
}

pub fn reduction() -> Reduction {
    Reduction::own(ELEMENT_BYTES, false, product)
}

impl Case {
    pub fn random(size: u32, rng: &mut fastrand::Rng) -> Self {
        let kind = KINDS[rng.usize(..KINDS.len())];
        Self::new(kind, size, rng)
    }

    pub fn new(kind: Operation, size: u32, rng: &mut fastrand::Rng) -> Self {
        let mut case = Self {
            kind,
            algorithm: kind.algorithms()[0],
            size,
            root: rng.u32(..size),
            count: [0, 1, 7, 3000][rng.usize(..4)],
            salt: rng.u8(..),
        };
        let fitting: Vec<_> = (kind.algorithms().iter().copied())
            .filter(|algorithm| algorithm.fits(&case.call(0)))
            .collect();
        case.algorithm = fitting[rng.usize(..fitting.len())];
        case
    }

    pub fn bcast(size: u32, root: u32, count: u64, rng: &mut fastrand::Rng) -> Self {
        Self::binomial(Operation::Bcast, size, root, count, rng)
    }

    pub fn reduce(size: u32, root: u32, count: u64, rng: &mut fastrand::Rng) -> Self {
        Self::binomial(Operation::Reduce, size, root, count, rng)
    }

    fn binomial(
        kind: Operation,
        size: u32,
        root: u32,
        count: u64,
        rng: &mut fastrand::Rng,
    ) -> Self {
        let case = Self::new(kind, size, rng);
        let algorithm = Algorithm::Binomial;
        Self {
            root,
            count,
            algorithm,
            ..case
        }
    }

    pub fn call(&self, me: u32) -> Call<'static> {
        let (root, count, blocks) = (self.root, self.count, Blocks::Even(self.count));
        Call {
            group: Group {
                size: self.size,
                me,
            },
            hosts: hosts(self.size),
            arguments: match self.kind {
                Operation::Barrier => Arguments::Barrier,
                Operation::Bcast => Arguments::Bcast { root, count },
                Operation::Allgather => Arguments::Allgather { blocks },
                Operation::Alltoall => Arguments::Alltoall {
                    send: blocks,
                    receive: blocks,
                },
                Operation::Reduce => Arguments::Reduce { root, count },
                Operation::Allreduce => Arguments::Allreduce {
                    count,
                    commutative: false,
                },
                _ => Arguments::Scan {
                    count,
                    prefix: Prefix::Inclusive,
                },
            },
            in_place: false,
            element_bytes: ELEMENT_BYTES as u64,
        }
    }

    /// Bytes of a block, or of the vector where there is one.
    fn bytes(&self) -> usize {
        self.count as usize * ELEMENT_BYTES
    }

    pub fn input(&self, place: u32) -> Vec<u8> {
        let blocks = if self.kind == Operation::Alltoall {
            self.size as usize
        } else {
            1
        };
        (0..blocks * self.bytes())
            .map(|index| (index * 7 + place as usize * 31) as u8 ^ self.salt)
            .collect()
    }

    /// Before the collective.
    pub fn output(&self, me: u32) -> Vec<u8> {
        let blocks = match self.kind {
            Operation::Barrier => 0,
            Operation::Allgather | Operation::Alltoall => self.size as usize,
            _ => 1,
        };
        match self.kind {
            Operation::Bcast if me == self.root => self.input(me),
            _ => vec![0xee; blocks * self.bytes()],
        }
    }

    /// The output behind it.
    pub fn expected(&self, me: u32) -> Vec<u8> {
        let block = |of: u32, index: u32| {
            let bytes = self.bytes();
            self.input(of)[index as usize * bytes..][..bytes].to_vec()
        };
        let combined = |places: u32| {
            let operands = (0..places).map(|place| self.input(place));
            operands.reduce(|left, mut right| {
                product(&left, &mut right);
                right
            })
        };
        match self.kind {
            Operation::Barrier => Vec::new(),
            Operation::Bcast => self.input(self.root),
            Operation::Allgather => (0..self.size).flat_map(|of| block(of, 0)).collect(),
            Operation::Alltoall => (0..self.size).flat_map(|of| block(of, me)).collect(),
            Operation::Reduce if me != self.root => self.output(me),
            Operation::Scan => combined(me + 1).expect("at least one"),
            _ => combined(self.size).expect("at least one"),
        }
    }
}
