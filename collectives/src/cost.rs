//! What an algorithm costs, counted from its schedules.
//!
//! The model: a message of `n` bytes takes α + β n and occupies its sender's way out and its
//! receiver's way in for this time, one message each at a time, both ways at once (Hockney 1994;
//! Thakur, Rabenseifner and Gropp 2005). Combining takes γ per byte, copying δ. What a
//! place publishes occupies its way out once. Messages are taken in the order of receives.
//!
//! Three ways to find the critical path; [`Method`] says which was taken:
//! all places with their dependencies; one place whose partners are as far as it is; a sum of
//! two collectives.

use crate::algorithms::Algorithm;
use crate::blocks::Blocks;
use crate::call::{Arguments, Call, Operation, Prefix};
use crate::choice::Table;
use crate::group::Group;
use crate::hosts::Hosts;
use crate::schedule::{Action, Part, Schedule, Step};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(Table::default);

/// Nanoseconds of messages and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// α: of each message between hosts.
    pub message_ns: f64,
    /// β: of each byte of a message between hosts.
    pub byte_ns: f64,
    /// α within a host.
    pub near_message_ns: f64,
    /// β within a host.
    pub near_byte_ns: f64,
    /// γ: of each byte of a result of the operator.
    pub reduce_byte_ns: f64,
    /// δ: of each byte that is copied within a place.
    pub copy_byte_ns: f64,
}

impl Default for Model {
    /// A network of 100 Gbit/s, and memory of 10 and 20 GB/s.
    fn default() -> Self {
        Self {
            message_ns: 1000.0,
            byte_ns: 0.08,
            near_message_ns: 200.0,
            near_byte_ns: 0.1,
            reduce_byte_ns: 0.1,
            copy_byte_ns: 0.05,
        }
    }
}

/// A collective of some size, with root 0 and an element of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The collective; not of a neighbourhood.
    pub operation: Operation,
    /// An algorithm for it.
    pub algorithm: Algorithm,
    /// Places.
    pub size: u32,
    /// Places of each host, the last one may have fewer. 1: each place is alone.
    pub host_places: u32,
    /// Bytes of the vector, or of each block.
    pub bytes: u64,
}

/// How a critical path was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Steps of all places, each message with its sender's time.
    AllPlaces,
    /// Steps of one place; each message is sent when its receive begins. Exact where partners do
    /// the same at the same time, as the tests show for groups of 2^k places that are alone.
    OnePlace,
    /// An upper bound: scatter, and allgather after it, of blocks of the vector.
    Sum,
}

/// What a collective costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Messages of all places; one that is published counts once for each reader.
    pub messages: u64,
    /// Bytes that all places receive.
    pub bytes: u64,
    /// Bytes that all places log, if each sender logs what it sends: one that is published counts
    /// once.
    pub logged_bytes: u64,
    /// From the common beginning to the end of the last place.
    pub critical_path_ns: f64,
    /// How the critical path was found.
    pub method: Method,
}

/// Steps of all places that are counted one by one.
const STEPS_MAX: u64 = 200_000_000;

impl Case {
    /// Counts messages and bytes, and finds the critical path.
    pub fn cost(&self, model: &Model) -> Cost {
        if self.sum_of_two() {
            return self.sum(model);
        }
        let mut cost = self.volume();
        let (critical_path_ns, method) = if self.in_step() {
            (self.one_place(model), Method::OnePlace)
        } else {
            (self.all_places(model), Method::AllPlaces)
        };
        (cost.critical_path_ns, cost.method) = (critical_path_ns, method);
        cost
    }

    /// Whether all places have the same partners at the same time, so that one tells the
    /// critical path.
    fn in_step(&self) -> bool {
        match self.operation {
            _ if self.algorithm == Algorithm::Hierarchical => false,
            Operation::Bcast | Operation::Gather | Operation::Scatter => false,
            Operation::Scan | Operation::Exscan => self.algorithm == Algorithm::RecursiveDoubling,
            // A vector that is shorter than the group: some places have no block.
            Operation::Allreduce => match self.algorithm {
                Algorithm::Ring | Algorithm::HalvingFlat => self.bytes >= self.size.into(),
                _ => true,
            },
            _ => true,
        }
    }

