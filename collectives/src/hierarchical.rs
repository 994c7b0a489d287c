//! Hierarchical algorithms: between hosts only one place of each host, its *leader*, sends and
//! receives.
//!
//! Each is made of stages, which are collectives of the places of a host or of the leaders. The table
//! chooses the algorithm of each stage. Operands stay in the order of places: those of a host are
//! combined first.

use crate::algorithms::Algorithm;
use crate::blocks::{Blocks, DenseBlocks};
use crate::call::{Arguments, Call};
use crate::choice::Table;
use crate::group::Group;
use crate::hosts::Hosts;
use crate::schedule::{Action, Buffer, Part, Schedule};
use crate::tree;

impl Table {
    /// Writes what this place does into `schedule`, which must be empty. The result depends on
    /// the arguments and the table alone. The call must pass [`Call::check`]. COLL-1
    ///
    /// # Panics
    /// If the algorithm does not [fit](Algorithm::fits) the call.
    pub fn schedule(&self, algorithm: Algorithm, call: &Call, schedule: &mut Schedule) {
        if algorithm != Algorithm::Hierarchical {
            return algorithm.schedule(call, &self.parameters, schedule);
        }
        assert!(algorithm.fits(call), "{:?} has one stage", call.operation());
        let root = match call.arguments {
            Arguments::Bcast { root, .. } | Arguments::Reduce { root, .. } => Some(root),
            _ => None,
        };
        let ranges = call.hosts.ranges(call.group.size);
        let leaders = ranges.map(|places| match root {
            Some(root) if places.contains(&root) => root,
            _ => places.start,
        });
        let host = call.hosts.host(call.group.me);
        let stages = Stages {
            table: self,
            call,
            neighbours: call.hosts.places(host, call.group.size).collect(),
            leaders: leaders.collect(),
            host,
        };
        match call.arguments {
            Arguments::Barrier => stages.barrier(schedule),
            Arguments::Bcast { root, count } => stages.bcast(schedule, root, count),
            Arguments::Reduce { root, count } => stages.reduce(schedule, root, count),
            Arguments::Allreduce { count, commutative } => {
                stages.allreduce(schedule, count, commutative);
            }
            Arguments::Allgather { blocks } => stages.allgather(schedule, blocks),
            _ => unreachable!("it does not fit"),
        }
    }
}

/// One call, from which the stages of this place are made.
struct Stages<'a> {
    table: &'a Table,
    call: &'a Call<'a>,
    /// The places of this host.
    neighbours: Vec<u32>,
    /// By host.
    leaders: Vec<u32>,
    /// The number of this host.
    host: usize,
}

