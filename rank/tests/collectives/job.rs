//! Engines of all ranks over a rough network, and collectives under way at them.

#![allow(unsafe_code, reason = "the tests lend their memory to collectives")]

use crate::plain::{Case, ELEMENT_BYTES, reduction};
use refrain_collectives::{Parameters, Schedule};
use refrain_rank::collective::{Collective, CollectiveError, Memory, Name};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions, RequestId};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::protocol::{Event, Protocol};
use std::sync::Arc;

const LOG_BYTES: usize = 8 << 20;

struct KeepsNothing;

impl Protocol for KeepsNothing {
    fn name(&self) -> &'static str {
        "none"
    }

    fn keeps_payload(&self) -> bool {
        false
    }

    fn event(&mut self, _event: Event<'_>) -> bool {
        false
    }

    fn advance(&mut self, _wanted: u64) -> u64 {
        u64::MAX
    }
}

pub struct Job {
    network: Network,
    engines: Vec<Engine<KeepsNothing>>,
}

/// A collective at one rank, with its memory.
pub struct Running {
    rank: usize,
    request: RequestId,
    collective: Collective,
    _input: Vec<u8>,
    output: Vec<u8>,
    expected: Vec<u8>,
}

/// The collective `number` of a group, at the place `me`.
pub fn name(members: &Arc<[Rank]>, me: usize, context: u32, number: i32) -> Name {
    Name {
        members: Arc::clone(members),
        me: me as u32,
        context,
        number,
    }
}

impl Job {
    pub fn new(size: u32, seed: u64) -> Self {
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
        let engines = (0..).zip(started).map(|(rank, (fabric, arena))| {
            let options = EngineOptions {
                rank: Rank(rank),
                incarnation: Incarnation(0),
                size,
                window_bytes: LOG_BYTES as u64,
            };
            Engine::new(options, arena, Box::new(fabric), KeepsNothing)
        });
        Self {
            engines: engines.collect(),
            network,
        }
    }

    pub fn begin(&mut self, rank: usize, name: Name, case: &Case) -> Running {
        let (me, engine) = (name.me, &mut self.engines[rank]);
        let mut schedule = Schedule::default();
        let call = case.call(me);
        case.algorithm
            .schedule(&call, &Parameters::default(), &mut schedule);
        let (input, mut output) = (case.input(me), case.output(me));
        let memory = Memory {
            input: input.as_ptr(),
            output: output.as_mut_ptr(),
            element_bytes: ELEMENT_BYTES as u64,
        };
        let operation = engine.begin_internal().expect("few are open");
        let request = operation.id();
        // SAFETY: the memory stays beside the collective.
        let collective =
            unsafe { Collective::new(operation, name, schedule, memory, Some(reduction())) };
        Running {
            rank,
            request,
            collective,
            _input: input,
            output,
            expected: case.expected(me),
        }
    }

    pub fn step(&mut self) {
        self.network.step();
        for engine in &mut self.engines {
            engine.progress().expect("no rank dies");
        }
    }

    /// The collective, if it is not complete; checks its result if it is.
    pub fn try_advance(
        &mut self,
        mut running: Running,
    ) -> Result<Option<Running>, CollectiveError> {
        let engine = &mut self.engines[running.rank];
        if !running.collective.advance(engine)? {
            return Ok(Some(running));
        }
        assert!(engine.outcome(running.request).is_none());
        running.collective.finish(engine);
        assert!(engine.outcome(running.request).is_some());
        engine.retire(running.request);
        assert_eq!(running.output, running.expected);
        Ok(None)
    }

    pub fn advance(&mut self, running: Running) -> Option<Running> {
        self.try_advance(running).expect("all call the same")
    }
}
