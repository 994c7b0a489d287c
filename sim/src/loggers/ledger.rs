//! Which logger has which batches: the oracle's own account, made from the bytes that reached files
//! and rings, and from the batches that clients began to commit. It asks neither committers nor
//! logbooks.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES};
use refrain_ring::{Clock, Incarnation, Rank};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identifies a batch.
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

/// The batches of a rank at one logger.
#[derive(Clone, Debug, Default)]
struct Holder {
    held: HashSet<BatchId>,
    /// Batches in the rank's ring, which is removed once all that count are in the files.
    in_ring: HashSet<BatchId>,
    /// Number of batches of the row, from the first one on, that the logger has.
    whole: usize,
}

/// The account of one rank.
#[derive(Clone, Debug)]
struct RankLedger {
    /// By life: the batches that it continues from and those that it committed, in order.
    rows: BTreeMap<Incarnation, Vec<BatchId>>,
    /// The latest life that has begun: its row is the rank's.
    life: Incarnation,
    /// Whether a quorum has admitted the life. Before that, a batch of its row may be at a quorum
    /// without being stable: the next survey may miss the loggers that have admitted the life.
    is_admitted: bool,
    /// Batches with at most this clock need not be held any more.
    trimmed: Clock,
    holders: Vec<Holder>,
    /// Number of batches, from the first one on, that a quorum has held at some time.
    reached: usize,
}

#[derive(Debug)]
struct LedgerState {
    quorum: usize,
    replicas: usize,
    ranks: BTreeMap<Rank, RankLedger>,
    breach: Option<String>,
}

/// Clones share the state.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Locked because disks need `Send`, not for threads.
    state: Arc<Mutex<LedgerState>>,
}

impl RankLedger {
    /// The row of the latest life.
    fn row(&self) -> &[BatchId] {
        self.rows.get(&self.life).map_or(&[], Vec::as_slice)
    }

    /// A life continues the row of another life up to `start`. Returns the first batch that a
    /// quorum held and that is not part of the new row.
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

    /// Counts the batches that a quorum has. The count never decreases: if a replica loses a batch
    /// afterwards, the others make up for it.
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
        // There are few holders: no sorting is needed.
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

    /// A survey has found where a life begins, and which life wrote the determinants before.
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

    /// One logger has written these batches to its files.
    pub(super) fn holds(&self, logger: usize, headers: &[BatchHeader]) {
        for header in headers {
            self.change(header.rank, |ledger| {
                ledger.holders[logger].held.insert(BatchId::of(header));
            });
        }
    }

    /// A rank's ring at one logger has these batches.
    pub(super) fn holds_in_ring(&self, logger: usize, headers: &[BatchHeader]) {
        for header in headers {
            self.change(header.rank, |ledger| {
                ledger.holders[logger].in_ring.insert(BatchId::of(header));
            });
        }
    }

    /// A life's ring at one logger is removed.
    pub(super) fn ring_is_gone(&self, logger: usize, rank: Rank, life: Incarnation) {
        self.change(rank, |ledger| {
            let holder = &mut ledger.holders[logger];
            holder.in_ring.retain(|batch| batch.incarnation != life);
            holder.whole = 0;
        });
    }

    /// A logger has only these batches left.
    pub(super) fn holds_only(&self, logger: usize, headers: &[BatchHeader]) {
        for ledger in self.state().ranks.values_mut() {
            ledger.holders[logger] = Holder::default();
        }
        self.holds(logger, headers);
    }

    /// A logger has the events of a rank only before `end`, and none in rings. REC-9
    pub(super) fn loses(&self, logger: usize, rank: Rank, end: EventIndex) {
        self.change(rank, |ledger| {
            let holder = &mut ledger.holders[logger];
            holder.held.retain(|batch| batch.end <= end);
            holder.in_ring.clear();
            holder.whole = 0;
            ledger.reached = 0;
            // A lost batch no longer counts as held because it was trimmed.
            let left = ledger.row().iter().rfind(|batch| batch.end <= end);
            let left = left.map_or(Clock(0), |batch| batch.last_clock);
            ledger.trimmed = ledger.trimmed.min(left);
        });
    }

    /// No restart asks for determinants with at most this clock any more. GC-1
    pub(super) fn trimmed(&self, rank: Rank, clock: Clock) {
        self.change(rank, |ledger| ledger.trimmed = ledger.trimmed.max(clock));
    }

    /// The clock up to which no restart asks for determinants.
    pub(super) fn trimmed_clock(&self, rank: Rank) -> Option<Clock> {
        let trimmed = self.state().ranks.get(&rank)?.trimmed;
        (trimmed > Clock(0)).then_some(trimmed)
    }

    /// The clock of the last determinant that a quorum has.
    pub(super) fn reach(&self, rank: Rank) -> Option<Clock> {
        Some(self.reached(rank)?.last_clock)
    }

    /// One past the last determinant that a quorum has.
    pub(super) fn reached_end(&self, rank: Rank) -> EventIndex {
        self.reached(rank).map_or(EventIndex(0), |last| last.end)
    }

    fn reached(&self, rank: Rank) -> Option<BatchId> {
        let state = self.state();
        let ledger = state.ranks.get(&rank)?;
        ledger.row().get(ledger.reached.checked_sub(1)?).copied()
    }

    /// Number of loggers that have everything that a rank committed.
    pub(super) fn whole_holders(&self, rank: Rank) -> usize {
        let state = self.state();
        let Some(ledger) = state.ranks.get(&rank) else {
            return state.replicas;
        };
        let is_whole = |holder: &&Holder| holder.whole == ledger.row().len();
        ledger.holders.iter().filter(is_whole).count()
    }

    /// The violated rule, if there is one.
    pub(super) fn breach(&self) -> Option<String> {
        self.state().breach.clone()
    }
}

/// The batches in these bytes; each begins at a multiple of 8 bytes.
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
