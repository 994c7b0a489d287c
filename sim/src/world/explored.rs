//! The world, driven by an explorer: ranks die at every moment, and their next lives connect in
//! every order. docs/design/model-checking.md states what the exploration proves, and what it does
//! not.
//!
//! An engine cannot be copied. So a state is the sequence of actions that leads to it, and each
//! step runs the whole sequence from the beginning. All oracles see every effect; their memory is
//! part of the state.

pub use super::sizes::{Order, Size};

use super::World;
use super::events::ExploredEvents;
use super::launcher::News;
use super::rank::{Joining, RankSlot, Stepped};
use crate::checkpoints::Checkpoint;
use crate::crash_point::CrashPoint;
use crate::explorer::{Exploration, Model, explore};
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::plan::{Plan, Process};
use crate::planted::Planted;
use crate::saved::Saved;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::row::determinants;
use refrain_ring::{Incarnation, Rank, Region};
use refrain_transport::fabric::sim::{LaneKind, Route};
use std::any::Any;
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Explores all orders of actions at `size`; stops at the first violated rule.
pub fn run(size: &Size) -> Exploration {
    explore(&Restarts::of(size))
}

/// A step that the explorer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The first frame of a lane arrives.
    Deliver(Route, LaneKind),
    /// A rank handles one of its pending news, given by its index.
    Tell(Rank, usize),
    /// All events of a rank are stable.
    Stable(Rank),
    /// The checkpoint that a rank has taken is stable.
    Saved(Rank),
    /// A rank dies; of its unacknowledged batches, the first ones become stable, this many.
    Die(Rank, usize),
    /// The next life of a dead rank begins.
    Begin(Rank),
}

/// The world at one size, and the state that the explorer decides about.
struct Explored<'a> {
    world: World<'a>,
    size: &'a Size,
    /// Batches of the newest life of each rank.
    events: Vec<ExploredEvents>,
    /// Stable batches of each rank.
    rows: Vec<Vec<Rc<[u8]>>>,
    /// By rank: the checkpoint that is being written; below, the newest stable one.
    taken: Vec<Option<Box<Checkpoint<Saved>>>>,
    saved: Vec<Option<Box<Checkpoint<Saved>>>>,
    /// Number of deaths that may still occur.
    deaths: u8,
}

impl<'a> Explored<'a> {
    /// All ranks in their first lives, run until each one waits for an action.
    fn first(size: &'a Size, plan: &'a Plan) -> Result<Self, Breach> {
        let ranks = plan.ranks as usize;
        let mut explored = Self {
            world: World::new(plan, false),
            size,
            events: Vec::new(),
            rows: vec![Vec::new(); ranks],
            taken: vec![None; ranks],
            saved: vec![None; ranks],
            deaths: size.deaths,
        };
        for rank in explored.world.ranks() {
            let events = match &explored.world.slots[rank.index()] {
                RankSlot::Starting(joining) => joining.events.explored(),
                other => unreachable!("{other:?} has begun"),
            };
            explored.events.push(events);
            explored.world.start_program(rank)?;
        }
        for rank in explored.world.ranks() {
            explored.flow(rank)?;
        }
        Ok(explored)
    }

    /// Runs a rank until it waits for an action.
    fn flow(&mut self, rank: Rank) -> Result<(), Breach> {
        // The second idle step shows that the first one has left nothing to do.
        let mut idle = 0;
        while idle < 2 {
            let RankSlot::Living(process) = &mut self.world.slots[rank.index()] else {
                break;
            };
            let stepped = process.step();
            let stepped = process.checked(stepped)?;
            idle = match stepped {
                Stepped::Idle => idle + 1,
                Stepped::Moved => 0,
                Stepped::Takes(checkpoint) => {
                    self.taken[rank.index()] = Some(checkpoint);
                    0
                }
            };
        }
        self.world.check()
    }

    /// Does an action.
    fn act(&mut self, action: Action) -> Result<(), Breach> {
        let rank = match action {
            Action::Deliver(route, _) => route.to.rank,
            Action::Tell(rank, _)
            | Action::Stable(rank)
            | Action::Saved(rank)
            | Action::Die(rank, _)
            | Action::Begin(rank) => rank,
        };
        match action {
            Action::Deliver(route, lane) => drop(self.world.network.deliver_first(route, lane)),
            Action::Tell(_, nth) => self.tell(rank, nth)?,
            Action::Stable(_) => self.stabilize(rank, usize::MAX),
            Action::Saved(_) => self.save(rank),
            Action::Die(_, stable) => self.die(rank, stable),
            Action::Begin(_) => self.begin(rank)?,
        }
        self.flow(rank)
    }

