//! The tickets of all ranks of a job in one process, the network between them, and the launcher.
//!
//! Pieces arrive in order from one rank at another, any time later. What a dead life held of a
//! survivor counts as held until that survivor has made the loss good: before, the rank is *gone*, and
//! only as many sets or ranks are gone at once as the job tolerates. A set dies as a whole.

use crate::batches::{Stored, batches_of, batches_of_answer};
use refrain_logging::Stores;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::Collected;
use refrain_logging::held::{AtRanks, Gives, Holdings, Tolerance};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

const JOB: u64 = 0x1122_3344_5566_7788;

/// A piece, with the lives of its sender and of its addressee.
#[derive(Clone, Debug)]
struct Piece {
    lives: (u32, u32),
    bytes: Vec<u8>,
}

/// A rank: its present life, or the one that has died if the next has not begun.
#[derive(Debug)]
struct Process {
    incarnation: u32,
    tickets: Stores<LoggerClient>,
    /// What event loggers have of it, if there are any.
    logged: Option<Rc<RefCell<Logged>>>,
    is_living: bool,
    clock: u64,
    /// All batches of the rank as this life knows them, also those that were trimmed.
    list: Vec<Stored>,
    /// Batches up to this clock were trimmed by this life or an earlier one.
    trimmed: u64,
    /// The stable end at the last check.
    checked: u64,
    /// The life of each peer that is connected.
    connected: Vec<Option<u32>>,
    /// Of a dead life: what each survivor holds of it, and the survivors that have not answered.
    answers: Vec<(Rank, Vec<u8>)>,
    awaited: BTreeSet<usize>,
}

/// What loggers have of a rank, and what is on its way there.
#[derive(Debug, Default)]
struct Logged {
    stored: Vec<BatchHeader>,
    on_way: VecDeque<BatchHeader>,
    trimmed: Clock,
}

/// Commits to loggers of which a test decides when they store.
#[derive(Debug)]
struct LoggerClient(Rc<RefCell<Logged>>);

impl LoggerClient {
    /// The client of a life that begins: what was on its way is lost.
    fn new(logged: &Rc<RefCell<Logged>>) -> Self {
        logged.borrow_mut().on_way.clear();
        Self(logged.clone())
    }
}

impl Commits for LoggerClient {
    fn commit(&mut self, header: &BatchHeader, _batch: &[u8]) {
        let logged = &mut *self.0.borrow_mut();
        let end = logged.on_way.back().or(logged.stored.last());
        let end = end.map_or(EventIndex(0), BatchHeader::end);
        assert_eq!(header.first, end, "loggers take no gaps");
        logged.on_way.push_back(*header);
    }

    fn stable_end(&self) -> EventIndex {
        let logged = self.0.borrow();
        logged.stored.last().map_or(EventIndex(0), BatchHeader::end)
    }

    fn poll(&mut self) -> EventIndex {
        self.stable_end()
    }

    fn is_instant(&self) -> bool {
        false
    }

    fn trim(&mut self, before: Clock) {
        let logged = &mut *self.0.borrow_mut();
        let lacks = logged.on_way.iter().any(|it| it.last_clock <= before);
        assert!(!lacks, "loggers take no gaps, also of what is trimmed");
        logged.trimmed = before.max(logged.trimmed);
    }
}

fn stores(ranks: AtRanks<LoggerClient>) -> Stores<LoggerClient> {
    Stores::Ranks(Box::new(ranks))
}

impl Process {
    fn holdings(&self) -> &Holdings {
        self.tickets.holdings().expect("ranks hold its events")
    }

    fn holdings_mut(&mut self) -> &mut Holdings {
        self.tickets.holdings_mut().expect("ranks hold its events")
    }

