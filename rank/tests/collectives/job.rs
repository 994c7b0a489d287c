//! Engines of all ranks over a rough network, and collectives under way at them.

#![allow(unsafe_code, reason = "the tests lend their memory to collectives")]

use crate::plain::{Case, reduction};
use refrain_collectives::choice::Table;
use refrain_collectives::{Algorithm, Call, Chosen, Schedule};
use refrain_rank::calls::{Handle, try_wait};
use refrain_rank::collective::{
    CollectiveError, Layouts, Memory, Name, Number, Plan, UnderWay, Whole, WholePart,
};
use refrain_ring::{Incarnation, Rank, Stream};
use refrain_transport::control::Report;
use refrain_transport::engine::{Engine, EngineOptions};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::protocol::{Event, Protocol};
use std::sync::Arc;

const LOG_BYTES: usize = 8 << 20;

/// Whether it keeps payload; there are no events.
struct Keeps(bool);

impl Protocol for Keeps {
    fn name(&self) -> &'static str {
        "without events"
    }

    fn keeps_payload(&self) -> bool {
        self.0
    }

    fn event(&mut self, _event: Event<'_>) -> bool {
        false
    }

    fn advance(&mut self, _wanted: u64) -> u64 {
        u64::MAX
    }
}

pub struct Job {
    checks: bool,
    network: Network,
    ranks: Vec<(Engine<Keeps>, UnderWay)>,
}

/// A group at one of its members.
#[derive(Clone)]
pub struct Member {
    pub members: Arc<[Rank]>,
    pub me: usize,
    pub context: u32,
}

/// What a member does in a collective.
pub struct Part<'a> {
    pub call: Call<'a>,
    pub algorithm: Algorithm,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// Where the buffers begin in the memory of input and output.
    pub begins: [usize; 2],
    pub layouts: Option<Arc<Layouts>>,
    /// The memory of the output behind the collective.
    pub expected: Vec<u8>,
}

/// A collective at one rank, with its memory.
pub struct Running {
    rank: usize,
    handle: Handle,
    _input: Vec<u8>,
    output: Vec<u8>,
    expected: Vec<u8>,
}

impl Job {
    pub fn new(size: u32, seed: u64, checks: bool) -> Self {
        Self::keeping(size, seed, checks, None)
    }

    /// `failures`: results are kept, and survive as many.
    pub fn keeping(size: u32, seed: u64, checks: bool, failures: Option<u32>) -> Self {
        let network = Network::new(Options::rough(seed));
        let mut started: Vec<_> = (0..size)
            .map(|rank| network.start(Rank(rank), Incarnation(0), LOG_BYTES))
            .collect();
        let addresses: Vec<_> = started.iter().map(|(fabric, _)| fabric.address()).collect();
        for (rank, (fabric, _)) in (0..).zip(&mut started) {
            for peer in (0..size).filter(|peer| *peer != rank) {
                let address = &addresses[peer as usize];
                let connected = fabric.connect(Rank(peer), Incarnation(0), address);
                connected.expect("a peer that was started");
            }
        }
        let ranks = (0..).zip(started).map(|(rank, (fabric, arena))| {
            let options = EngineOptions {
                rank: Rank(rank),
                incarnation: Incarnation(0),
                size,
                window_bytes: LOG_BYTES as u64,
            };
            let protocol = Keeps(failures.is_some());
            let mut engine = Engine::new(options, arena, Box::new(fabric), protocol);
            let under_way = UnderWay::default();
            let Some(failures) = failures else {
                return (engine, under_way);
            };
            engine.keep_results();
            let whole = Whole::new(Rank(rank), failures, false, WholePart::default());
            (engine, under_way.with_whole(whole))
        });
        Self {
            checks,
            ranks: ranks.collect(),
            network,
        }
    }

    /// All ranks are later lives, without a checkpoint.
    pub fn in_later_lives(mut self, failures: u32) -> Self {
        for (rank, (_, under_way)) in (0..).zip(&mut self.ranks) {
            let whole = Whole::new(Rank(rank), failures, true, WholePart::default());
            *under_way = UnderWay::default().with_whole(whole);
        }
        self
    }

    /// Begins the collective `number` of a group at a member.
    pub fn begin(
        &mut self,
        member: &Member,
        number: i32,
        case: &Case,
    ) -> Result<Running, CollectiveError> {
        let me = member.me as u32;
        let part = Part {
            call: case.call(me),
            algorithm: case.algorithm,
            input: case.input(me),
            output: case.output(me),
            begins: [0; 2],
            layouts: None,
            expected: case.expected(me),
        };
        self.begin_part(member, number, part)
    }

