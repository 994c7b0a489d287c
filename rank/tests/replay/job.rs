//! A life of rank 0 in a job of three ranks, and engines that send to it.

use crate::room::Room;
use fastrand::Rng;
use refrain_logging::Member;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::row::determinants;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_logging::image::{LogImage, RankMemory, Selection};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_rank::previous_logs::PreviousLogs;
use refrain_rank::protocol::Logging;
use refrain_ring::{Incarnation, Rank, Region};
use refrain_transport::engine::{Engine, EngineError, EngineOptions, SendTo};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::protocol::Protocol;
use std::cell::RefCell;
use std::rc::Rc;

pub const JOB: u64 = 7;
const LOG_BYTES: usize = 4 << 20;

/// The batches of all lives so far.
#[derive(Clone, Debug, Default)]
pub struct Batches(Rc<RefCell<Vec<Vec<u8>>>>);

impl Batches {
    pub fn of(batches: &[Vec<u8>]) -> Self {
        Self(Rc::new(RefCell::new(batches.to_vec())))
    }

    pub fn all(&self) -> Vec<Vec<u8>> {
        self.0.borrow().clone()
    }

    pub fn row(&self) -> Vec<Determinant> {
        let all = self.0.borrow();
        determinants(Rank(0), JOB, all.iter().map(Vec::as_slice), None).expect("it is complete")
    }

    fn end(&self) -> EventIndex {
        let all = self.0.borrow();
        all.last().map_or(EventIndex(0), |last| {
            BatchHeader::read(last)
                .expect("it was just written")
                .0
                .end()
        })
    }
}

impl Commits for Batches {
    fn commit(&mut self, _: &BatchHeader, batch: &[u8]) {
        self.0.borrow_mut().push(batch.to_vec());
    }

    fn stable_end(&self) -> EventIndex {
        self.end()
    }

    fn poll(&mut self) -> EventIndex {
        self.end()
    }

    // Small batches: a batch for each record.
    fn is_instant(&self) -> bool {
        false
    }
}

const RANKS: u32 = 3;
/// Seed of the network and of the order of progress.
const SEED: u64 = 3;

/// The engine of a rank.
pub type LoggedEngine = Engine<Logging<Batches>>;

pub struct Life {
    pub engines: Vec<LoggedEngine>,
    pub network: Network,
    /// The logs of rank 0.
    pub logs: Logs,
    pub batches: Batches,
    rng: Rng,
    /// Dropped after the engines.
    rooms: Vec<Room>,
}

/// The logs of a life of rank 0.
#[derive(Clone, Debug)]
pub struct Logs {
    pub memory: Region,
    pub incarnation: Incarnation,
}

impl Logs {
    /// The messages that this life has sent.
    pub fn sends(&self) -> PreviousLogs {
        let mut sends = PreviousLogs::new(JOB, Rank(0));
        sends.add_life(self.image(), self.incarnation);
        sends
    }

    pub fn image(&self) -> LogImage {
        let mut image = LogImage::empty(Selection::default());
        image.add_memory(RankMemory {
            arena: 0..self.memory.bytes(),
            region: self.memory.clone(),
            job: JOB,
            source: Rank(0),
            incarnation: self.incarnation,
        });
        image
    }
}

/// The payload states the sender of the message and its number.
pub fn payload(source: u32, ssn: u64, bytes: usize) -> Vec<u8> {
    let mut all = source.to_le_bytes().to_vec();
    all.extend(ssn.to_le_bytes());
    let filling = (12..bytes).map(|at| (at as u64 * 7 + ssn * 31 + u64::from(source)) as u8);
    all.extend(filling);
    all
}

pub fn to_rank_0(tag: i32, synchronous: bool) -> SendTo {
    SendTo {
        rank: Rank(0),
        context: 0,
        tag,
        synchronous,
    }
}

impl Life {
    /// A life that starts at the beginning, with the records of these batches.
    pub fn new(member: Member, number: u32, batches: &[Vec<u8>]) -> Self {
        let mut rng = Rng::with_seed(SEED);
        let mut options = Options::calm(SEED).reading_in_place(rng.bool());
        if rng.bool() {
            options.distant_bytes_min = Some(4096);
        }
        let network = Network::new(options);
        let ranks = || (0..RANKS).map(Rank);
        let incarnation = |rank: Rank| Incarnation(if rank == Rank(0) { number } else { 0 });
        let (mut fabrics, arenas): (Vec<_>, Vec<_>) = ranks()
            .map(|rank| network.start(rank, incarnation(rank), LOG_BYTES))
            .unzip();
        let logs = Logs {
            memory: arenas[0].region().clone(),
            incarnation: incarnation(Rank(0)),
        };
        let addresses: Vec<_> = fabrics.iter().map(Fabric::address).collect();
        for (rank, fabric) in ranks().zip(&mut fabrics) {
            for peer in ranks().filter(|peer| *peer != rank) {
                let connected = fabric.connect(peer, incarnation(peer), &addresses[peer.index()]);
                connected.expect("a peer that was started");
            }
        }
        let batches = Batches::of(batches);
        let row = batches.row();
        let engines = ranks()
            .zip(fabrics)
            .zip(arenas)
            .map(|((rank, fabric), arena)| {
                let options = EngineOptions {
                    rank,
                    incarnation: incarnation(rank),
                    size: RANKS,
                    window_bytes: LOG_BYTES as u64,
                };
                let events = (rank == Rank(0)).then(|| {
                    let identity = Identity {
                        job: JOB,
                        rank,
                        incarnation: incarnation(rank),
                    };
                    Pessimist::new(identity, batches.end(), batches.clone())
                });
                let protocol = Logging::new(member, events, ());
                let engine = Engine::new(options, arena, Box::new(fabric), protocol);
                match rank {
                    Rank(0) => {
                        let records = recorded_events(&row).expect("they agree");
                        engine.with_recorded_events(records)
                    }
                    _ => engine,
                }
            });
        Life {
            engines: engines.collect(),
            network,
            logs,
            batches,
            rng,
            rooms: Vec::new(),
        }
    }

    /// Lets some time pass; returns whether anything moved.
    pub fn round(&mut self) -> Result<bool, EngineError> {
        let mut moved = self.network.step();
        for rank in 1..self.engines.len() {
            moved |= self.engines[rank].progress().expect("nobody dies");
        }
        if self.rng.u8(..3) > 0 {
            moved |= self.engines[0].progress()?;
        }
        Ok(moved)
    }

    /// Sends at once.
    pub fn send(&mut self, from: usize, to: SendTo, bytes: &[u8]) {
        let room = Room::holding(bytes);
        let sent = self.engines[from].start_send(room.to_send(), to);
        sent.expect("there is room in the log");
        self.rooms.push(room);
    }

    /// Puts all events so far into batches.
    pub fn flush(&mut self) {
        assert!(self.engines[0].protocol_mut().leave());
    }
}