    /// Handles one of the news. News of an earlier life, or of a known one, must change nothing.
    /// REC-6
    fn tell(&mut self, rank: Rank, nth: usize) -> Result<(), Breach> {
        let news = self.world.news[rank.index()].remove(nth);
        let (Some(news), RankSlot::Living(process)) = (news, &self.world.slots[rank.index()])
        else {
            return Ok(());
        };
        let connected = |of: &Life| process.engine.connected(of.rank);
        let is_stale = match &news {
            News::Down(of) => connected(of).is_some_and(|it| of.incarnation < it),
            News::Up(of, _) => connected(of).is_some_and(|it| of.incarnation <= it),
        };
        let before = is_stale.then(|| self.hash_of_rank(rank));
        let what = format!("{news:?}");
        self.world.heed_one(rank, news)?;
        if before.is_none_or(|before| before == self.hash_of_rank(rank)) {
            return Ok(());
        }
        Err(Breach {
            oracle: "order of news",
            what: format!("REC-6: {what} changes rank {rank}"),
        })
    }

    /// The first `batches` pending batches of a rank become stable.
    fn stabilize(&mut self, rank: Rank, batches: usize) {
        let mut events = self.events[rank.index()].0.borrow_mut();
        let batches = batches.min(events.pending.len());
        for (end, batch) in events.pending.drain(..batches).collect::<Vec<_>>() {
            events.stable = events.stable.max(end);
            let header = BatchHeader::peek(&batch).expect("a batch of the recorder");
            self.world.stage.facts.stable.borrow_mut()[rank.index()] = Some(header.last_clock);
            self.rows[rank.index()].push(batch);
        }
    }

    fn save(&mut self, rank: Rank) {
        let Some(checkpoint) = self.taken[rank.index()].take() else {
            return;
        };
        let number = checkpoint.number;
        self.saved[rank.index()] = Some(checkpoint);
        self.world.checkpoint_is_stable(rank, number);
    }

    fn die(&mut self, rank: Rank, stable: usize) {
        self.deaths -= 1;
        self.stabilize(rank, stable);
        let (world, index) = (&mut self.world, rank.index());
        let life = world.slots[index].life();
        world.crash_points[index].kill();
        world.stage.tell(&Happening::Died(Process::Rank(rank)));
        world.slots[index] = RankSlot::Dead(life);
        world.news[index].clear();
        world.reachable[index] = None;
        world.stage.facts.alive.borrow_mut()[rank.index()] = None;
        self.taken[index] = None;
        self.events[index] = ExploredEvents::default();
        world.tell_others(rank, &News::Down(life));
    }

    /// The next life begins and learns at once which peers can be reached. REC-1, REC-2
    fn begin(&mut self, rank: Rank) -> Result<(), Breach> {
        let (world, index) = (&mut self.world, rank.index());
        let incarnation = Incarnation(world.slots[index].life().incarnation.0 + 1);
        let life = Life { rank, incarnation };
        let saved = self.saved[index].as_ref();
        let (number, saved) = match saved {
            Some(checkpoint) => (checkpoint.number, checkpoint.contents.clone()),
            None => (0, world.beginning(rank)),
        };
        let after = (number > 0).then_some(saved.beginning.clock);
        let row = &self.rows[index];
        let held = determinants(rank, JOB, row.iter().map(|batch| &**batch), after);
        let held = held.map_err(|error| Breach {
            oracle: "recollect",
            what: format!("REC-2: {error}"),
        })?;
        world.stage.oracles.borrow().log.restarted(rank, number)?;
        let events = ExploredEvents::default();
        let last = row.last().and_then(|batch| BatchHeader::peek(batch).ok());
        let start = last.map_or(EventIndex(0), |last| last.end());
        events.0.borrow_mut().start = start;
        events.0.borrow_mut().stable = start;
        let joining = Joining {
            life,
            crash_point: CrashPoint::default(),
            events: super::EventStore::Explored(events.clone()),
        };
        self.events[index] = events;
        world.crash_points[index] = joining.crash_point.clone();
        world.stage.tell(&Happening::Began(life));
        world.stage.facts.alive.borrow_mut()[rank.index()] = Some(incarnation);
        world.resume(joining, start, (number, saved), held)?;
        while let Some(news) = world.news[index].pop_front() {
            world.heed_one(rank, news)?;
        }
        Ok(())
    }

