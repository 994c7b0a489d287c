//! The event loggers of a job: one shard, its disks, and the connections to it.
//!
//! Real parts: client, links, committer, survey, the writer's half of one-sided rings and their
//! bookkeeping; the service with its admission, requests, acknowledgements, rings and rings of
//! earlier processes; logbook, acceptor, files, recovery of files; reading. Simulated parts:
//! sessions (messages in order, late), one-sided writes (late, overtaking, torn, completions lost),
//! the memory under rings, the disks, and the schedule. Only one part is written twice: the loop in
//! which a logger asks its peers (`asking`), a thread in the real logger.
//!
//! Assumptions about faults, which the injector keeps:
//!
//! * A logger that dies keeps its disk and the rings in its host's memory; if its host loses power,
//!   it keeps what was synced. At level `placed` nothing is promised after a power loss.
//! * Every logger is restarted eventually. A life begins only while enough loggers are alive:
//!   `max(quorum, replicas + 1 - quorum)`; determinants become stable only while `quorum` are.

mod asking;
mod client;
mod host;
mod ledger;
mod logger;
mod network;

pub use client::{LoggerClient, TICK};

use crate::crash_point::CrashPoint;
use crate::happening::Life;
use crate::plan::{LoggersPlan, WayPlan};
use crate::planted::Planted;
use asking::{Fetching, Question};
use client::LoggerLinks;
use fastrand::Rng;
use ledger::Ledger;
pub use logger::Logger;
use logger::{FetchStart, Shard};
use network::{Arrival, Network, SessionId};
use refrain_eventlog::client::read::{ReadError, ReadRequest, read_rank, read_ranks};
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::HEADER_BYTES;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of the simulated job.
pub const JOB: u64 = 0x7265_6672_6169_6e01;

/// All loggers of a job. Clones share the state.
#[derive(Clone, Debug)]
pub struct Loggers {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plan: LoggersPlan,
    shard: Shard,
    loggers: RefCell<Vec<Logger>>,
    fetchings: RefCell<Vec<Fetching>>,
    now: Rc<Cell<u64>>,
    starts: Rc<RefCell<BTreeMap<Life, (Incarnation, EventIndex)>>>,
    /// Random numbers for everything outside `step`.
    chance: RefCell<Rng>,
    next: RefCell<Vec<Next>>,
}

/// A possible next step.
#[derive(Clone, Copy, Debug)]
enum Next {
    Arrival(Arrival),
    Turn(usize),
    Fetching(usize),
}

impl Loggers {
    /// All replicas of a shard, each with its crash point; with a planted bug or none.
    pub fn new(
        plan: LoggersPlan,
        crash_points: Vec<CrashPoint>,
        seed: u64,
        bug: Option<Planted>,
    ) -> Self {
        let replicas = plan.replicas as usize;
        let level = plan.level;
        let ledger = Ledger::new(replicas, plan.quorum as usize);
        let mut network = Network::new(replicas, level, ledger.clone());
        network.bug = bug;
        let shard = Shard {
            network: Rc::new(RefCell::new(network)),
            ledger,
            level,
            replicas,
            reports: Rc::default(),
        };
        let mut crash_points = crash_points.into_iter();
        let logger = |number: usize| {
            let crash_point = crash_points.next().unwrap_or_default();
            let seed = seed ^ (number as u64 + 1) << 56;
            Logger::new(number, shard.clone(), crash_point, seed)
        };
        let loggers = (0..replicas).map(logger).collect();
        Self {
            shared: Rc::new(Shared {
                plan,
                loggers: RefCell::new(loggers),
                shard,
                fetchings: RefCell::default(),
                now: Rc::default(),
                starts: Rc::default(),
                chance: RefCell::new(Rng::with_seed(seed)),
                next: RefCell::default(),
            }),
        }
    }

    fn address(logger: usize) -> ServerAddress {
        ServerAddress::Unix(logger.to_string().into())
    }

    fn logger_at(address: &ServerAddress) -> Option<usize> {
        match address {
            ServerAddress::Unix(path) => path.to_str()?.parse().ok(),
            ServerAddress::Tcp(_) | ServerAddress::Sealed { .. } => None,
        }
    }

    fn addresses(&self) -> Vec<ServerAddress> {
        (0..self.shared.shard.replicas).map(Self::address).collect()
    }