    fn sum_of_two(&self) -> bool {
        let steps = u64::from(self.size).pow(2);
        self.algorithm == Algorithm::ScatterAllgather && 2 * steps > STEPS_MAX
    }

    fn sum(&self, model: &Model) -> Cost {
        let part = |operation, algorithm| Self {
            operation,
            algorithm,
            bytes: self.bytes.div_ceil(self.size.into()),
            ..*self
        };
        let scatter = part(Operation::Scatter, Algorithm::Binomial).cost(model);
        let allgather = part(Operation::Allgather, Algorithm::Ring).cost(model);
        Cost {
            messages: scatter.messages + allgather.messages,
            bytes: scatter.bytes + allgather.bytes,
            logged_bytes: scatter.logged_bytes + allgather.logged_bytes,
            critical_path_ns: scatter.critical_path_ns + allgather.critical_path_ns,
            method: Method::Sum,
        }
    }

    /// The first place of each host.
    fn hosts(&self) -> Vec<u32> {
        Hosts::first_places((0..self.size).map(|place| self.host(place)))
    }

    fn host(&self, place: u32) -> u32 {
        place / self.host_places
    }

    fn call<'a>(&self, me: u32, hosts: &'a [u32]) -> Call<'a> {
        let (root, count, blocks) = (0, self.bytes, Blocks::Even(self.bytes));
        let scan = |prefix| Arguments::Scan { count, prefix };
        let arguments = match self.operation {
            Operation::Barrier => Arguments::Barrier,
            Operation::Bcast => Arguments::Bcast { root, count },
            Operation::Gather => Arguments::Gather {
                root,
                count,
                blocks,
            },
            Operation::Scatter => Arguments::Scatter {
                root,
                count,
                blocks,
            },
            Operation::Allgather => Arguments::Allgather { blocks },
            Operation::Alltoall => Arguments::Alltoall {
                send: blocks,
                receive: blocks,
            },
            Operation::Reduce => Arguments::Reduce { root, count },
            Operation::Allreduce => Arguments::Allreduce {
                count,
                commutative: true,
            },
            Operation::ReduceScatter => Arguments::ReduceScatter { blocks },
            Operation::Scan => scan(Prefix::Inclusive),
            Operation::Exscan => scan(Prefix::Exclusive),
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => {
                unreachable!("a neighbourhood has no size alone")
            }
        };
        let group = Group {
            size: self.size,
            me,
        };
        Call {
            group,
            hosts: Hosts::new(hosts),
            arguments,
            in_place: false,
            element_bytes: 1,
        }
    }

    fn schedule(&self, me: u32, hosts: &[u32], schedule: &mut Schedule) {
        schedule.clear();
        TABLE.schedule(self.algorithm, &self.call(me, hosts), schedule);
    }

    /// Messages and bytes of all places. Where there are too many steps, and places are alike, the
    /// counts of place 0 stand for those of each place.
    fn volume(&self) -> Cost {
        let (hosts, mut schedule) = (self.hosts(), Schedule::default());
        self.schedule(0, &hosts, &mut schedule);
        let size = u64::from(self.size);
        let is_alike = self.in_step() && schedule.steps().len() as u64 * size > STEPS_MAX;
        let counted = if is_alike { 1 } else { self.size };
        let (mut messages, mut bytes, mut logged_bytes) = (0, 0, 0);
        for place in 0..counted {
            self.schedule(place, &hosts, &mut schedule);
            for step in schedule.steps() {
                let (from, receivers) = match step.action {
                    Action::Send { from, .. } => (from, 1),
                    Action::Publish { number, from, .. } => (from, u64::from(number) - 1),
                    _ => continue,
                };
                messages += receivers;
                bytes += receivers * from.count;
                logged_bytes += from.count;
            }
        }
        let times = size / u64::from(counted);
        Cost {
            messages: messages * times,
            bytes: bytes * times,
            logged_bytes: logged_bytes * times,
            critical_path_ns: 0.0,
            method: Method::AllPlaces,
        }
    }

    /// The critical path from one place whose partners are as far as it is: the last one, which
    /// does most in a scan, or else the root.
    fn one_place(&self, model: &Model) -> f64 {
        let place = match self.operation {
            Operation::Scan | Operation::Exscan => self.size - 1,
            _ => 0,
        };
        let mut schedule = Schedule::default();
        self.schedule(place, &self.hosts(), &mut schedule);
        let mut walk = Walk::default();
        let way = |other| self.way(place, other);
        let arrival = |begin: f64, source, count| Some(begin + model.transfer(way(source), count));
        let is_done = walk.advance(schedule.steps(), model, way, arrival, |_, _| {});
        assert!(is_done, "each message arrives");
        walk.horizon.max(walk.begin)
    }

    fn way(&self, one: u32, other: u32) -> Way {
        match self.host(one) == self.host(other) {
            true => Way::Near,
            false => Way::Far,
        }
    }

    /// The critical path from the steps of all places.
    fn all_places(&self, model: &Model) -> f64 {
        let mut walks: Vec<Walk> = vec![Walk::default(); self.size as usize];
        let mut arrived: HashMap<(u32, u32), VecDeque<f64>> = HashMap::new();
        let mut ready: VecDeque<u32> = (0..self.size).collect();
        let (hosts, mut schedule) = (self.hosts(), Schedule::default());
        let mut end = 0_f64;
        while let Some(place) = ready.pop_front() {
            // Written again each time: all schedules together are too long to be kept. A place that
            // can go on does so behind the others, so that it seldom stops.
            self.schedule(place, &hosts, &mut schedule);
            let mut sent = Vec::new();
            let arrival = |_, source, _| arrived.get_mut(&(source, place))?.pop_front();
            let send = |to, time| sent.push((to, time));
            let walk = &mut walks[place as usize];
            let way = |other| self.way(place, other);
            if walk.advance(schedule.steps(), model, way, arrival, send) {
                end = end.max(walk.horizon).max(walk.begin);
            }
            for (receivers, time) in sent {
                for to in receivers.filter(|to| *to != place) {
                    arrived.entry((place, to)).or_default().push_back(time);
                    if walks[to as usize].waits_for == Some(place) {
                        walks[to as usize].waits_for = None;
                        ready.push_back(to);
                    }
                }
            }
        }
        end
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Near,
    Far,
}

