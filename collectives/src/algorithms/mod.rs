//! The algorithms: which there are, which fits a call, and the schedule of one.

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod gather;
pub mod neighbours;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;

use crate::call::{Arguments, Call, Operation, Results};
use crate::schedule::{Buffer, Schedule};

/// The name of an algorithm; several collectives have one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Every place with every place, or with the root.
    Linear,
    /// One record that all other places read.
    Flat,
    /// Binomial tree.
    Binomial,
    /// Rounds with distances 1, 2, 4 … around the ring.
    Dissemination,
    /// Chain of all places, in segments.
    Chain,
    /// Scatter in a tree, allgather in a ring.
    ScatterAllgather,
    /// Scatter in a tree, allgather by recursive doubling.
    ScatterDoubling,
    /// Around the ring of all places.
    Ring,
    /// Exchange with places at distance 1, 2, 4 …: all that is known.
    RecursiveDoubling,
    /// Exchange with places at distance 1, 2, 4 …: half of what is left.
    RecursiveHalving,
    /// Log2 rounds around the ring, for any size.
    Bruck,
    /// One partner in each round.
    Pairwise,
    /// Recursive halving, then the way back.
    Rabenseifner,
    /// Recursive halving, then records that all other places read.
    HalvingFlat,
    /// Stages within hosts and between them: for several hosts.
    Hierarchical,
}

/// Parameters of algorithms; the same at all places of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of a segment of [`Algorithm::Chain`].
    pub segment_bytes: u64,
    /// Rounds of [`Algorithm::Linear`] alltoall that may be under way.
    pub window: u32,
}

impl Parameters {
    /// Elements of a segment.
    fn segment(&self, call: &Call) -> u64 {
        (self.segment_bytes / call.element_bytes).max(1)
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 10,
            window: 32,
        }
    }
}

impl Operation {
    /// The algorithms for this collective. The first one fits every call.
    pub fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::*;
        match self {
            Self::Barrier => &[Dissemination, Flat, Binomial, Hierarchical],
            Self::Bcast => &[
                Binomial,
                Flat,
                Chain,
                ScatterAllgather,
                ScatterDoubling,
                Hierarchical,
            ],
            Self::Gather | Self::Scatter => &[Linear, Binomial],
            Self::Allgather => &[Ring, Flat, RecursiveDoubling, Bruck, Hierarchical],
            Self::Alltoall => &[Pairwise, Linear, Bruck],
            Self::Reduce => &[Binomial, Rabenseifner, Hierarchical],
            Self::Allreduce => &[
                RecursiveDoubling,
                Flat,
                Rabenseifner,
                HalvingFlat,
                Ring,
                Hierarchical,
            ],
            Self::ReduceScatter => &[RecursiveHalving, Pairwise],
            Self::Scan | Self::Exscan => &[RecursiveDoubling, Linear, Chain],
            Self::NeighbourAllgather | Self::NeighbourAlltoall => &[Linear],
        }
    }
}

impl Algorithm {
    /// Whether this algorithm can do `call`. All places get the same answer.
    pub fn fits(self, call: &Call) -> bool {
        let group = call.group;
        let special = match (&call.arguments, self) {
            (Arguments::Gather { blocks, .. }, Self::Binomial)
            | (Arguments::Scatter { blocks, .. }, Self::Binomial)
            | (
                Arguments::Alltoall {
                    receive: blocks, ..
                },
                Self::Bruck,
            ) => blocks.even().is_some(),
            (Arguments::Allgather { .. }, Self::RecursiveDoubling)
            | (Arguments::Bcast { .. }, Self::ScatterDoubling) => group.size.is_power_of_two(),
            (Arguments::Allreduce { commutative, .. }, Self::Ring) => *commutative,
            (_, Self::Hierarchical) => call.hosts.are_several(),
            _ => true,
        };
        special && call.operation().algorithms().contains(&self)
    }

    /// The results of `call`, where they can stand for the messages of this algorithm. In a chain each
    /// byte of the results of a scan is sent once.
    pub fn results(self, call: &Call) -> Option<Results> {
        match call.arguments {
            Arguments::Scan { .. } if self != Self::RecursiveDoubling => None,
            _ => call.results(),
        }
    }

    /// Writes what this place does into `schedule`, which must be empty. The result depends on
    /// the arguments alone. The call must pass [`Call::check`].
    ///
    /// # Panics
    ///
    /// If the algorithm does not [fit](Self::fits) the call, or is made of stages.
    pub(crate) fn schedule(self, call: &Call, parameters: &Parameters, schedule: &mut Schedule) {
        let fits = self != Self::Hierarchical && self.fits(call);
        assert!(fits, "{self:?} cannot do {:?}", call.operation());
        match call.arguments {
            Arguments::Barrier => match self {
                Self::Flat => barrier::flat(schedule, call.group),
                Self::Binomial => barrier::binomial(schedule, call.group),
                _ => barrier::dissemination(schedule, call.group),
            },
            Arguments::Bcast { .. } | Arguments::Gather { .. } | Arguments::Scatter { .. } => {
                self.with_root(call, parameters, schedule);
            }
            Arguments::Allgather { .. }
            | Arguments::Alltoall { .. }
            | Arguments::NeighbourAllgather { .. }
            | Arguments::NeighbourAlltoall { .. } => self.among_all(call, parameters, schedule),
            Arguments::Reduce { .. }
            | Arguments::Allreduce { .. }
            | Arguments::ReduceScatter { .. }
            | Arguments::Scan { .. } => self.reduction(call, parameters, schedule),
        }
    }

