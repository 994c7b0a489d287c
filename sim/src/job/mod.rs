//! The job at work: in each step one process does one thing, chosen by the seed;
//! before it what goes wrong then goes wrong, after it the oracles are asked.

mod assembly;
mod caller;
mod commitments;
mod deaths;
mod ending;
mod fabric;
mod facts;
mod failing;
mod injector;
mod launcher;
mod news;
mod process;
mod protocol;
mod recollecting;
mod requests;
pub(crate) mod room;
mod saving;
mod seat;
mod stage;
mod store;
mod totals;
mod work;

pub use injector::FaultCounts;
pub use stage::{Audience, Stage};
pub use totals::{Failure, Totals};

use crate::checkpoints::Checkpoints;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::Loggers;
use crate::mortal::Mortal;
use crate::oracle::Oracles;
use crate::plan::{Plan, Process};
use crate::planted::Planted;
use crate::recollect::{Remains, Saved};
use assembly::{Assembly, Place, network};
use facts::Facts;
use fastrand::Rng;
use injector::Injector;
use launcher::Launcher;
use news::News;
use refrain_logging::store::faulty::MemoryDisk;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::sim::Network;
use refrain_transport::fabric::{Address, Fabric};
use seat::{Joining, Seat};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use totals::Judges;

/// A job that does not end in so many steps never does.
const STEPS_MAX: u64 = 1_000_000;
/// Steps in which nothing moves, per process, after which nothing will by
/// itself.
const QUIET_ROUNDS: u64 = 12;
/// Time that passes when nothing moves, in ticks.
const QUIET_TICKS: u64 = 100_000;
/// So often time has to pass for nothing before the job is over.
/// Disks of logs are tried again after 5 seconds at the latest.
const QUIET_TIMES: u32 = 60;

/// Runs a plan. `is_loud`: everything that happens is printed.
///
/// # Errors
/// The first thing that must not be.
pub fn run(plan: &Plan, is_loud: bool) -> Result<Totals, Box<Failure>> {
    let mut job = Job::new(plan, is_loud);
    job.run().map_err(|breach| {
        Box::new(Failure {
            step: job.step,
            breach,
        })
    })
}

/// A job; see the [module](self).
struct Job<'a> {
    plan: &'a Plan,
    rng: Rng,
    stage: Stage,
    network: Network,
    loggers: Loggers,
    /// Of each rank's newest life.
    mortals: Vec<Mortal>,
    logger_mortals: Vec<Mortal>,
    checkpoints_mortal: Mortal,
    /// Steps until each logger that is dead is started again, or goes on.
    logger_back: Vec<Option<u64>>,
    checkpoints: Checkpoints<Saved>,
    checkpoints_back: Option<u64>,
    launcher: Launcher,
    injector: Injector,
    seats: Vec<Seat>,
    /// Living ranks that were replaced.
    zombies: Vec<process::RankProcess>,
    /// By rank: whose garbage is in its messages; whether that stays, as a replaced life
    /// leaves its log too late for the next to compare with it.
    litters: Vec<(Incarnation, bool)>,
    /// Before the program begins: memory and network of each rank.
    places: Vec<Option<Place>>,
    /// By rank: the life that can be reached, and where.
    cards: Vec<Option<(Life, Address)>>,
    /// By rank: what it was told and has not heard yet.
    news: Vec<VecDeque<News>>,
    disks: Vec<Option<MemoryDisk>>,
    remains: Vec<Vec<Remains>>,
    /// Disks of logs that are full or slow: until which step.
    disk_back: Vec<Option<u64>>,
    facts: Rc<Facts>,
    oracles: Rc<RefCell<Oracles>>,
    totals: Rc<RefCell<Totals>>,
    faults: FaultCounts,
    step: u64,
    is_healed: bool,
    /// Of this rank loggers have lost acknowledged events.
    lossy: Option<Rank>,
    /// It has noticed that, and the job is over. REC-9
    has_stopped: bool,
}