impl Model {
    fn transfer(&self, way: Way, bytes: u64) -> f64 {
        let (message_ns, byte_ns) = match way {
            Way::Near => (self.near_message_ns, self.near_byte_ns),
            Way::Far => (self.message_ns, self.byte_ns),
        };
        message_ns + byte_ns * bytes as f64
    }
}

/// How far a place is.
#[derive(Clone, Debug, Default)]
struct Walk {
    next: usize,
    /// When the last step began, or ended if it is local.
    begin: f64,
    /// When all steps before the last `after` were complete.
    horizon: f64,
    way_out_free: f64,
    way_in_free: f64,
    /// Steps that have begun and were not waited for yet.
    open: VecDeque<(u32, Open)>,
    /// The place whose message is needed next.
    waits_for: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Open {
    Sent {
        complete: f64,
    },
    Receive {
        source: u32,
        begin: f64,
        bytes: u64,
        combine_ns: f64,
    },
}

impl Walk {
    /// Does steps until one waits for a message that has not arrived; returns whether all are
    /// done. `way` is the way to or from a place. `arrival` gives the time at which the next message of a place has arrived, from
    /// the beginning of its receive, the place and the bytes; `send` takes the receivers and this
    /// time.
    fn advance(
        &mut self,
        steps: &[Step],
        model: &Model,
        way: impl Fn(u32) -> Way,
        mut arrival: impl FnMut(f64, u32, u64) -> Option<f64>,
        mut send: impl FnMut(Range<u32>, f64),
    ) -> bool {
        while let Some(step) = steps.get(self.next) {
            if !self.wait(step.after, model, &way, &mut arrival) {
                return false;
            }
            let begin = self.begin.max(self.horizon);
            self.begin = begin;
            let number = self.next as u32;
            let mut receive = |source, into: Part, reduce_byte_ns: f64| {
                let (bytes, combine_ns) = (into.count, into.count as f64 * reduce_byte_ns);
                self.open.push_back((
                    number,
                    Open::Receive {
                        source,
                        begin,
                        bytes,
                        combine_ns,
                    },
                ));
            };
            match step.action {
                Action::Copy { into, .. } => self.begin += into.count as f64 * model.copy_byte_ns,
                Action::Reduce { into, .. } => {
                    self.begin += into.count as f64 * model.reduce_byte_ns;
                }
                Action::Receive { source, into } => receive(source, into, 0.0),
                Action::ReceiveReduce { source, into, .. } => {
                    receive(source, into, model.reduce_byte_ns);
                }
                Action::Send { from, .. } | Action::Publish { from, .. } => {
                    let to = match step.action {
                        Action::Send { to, .. } => to..to + 1,
                        Action::Publish { first, number, .. } => first..first + number,
                        _ => unreachable!("it sends"),
                    };
                    let way = way(to.start).max(way(to.end - 1));
                    let transfer = model.transfer(way, from.count);
                    let complete = begin.max(self.way_out_free) + transfer;
                    self.way_out_free = complete;
                    self.open.push_back((number, Open::Sent { complete }));
                    send(to, complete);
                }
            }
            self.next += 1;
        }
        self.wait(u32::MAX, model, &way, &mut arrival)
    }