    /// The actions that are possible.
    fn actions(&self) -> Vec<Action> {
        let mut all = Vec::new();
        self.add_arrivals(&mut all);
        for (rank, slot) in (0..).map(Rank).zip(&self.world.slots) {
            let index = rank.index();
            if !matches!(slot, RankSlot::Living(_)) {
                all.push(Action::Begin(rank));
                continue;
            }
            self.add_news(rank, &mut all);
            let pending = self.events[index].0.borrow().pending.len();
            if pending > 0 {
                all.push(Action::Stable(rank));
            }
            if self.taken[index].is_some() {
                all.push(Action::Saved(rank));
            }
            if self.deaths > 0 {
                all.extend((0..=pending).map(|stable| Action::Die(rank, stable)));
            }
        }
        all
    }

    fn add_arrivals(&self, all: &mut Vec<Action>) {
        for on_its_way in self.world.network.on_their_way() {
            let (from, to) = (on_its_way.route.from, on_its_way.route.to);
            let RankSlot::Living(process) = &self.world.slots[to.rank.index()] else {
                continue;
            };
            let connected = process.engine.connected(from.rank);
            let is_data = on_its_way.lane == LaneKind::Data;
            let leaks = self.size.planted == Some(Planted::FenceLeaks) && !is_data;
            if process.life.incarnation != to.incarnation
                || !(connected == Some(from.incarnation) || leaks)
            {
                continue;
            }
            let action = Action::Deliver(on_its_way.route, on_its_way.lane);
            // Only the first frame of a lane can arrive.
            if !all.contains(&action) {
                all.push(action);
            }
        }
    }

    fn add_news(&self, rank: Rank, all: &mut Vec<Action>) {
        let news = self.world.news[rank.index()].iter();
        let news: Vec<Rank> = news.map(News::of).collect();
        for (nth, of) in news.iter().enumerate() {
            if self.size.order == Order::Any || !news[..nth].contains(of) {
                all.push(Action::Tell(rank, nth));
            }
        }
    }

    /// Judges a state in which only deaths are possible.
    fn check_end(&self) -> Result<(), Breach> {
        let world = &self.world;
        let mut states = Vec::new();
        for (rank, slot) in (0..).map(Rank).zip(&world.slots) {
            let RankSlot::Living(process) = slot else {
                return Ok(());
            };
            let dead_end = |why: &str| {
                Err(Breach {
                    oracle: "no dead end",
                    what: format!("rank {rank} {why}"),
                })
            };
            if !process.is_finished() {
                return dead_end("has not ended and waits forever");
            }
            if process.engine.request_count() > 0 || process.engine.has_unposted() {
                return dead_end("has unsent messages or open requests");
            }
            let mut peers = world.ranks().filter(|peer| *peer != rank);
            if !peers.all(|peer| process.engine.is_live(peer)) {
                return dead_end("has a peer that is not connected");
            }
            states.push(Some(process.state()));
        }
        let oracles = &mut *world.stage.oracles.borrow_mut();
        oracles.at_end(&world.stage.facts)?;
        oracles.outcome.judge(world.plan, &states)
    }

    /// A hash; equal for states that continue in the same way. Frames to dead lives do not count.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let hash = &mut hasher;
        for rank in self.world.ranks() {
            self.hash_of_rank(rank).hash(hash);
            for news in self.world.ranks() {
                let its = self.world.news[rank.index()].iter();
                for news in its.filter(|it| it.of() == news) {
                    match news {
                        News::Down(of) => (1, of).hash(hash),
                        News::Up(of, _) => (2, of).hash(hash),
                    }
                }
            }
        }
        (&self.rows, self.deaths).hash(hash);
        for saved in &self.saved {
            hash_saved(saved.as_deref(), hash);
        }
        let is_dead = |rank: Rank| matches!(self.world.slots[rank.index()], RankSlot::Dead(_));
        self.world.stage.oracles.borrow().hash_into(is_dead, hash);
        for on_its_way in self.world.network.on_their_way() {
            let to = on_its_way.route.to;
            let slot = &self.world.slots[to.rank.index()];
            let is_newest = slot.life().incarnation == to.incarnation;
            if is_newest && matches!(slot, RankSlot::Living(_)) {
                (on_its_way.route, on_its_way.lane, &on_its_way.bytes).hash(hash);
            }
        }
        hasher.finish()
    }

    fn hash_of_rank(&self, rank: Rank) -> u64 {
        let mut hasher = DefaultHasher::new();
        match &self.world.slots[rank.index()] {
            RankSlot::Living(process) => process.hash_into(&mut hasher),
            other => other.life().hash(&mut hasher),
        }
        self.events[rank.index()].0.borrow().hash(&mut hasher);
        hash_saved(self.taken[rank.index()].as_deref(), &mut hasher);
        hasher.finish()
    }
}