impl Stages<'_> {
    fn leader(&self) -> u32 {
        self.leaders[self.host]
    }

    fn leads(&self) -> bool {
        self.leader() == self.call.group.me
    }

    fn is_alone(&self) -> bool {
        self.neighbours.len() == 1
    }

    /// The leader's place among those of this host.
    fn leader_here(&self) -> u32 {
        self.leader() - self.neighbours[0]
    }

    /// A stage of this host. `buffers`: what its input and its output are.
    fn here(
        &self,
        schedule: &mut Schedule,
        arguments: Arguments,
        in_place: bool,
        buffers: [Part; 2],
    ) {
        let me = self.call.group.me - self.neighbours[0];
        let stage = self.stage(&self.neighbours, me, Hosts::ONE, arguments, in_place);
        schedule.append(&stage, self.call.group.me, &self.neighbours, buffers);
    }

    /// A stage of the leaders.
    fn between(
        &self,
        schedule: &mut Schedule,
        arguments: Arguments,
        in_place: bool,
        buffers: [Part; 2],
    ) {
        if self.leads() {
            let me = self.host as u32;
            let stage = self.stage(&self.leaders, me, Hosts::APART, arguments, in_place);
            schedule.append(&stage, self.call.group.me, &self.leaders, buffers);
        }
    }

    fn stage(
        &self,
        places: &[u32],
        me: u32,
        hosts: Hosts,
        arguments: Arguments,
        in_place: bool,
    ) -> Schedule {
        let size = places.len() as u32;
        let call = Call {
            group: Group { size, me },
            hosts,
            arguments,
            in_place,
            element_bytes: self.call.element_bytes,
        };
        let mut stage = Schedule::default();
        let algorithm = self.table.choose(&call);
        self.table.schedule(algorithm, &call, &mut stage);
        stage
    }

    /// Up a tree of this host, between the leaders, and down again.
    fn barrier(&self, schedule: &mut Schedule) {
        let none = Buffer::Input.first(0);
        let (first, number) = (self.neighbours[0], self.neighbours.len() as u32);
        let me = self.call.group.me - first;
        let parent = tree::parent(me).map(|parent| first + parent);
        let children = || tree::children(me, number).map(|child| first + child);
        for source in children().rev() {
            schedule.push(Action::Receive { source, into: none });
        }
        if let Some(parent) = parent {
            schedule.fence();
            let (to, source) = (parent, parent);
            schedule.push(Action::Send { to, from: none });
            schedule.push(Action::Receive { source, into: none });
        }
        self.between(schedule, Arguments::Barrier, false, [none; 2]);
        schedule.fence();
        for to in children() {
            schedule.push(Action::Send { to, from: none });
        }
    }

    fn bcast(&self, schedule: &mut Schedule, root: u32, count: u64) {
        let output = Buffer::Output.first(count);
        let root = self.call.hosts.host(root) as u32;
        let arguments = Arguments::Bcast { root, count };
        self.between(schedule, arguments, false, [output; 2]);
        self.pass_on(schedule, output);
    }

    /// From the leader to its neighbours.
    fn pass_on(&self, schedule: &mut Schedule, part: Part) {
        let (root, count) = (self.leader_here(), part.count);
        self.here(schedule, Arguments::Bcast { root, count }, false, [part; 2]);
    }

    fn reduce(&self, schedule: &mut Schedule, root: u32, count: u64) {
        let is_root = self.call.group.me == root;
        let in_place = is_root && self.call.in_place;
        let output = Buffer::Output.first(count);
        let input = match in_place {
            true => output,
            false => Buffer::Input.first(count),
        };
        // The combination of this host at its leader.
        let combined = match self.leads() && !self.is_alone() {
            true if is_root => output,
            true => schedule.take_scratch(count),
            false => input,
        };
        if !self.is_alone() {
            let root = self.leader_here();
            let arguments = Arguments::Reduce { root, count };
            self.here(schedule, arguments, in_place, [input, combined]);
        }
        let root = self.call.hosts.host(root) as u32;
        let (arguments, in_place) = (Arguments::Reduce { root, count }, combined == output);
        self.between(schedule, arguments, in_place, [combined, output]);
    }

    fn allreduce(&self, schedule: &mut Schedule, count: u64, commutative: bool) {
        let (mut in_place, output) = (self.call.in_place, Buffer::Output.first(count));
        let input = match in_place {
            true => output,
            false => Buffer::Input.first(count),
        };
        if !self.is_alone() {
            let root = self.leader_here();
            let arguments = Arguments::Reduce { root, count };
            self.here(schedule, arguments, in_place, [input, output]);
            in_place = true;
        }
        let arguments = Arguments::Allreduce { count, commutative };
        self.between(schedule, arguments, in_place, [input, output]);
        self.pass_on(schedule, output);
    }

    fn allgather(&self, schedule: &mut Schedule, blocks: Blocks) {
        let (size, me) = (self.call.group.size, self.call.group.me);
        let all = blocks.sum(0, size);
        // Messages of many blocks: dense, however the blocks lie in this place's output.
        let staged = !blocks.is_dense(size);
        let dense = match staged {
            true => schedule.take_scratch(all),
            false => Buffer::Output.first(all),
        };
        let range = |first, number| dense.part(blocks.sum(0, first), blocks.sum(first, number));
        let input = match self.call.in_place {
            true => blocks.part(Buffer::Output, me),
            false => Buffer::Input.first(blocks.count(me)),
        };
        let in_place = self.call.in_place && !staged;
        let (first, number) = (self.neighbours[0], self.neighbours.len() as u32);
        let counts = self.neighbours.iter().map(|place| blocks.count(*place));
        let here = DenseBlocks::of(counts);
        let blocks_here = match blocks.even() {
            Some(count) => Blocks::Even(count),
            None => here.blocks(),
        };
        let arguments = Arguments::Allgather {
            blocks: blocks_here,
        };
        self.here(schedule, arguments, in_place, [input, range(first, number)]);
        let hosts = self.call.hosts.ranges(size);
        let of_hosts = DenseBlocks::of(hosts.map(|it| blocks.sum(it.start, it.end - it.start)));
        let arguments = Arguments::Allgather {
            blocks: of_hosts.blocks(),
        };
        self.between(schedule, arguments, true, [dense; 2]);
        let end = first + number;
        for others in [range(0, first), range(end, size - end)] {
            self.pass_on(schedule, others);
        }
        if staged {
            schedule.fence();
            for place in 0..size {
                schedule.copy(range(place, 1), blocks.part(Buffer::Output, place));
            }
        }
    }
}