    /// A life begins to connect to the loggers; messages and one-sided writes are effects of its
    /// process.
    pub fn connect(&self, life: Life, crash_point: CrashPoint) -> LoggerClient {
        let shared = &self.shared;
        let options = ClientOptions {
            job: JOB,
            rank: life.rank,
            incarnation: life.incarnation,
            loggers: self.addresses(),
            quorum: shared.plan.quorum as usize,
            level: shared.shard.level,
            way: Some(match shared.plan.way {
                WayPlan::Messages => CommitPath::Messages,
                WayPlan::OneSided => CommitPath::Libfabric,
            }),
            connect_wait: TICK,
            libfabric: None,
            libibverbs: None,
            provider: None,
            verbs_port: Default::default(),
        };
        let links = LoggerLinks {
            network: shared.shard.network.clone(),
            life,
            process: crash_point,
            end: Rc::default(),
            now: shared.now.clone(),
        };
        let client = Client::over(links.clone(), options);
        LoggerClient {
            client: client.expect("a plan's quorum is one of its replicas"),
            links,
            ledger: shared.shard.ledger.clone(),
            starts: shared.starts.clone(),
            newest: Clock(0),
            has_begun: false,
            is_admitted: false,
            quorum: shared.plan.quorum as usize,
        }
    }

    /// Takes one small step: a message or some lines of a one-sided write arrive, a logger has a
    /// turn (with its disk), or a logger asks another one. `now`: in ticks. Returns whether any
    /// step was possible.
    pub fn step(&self, rng: &mut Rng, now: u64) -> bool {
        let shared = &*self.shared;
        shared.now.set(now);
        self.bury(rng);
        let next = &mut *shared.next.borrow_mut();
        next.clear();
        self.gather(next, now);
        let Some(next) = rng.choice(next.iter().copied()) else {
            return false;
        };
        match next {
            Next::Arrival(arrival) => shared.shard.network.borrow_mut().arrive(arrival, rng),
            Next::Turn(logger) => self.turn(logger),
            Next::Fetching(index) => {
                let network = &mut *shared.shard.network.borrow_mut();
                shared.fetchings.borrow_mut()[index].step(network, now);
            }
        }
        true
    }

    /// Ends the sessions, writes and fetches of processes that have died at an effect.
    fn bury(&self, rng: &mut Rng) {
        let shared = &*self.shared;
        for logger in shared.loggers.borrow_mut().iter_mut() {
            logger.bury();
        }
        let network = &mut *shared.shard.network.borrow_mut();
        network.bury(rng);
        shared.fetchings.borrow_mut().retain_mut(|fetching| {
            let is_over = fetching.is_over();
            if is_over {
                fetching.end(network);
            }
            !is_over
        });
    }

    fn gather(&self, next: &mut Vec<Next>, now: u64) {
        let shared = &*self.shared;
        let network = shared.shard.network.borrow();
        network.arrivals(|arrival| next.push(Next::Arrival(arrival)));
        for (number, logger) in shared.loggers.borrow().iter().enumerate() {
            if logger.is_ready(network.calls[number], now) {
                next.push(Next::Turn(number));
            }
        }
        for (index, fetching) in shared.fetchings.borrow().iter().enumerate() {
            if fetching.is_ready(&network, now) {
                next.push(Next::Fetching(index));
            }
        }
    }

    fn turn(&self, logger: usize) {
        let shared = &*self.shared;
        let mut starts: Vec<FetchStart> = Vec::new();
        let loggers = &mut *shared.loggers.borrow_mut();
        let it = &mut loggers[logger];
        if it.is_paused {
            return;
        }
        it.turn(shared.now.get(), &mut starts);
        let process = it.process.clone();
        let replicas = shared.shard.replicas;
        let fetching =
            |(wanted, state)| Fetching::new(logger, replicas, wanted, state, process.clone());
        let fetchings = &mut *shared.fetchings.borrow_mut();
        fetchings.extend(starts.into_iter().map(fetching));
    }

    fn call_as_nobody(&self, logger: usize) -> Option<SessionId> {
        let mut network = self.shared.shard.network.borrow_mut();
        network.call(logger, None, CrashPoint::default())
    }