    /// Collectives that move data from or to a root.
    fn with_root(self, call: &Call, parameters: &Parameters, schedule: &mut Schedule) {
        let group = call.group;
        // Whether the own block has to move.
        let moves = |root| group.me != root || !call.in_place;
        match call.arguments {
            Arguments::Bcast { root, count } => {
                let data = Buffer::Output.first(count);
                let segment = parameters.segment(call);
                match self {
                    Self::Flat => bcast::flat(schedule, group, root, data),
                    Self::Chain => bcast::chain(schedule, group, root, data, segment),
                    Self::ScatterAllgather => {
                        bcast::scatter_allgather(schedule, group, root, data);
                    }
                    Self::ScatterDoubling => bcast::scatter_doubling(schedule, group, root, data),
                    _ => bcast::binomial(schedule, group, root, data),
                }
            }
            Arguments::Gather {
                root,
                count,
                ref blocks,
            } => {
                let own = moves(root).then_some(Buffer::Input.first(count));
                match self {
                    Self::Binomial => gather::binomial(schedule, group, root, own, count),
                    _ => gather::linear(schedule, group, root, own, blocks),
                }
            }
            Arguments::Scatter {
                root,
                count,
                ref blocks,
            } => {
                let own = moves(root).then_some(Buffer::Output.first(count));
                match self {
                    Self::Binomial => scatter::binomial(schedule, group, root, own, count),
                    _ => scatter::linear(schedule, group, root, own, blocks),
                }
            }
            _ => unreachable!("has no root, or combines"),
        }
    }

    /// Collectives that move data between all places.
    fn among_all(self, call: &Call, parameters: &Parameters, schedule: &mut Schedule) {
        let group = call.group;
        match call.arguments {
            Arguments::Allgather { ref blocks } => {
                let own = Buffer::Input.first(blocks.count(group.me));
                let own = (!call.in_place).then_some(own);
                match self {
                    Self::Flat => allgather::flat(schedule, group, own, blocks),
                    Self::RecursiveDoubling => {
                        allgather::recursive_doubling(schedule, group, own, blocks);
                    }
                    Self::Bruck => allgather::bruck(schedule, group, own, blocks),
                    _ => allgather::ring(schedule, group, own, blocks),
                }
            }
            Arguments::Alltoall {
                ref send,
                ref receive,
            } => {
                let window = if self == Self::Linear {
                    parameters.window
                } else {
                    1
                };
                match (self, receive.even()) {
                    (Self::Bruck, Some(count)) => {
                        alltoall::bruck(schedule, group, input(call), count);
                    }
                    _ if call.in_place => alltoall::exchange_in_place(schedule, group, receive),
                    _ => alltoall::exchange(schedule, group, window, send, receive),
                }
            }
            Arguments::NeighbourAllgather {
                sources,
                destinations,
                count,
                ref receive,
            } => {
                let send = |_| Buffer::Input.first(count);
                neighbours::linear(schedule, group, (sources, destinations), send, receive);
            }
            Arguments::NeighbourAlltoall {
                sources,
                destinations,
                ref send,
                ref receive,
            } => {
                let send = |index| send.part(Buffer::Input, index);
                neighbours::linear(schedule, group, (sources, destinations), send, receive);
            }
            _ => unreachable!("has a root, or combines"),
        }
    }

    /// Collectives that combine.
    fn reduction(self, call: &Call, parameters: &Parameters, schedule: &mut Schedule) {
        let group = call.group;
        let segment = parameters.segment(call);
        let input = input(call);
        match call.arguments {
            Arguments::Reduce { root, count } => {
                let buffer = if group.me == root {
                    input
                } else {
                    Buffer::Input
                };
                match self {
                    Self::Rabenseifner => {
                        reduce::rabenseifner(schedule, group, root, buffer.first(count));
                    }
                    _ => reduce::binomial(schedule, group, root, buffer.first(count)),
                }
            }
            Arguments::Allreduce { count, .. } => match self {
                Self::Flat => allreduce::flat(schedule, group, input.first(count)),
                Self::Rabenseifner => allreduce::rabenseifner(schedule, group, input.first(count)),
                Self::HalvingFlat => allreduce::halving_flat(schedule, group, input.first(count)),
                Self::Ring => allreduce::ring(schedule, group, input.first(count)),
                _ => allreduce::recursive_doubling(schedule, group, input.first(count)),
            },
            Arguments::ReduceScatter { ref blocks } => {
                let input = input.first(blocks.sum(0, group.size));
                match self {
                    Self::Pairwise => reduce_scatter::pairwise(schedule, group, input, blocks),
                    _ => reduce_scatter::recursive_halving(schedule, group, input, blocks),
                }
            }
            Arguments::Scan { count, prefix } => {
                let input = input.first(count);
                match self {
                    Self::Linear => scan::chain(schedule, group, input, prefix, u64::MAX),
                    Self::Chain => scan::chain(schedule, group, input, prefix, segment),
                    _ => scan::recursive_doubling(schedule, group, input, prefix),
                }
            }
            _ => unreachable!("moves data"),
        }
    }
}

/// Where this place's contribution is.
fn input(call: &Call) -> Buffer {
    match call.in_place {
        true => Buffer::Output,
        false => Buffer::Input,
    }
}
