//! A job: ranks that die and restart, and the network between them.

use crate::process::{Checkpoint, Known, LoggedEngine, Numbering, Process, mix};
use crate::script::Script;
use crate::store::Store;
use fastrand::Rng;
use refrain_logging::Member;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::row::determinants;
use refrain_logging::pessimist::Pessimist;
use refrain_rank::checkpoint::decode_engine;
use refrain_rank::previous_logs::PreviousLogs;
use refrain_rank::protocol::Logging;
use refrain_ring::{Arena, Incarnation, Rank, Region};
use refrain_sim::crash_point::CrashPoint;
use refrain_sim::happening::Life;
use refrain_sim::loggers::JOB;
use refrain_sim::recollect::{Remains, image_of};
use refrain_sim::world::log::load_logs;
use refrain_transport::divergence::DivergencePolicy;
use refrain_transport::engine::{Engine, EngineError, EngineOptions};
use refrain_transport::fabric::sim::{Faults, Network, Options, SimFabric};
use refrain_transport::fabric::{Address, Fabric};

const LOG_BYTES: usize = 4 << 20;
const TURNS_MAX: u32 = 400_000;

/// A rank over all its lives.
struct Seat {
    process: Option<Process>,
    store: Store,
    /// The logs of all lives so far.
    remains: Vec<Remains>,
    checkpoint: Option<Checkpoint>,
}

impl Seat {
    fn next(&self) -> Incarnation {
        Incarnation(self.remains.len() as u32)
    }
}

/// A job with its network.
pub struct Job {
    script: Script,
    network: Network,
    rng: Rng,
    ranks: u32,
    seats: Vec<Seat>,
    /// Number of deaths to come.
    pub kills: u32,
    numbering: Numbering,
}

/// The result of a job.
#[derive(Debug, Default)]
pub struct Ended {
    pub lives: u32,
    pub from_checkpoint: u32,
    pub events_replayed: u64,
}

