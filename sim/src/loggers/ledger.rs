//! What is held where: the oracle's own account, made from bytes that reached
//! files and rings, and from what clients began to commit. It asks neither
//! committers nor logbooks.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES};
use refrain_ring::{Clock, Incarnation, Rank};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A batch by which nothing else is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BatchId {
    incarnation: Incarnation,
    first: EventIndex,
    end: EventIndex,
    last_clock: Clock,
}

impl BatchId {
    fn of(header: &BatchHeader) -> Self {
        Self {
            incarnation: header.incarnation,
            first: header.first,
            end: header.end(),
            last_clock: header.last_clock,
        }
    }
}

/// What one logger holds of a rank.
#[derive(Clone, Debug, Default)]
struct Holder {
    held: HashSet<BatchId>,
    /// In its ring, which goes when all that counts in it is in the files.
    in_ring: HashSet<BatchId>,
    /// Number of batches of the row, from the first on, that are among them.
    whole: usize,
}

/// One rank.
#[derive(Clone, Debug)]
struct RankLedger {
    /// By life: what it went on from, and committed, in order.
    rows: BTreeMap<Incarnation, Vec<BatchId>>,
    /// The latest that has begun: its row is the rank's.
    life: Incarnation,
    /// A quorum has admitted it. Before, a batch of its row may lie at a quorum and be
    /// stable for no life: the next survey may miss the loggers that have admitted it.
    is_admitted: bool,
    /// What has at most this clock need not be held any more.
    trimmed: Clock,
    holders: Vec<Holder>,
    /// Number of batches, from the first on, that a quorum held once.
    reached: usize,
}

#[derive(Debug)]
struct LedgerState {
    quorum: usize,
    replicas: usize,
    ranks: BTreeMap<Rank, RankLedger>,
    breach: Option<String>,
}

/// Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Behind a lock since disks must be able to have it, not for threads.
    state: Arc<Mutex<LedgerState>>,
}

impl RankLedger {
    /// The row that counts.
    fn row(&self) -> &[BatchId] {
        self.rows.get(&self.life).map_or(&[], Vec::as_slice)
    }

    /// A life continues another one's row up to this end. Returns the first batch that a
    /// quorum held and that is not part of it.
    fn begin(
        &mut self,
        life: Incarnation,
        follows: Incarnation,
        start: EventIndex,
    ) -> Option<BatchId> {
        if life <= self.life && self.rows.contains_key(&life) {
            return None;
        }
        let followed = self.rows.get(&follows).cloned();
        let mut row = followed.unwrap_or_default();
        row.retain(|batch| batch.end <= start);
        let same = self.row().iter().zip(&row);
        let same = same.take_while(|(old, new)| old == new).count();
        let lost = self.row()[..self.reached].get(same).copied();
        self.reached = self.reached.min(same);
        for holder in &mut self.holders {
            holder.whole = 0;
        }
        self.rows.insert(life, row);
        self.life = life;
        self.is_admitted = false;
        lost
    }

    fn new(replicas: usize) -> Self {
        Self {
            rows: BTreeMap::new(),
            life: Incarnation(0),
            is_admitted: false,
            trimmed: Clock(0),
            holders: vec![Holder::default(); replicas],
            reached: 0,
        }
    }

    /// Counts what a quorum has. It never goes back: that a replica loses it afterwards is a
    /// failure which the others make up for.
    fn settle(&mut self, quorum: usize) {
        let (row, trimmed) = (self.rows.get(&self.life), self.trimmed);
        let row = row.map_or(&[][..], Vec::as_slice);
        for holder in &mut self.holders {
            let (held, in_ring) = (&holder.held, &holder.in_ring);
            let counts = |batch: &BatchId| {
                batch.last_clock <= trimmed || held.contains(batch) || in_ring.contains(batch)
            };
            while row.get(holder.whole).is_some_and(counts) {
                holder.whole += 1;
            }
        }
        if !self.is_admitted {
            return;
        }
        // Few: no order of them is needed.
        let holders = self.holders.iter();
        let at_least = |whole: usize| holders.clone().filter(|it| it.whole >= whole).count();
        let ends = holders.clone().map(|holder| holder.whole);
        let reached = ends.filter(|whole| at_least(*whole) >= quorum).max();
        self.reached = self.reached.max(reached.unwrap_or(0));
    }
}

