//! The world: ranks on real engines, event loggers, a checkpoint store, a launcher, the
//! network between ranks, and the oracles that see all effects.
//!
//! It has two drivers:
//!
//! * [`seeded`](run): a whole job of a [plan](crate::plan). In each step the seed chooses one
//!   process, which does one thing; faults happen before it, and oracles check after it.
//! * [`explored`]: a small job, in every order of arrivals, deaths and beginnings. The explorer
//!   decides which batches and checkpoints are stable.

mod assembly;
mod calls;
mod collectives;
mod events;
pub mod explored;
mod fabric;
mod faults;
mod launcher;
pub mod log;
mod losses;
mod rank;
mod recovery;
pub mod room;
mod seeded;
mod sets;
mod sizes;
mod stage;

pub use seeded::run;
pub use stage::{Count, Counts, Failure, Totals};

use crate::checkpoints::Checkpoints;
use crate::crash_point::CrashPoint;
use crate::happening::{Breach, Happening, Life};
use crate::held::HeldLedger;
use crate::loggers::Loggers;
use crate::plan::{Plan, Process};
use crate::planted::Planted;
use crate::recollect::Remains;
use crate::saved::Saved;
use assembly::{Assembly, RankEnd, network};
use events::{EventStore, HeldStore};
use explored::LogMemories;
use fastrand::Rng;
use faults::Injector;
use launcher::{News, RankStatus};
use rank::{Joining, RankProcess, RankSlot};
use refrain_logging::EventStore as Store;
use refrain_logging::held::{Losses, Tolerance};
use refrain_logging::rounds::{Order, Rounds};
use refrain_logging::store::faulty::MemoryDisk;
use refrain_ring::{Arena, Incarnation, Rank};
use refrain_transport::fabric::sim::Network;
use refrain_transport::fabric::{Address, Fabric};
use stage::Stage;
use std::collections::VecDeque;
use std::rc::Rc;
#[cfg(test)]
use {
    crate::program::Program,
    refrain_logging::determinant::recorder::{Identity, Recorder},
    refrain_logging::determinant::row::determinants,
    refrain_logging::determinant::{Determinant, EventIndex},
    refrain_ring::Clock,
};

