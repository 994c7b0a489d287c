//! A hypercube inside a group of any size, which keeps the order of places.
//!
//! The places `0..2 * pairs` are in pairs of neighbours, of which one keeps what both have. The
//! others are alone. So there are 2^k *nodes*, in the order of their places (Thakur,
//! Rabenseifner and Gropp 2005, with neighbours for operators that do not commute).
//!
//! All reductions that combine along the dimensions, nearest nodes first, make the same
//! expression: pairs, then a balanced tree. It does not depend on the root.

use crate::group::Group;
use crate::schedule::{Part, Schedule, Side};

/// The nodes of a group.
#[derive(Clone, Copy, Debug)]
pub struct Cube {
    pairs: u32,
    /// Log2 of the number of nodes.
    pub dimensions: u32,
    root: u32,
}

impl Cube {
    /// The cube of a group of `size` places in which `root` is a node.
    pub fn new(size: u32, root: u32) -> Self {
        let dimensions = size.ilog2();
        Self {
            pairs: size - (1 << dimensions),
            dimensions,
            root,
        }
    }

    /// Number of nodes.
    pub fn nodes(self) -> u32 {
        1 << self.dimensions
    }

    /// The other place of the pair of `place`.
    pub fn twin(self, place: u32) -> Option<u32> {
        (place / 2 < self.pairs).then_some(place ^ 1)
    }

    /// The node of `place`, or of its pair.
    pub fn node(self, place: u32) -> u32 {
        match self.twin(place) {
            Some(_) => place / 2,
            None => place - self.pairs,
        }
    }

    /// The place that acts for `node`.
    pub fn place(self, node: u32) -> u32 {
        match node < self.pairs {
            true if self.root == 2 * node + 1 => self.root,
            true => 2 * node,
            false => node + self.pairs,
        }
    }

    /// The places of `node`: the first and how many.
    pub fn places(self, node: u32) -> (u32, u32) {
        match node < self.pairs {
            true => (2 * node, 2),
            false => (node + self.pairs, 1),
        }
    }

    /// Whether `place` acts for its node.
    pub fn acts(self, place: u32) -> bool {
        self.place(self.node(place)) == place
    }

    /// Which of 2^dimensions shares `node` has after `rounds` halvings in which bit `k` of the
    /// node chooses the half in round `k`: the first and how many.
    pub fn share(self, node: u32, rounds: u32) -> (u32, u32) {
        let mut share = (0, self.nodes());
        for round in 0..rounds {
            share.1 /= 2;
            share.0 += (node >> round & 1) * share.1;
        }
        share
    }

    /// `node` with its bits in reversed order: where [`Self::share`] ends after all rounds.
    pub fn reversed(self, node: u32) -> u32 {
        self.share(node, self.dimensions).0
    }

    /// First round: one place of each pair combines both operands into `store`, the other one
    /// sends its own. Returns where the operand of this node is.
    pub fn fold(self, schedule: &mut Schedule, group: Group, input: Part, store: Part) -> Part {
        let Some(twin) = self.twin(group.me) else {
            return input;
        };
        if !self.acts(group.me) {
            schedule.send(twin, input);
            schedule.fence();
            return input;
        }
        schedule.receive_reduce(twin, Side::of(twin, group.me), input, store);
        schedule.fence();
        store
    }

    /// Last round: the place that acts for a pair sends `result` to the other one.
    pub fn unfold(self, schedule: &mut Schedule, group: Group, result: Part) {
        match self.twin(group.me) {
            Some(twin) if self.acts(group.me) => schedule.send(twin, result),
            Some(twin) => schedule.receive(twin, result),
            None => {}
        }
    }
}
