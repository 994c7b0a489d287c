//! The assembly of a life of a rank: real parts over simulated ones.

use super::events::{EventStore, SimCommitments, SimOutput, Watched};
use super::fabric::RankFabric;
use super::log::CrashingStore;
use super::log::load_logs;
use super::rank::{Joining, Parts, RankProcess, SimEngine};
use super::stage::Stage;
use crate::crash_point::CrashPoint;
use crate::happening::Life;
use crate::loggers::JOB;
use crate::plan::Plan;
use crate::planted::Planted;
use crate::recollect::{Remains, image_of};
use crate::saved::Saved;
use core::ops::Range;
use core::time::Duration;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_logging::pessimist::Pessimist;
use refrain_logging::spill::{SpillLog, SpillOptions};
use refrain_logging::store::faulty::{Delivery, MemoryOptions, MemoryStore};
use refrain_rank::checkpoint::decode_engine;
use refrain_rank::previous_logs::PreviousLogs;
use refrain_rank::protocol::Logging;
use refrain_rank::spilling::{Environment, Spilling};
use refrain_ring::{Arena, Clock, Incarnation, Rank};
use refrain_transport::divergence::DivergencePolicy;
use refrain_transport::engine::{Delivered, Engine, EngineOptions};
use refrain_transport::fabric::sim::{Faults, Network, Options, SimFabric, TICK_NS};
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum number of concurrent writes to the disk of a log.
const WRITES_MAX: usize = 2;
/// Spilling begins when the complete chunks exceed one part in this many of a log's memory.
const SPILL_AFTER: u64 = 4;

/// Payload of staged frames, in bytes; the minimum is below that of any real fabric.
const STAGED_BYTES: Range<usize> = 4..6000;
/// Maximum payload of one record in explored jobs, in bytes.
const SMALL_FRAGMENT_BYTES: usize = 64;

/// Memory and network of a life, created before its program begins.
#[derive(Debug)]
pub struct RankEnd {
    /// The rank's end of the network.
    pub fabric: SimFabric,
    /// The memory of its logs.
    pub arena: Arena,
}

/// The environment of spilling: the network's time; reports are dropped.
#[derive(Debug)]
struct Quiet(Network);

impl Environment for Quiet {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now() * TICK_NS)
    }

    fn report(&mut self, _text: &str) {}
}

/// The state with which a life begins.
pub struct LifeBeginning {
    /// Number of the checkpoint; 0 is the beginning of the program.
    pub number: u32,
    /// Contents of the checkpoint.
    pub saved: Saved,
    /// Number of the first checkpoint that the life takes.
    pub next_number: u32,
    /// Number of words that earlier lives have output and that the life prints again.
    pub seen_before: usize,
    /// The records after the checkpoint.
    pub events: Vec<Determinant>,
    /// What earlier lives have left of their logs. REC-8
    pub remains: Vec<Remains>,
}

impl LifeBeginning {
    /// The beginning of a rank's first life.
    pub fn first(saved: Saved) -> Self {
        Self {
            number: 0,
            saved,
            next_number: 1,
            seen_before: 0,
            events: Vec::new(),
            remains: Vec::new(),
        }
    }
}

/// The records for the replay, as a planted bug changes them.
fn records(events: &[Determinant], planted: Option<Planted>) -> Vec<Determinant> {
    let is_match =
        |event: &Determinant| matches!(event, Determinant::Match(it) if !it.is_completed);
    let drops = |event: &Determinant| match planted {
        Some(Planted::NothingIgnored) => matches!(event, Determinant::Nothing { .. }),
        Some(Planted::CancelForgotten) => matches!(event, Determinant::Cancelled { .. }),
        _ => false,
    };
    let mut events: Vec<_> = events.iter().filter(|it| !drops(it)).cloned().collect();
    let first_match = events.iter().position(is_match);
    if let (Some(Planted::MatchDropped), Some(first)) = (planted, first_match) {
        events.remove(first);
    }
    if planted == Some(Planted::LastRecordLost) {
        events.pop();
    }
    if planted == Some(Planted::NumberFresh) {
        for event in &mut events {
            if let Determinant::Number { value, .. } = event {
                *value = value.wrapping_add(1);
            }
        }
    }
    events
}

/// What lives are assembled from.
#[derive(Debug)]
pub struct Assembly<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The network.
    pub network: &'a Network,
    /// Where lives report happenings.
    pub stage: &'a Rc<Stage>,
}