impl Ledger {
    pub(super) fn new(replicas: usize, quorum: usize) -> Self {
        let state = LedgerState {
            quorum,
            replicas,
            ranks: BTreeMap::new(),
            breach: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, rank: Rank, change: impl FnOnce(&mut RankLedger)) {
        let state = &mut *self.state();
        let replicas = state.replicas;
        let ledger = state.ranks.entry(rank);
        let ledger = ledger.or_insert_with(|| RankLedger::new(replicas));
        change(ledger);
        ledger.settle(state.quorum);
    }

    /// A survey has told a life of a rank where it begins, and which life wrote what is before.
    pub(super) fn began(
        &self,
        rank: Rank,
        life: Incarnation,
        (follows, start): (Incarnation, EventIndex),
    ) {
        let mut lost = None;
        self.change(rank, |ledger| lost = ledger.begin(life, follows, start));
        if let Some(BatchId {
            first, incarnation, ..
        }) = lost
        {
            let what = format!(
                "{life:?} of rank {} continues from determinant {start} of {follows:?}, but a \
                 quorum held those from {first} on of {incarnation:?}",
                rank.0
            );
            self.state().breach.get_or_insert(what);
        }
    }

    /// A quorum has admitted a life that has begun.
    pub(super) fn admitted(&self, rank: Rank, life: Incarnation) {
        self.change(rank, |ledger| ledger.is_admitted |= ledger.life == life);
    }

    /// A life begins to commit a batch.
    pub(super) fn committed(&self, header: &BatchHeader) {
        self.change(header.rank, |ledger| {
            let row = ledger.rows.entry(header.incarnation).or_default();
            row.push(BatchId::of(header));
        });
    }

    /// Batches are where they survive, at one logger.
    pub(super) fn holds(&self, logger: usize, headers: &[BatchHeader]) {
        for header in headers {
            self.change(header.rank, |ledger| {
                ledger.holders[logger].held.insert(BatchId::of(header));
            });
        }
    }

    /// Batches lie in a rank's ring at one logger.
    pub(super) fn holds_in_ring(&self, logger: usize, headers: &[BatchHeader]) {
        for header in headers {
            self.change(header.rank, |ledger| {
                ledger.holders[logger].in_ring.insert(BatchId::of(header));
            });
        }
    }

    /// A life's ring at one logger is no more.
    pub(super) fn ring_is_gone(&self, logger: usize, rank: Rank, life: Incarnation) {
        self.change(rank, |ledger| {
            let holder = &mut ledger.holders[logger];
            holder.in_ring.retain(|batch| batch.incarnation != life);
            holder.whole = 0;
        });
    }

    /// A logger has nothing but this any more.
    pub(super) fn holds_only(&self, logger: usize, headers: &[BatchHeader]) {
        for ledger in self.state().ranks.values_mut() {
            ledger.holders[logger] = Holder::default();
        }
        self.holds(logger, headers);
    }

    /// A logger has events of a rank only up to there, in no ring. REC-9
    pub(super) fn loses(&self, logger: usize, rank: Rank, end: EventIndex) {
        self.change(rank, |ledger| {
            let holder = &mut ledger.holders[logger];
            holder.held.retain(|batch| batch.end <= end);
            holder.in_ring.clear();
            holder.whole = 0;
            ledger.reached = 0;
            // What is lost does not count as held since it was trimmed, either.
            let left = ledger.row().iter().rfind(|batch| batch.end <= end);
            let left = left.map_or(Clock(0), |batch| batch.last_clock);
            ledger.trimmed = ledger.trimmed.min(left);
        });
    }

    /// No restart asks for what has at most this clock any more. GC-1
    pub(super) fn trimmed(&self, rank: Rank, clock: Clock) {
        self.change(rank, |ledger| ledger.trimmed = ledger.trimmed.max(clock));
    }

    /// Clock up to which no restart asks for anything.
    pub(super) fn trimmed_clock(&self, rank: Rank) -> Option<Clock> {
        let trimmed = self.state().ranks.get(&rank)?.trimmed;
        (trimmed > Clock(0)).then_some(trimmed)
    }

    /// Clock of the last determinant that is held by a quorum.
    pub(super) fn reach(&self, rank: Rank) -> Option<Clock> {
        Some(self.reached(rank)?.last_clock)
    }

    /// One past the last determinant that is held by a quorum.
    pub(super) fn reached_end(&self, rank: Rank) -> EventIndex {
        self.reached(rank).map_or(EventIndex(0), |last| last.end)
    }

    fn reached(&self, rank: Rank) -> Option<BatchId> {
        let state = self.state();
        let ledger = state.ranks.get(&rank)?;
        ledger.row().get(ledger.reached.checked_sub(1)?).copied()
    }

    /// How many loggers hold all that a rank committed.
    pub(super) fn whole_holders(&self, rank: Rank) -> usize {
        let state = self.state();
        let Some(ledger) = state.ranks.get(&rank) else {
            return state.replicas;
        };
        let is_whole = |holder: &&Holder| holder.whole == ledger.row().len();
        ledger.holders.iter().filter(is_whole).count()
    }

    /// The broken rule, if there is one.
    pub(super) fn breach(&self) -> Option<String> {
        self.state().breach.clone()
    }
}

/// The batches that lie in these bytes, wherever they begin (at words).
pub(super) fn batches_in(bytes: &[u8]) -> Vec<BatchHeader> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + HEADER_BYTES < bytes.len() {
        match BatchHeader::read(&bytes[at..]) {
            Ok((header, _)) => {
                at += header.batch_bytes().next_multiple_of(8);
                found.push(header);
            }
            Err(_) => at += 8,
        }
    }
    found
}