    /// Where what loggers have ends, and the life that made the last of it; the one that wrote it, if it was
    /// trimmed.
    fn logged(&self) -> (EventIndex, Incarnation) {
        let logged = self.logged.as_ref().map(|logged| logged.borrow());
        let last = logged
            .as_ref()
            .and_then(|it| Some((it.stored.last()?, it.trimmed)));
        last.map_or_else(Default::default, |(last, trimmed)| {
            let is_trimmed = last.last_clock <= trimmed;
            let made_by = if is_trimmed {
                last.incarnation
            } else {
                last.made_by()
            };
            (last.end(), made_by)
        })
    }
}

/// A job.
#[derive(Debug)]
pub struct Network {
    tolerance: Tolerance,
    ranks: Vec<Process>,
    /// By sender and addressee.
    wires: BTreeMap<(usize, usize), VecDeque<Piece>>,
    /// By survivor and dead rank: what the dead life held of a survivor that has not made it good. The rank
    /// itself: its next life has not as many holders again.
    to_restore: BTreeMap<(usize, usize), Vec<Stored>>,
    /// The same of ranks that are gone, too: their next lives make it good.
    left: BTreeSet<(usize, usize)>,
    pub deaths: u32,
}

impl Network {
    pub fn new(size: usize, clock: u64) -> Self {
        Self::tolerating(Tolerance::default(), size, clock)
    }

    pub fn tolerating(tolerance: Tolerance, size: usize, clock: u64) -> Self {
        let holdings = |rank: usize| {
            Holdings::new(
                (Gives::AtCommit, tolerance.clone()),
                (Rank(rank as u32), Incarnation(0)),
                size as u32,
                None,
            )
        };
        let process = |rank: usize| Process {
            incarnation: 0,
            tickets: stores(AtRanks::new(holdings(rank))),
            logged: None,
            is_living: true,
            clock,
            list: Vec::new(),
            trimmed: 0,
            checked: 0,
            connected: (0..size).map(|of| (of != rank).then_some(0)).collect(),
            answers: Vec::new(),
            awaited: BTreeSet::new(),
        };
        Self {
            ranks: (0..size).map(process).collect(),
            tolerance,
            wires: BTreeMap::new(),
            to_restore: BTreeMap::new(),
            left: BTreeSet::new(),
            deaths: 0,
        }
    }

    /// A job with event loggers beside its ranks. CAUSAL-5
    pub fn beside_loggers(tolerance: Tolerance, size: usize, clock: u64) -> Self {
        let mut network = Self::tolerating(tolerance.clone(), size, clock);
        for (rank, process) in (0..).zip(&mut network.ranks) {
            let holdings = Holdings::new(
                (Gives::AtCommit, tolerance.clone()),
                (Rank(rank), Incarnation(0)),
                size as u32,
                None,
            );
            let logged = process.logged.insert(Rc::default());
            let client = LoggerClient::new(logged);
            process.tickets = stores(AtRanks::beside(holdings, client, JOB));
        }
        network
    }

    pub fn has_loggers(&self) -> bool {
        self.ranks.iter().any(|process| process.logged.is_some())
    }