impl Assembly<'_> {
    /// Assembles a life whose first determinant has number `start`. REC-1
    ///
    /// # Errors
    /// When its checkpoint or records cannot be used.
    pub fn process(
        &self,
        joining: Joining,
        start: EventIndex,
        place: RankEnd,
        begins: LifeBeginning,
    ) -> Result<RankProcess, String> {
        let Joining {
            life,
            crash_point,
            events,
        } = joining;
        let plan = self.plan;
        let mut protocol = self.protocol(life, events, start);
        if plan.planted == Some(Planted::ReplayedRecorded) {
            protocol.record_again(&begins.events);
        }
        let options = EngineOptions {
            rank: life.rank,
            incarnation: life.incarnation,
            size: plan.ranks,
            window_bytes: plan.log.window_bytes(plan.ranks, plan.whole.is_some()),
        };
        let RankEnd { fabric, arena } = place;
        let memory = arena.region().clone();
        let fabric = RankFabric {
            end: fabric,
            life,
            crash_point: crash_point.clone(),
            stage: self.stage.clone(),
            planted: plan.planted,
            begun: begins.saved.beginning.begun(),
        };
        let mut engine = Engine::new(options, arena, Box::new(fabric), protocol)
            .with_clock(Clock(plan.first_clock))
            .with_shared_payload(plan.shared_bytes(), 1);
        if plan.whole.is_some() {
            engine.keep_results();
        }
        let mut disk = None;
        if plan.log.disk_bytes > 0 {
            let store = store(plan.seed.wrapping_mul(31) ^ u64::from(life.rank.0));
            disk = Some(store.disk());
            let store = CrashingStore {
                inner: store,
                crash_point: crash_point.clone(),
                lies: plan.planted == Some(Planted::DiskLies),
                lied: VecDeque::new(),
            };
            engine = engine.with_spill(Box::new(self.spilling(life, store)));
        }
        engine = engine.with_set(plan.members_of(life.rank));
        if life.incarnation > Incarnation(0) {
            engine = self.begin_again(engine, life.rank, &begins, &crash_point)?;
        }
        Ok(RankProcess::new(Parts {
            life,
            crash_point,
            engine,
            begins,
            memory,
            disk,
            stage: self.stage.clone(),
            planted: plan.planted,
            whole: plan.whole,
            is_in_set: !plan.members_of(life.rank).is_empty(),
            spills: plan.log.disk_bytes > 0,
        }))
    }

    fn protocol(
        &self,
        life: Life,
        events: EventStore,
        start: EventIndex,
    ) -> Watched<Logging<SimCommitments, SimOutput>> {
        let mut events = events;
        events.begin(self.plan.ranks);
        let commitments = SimCommitments::new(events, start, self.plan.planted);
        let identity = Identity {
            job: JOB,
            rank: life.rank,
            incarnation: life.incarnation,
        };
        let pessimist = match self.plan.protocol.carries() {
            true => Pessimist::after_unstable(identity, start, commitments),
            false => Pessimist::new(identity, start, commitments),
        };
        Watched {
            inner: Logging::new(self.plan.protocol, Some(pessimist), SimOutput::default()),
            life,
            stage: self.stage.clone(),
            planted: self.plan.planted,
        }
    }

    fn spilling(&self, life: Life, store: CrashingStore) -> Spilling<CrashingStore, Quiet> {
        let plan = self.plan;
        let options = SpillOptions {
            job: JOB,
            rank: life.rank,
            incarnation: life.incarnation,
            size: plan.ranks,
            disk_bytes: plan.log.disk_bytes,
            writes_max: WRITES_MAX,
        };
        let after_bytes = plan.log.memory_bytes / SPILL_AFTER;
        let log = SpillLog::new(options, store);
        let quiet = Quiet(self.network.clone());
        Spilling::new(log, "the disk".into(), after_bytes, quiet)
    }

    /// Restores the engine from its checkpoint and gives it the records for the replay. REC-1,
    /// REC-2, REC-8
    fn begin_again(
        &self,
        engine: SimEngine,
        rank: Rank,
        begins: &LifeBeginning,
        crash_point: &CrashPoint,
    ) -> Result<SimEngine, String> {
        let planted = self.plan.planted;
        let mut engine = engine;
        if let Some(part) = &begins.saved.engine {
            let state = decode_engine(&part.state);
            let (_, mut state) = state.map_err(|error| error.to_string())?;
            if planted == Some(Planted::DeliveredForgotten) {
                state.delivered.fill(Delivered::default());
            }
            let next = state.next.clone();
            engine = engine.with_beginning(state);
            if planted != Some(Planted::LogLeftOut) {
                load_logs(&mut engine, rank, &next, part, crash_point)?;
            }
            if planted == Some(Planted::HorizonEarly) {
                engine.publish_horizon();
            }
        }
        if planted == Some(Planted::LossUnnoticed) {
            engine = engine.without_record_check();
        }
        let records = records(&begins.events, planted);
        let records = recorded_events(&records).map_err(|error| error.to_string())?;
        engine = engine.with_recorded_events(records);
        let mut sends = PreviousLogs::new(JOB, rank);
        for remains in &begins.remains {
            sends.add_life(image_of(remains, None), remains.life.incarnation);
        }
        if planted != Some(Planted::FirstBytesForgotten) {
            engine = engine.with_previous_sends(Box::new(sends), DivergencePolicy::Auto);
        }
        Ok(engine)
    }
}

fn store(seed: u64) -> MemoryStore {
    MemoryStore::new(MemoryOptions {
        seed,
        file_prefix: String::new(),
        job: JOB,
        delivery: Delivery::Shuffled { late_percent: 50 },
        room_bytes: u64::MAX,
    })
}

/// The network of a job.
pub fn network(plan: &Plan) -> Network {
    let options = match plan.network.is_rough {
        true => Options::rough(plan.seed),
        false => Options::calm(plan.seed),
    };
    let fence_off = plan.planted == Some(Planted::FenceLeaks);
    let mut options = Options {
        faults: Faults {
            // No notices of loss are given: no rank may rely on them.
            loss_notice_ticks_max: None,
            fence_off,
            ..options.faults
        },
        window_bytes: plan.log.window_bytes(plan.ranks, plan.whole.is_some()),
        ..options
    }
    .reading_in_place(plan.network.reads_in_place);
    if plan.network.is_staged {
        options.attributes.staged_bytes = STAGED_BYTES;
    }
    if plan.is_explored() {
        options.attributes.fragment_bytes = SMALL_FRAGMENT_BYTES;
    }
    if let Some(bytes) = plan.network.distant_bytes_min {
        options = options.distant_from(bytes as usize);
    }
    Network::new(options)
}