/// A job; see the [module](self).
struct World<'a> {
    plan: &'a Plan,
    rng: Rng,
    stage: Rc<Stage>,
    network: Network,
    loggers: Loggers,
    /// Present where ranks hold events: the oracle's account, and what the launcher knows.
    held: Option<HeldLedger>,
    losses: Losses,
    /// The rounds of correlated sets.
    rounds: Rounds,
    /// By rank: orders of rounds that it has not handled.
    orders: Vec<VecDeque<Order>>,
    /// For the newest life of each rank.
    crash_points: Vec<CrashPoint>,
    logger_crash_points: Vec<CrashPoint>,
    checkpoints_crash_point: CrashPoint,
    /// Step at which each dead or paused logger returns.
    logger_back: Vec<Option<u64>>,
    checkpoints: Checkpoints<Saved>,
    checkpoints_back: Option<u64>,
    /// By rank: the launcher's view.
    statuses: Vec<RankStatus>,
    injector: Injector,
    slots: Vec<RankSlot>,
    /// Replaced lives that still run.
    replaced: Vec<RankProcess>,
    /// By rank: the life that determines the arbitrary bytes in its messages; whether later lives
    /// keep these bytes, because a replaced life left its log too late for the next one to compare.
    litters: Vec<(Incarnation, bool)>,
    /// By rank: memory and network, until its program begins.
    ends: Vec<Option<RankEnd>>,
    /// By rank: the life that can be reached, with its address.
    reachable: Vec<Option<(Life, Address)>>,
    /// By rank: unhandled news.
    news: Vec<VecDeque<News>>,
    disks: Vec<Option<MemoryDisk>>,
    remains: Vec<Vec<Remains>>,
    /// By rank: the step until which the disk of its log is full or slow.
    disk_back: Vec<Option<u64>>,
    step: u64,
    is_healed: bool,
    /// The rank whose acknowledged events loggers or other ranks have lost.
    lossy: Option<Rank>,
    /// How many of that rank's events are left at other ranks, in percent.
    held_percent: Option<u8>,
    /// Whether that rank has noticed the loss (REC-9), or more ranks were gone than the protocol
    /// stands (TICKET-4): either ends the job.
    has_stopped: bool,
    /// Log memory that an explorer reuses. The last field: it is returned when nothing uses it.
    memories: Option<LogMemories>,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, is_loud: bool) -> Self {
        let network = network(plan);
        let replicas = 0..plan.loggers.replicas;
        let crash_points: Vec<CrashPoint> = replicas
            .map(|logger| Injector::crash_point(plan, Process::Logger(logger)))
            .collect();
        let seed = plan.seed ^ 0x10_66_e5;
        let loggers = Loggers::new(plan.loggers, crash_points.clone(), seed, plan.planted);
        let beside = plan.has_loggers_beside.then(|| loggers.clone());
        let held = (plan.tolerance()).map(|tolerance| HeldLedger::new(tolerance, beside));
        let accounts = (loggers.clone(), held.clone());
        let stage = Rc::new(Stage::new(plan.ranks, accounts, is_loud));
        stage.facts.carries.set(plan.protocol.carries());
        stage.oracles.borrow_mut().channel.leaves_out = plan.whole.is_some();
        stage.oracles.borrow_mut().put_into_sets(&plan.set_of_rank);
        let ranks = plan.ranks as usize;
        let checkpoints_crash_point = Injector::crash_point(plan, Process::Checkpoints);
        let mut job = Self {
            plan,
            rng: Rng::with_seed(plan.seed),
            stage,
            network,
            loggers,
            held,
            losses: Losses::new(plan.tolerance()),
            rounds: Rounds::new(&plan.set_of_rank),
            orders: vec![VecDeque::new(); ranks],
            crash_points: Vec::new(),
            logger_crash_points: crash_points,
            checkpoints_crash_point: checkpoints_crash_point.clone(),
            logger_back: vec![None; plan.loggers.replicas as usize],
            checkpoints: Checkpoints::new(plan, plan.seed ^ 0xc4ec4, checkpoints_crash_point),
            checkpoints_back: None,
            statuses: vec![RankStatus::Fine; ranks],
            injector: Injector::new(plan),
            slots: Vec::new(),
            replaced: Vec::new(),
            litters: vec![(Incarnation(0), false); ranks],
            ends: Vec::new(),
            reachable: Vec::new(),
            news: vec![VecDeque::new(); ranks],
            disks: vec![None; ranks],
            remains: vec![Vec::new(); ranks],
            disk_back: vec![None; ranks],
            step: 0,
            is_healed: false,
            lossy: None,
            held_percent: None,
            has_stopped: false,
            memories: plan.is_explored().then(LogMemories::default),
        };
        job.losses.begin();
        job.begin();
        job
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.plan.ranks).map(Rank)
    }

    /// Connects every rank to the network and begins its connection to the loggers.
    fn begin(&mut self) {
        for rank in self.ranks() {
            let life = Life {
                rank,
                incarnation: Incarnation(0),
            };
            let end = self.connect_to_network(life);
            let address = end.fabric.address();
            self.ends.push(Some(end));
            self.reachable.push(Some((life, address)));
            let crash_point = Injector::crash_point(self.plan, Process::Rank(rank));
            self.crash_points.push(crash_point.clone());
            let joining = self.join(life, crash_point);
            self.stage.tell(&Happening::Began(life));
            self.slots.push(RankSlot::Starting(Box::new(joining)));
            self.stage.facts.alive.borrow_mut()[rank.index()] = Some(life.incarnation);
        }
        let address = |end: &Option<RankEnd>| end.as_ref().map(|end| end.fabric.address());
        let addresses: Vec<_> = self.ends.iter().map(address).collect();
        for (rank, place) in self.ranks().zip(&mut self.ends) {
            for (peer, address) in (0..).map(Rank).zip(&addresses) {
                if let (true, Some(place), Some(address)) = (peer != rank, &mut *place, address) {
                    let connected = place.fabric.connect(peer, Incarnation(0), address);
                    connected.expect("a peer that was started");
                }
            }
        }
    }

    /// Creates memory and network of a life.
    fn connect_to_network(&mut self, life: Life) -> RankEnd {
        let Life { rank, incarnation } = life;
        let bytes = (self.plan.log.memory_bytes + self.plan.shared_bytes()) as usize;
        let (fabric, arena) = match &mut self.memories {
            None => self.network.start(rank, incarnation, bytes),
            Some(memories) => {
                let region = memories.lend(bytes);
                let fabric = self.network.start_in(rank, incarnation, region.clone());
                (fabric, Arena::new(region, 0, Box::new(|_, _| Ok(()))))
            }
        };
        RankEnd { fabric, arena }
    }

    fn join(&self, life: Life, crash_point: CrashPoint) -> Joining {
        let events = match self.plan.is_explored() {
            true => EventStore::Explored(Default::default()),
            false => match (self.plan.protocol.events(), &self.held) {
                (Store::Ranks(gives), Some(ledger)) => EventStore::Ranks(Box::new(HeldStore {
                    stores: None,
                    loggers: (self.plan.has_loggers_beside)
                        .then(|| Box::new(self.loggers.connect(life, crash_point.clone()))),
                    gives,
                    tolerance: match self.plan.planted {
                        Some(Planted::HeldByOne) => Tolerance::new(1, &self.plan.set_of_rank),
                        Some(Planted::HeldInSet) => Tolerance::new(self.plan.failures_at_once, &[]),
                        _ => ledger.tolerance().clone(),
                    },
                    collected: None,
                    ledger: ledger.clone(),
                    life,
                })),
                _ => {
                    let client = self.loggers.connect(life, crash_point.clone());
                    EventStore::Loggers(Box::new(client))
                }
            },
        };
        Joining {
            life,
            events,
            crash_point,
        }
    }

    fn assembly(&self) -> Assembly<'_> {
        Assembly {
            plan: self.plan,
            network: &self.network,
            stage: &self.stage,
        }
    }
}