impl<'a> Job<'a> {
    fn new(plan: &'a Plan, is_loud: bool) -> Self {
        let network = network(plan);
        let replicas = 0..plan.loggers.replicas;
        let mortals: Vec<Mortal> = replicas
            .map(|logger| Injector::mortal(plan, Process::Logger(logger)))
            .collect();
        let bug = plan.planted.and_then(Planted::of_loggers);
        let loggers = Loggers::new(plan.loggers, mortals.clone(), plan.seed ^ 0x10_66_e5, bug);
        let facts = Rc::new(Facts::new(plan.ranks, loggers.clone()));
        let oracles = Rc::new(RefCell::new(Oracles::new(plan.ranks)));
        let totals = Rc::new(RefCell::new(Totals::default()));
        let judges = Judges {
            oracles: Rc::clone(&oracles),
            facts: Rc::clone(&facts),
            totals: Rc::clone(&totals),
        };
        let ranks = plan.ranks as usize;
        let checkpoints_mortal = Injector::mortal(plan, Process::Checkpoints);
        let mut job = Self {
            plan,
            rng: Rng::with_seed(plan.seed),
            stage: Stage::new(Box::new(judges), is_loud),
            network,
            loggers,
            mortals: Vec::new(),
            logger_mortals: mortals,
            checkpoints_mortal: checkpoints_mortal.clone(),
            logger_back: vec![None; plan.loggers.replicas as usize],
            checkpoints: Checkpoints::new(plan, plan.seed ^ 0xc4ec4, checkpoints_mortal),
            checkpoints_back: None,
            launcher: Launcher::new(plan.ranks),
            injector: Injector::new(plan),
            seats: Vec::new(),
            zombies: Vec::new(),
            litters: vec![(Incarnation(0), false); ranks],
            places: Vec::new(),
            cards: Vec::new(),
            news: vec![VecDeque::new(); ranks],
            disks: vec![None; ranks],
            remains: vec![Vec::new(); ranks],
            disk_back: vec![None; ranks],
            facts,
            oracles,
            totals,
            faults: FaultCounts::default(),
            step: 0,
            is_healed: false,
            lossy: None,
            has_stopped: false,
        };
        job.begin();
        job
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.plan.ranks).map(Rank)
    }

    /// Every rank gets its place and looks for its loggers.
    fn begin(&mut self) {
        for rank in self.ranks() {
            let bytes = self.plan.log.memory_bytes as usize;
            let (fabric, arena) = self.network.start(rank, Incarnation(0), bytes);
            let address = fabric.address();
            self.places.push(Some(Place { fabric, arena }));
            let life = Life {
                rank,
                incarnation: Incarnation(0),
            };
            self.cards.push(Some((life, address)));
            let mortal = Injector::mortal(self.plan, Process::Rank(rank));
            self.mortals.push(mortal.clone());
            let joining = self.join(life, mortal);
            self.stage.tell(&Happening::Began(life));
            self.seats.push(Seat::Starting(Box::new(joining)));
            self.facts.set_alive(rank, Some(life.incarnation));
        }
        let address = |place: &Option<Place>| place.as_ref().map(|place| place.fabric.address());
        let addresses: Vec<_> = self.places.iter().map(address).collect();
        for (rank, place) in self.ranks().zip(&mut self.places) {
            for (peer, address) in (0..).map(Rank).zip(&addresses) {
                if let (true, Some(place), Some(address)) = (peer != rank, &mut *place, address) {
                    let connected = place.fabric.connect(peer, Incarnation(0), address);
                    connected.expect("a peer that was started");
                }
            }
        }
    }

    fn join(&self, life: Life, mortal: Mortal) -> Joining {
        Joining {
            life,
            client: self.loggers.connect(life, mortal.clone()),
            mortal,
        }
    }

    fn assembly(&self) -> Assembly<'_> {
        Assembly {
            plan: self.plan,
            network: &self.network,
            stage: &self.stage,
        }
    }

    fn run(&mut self) -> Result<Totals, Breach> {
        let actors = self.seats.len() as u64 + 5;
        let mut quiet = 0;
        let mut times = 0;
        while !self.is_over() {
            self.step += 1;
            self.stage.set_step(self.step);
            self.facts.set_step(self.step);
            self.fail();
            self.come_back();
            self.launch()?;
            let moved = self.act()?;
            self.bury();
            self.check()?;
            if self.has_stopped {
                return Ok(self.sum());
            }
            if self.step > STEPS_MAX {
                return Err(self.stands("does not end"));
            }
            quiet = if moved { 0 } else { quiet + 1 };
            times = if moved { 0 } else { times };
            if quiet > QUIET_ROUNDS * actors {
                (quiet, times) = (0, times + 1);
                self.network.advance(QUIET_TICKS);
                if times > QUIET_TIMES {
                    times = 0;
                    if !self.heal() {
                        break;
                    }
                }
            }
        }
        self.end()
    }
}