    /// Lets the horizon pass all steps before `after`; whether they are all complete.
    fn wait(
        &mut self,
        after: u32,
        model: &Model,
        way: &impl Fn(u32) -> Way,
        arrival: &mut impl FnMut(f64, u32, u64) -> Option<f64>,
    ) -> bool {
        while let Some((_, open)) = self.open.front().filter(|(step, _)| *step < after) {
            let complete = match *open {
                Open::Sent { complete } => complete,
                Open::Receive {
                    source,
                    begin,
                    bytes,
                    combine_ns,
                } => {
                    let Some(arrived) = arrival(begin, source, bytes) else {
                        self.waits_for = Some(source);
                        return false;
                    };
                    let transfer = model.transfer(way(source), bytes);
                    self.way_in_free = arrived.max(self.way_in_free + transfer);
                    self.way_in_free.max(begin) + combine_ns
                }
            };
            self.horizon = self.horizon.max(complete);
            self.open.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * a.max(b)
    }

    #[test]
    fn one_place_tells_what_all_places_tell() {
        // The cost of the others depends on the graph.
        let of_groups = |it: &Operation| {
            use Operation::{NeighbourAllgather, NeighbourAlltoall};
            !matches!(it, NeighbourAllgather | NeighbourAlltoall)
        };
        for operation in Operation::ALL.into_iter().filter(of_groups) {
            let apart = operation.algorithms().iter();
            for (algorithm, size) in apart
                .filter(|it| **it != Algorithm::Hierarchical)
                .flat_map(|it| [1, 2, 4, 8, 64].map(|size| (*it, size)))
            {
                for bytes in [4, 64, 1 << 16] {
                    let case = Case {
                        operation,
                        algorithm,
                        size,
                        host_places: 1,
                        bytes,
                    };
                    if !case.in_step() {
                        continue;
                    }
                    let (one, all) = (
                        case.one_place(&Model::default()),
                        case.all_places(&Model::default()),
                    );
                    // Places combine in different rounds there, and wait for each other.
                    let is_pairwise =
                        operation == Operation::ReduceScatter && algorithm == Algorithm::Pairwise;
                    let tolerance = if is_pairwise { 0.01 } else { 1e-9 };
                    assert!(is_close(one, all, tolerance), "{case:?}: {one} {all}");
                }
            }
        }
    }

    #[test]
    fn critical_paths_are_those_of_the_literature() {
        use Algorithm::*;
        let model = Model {
            copy_byte_ns: 0.0,
            ..Model::default()
        };
        let (size, log, bytes) = (64, 6.0, 1 << 16);
        let p = f64::from(size);
        let [beta, gamma] = [model.byte_ns, model.reduce_byte_ns].map(|it| it * bytes as f64);
        let alpha = model.message_ns;
        for (operation, algorithm, expected) in [
            (Operation::Barrier, Dissemination, log * alpha),
            (Operation::Barrier, Binomial, 2.0 * log * alpha),
            (Operation::Bcast, Binomial, log * (alpha + beta)),
            (
                Operation::Bcast,
                ScatterDoubling,
                2.0 * (log * alpha + (p - 1.0) / p * beta),
            ),
            (Operation::Gather, Binomial, log * alpha + (p - 1.0) * beta),
            (Operation::Scatter, Binomial, log * alpha + (p - 1.0) * beta),
            (Operation::Allgather, Ring, (p - 1.0) * (alpha + beta)),
            (
                Operation::Allgather,
                RecursiveDoubling,
                log * alpha + (p - 1.0) * beta,
            ),
            (Operation::Allgather, Bruck, log * alpha + (p - 1.0) * beta),
            (Operation::Alltoall, Pairwise, (p - 1.0) * (alpha + beta)),
            (Operation::Alltoall, Bruck, log * (alpha + p / 2.0 * beta)),
            (Operation::Reduce, Binomial, log * (alpha + beta + gamma)),
            (
                Operation::Allreduce,
                RecursiveDoubling,
                log * (alpha + beta + gamma),
            ),
            (
                Operation::Allreduce,
                Rabenseifner,
                2.0 * log * alpha + (p - 1.0) / p * (2.0 * beta + gamma),
            ),
            (
                Operation::Allreduce,
                Ring,
                2.0 * (p - 1.0) * alpha + (p - 1.0) / p * (2.0 * beta + gamma),
            ),
            (Operation::Scan, Linear, (p - 1.0) * (alpha + beta + gamma)),
        ] {
            let case = Case {
                operation,
                algorithm,
                size,
                host_places: 1,
                bytes,
            };
            let is = case.cost(&model).critical_path_ns;
            assert!(
                is_close(is, expected, 1e-9),
                "{case:?}: {is}, not {expected}"
            );
        }
    }

    /// Within hosts to and from the leader, between hosts the stage of 16 places.
    #[test]
    fn a_hierarchical_path_is_that_of_its_stages() {
        use Operation::{Allgather, Allreduce, Barrier, Bcast, Reduce};
        let model = Model {
            copy_byte_ns: 0.0,
            reduce_byte_ns: 0.0,
            ..Model::default()
        };
        for (operation, near, far) in [(Barrier, 4.0, 4.0), (Bcast, 2.0, 4.0), (Reduce, 2.0, 4.0)]
            .into_iter()
            .chain([(Allreduce, 4.0, 4.0), (Allgather, 7.0, 4.0)])
        {
            let case = Case {
                operation,
                algorithm: Algorithm::Hierarchical,
                size: 64,
                host_places: 4,
                bytes: 1,
            };
            let is = case.cost(&model).critical_path_ns;
            let expected = near * model.near_message_ns + far * model.message_ns;
            assert!(
                is_close(is, expected, 1e-2),
                "{operation}: {is}, not {expected}"
            );
        }
    }

    #[test]
    fn a_sum_bounds_what_it_stands_for() {
        let case = Case {
            operation: Operation::Bcast,
            algorithm: Algorithm::ScatterAllgather,
            size: 256,
            host_places: 1,
            bytes: 1 << 20,
        };
        let (sum, exact) = (case.sum(&Model::default()), case.cost(&Model::default()));
        assert_eq!(exact.method, Method::AllPlaces);
        assert!(exact.critical_path_ns <= sum.critical_path_ns);
        assert!(sum.critical_path_ns <= 1.1 * exact.critical_path_ns);
        assert!(exact.bytes < sum.bytes && exact.messages < sum.messages);
    }
}