    /// The loggers store the next batches of a rank that are on their way to them.
    pub fn log(&mut self, rank: usize, batches: usize) {
        let process = &mut self.ranks[rank];
        if let Some(logged) = &process.logged {
            let logged = &mut *logged.borrow_mut();
            let count = batches.min(logged.on_way.len());
            logged.stored.extend(logged.on_way.drain(..count));
        }
        if process.is_living {
            process.tickets.poll();
        }
    }

    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let size = self.size();
        let all = (0..size * size).map(move |at| (at / size, at % size));
        all.filter(|(one, other)| one != other)
    }

    /// A rank matches a message of `source`, and commits a batch.
    pub fn commit(&mut self, rank: usize, source: usize, step: u64, count: u16, payload: &[u8]) {
        let process = &mut self.ranks[rank];
        if !process.is_living {
            return;
        }
        process.tickets.matched(Rank(source as u32));
        // What happens behind a checkpoint has later clocks.
        let first_clock = (process.clock + step / 2).max(process.trimmed + 1);
        process.clock = (process.clock + step).max(first_clock);
        let end = process.list.last().map_or(0, Stored::end);
        let batch = Stored {
            incarnation: process.incarnation,
            first: end,
            count,
            clocks: (first_clock, process.clock),
            payload: payload.to_vec(),
        };
        let sealed = batch.as_batch().sealed(JOB, Rank(rank as u32));
        let (header, _) = BatchHeader::read(&sealed).expect("it was sealed");
        process.tickets.commit(&header, &sealed);
        process.list.push(batch);
    }

    /// A rank sends a piece of at most `bytes` bytes. Returns whether it had one.
    pub fn tell(&mut self, rank: usize, bytes: usize) -> bool {
        let process = &mut self.ranks[rank];
        let mut piece = vec![0; bytes];
        if !process.is_living {
            return false;
        }
        let Some((to, count)) = process.tickets.tell(&mut piece) else {
            return false;
        };
        assert!(count > 0, "a piece has bytes");
        let its_life = process.connected[to.index()].expect("it tells connected peers only");
        let piece = Piece {
            lives: (process.incarnation, its_life),
            bytes: piece[..count].to_vec(),
        };
        let wire = self.wires.entry((rank, to.index())).or_default();
        wire.push_back(piece);
        true
    }

    /// The oldest piece between two ranks arrives, or is dropped with a life that is over. Returns
    /// whether there was one that could arrive.
    pub fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(wire) = self.wires.get_mut(&(from, to)) else {
            return false;
        };
        let process = &mut self.ranks[to];
        let is_over = |piece: &Piece| {
            let later = process.connected[from].is_some_and(|life| life > piece.lives.0);
            later || piece.lives.1 < process.incarnation || !process.is_living
        };
        while wire.front().is_some_and(is_over) {
            wire.pop_front();
        }
        // A connection exists when both sides have made it.
        let arrives = |piece: &Piece| process.connected[from] == Some(piece.lives.0);
        if !wire.front().is_some_and(arrives) {
            return false;
        }
        let piece = wire.pop_front().expect("it is there");
        let heard = process.tickets.hear(Rank(from as u32), &piece.bytes);
        assert_eq!(heard, Ok(()));
        true
    }

    /// A checkpoint of a rank is published, if all its events are stable: `back` batches and half
    /// of one more are behind it.
    pub fn trim(&mut self, rank: usize, back: usize) {
        let process = &mut self.ranks[rank];
        let end = process.list.last().map_or(0, Stored::end);
        if !process.is_living || process.tickets.stable_end() < EventIndex(end) {
            return;
        }
        let behind = process.list.iter().rev().nth(back);
        let before = match (back, behind) {
            (0, _) => process.clock,
            (_, Some(batch)) => batch.clocks.0,
            (_, None) => return,
        };
        // Later checkpoints have later clocks.
        process.trimmed = process.trimmed.max(before);
        process.tickets.trim(Clock(process.trimmed));
    }

    /// Ranks whose deaths are not made good, or whose next lives have not begun.
    fn gone(&self) -> impl Iterator<Item = Rank> {
        let ranks = (0..self.size()).filter(|rank| {
            let mut lost = self.to_restore.keys().chain(&self.left);
            let is_lost = lost.any(|(_, dead)| dead == rank);
            is_lost || !self.ranks[*rank].is_living
        });
        ranks.map(|rank| Rank(rank as u32))
    }

    /// Whether these ranks may die now. TICKET-4
    fn stands_deaths(&self, ranks: &[usize]) -> bool {
        let dying = ranks.iter().map(|rank| Rank(*rank as u32));
        let domains = self.tolerance.domains(self.gone().chain(dying));
        domains <= self.tolerance.failures()
    }

    /// A rank dies with its set, if the job stands it.
    pub fn kill(&mut self, rank: usize) {
        if !self.ranks[rank].is_living || !self.stands_deaths(&[rank]) {
            return;
        }
        self.deaths += 1;
        for member in 0..self.size() {
            let ranks = [rank, member].map(|rank| Rank(rank as u32));
            if self.tolerance.are_together(ranks[0], ranks[1]) && self.ranks[member].is_living {
                self.end_life(member);
            }
        }
    }

    fn end_life(&mut self, rank: usize) {
        let left = |(survivor, dead): &(usize, usize)| *survivor == rank && *dead != rank;
        self.left
            .extend(self.to_restore.keys().filter(|it| left(it)));
        self.to_restore.retain(|it, _| !left(it));
        let away = (0..self.size()).filter(|of| self.to_restore.contains_key(&(*of, *of)));
        self.left
            .extend(away.filter(|of| *of != rank).map(|of| (of, rank)));
        for (of, process) in self.ranks.iter_mut().enumerate() {
            process.awaited.remove(&rank);
            for (holder, _) in &mut process.answers {
                if holder.index() == rank {
                    *holder = Rank(of as u32);
                }
            }
        }
        let survivors = (0..self.size()).filter(|of| *of != rank && self.ranks[*of].is_living);
        let survivors: BTreeSet<_> = survivors.collect();
        for of in &survivors {
            self.to_restore.insert((*of, rank), self.held(rank, *of));
        }
        self.to_restore.insert((rank, rank), Vec::new());
        let process = &mut self.ranks[rank];
        process.is_living = false;
        process.answers.clear();
        process.awaited = survivors;
    }

    /// A survivor learns of a death: it fences the dead life, and answers.
    pub fn notice(&mut self, survivor: usize, dead: usize) {
        if !self.ranks[dead].awaited.remove(&survivor) {
            return;
        }
        let incarnation = self.ranks[dead].incarnation;
        let of = Rank(dead as u32);
        let process = &mut self.ranks[survivor];
        process.connected[dead] = None;
        process.tickets.fenced(of);
        let answer = process.holdings().answer(of);
        process
            .holdings_mut()
            .note_death(of, Incarnation(incarnation));
        let dead = &mut self.ranks[dead];
        dead.answers.push((Rank(survivor as u32), answer));
    }

    /// A rank tells which deaths it has made good.
    pub fn restore(&mut self, survivor: usize) {
        if !self.ranks[survivor].is_living {
            return;
        }
        while let Some((dead, life)) = self.ranks[survivor].holdings_mut().next_restored() {
            // The rank may have died again.
            if life.0 != self.lives_of(dead.index()) {
                continue;
            }
            if dead.index() == survivor {
                self.left.retain(|(of, _)| *of != survivor);
            }
            let was = self.to_restore.remove(&(survivor, dead.index()));
            assert!(was.is_some(), "rank {survivor} restores {dead} once");
        }
    }

    /// The incarnation of the newest life of a rank that has died.
    fn lives_of(&self, rank: usize) -> u32 {
        let process = &self.ranks[rank];
        process.incarnation - u32::from(process.is_living)
    }

    /// The next life of a dead rank begins, if all survivors have answered. `reversed`: their
    /// answers came in another order.
    pub fn begin(&mut self, rank: usize, reversed: bool) {
        let size = self.size();
        let process = &mut self.ranks[rank];
        if process.is_living || !process.awaited.is_empty() {
            return;
        }
        if reversed {
            process.answers.reverse();
        }
        let answers = process.answers.iter();
        let collected = collected_of(process, answers.map(|(of, bytes)| (*of, &**bytes)));
        process.incarnation += 1;
        process.list.retain(|batch| batch.end() <= collected.end.0);
        let last_clock = process.list.last().map_or(0, |batch| batch.clocks.1);
        process.clock = last_clock.max(process.trimmed);
        let life = Incarnation(process.incarnation);
        let rank = Rank(rank as u32);
        process.checked = collected.end.0;
        let holdings = Holdings::new(
            (Gives::AtCommit, self.tolerance.clone()),
            (rank, life),
            size as u32,
            Some(collected),
        );
        process.tickets = stores(match &process.logged {
            Some(logged) => AtRanks::beside(holdings, LoggerClient::new(logged), JOB),
            None => AtRanks::new(holdings),
        });
        process.is_living = true;
        process.connected = vec![None; size];
    }

    /// A rank connects the present life of another, if it knows of it.
    pub fn connect(&mut self, rank: usize, peer: usize) {
        let life = self.ranks[peer].incarnation;
        let has_begun = rank != peer && self.ranks[peer].is_living;
        let process = &mut self.ranks[rank];
        if process.is_living && has_begun && process.connected[peer].is_none() {
            process.connected[peer] = Some(life);
            process.tickets.connected(Rank(peer as u32));
        }
    }

    /// Pieces are sent and arrive until none is left.
    pub fn drain(&mut self, bytes: usize) {
        let mut moves = true;
        while moves {
            moves = false;
            for rank in 0..self.size() {
                while self.tell(rank, bytes) {
                    moves = true;
                }
            }
            for (from, to) in self.pairs() {
                while self.deliver(from, to) {
                    moves = true;
                }
            }
        }
    }

    /// All that must happen some time happens: all learn of deaths, next lives begin, all are
    /// connected.
    pub fn heal(&mut self) {
        for (survivor, dead) in self.pairs() {
            self.notice(survivor, dead);
        }
        (0..self.size()).for_each(|rank| self.begin(rank, false));
        for (rank, peer) in self.pairs() {
            self.connect(rank, peer);
        }
        self.drain(40);
        (0..self.size()).for_each(|rank| self.restore(rank));
    }

    /// A batch is stable only if enough other ranks hold it, or its owner has trimmed it. A holder that
    /// has died counts until the owner has made that loss good, and not for batches that become
    /// stable when the owner knows of the death. TICKET-1
    pub fn assert_stable_is_held(&mut self) {
        for rank in 0..self.size() {
            if !self.ranks[rank].is_living {
                continue;
            }
            let others = (0..self.size()).filter(|of| *of != rank && self.ranks[*of].is_living);
            let of_living: Vec<_> = others.map(|of| (of, self.held(of, rank))).collect();
            let is_its = |(of, dead): &(usize, usize)| *of == rank && *dead != rank;
            let of_dead = self.to_restore.iter().filter(|(key, _)| is_its(key));
            let of_dead: Vec<_> = of_dead.map(|((_, dead), held)| (*dead, held)).collect();
            let process = &self.ranks[rank];
            let stable = process.tickets.stable_end().0;
            for batch in batches_of(&process.holdings().own()) {
                let living = of_living.iter().filter(|(_, held)| held.contains(&batch));
                let dead = of_dead.iter().filter(|(dead, held)| {
                    let is_unknown = self.ranks[*dead].awaited.contains(&rank);
                    // What was given to a holder that is dead now, too, goes to a third one.
                    is_unknown && held.contains(&batch) || batch.end() <= process.checked
                });
                let holders = living.map(|(of, _)| *of).chain(dead.map(|(dead, _)| *dead));
                let holders: Vec<_> = holders.map(|of| Rank(of as u32)).collect();
                let is_held =
                    self.tolerance.domains(holders.iter().copied()) >= self.tolerance.failures();
                assert!(
                    is_held || batch.end() > stable || batch.end() <= process.logged().0.0,
                    "rank {rank}: {batch:?} is stable, and only {holders:?} hold it"
                );
            }
            self.ranks[rank].checked = stable;
        }
    }

    fn held(&self, holder: usize, of: usize) -> Vec<Stored> {
        let tickets = self.ranks[holder].holdings();
        batches_of_answer(&tickets.answer(Rank(of as u32)))
    }

    /// The deaths of any ranks, as far as the job stands them, would lose nothing stable. TICKET-4
    pub fn assert_stands_deaths(&self) {
        for some in 1..1u32 << self.size() {
            let dying = (0..self.size()).filter(|rank| some >> rank & 1 == 1);
            let dying: Vec<_> = dying.filter(|rank| self.ranks[*rank].is_living).collect();
            if !self.stands_deaths(&dying) {
                continue;
            }
            for rank in &dying {
                let others = (0..self.size())
                    .filter(|other| self.ranks[*other].is_living && !dying.contains(other));
                let answers = others.map(|other| {
                    let tickets = self.ranks[other].holdings();
                    (Rank(other as u32), tickets.answer(Rank(*rank as u32)))
                });
                let answers: Vec<_> = answers.collect();
                let answers = answers.iter().map(|(of, bytes)| (*of, &**bytes));
                collected_of(&self.ranks[*rank], answers);
            }
        }
    }

    /// Nothing waits: every loss is made good, and every batch is stable.
    pub fn assert_is_at_rest(&mut self) {
        assert!(self.to_restore.is_empty(), "{:?}", self.to_restore);
        assert!(self.left.is_empty(), "{:?}", self.left);
        for rank in 0..self.size() {
            assert!(!self.tell(rank, 40));
            let process = &self.ranks[rank];
            let end = process.list.last().map_or(0, Stored::end);
            let tickets = &process.tickets;
            assert_eq!(tickets.stable_end().0, end, "{:?}", tickets.explain());
            let own = batches_of(&process.holdings().own());
            assert!(process.list.ends_with(&own));
            let (logged, _) = process.logged();
            let is_needed =
                |batch: &&Stored| batch.clocks.1 > process.trimmed && batch.end() > logged.0;
            assert!(own.len() >= process.list.iter().filter(is_needed).count());
        }
    }

    pub fn held_bytes(&self) -> u64 {
        let tickets = self.ranks.iter().map(Process::holdings);
        tickets.map(Holdings::held_bytes).sum()
    }

    pub fn stable_end(&self, rank: usize) -> u64 {
        self.ranks[rank].tickets.stable_end().0
    }

    pub fn explain(&self, rank: usize) -> Option<String> {
        self.ranks[rank].tickets.explain()
    }

    /// Number of copies of all batches of a rank at other ranks.
    pub fn copies(&self, rank: usize) -> usize {
        (0..self.size()).map(|of| self.held(of, rank).len()).sum()
    }
}