impl World<'_> {
    /// The violated rule of this step, if there is one.
    pub(super) fn check(&self) -> Result<(), Breach> {
        match self.stage.first_breach() {
            Some(breach) if !self.may_still_stop(&breach) => return Err(breach),
            _ => {}
        }
        let oracle = "loggers";
        let lost = self.loggers.breach();
        lost.map_or(Ok(()), |what| Err(Breach { oracle, what }))
    }

    /// Whether a breach may be ignored: a rank with lost records may diverge until its peers report
    /// what they have. If the rank stops then, the divergence does not count. REC-9
    fn may_still_stop(&self, breach: &Breach) -> bool {
        self.lossy.is_some() && matches!(breach.oracle, "channel" | "collective" | "orphan")
    }

    pub(super) fn is_over(&self) -> bool {
        self.slots.iter().all(RankSlot::is_over)
            && self.statuses.iter().all(|it| *it == RankStatus::Fine)
            && self.replaced.is_empty()
            && self.news.iter().all(VecDeque::is_empty)
            && self.orders.iter().all(VecDeque::is_empty)
            && !self.injector.waits_for_step()
    }

    /// Ends all faults and restores everything that failed. Returns whether this is the first call.
    pub(super) fn heal(&mut self) -> bool {
        if core::mem::replace(&mut self.is_healed, true) {
            return false;
        }
        self.injector.stop();
        for back in self.logger_back.iter_mut().chain(&mut self.disk_back) {
            *back = back.map(|_| 0);
        }
        self.checkpoints_back = self.checkpoints_back.map(|_| 0);
        for slot in &mut self.slots {
            if let RankSlot::Living(process) = slot {
                process.pause_steps = 0;
            }
        }
        self.come_back();
        self.loggers.heal();
        true
    }

    pub(super) fn end(&mut self) -> Result<Totals, Breach> {
        // The job has not stopped, so a breach counts.
        if let Some(breach) = self.stage.first_breach() {
            return Err(breach);
        }
        for slot in &self.slots {
            let waits = match slot {
                RankSlot::Living(process) => process.holds_back() || !process.is_finished(),
                RankSlot::Starting(_) | RankSlot::Dead(_) | RankSlot::Returning(_) => true,
            };
            if waits {
                return Err(self.stands("stalls"));
            }
        }
        self.heal();
        self.check_held_back()?;
        self.read_all_logs()?;
        self.stage.oracles.borrow_mut().at_end(&self.stage.facts)?;
        let state = |slot: &RankSlot| match slot {
            RankSlot::Living(process) if process.is_finished() => Some(process.state()),
            _ => None,
        };
        let states: Vec<_> = self.slots.iter().map(state).collect();
        self.stage
            .oracles
            .borrow()
            .outcome
            .judge(self.plan, &states)?;
        Ok(self.sum())
    }

    /// The totals of the job.
    pub(super) fn sum(&self) -> Totals {
        self.stage.note(self.network.digest());
        self.stage.totals()
    }

    /// Between living ranks no message waits, unless the log has no room.
    fn check_held_back(&self) -> Result<(), Breach> {
        let is_living = |rank: &Rank| matches!(self.slots[rank.index()], RankSlot::Living(_));
        let oracles = self.stage.oracles.borrow();
        for sender in self.ranks().filter(is_living) {
            let RankSlot::Living(process) = &self.slots[sender.index()] else {
                continue;
            };
            let others = self.ranks().filter(|other| *other != sender);
            for receiver in others.filter(is_living) {
                let waits = oracles.orphan.is_held_back(sender, receiver)
                    || oracles.log.has_begun_to_send(sender, receiver);
                if waits && process.engine.stall().is_none() {
                    let how =
                        format!("ends with a message of {sender} to {receiver} that never left");
                    return Err(self.stands(&how));
                }
            }
        }
        Ok(())
    }

    pub(super) fn stands(&self, how: &str) -> Breach {
        let slots: Vec<String> = self
            .slots
            .iter()
            .map(|slot| match slot {
                RankSlot::Living(process) => {
                    format!("rank {}: {}", process.life.rank, process.explain())
                }
                RankSlot::Starting(joining) => format!("{} joins its loggers", joining.life),
                RankSlot::Returning(_) => format!(
                    "{} collects its checkpoint, records and messages",
                    slot.life()
                ),
                RankSlot::Dead(life) => format!("{life} is dead"),
            })
            .collect();
        Breach {
            oracle: "liveness",
            what: format!(
                "the job {how}: {}; loggers: {:?}",
                slots.join("; "),
                self.loggers.reports().iter().take(12).collect::<Vec<_>>()
            ),
        }
    }
}