    /// Begins the collective `number` of a group at a member.
    pub fn begin_part(
        &mut self,
        member: &Member,
        number: i32,
        part: Part<'_>,
    ) -> Result<Running, CollectiveError> {
        let mut schedule = Schedule::default();
        let Part {
            call, algorithm, ..
        } = part;
        Table::default().schedule(algorithm, &call, &mut schedule);
        let (input, mut output) = (part.input, part.output);
        let plan = Plan {
            members: Arc::clone(&member.members),
            me: member.me as u32,
            context: member.context,
            chosen: Arc::new(Chosen {
                results: algorithm.results(&call),
                algorithm,
                input_elements: input.len() as u64,
                output_elements: output.len() as u64,
                schedule,
            }),
            memory: Memory {
                input: input.as_ptr().wrapping_add(part.begins[0]),
                output: output.as_mut_ptr().wrapping_add(part.begins[1]),
                element_bytes: call.element_bytes,
            },
            layouts: part.layouts,
            reduction: Some(reduction()),
            check: self.checks.then(|| call.to_string().into()),
        };
        let rank = member.members[member.me].index();
        let (engine, under_way) = &mut self.ranks[rank];
        let number = Number {
            tag: number,
            name: Some(Name::new(number as u64, false)),
        };
        // SAFETY: the memory stays beside the handle.
        let handle = unsafe { under_way.begin(Box::new(plan), number, engine)? };
        Ok(Running {
            rank,
            handle,
            _input: input,
            output,
            expected: part.expected,
        })
    }

    /// Lets the network and all ranks make progress.
    pub fn step(&mut self) -> Result<(), CollectiveError> {
        self.step_first(self.ranks.len())
    }

    /// The same, for this many ranks only.
    pub fn step_first(&mut self, ranks: usize) -> Result<(), CollectiveError> {
        self.network.step();
        for (engine, under_way) in &mut self.ranks[..ranks] {
            engine.progress().expect("no rank dies");
            under_way.advance(engine)?;
        }
        Ok(())
    }

    /// Whether the collective is complete; checks its result then.
    pub fn has_ended(&mut self, running: &mut Running) -> bool {
        let (engine, _) = &mut self.ranks[running.rank];
        let ended = try_wait(engine, &mut running.handle).is_some();
        if ended {
            assert!(running.output == running.expected, "another result");
        }
        ended
    }

    /// Gives a collective up, as a program does that frees its request.
    pub fn give_up(&mut self, running: Running) {
        let (engine, under_way) = &mut self.ranks[running.rank];
        let id = running.handle.id();
        under_way.give_up(id, engine);
        id.into_iter().for_each(|id| engine.detach(id));
    }

    /// The stream of an operation that begins at a rank.
    pub fn begin_internal(&mut self, rank: usize) -> Stream {
        let (engine, _) = &mut self.ranks[rank];
        let (operation, _) = engine.begin_internal().expect("few are open");
        operation.stream()
    }

    /// Of the messages of operations from a rank to another one: how many were sent, and how many of
    /// them are freed.
    pub fn freed(&self, from: u32, to: u32) -> [u64; 2] {
        let (engine, _) = &self.ranks[from as usize];
        let stream = Stream::FIRST_OPERATION;
        let next = engine.state().expect("nothing is open").next;
        let kept_from = engine.log_kept_from(Rank(to));
        [&next[to as usize], &kept_from].map(|it| it.of(stream).count())
    }

    /// A rank tells another one what holds for all collectives of context 0 before this one.
    pub fn report(&mut self, from: usize, to: u32, report: Report, before: u64) {
        let (engine, _) = &mut self.ranks[from];
        // As `Name` has it: the lowest bit is clear, as the collective blocks.
        engine.report(Rank(to), report, (0, before << 1));
    }

    /// The results that a rank keeps.
    pub fn results(&mut self, rank: u32) -> u64 {
        let (engine, _) = &mut self.ranks[rank as usize];
        let next = engine.state().expect("nothing is open").next;
        next[rank as usize].of(Stream::RESULTS).count()
    }

    /// Whether nothing is under way at a rank.
    pub fn is_idle(&self, rank: usize) -> bool {
        !self.ranks[rank].1.is_any()
    }
}