/// The next life's events from these answers: those of the dead life in order, without a gap, at
/// least as far as they were stable. TICKET-2, TICKET-3
fn collected_of<'a>(dead: &Process, answers: impl Iterator<Item = (Rank, &'a [u8])>) -> Collected {
    let collected = Collected::behind(dead.logged(), answers).expect("answers are readable");
    let stable = dead.tickets.stable_end();
    assert!(
        collected.end >= stable,
        "stable events are lost: {} of {stable}",
        collected.end
    );
    assert!(collected.floor <= stable.max(dead.logged().0));
    let (floor, end) = (collected.floor.0, collected.end.0);
    let expected = dead.list.iter();
    let expected = expected.filter(|batch| batch.first >= floor && batch.end() <= end);
    let expected: Vec<_> = expected.cloned().collect();
    assert_eq!(batches_of(&collected.row), expected);
    assert_eq!(expected.last().map_or(floor, Stored::end), end);
    assert_eq!(collected.holders.len(), expected.len());
    let behind = dead.list.iter().find(|batch| batch.end() > floor);
    assert!(behind.is_none_or(|batch| batch.first == floor));
    let (logged, _) = dead.logged();
    let is_covered = |batch: &Stored| batch.clocks.1 <= dead.trimmed || batch.end() <= logged.0;
    let before = dead.list.iter().filter(|batch| batch.first < floor);
    assert!(before.into_iter().all(is_covered), "the floor is {floor}");
    collected
}