fn hash_saved(checkpoint: Option<&Checkpoint<Saved>>, hash: &mut DefaultHasher) {
    let Some(Checkpoint {
        number, contents, ..
    }) = checkpoint
    else {
        return hash.write_u8(0);
    };
    let beginning = &contents.beginning;
    (number, beginning.clock, &beginning.tally.next_ssn_to).hash(hash);
    beginning.program.hash_into(hash);
    if let Some(engine) = &contents.engine {
        (&engine.state, &engine.logs).hash(hash);
    }
}

thread_local! {
    static UNUSED: RefCell<Vec<Region>> = const { RefCell::new(Vec::new()) };
}

/// Log memory of all lives of one world, kept for later worlds: fresh memory for each life would
/// take longer than everything else. A log does not depend on what its memory contains.
#[derive(Default)]
pub(super) struct LogMemories(Vec<Region>);

impl LogMemories {
    /// Log memory for one life.
    pub fn lend(&mut self, bytes: usize) -> Region {
        let unused = UNUSED.with(|unused| unused.borrow_mut().pop());
        let fits = unused.filter(|region| region.bytes() == bytes);
        let region = fits.unwrap_or_else(|| Region::heap(bytes));
        self.0.push(region.clone());
        region
    }
}

impl Drop for LogMemories {
    fn drop(&mut self) {
        UNUSED.with(|unused| unused.borrow_mut().append(&mut self.0));
    }
}

/// The model of all restarts at one size.
struct Restarts {
    size: Size,
    plan: Plan,
}

/// A state of the model.
#[derive(Clone, Debug)]
struct Reached {
    way: Vec<Action>,
    hash: u64,
    next: Vec<Action>,
    /// The violated rule if only deaths are possible in this state and it is not a valid end.
    end: Result<(), Breach>,
}

impl Restarts {
    fn of(size: &Size) -> Self {
        let (size, plan) = (size.clone(), size.plan());
        Self { size, plan }
    }

    /// Runs the actions `way` from the initial state.
    fn go(&self, way: Vec<Action>) -> Result<Reached, String> {
        let go = || -> Result<Reached, Breach> {
            let mut explored = Explored::first(&self.size, &self.plan)?;
            for action in &way {
                explored.act(*action)?;
            }
            let next = explored.actions();
            let ends = next.iter().all(|action| self.is_fault(action));
            Ok(Reached {
                hash: explored.fingerprint(),
                end: if ends { explored.check_end() } else { Ok(()) },
                next,
                way: Vec::new(),
            })
        };
        // Nothing of the world is used after a panic.
        let gone = catch_unwind(AssertUnwindSafe(go));
        let gone = gone.map_err(|panic| words_of(&*panic))?;
        let reached = gone.map_err(|breach| breach.to_string())?;
        Ok(Reached { way, ..reached })
    }
}

/// The text of a panic.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without words"))
}

impl Model for Restarts {
    type State = Reached;
    type Action = Action;

    fn initial(&self) -> Reached {
        self.go(Vec::new()).expect("nothing has gone wrong yet")
    }

    fn fingerprint(&self, state: &Reached) -> u64 {
        state.hash
    }

    fn actions(&self, state: &Reached) -> Vec<Action> {
        state.next.clone()
    }

    fn next(&self, state: &Reached, action: &Action) -> Result<Reached, String> {
        let mut way = state.way.clone();
        way.push(*action);
        self.go(way)
    }

    fn check(&self, state: &Reached, _moved: bool) -> Result<(), String> {
        state.end.clone().map_err(|breach| breach.to_string())
    }

    fn is_fault(&self, action: &Action) -> bool {
        matches!(action, Action::Die(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The actions that are possible in `state`, with the hashes of the states after them.
    fn successors(model: &Restarts, state: &Reached) -> Vec<(Action, u64)> {
        let lead = |action: &Action| {
            let next = model.next(state, action).expect("no rule is broken");
            (*action, next.hash)
        };
        state.next.iter().map(lead).collect()
    }

    /// The hash covers all state that matters: states with one hash have the same successors.
    #[test]
    fn states_with_one_hash_go_on_alike() {
        let model = Restarts::of(&Size::any());
        let first = model.initial();
        let mut known = HashMap::new();
        let mut to_expand = vec![first];
        let mut met_again = 0;
        while let Some(state) = to_expand.pop() {
            let leads_to = successors(&model, &state);
            if let Some(before) = known.get(&state.hash) {
                assert_eq!(before, &leads_to, "{:?}", state.way);
                met_again += 1;
                continue;
            }
            known.insert(state.hash, leads_to);
            let next = |action| model.next(&state, action).expect("no rule is broken");
            to_expand.extend(state.next.iter().map(next));
            if known.len() > 700 {
                break;
            }
        }
        assert!(met_again > 50, "{met_again}");
    }
}