    /// One of the loggers.
    pub fn logger(&self, number: u32) -> RefMut<'_, Logger> {
        let loggers = self.shared.loggers.borrow_mut();
        RefMut::map(loggers, |loggers| &mut loggers[number as usize])
    }

    /// Loses the host of a logger, if the others have all of its data and any quorum of the next
    /// life contains one of them. Returns whether it was lost.
    pub fn forget(&self, logger: u32) -> bool {
        let Shared {
            plan,
            shard,
            starts,
            ..
        } = &*self.shared;
        let starts = starts.borrow();
        let mut ranks = starts.keys().map(|life| life.rank);
        let outlives = plan.quorum > 1 && plan.quorum < plan.replicas;
        let forgets =
            outlives && ranks.all(|rank| shard.ledger.whole_holders(rank) == shard.replicas);
        if forgets {
            self.shared.loggers.borrow_mut()[logger as usize].forget();
        }
        forgets
    }

    /// The files of all loggers, which are dead, lose events of a rank, and its rings are lost:
    /// about `percent` of the events remains. Returns whether a quorum had any that is lost now.
    /// REC-9
    pub fn lose_events(&self, rank: Rank, percent: u8) -> bool {
        let shared = &*self.shared;
        let before = self.reached_end(rank);
        let kept = EventIndex(before.0 * u64::from(percent) / 100);
        for logger in shared.loggers.borrow_mut().iter_mut() {
            logger.lose_events(rank, kept);
        }
        self.reached_end(rank) < before
    }

    /// The connections of a life break: messages under way arrive in part, and the outcome of
    /// one-sided writes is unknown.
    pub fn disconnect(&self, life: Life) {
        let rng = &mut *self.shared.chance.borrow_mut();
        let network = &mut *self.shared.shard.network.borrow_mut();
        network.disconnect(rng, life);
    }

    /// Ends all faults: dead loggers restart, disks work, no logger is paused.
    pub fn heal(&self) {
        for logger in self.shared.loggers.borrow_mut().iter_mut() {
            logger.set_full(false);
            logger.set_slow(false);
            logger.is_paused = false;
            if !logger.lives() {
                logger.restart();
            }
        }
    }

    /// Oracle: the highest clock up to which a quorum has all determinants of a rank at the job's
    /// level, counted in the bytes of files and rings; `None`: there are none. A determinant that a
    /// quorum had at some time counts: later faults are those that the loggers promise to survive.
    pub fn reach(&self, rank: Rank) -> Option<Clock> {
        self.shared.shard.ledger.reach(rank)
    }

    /// Oracle: as [`Loggers::reach`], one past the last determinant.
    pub fn reached_end(&self, rank: Rank) -> EventIndex {
        self.shared.shard.ledger.reached_end(rank)
    }

    /// Oracle: the clock up to which a rank lets loggers trim its determinants. GC-1
    pub fn trimmed(&self, rank: Rank) -> Option<Clock> {
        self.shared.shard.ledger.trimmed_clock(rank)
    }

    /// Oracle: the violated rule, if there is one.
    pub fn breach(&self) -> Option<String> {
        self.shared.shard.ledger.breach()
    }

    /// All reports of loggers so far.
    pub fn reports(&self) -> Vec<String> {
        self.shared.shard.reports.borrow().clone()
    }

    /// The determinants that a recovering life reads: those after a clock, in batches, in order,
    /// complete up to where the life begins to write. EL-5
    ///
    /// # Errors
    /// When too few loggers answer, or their determinants are not complete.
    pub fn read(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        after: Clock,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let starts = self.shared.starts.borrow();
        let start = starts.get(&Life { rank, incarnation }).copied();
        drop(starts);
        self.read_up_to(rank, after, start)
    }

    /// As [`Loggers::read`], for a life that begins at the index `start.1`, after determinants of
    /// life `start.0`; `None`: all determinants.
    ///
    /// # Errors
    /// As [`Loggers::read`].
    pub fn read_up_to(
        &self,
        rank: Rank,
        after: Clock,
        start: Option<(Incarnation, EventIndex)>,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let bug = self.shared.shard.network.borrow().bug;
        let reads_tail = bug == Some(Planted::TailRead);
        let request = ReadRequest {
            job: JOB,
            rank,
            from: EventIndex(0),
            after_clock: Some(after),
            until: start.map_or(EventIndex(0), |start| start.1),
            follows: start.map(|start| start.0).filter(|_| !reads_tail),
            quorum: self.shared.plan.quorum as usize,
            timeout: TICK,
        };
        let ask = |address: &ServerAddress| {
            let logger = Self::logger_at(address).unwrap_or_default();
            read_rank(&mut Question::begin(self, logger)?, &request)
        };
        let row = read_ranks(&self.addresses(), &request, ask, || false)?;
        let batches = row.batches().map(|(mut header, payload)| {
            let mut batch = vec![0; HEADER_BYTES];
            batch.extend_from_slice(payload);
            if bug == Some(Planted::OnlyFirstKept) {
                header.count = 1;
                header.last_clock = header.first_clock;
            }
            header.seal(&mut batch);
            batch
        });
        Ok(batches.collect())
    }
}