impl Job {
    pub fn new(seed: u64, numbering: Numbering) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let ranks = rng.u32(2..5);
        let options = match rng.bool() {
            true => Options::calm(seed),
            false => Options::rough(seed),
        };
        let faults = Faults {
            loss_notice_ticks_max: None,
            ..options.faults
        };
        let options = Options {
            faults,
            window_bytes: LOG_BYTES as u64,
            ..options
        };
        let seat = |rank: u32| Seat {
            process: None,
            store: Store::new(seed << 8 | u64::from(rank)),
            remains: Vec::new(),
            checkpoint: None,
        };
        Self {
            script: Script::new(seed, ranks),
            network: Network::new(options.reading_in_place(rng.bool())),
            kills: rng.u32(1..6),
            rng,
            ranks,
            seats: (0..ranks).map(seat).collect(),
            numbering,
        }
    }

    /// Starts all first lives.
    fn begin(&mut self) {
        let life = |rank| Life {
            rank: Rank(rank),
            incarnation: Incarnation(0),
        };
        let start = |rank| (self.network).start(life(rank).rank, life(rank).incarnation, LOG_BYTES);
        let started: Vec<_> = (0..self.ranks).map(start).collect();
        let addresses: Vec<Address> = started.iter().map(|(fabric, _)| fabric.address()).collect();
        for (rank, (mut fabric, arena)) in (0..).zip(started) {
            for (peer, address) in (0..).zip(&addresses).filter(|(peer, _)| *peer != rank) {
                let connected = fabric.connect(Rank(peer), Incarnation(0), address);
                connected.expect("it was started");
            }
            let (life, region) = (life(rank), arena.region().clone());
            let engine = self.engine(life, fabric, arena);
            self.sit(life, engine, region, addresses[rank as usize].clone());
        }
    }

    fn engine(&self, life: Life, fabric: SimFabric, arena: Arena) -> LoggedEngine {
        let Life { rank, incarnation } = life;
        let identity = Identity {
            job: JOB,
            rank,
            incarnation,
        };
        let store = self.seats[rank.index()].store.clone();
        let pessimist = Pessimist::new(identity, store.end(), store);
        let protocol = Logging::new(Member::Pessimist, Some(pessimist), ());
        let options = EngineOptions {
            rank,
            incarnation,
            size: self.ranks,
            window_bytes: LOG_BYTES as u64,
        };
        Engine::new(options, arena, Box::new(fabric), protocol)
    }

    fn sit(&mut self, life: Life, engine: LoggedEngine, memory: Region, address: Address) {
        let ranks = self.ranks;
        let seat = &mut self.seats[life.rank.index()];
        let known = match &seat.checkpoint {
            Some(checkpoint) => checkpoint.known.clone(),
            None => Known {
                sent: vec![Vec::new(); ranks as usize],
                ..Known::default()
            },
        };
        seat.remains.push(Remains {
            life,
            job: JOB,
            memory,
            files: Vec::new(),
        });
        let process = Process::new(life, ranks, engine, address, known, self.numbering);
        seat.process = Some(process);
    }

    fn kill(&mut self, rank: u32) {
        let seat = &mut self.seats[rank as usize];
        if seat.process.take().is_some() {
            self.network.kill(Rank(rank));
            seat.store.lose_pending();
            self.kills -= 1;
        }
    }

    /// Starts the next life of a rank and connects the peers to it. REC-1 to REC-4
    fn start(&mut self, rank: u32, ended: &mut Ended) -> Result<(), String> {
        let rank = Rank(rank);
        let seat = &self.seats[rank.index()];
        let incarnation = seat.next();
        let life = Life { rank, incarnation };
        let (fabric, arena) = self.network.start(rank, incarnation, LOG_BYTES);
        let (region, address) = (arena.region().clone(), fabric.address());
        let mut engine = self.engine(life, fabric, arena);
        let mut after = None;
        if let Some(checkpoint) = &seat.checkpoint {
            let part = &checkpoint.engine;
            let (_, state) = decode_engine(&part.state).map_err(|error| error.to_string())?;
            after = Some(state.clock);
            let next = state.next.clone();
            engine = engine.with_beginning(state);
            load_logs(&mut engine, rank, &next, part, &CrashPoint::default())?;
            ended.from_checkpoint += 1;
        }
        let stable = seat.store.stable();
        let batches = stable.iter().map(Vec::as_slice);
        let row = determinants(rank, JOB, batches, after).map_err(|error| error.to_string())?;
        let records = recorded_events(&row).map_err(|error| error.to_string())?;
        let mut sends = PreviousLogs::new(JOB, rank);
        for remains in &seat.remains {
            sends.add_life(image_of(remains, None), remains.life.incarnation);
        }
        let mut engine = engine
            .with_recorded_events(records)
            .with_previous_sends(Box::new(sends), DivergencePolicy::Stop);
        ended.lives += 1;
        for peer in self.seats.iter_mut().filter_map(|it| it.process.as_mut()) {
            let connected = peer.engine.connect(rank, incarnation, &address);
            connected.map_err(|error| error.to_string())?;
            let Life { rank, incarnation } = peer.life;
            let connected = engine.connect(rank, incarnation, &peer.address);
            connected.map_err(|error| error.to_string())?;
        }
        self.sit(life, engine, region, address);
        Ok(())
    }

    /// One turn: the network and one rank take a step.
    fn turn(&mut self, ended: &mut Ended) -> Result<(), String> {
        self.network.step();
        let rank = self.rng.u32(..self.ranks);
        if self.kills > 0 && self.rng.u32(..400) == 0 {
            self.kill(rank);
        }
        let (script, rng) = (&self.script, &mut self.rng);
        let seat = &mut self.seats[rank as usize];
        let Some(process) = &mut seat.process else {
            return match rng.u8(..20) {
                0 => self.start(rank, ended),
                _ => Ok(()),
            };
        };
        let failed = |error: EngineError| format!("rank {rank}: {error}");
        match process.engine.progress() {
            Ok(_) | Err(EngineError::PeerLost { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        // Progress issues any of the steps, or none.
        for number in 0..script.exchange_bytes.len() {
            if rng.u8(..3) == 0 {
                let advanced = process.advance(number, script.exchange_bytes[number]);
                advanced.map_err(failed)?;
            }
        }
        if rng.bool()
            && let Some(checkpoint) = process.step(script).map_err(failed)?
        {
            seat.checkpoint = Some(checkpoint);
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        let ranks = 0..self.ranks;
        self.seats.iter_mut().all(|seat| {
            seat.process.as_mut().is_some_and(|process| {
                let own = process.life.rank;
                let mut peers = ranks.clone().map(Rank).filter(|peer| *peer != own);
                process.is_through(&self.script)
                    && !process.engine.has_unsent()
                    && peers.all(|peer| process.engine.is_live(peer))
            })
        })
    }

    pub fn run(mut self) -> Result<Ended, String> {
        let mut ended = Ended::default();
        self.begin();
        for turn in 0..TURNS_MAX {
            if turn % 64 == 0 && self.is_over() {
                self.judge()?;
                let processes = self.processes();
                let replayed = processes.map(|it| it.engine.statistics().events_replayed);
                ended.events_replayed = replayed.sum();
                return Ok(ended);
            }
            self.turn(&mut ended)?;
        }
        Err("the job does not come to its end".into())
    }

    fn judge(&self) -> Result<(), String> {
        for number in 0..self.script.exchange_bytes.len() {
            let inputs = self.processes().map(|it| it.known.inputs[&number]);
            let mut values: Vec<u64> = inputs.collect();
            let mut distance = 1;
            while distance < values.len() {
                let before = values.clone();
                let from = |rank: usize| before[(rank + before.len() - distance) % before.len()];
                for (rank, value) in values.iter_mut().enumerate() {
                    *value = mix(*value, from(rank));
                }
                distance *= 2;
            }
            for (process, value) in self.processes().zip(values) {
                if process.known.results[&number] != value {
                    return Err(format!("exchange {number} of {} is wrong", process.life));
                }
            }
        }
        for process in self.processes() {
            let (life, known) = (process.life, &process.known);
            let sent = self
                .processes()
                .flat_map(|sender| &sender.known.sent[life.rank.index()]);
            let mut sent: Vec<&Vec<u8>> = sent.collect();
            let mut received: Vec<&Vec<u8>> = known.received.iter().collect();
            sent.sort();
            received.sort();
            if sent != received {
                return Err(format!("{life} did not get what it was sent"));
            }
            let requests = process.engine.request_count();
            if requests > 0 {
                return Err(format!("{life} has {requests} requests at its end"));
            }
        }
        Ok(())
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.seats.iter().filter_map(|seat| seat.process.as_ref())
    }
}