/// The result of a run without faults, by rank: for tests of oracles.
#[cfg(test)]
pub(crate) struct Recorded {
    /// The rank's events, as the real recorder writes them.
    pub records: Vec<Vec<Determinant>>,
    pub programs: Vec<Program>,
    pub prints: Vec<Vec<u64>>,
    /// The clock of the rank's last operation.
    pub clocks: Vec<Clock>,
}

/// Runs a plan without faults, with the seed `timing` instead of its own.
#[cfg(test)]
pub(crate) fn record(plan: &Plan, timing: u64) -> Recorded {
    let plan = &Plan {
        seed: timing,
        faults: Vec::new(),
        ..plan.clone()
    };
    let mut world = World::new(plan, false);
    let ended = world.run();
    ended.unwrap_or_else(|breach| panic!("{plan}{breach}"));
    let oracles = world.stage.oracles.borrow();
    let processes = world.slots.iter().map(|slot| match slot {
        RankSlot::Living(process) => process,
        other => unreachable!("{other:?} at the end"),
    });
    Recorded {
        records: (world
            .ranks()
            .map(|rank| recorded(rank, oracles.outcome.happened(rank))))
        .collect(),
        prints: (world
            .ranks()
            .map(|rank| oracles.outcome.printed(rank).to_vec()))
        .collect(),
        programs: (processes.clone().map(|process| process.program().clone())).collect(),
        clocks: processes.map(|process| process.engine.now()).collect(),
    }
}

/// Events as the recorder writes them.
#[cfg(test)]
fn recorded(rank: Rank, events: &[Determinant]) -> Vec<Determinant> {
    let identity = Identity {
        job: crate::loggers::JOB,
        rank,
        incarnation: Incarnation(0),
    };
    let mut recorder = Recorder::new(identity, EventIndex(0));
    let (mut batches, mut batch) = (Vec::new(), Vec::new());
    for (number, event) in events.iter().enumerate() {
        match event {
            Determinant::Match(it) if it.is_completed => unreachable!("engines tell both apart"),
            Determinant::Match(it) => recorder.matched(it.at, it.matched, it.is_named),
            Determinant::Probe {
                at,
                source,
                ssn,
                tag,
                bytes,
            } => recorder.probed(*at, *source, *ssn, *tag, *bytes),
            Determinant::Completion { at, requests, .. } => recorder.completed(*at, requests),
            Determinant::Cancelled { at, request } => recorder.cancelled(*at, *request),
            Determinant::Number { at, series, value } => recorder.number(*at, *series, *value),
            Determinant::Bytes { at, bytes } => recorder.bytes(*at, bytes),
            Determinant::Nothing { at, .. } => recorder.nothing(*at),
        }
        let is_last = number + 1 == events.len();
        while recorder.take_batch(is_last, &mut batch).is_some() {
            batches.push(core::mem::take(&mut batch));
        }
    }
    let batches = batches.iter().map(Vec::as_slice);
    determinants(rank, crate::loggers::JOB, batches, None).expect("as it was written")
}
