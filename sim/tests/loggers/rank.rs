//! A model of a rank that commits, dies, and restarts.

use fastrand::Rng;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, job_tag};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_sim::crash_point::CrashPoint;
use refrain_sim::happening::Life;
use refrain_sim::loggers::{JOB, LoggerClient, Loggers};

/// The first clock of ranks, below 2^32.
const FIRST_CLOCK: u64 = u32::MAX as u64 - 40;

/// A life that was replaced while it ran.
pub struct Undead {
    client: LoggerClient,
    /// The highest stable end that the replaced life may see: the beginning of the life after it,
    /// once that is known.
    fence: Option<EventIndex>,
    next: EventIndex,
    clock: u64,
    incarnation: Incarnation,
    row: Vec<Vec<u8>>,
}

pub struct RankModel {
    pub rank: Rank,
    pub life: Life,
    pub crash_point: CrashPoint,
    client: LoggerClient,
    undead: Vec<Undead>,
    /// Committed batches in order; after a restart, the batches that were read.
    committed: Vec<Vec<u8>>,
    /// The batches of earlier lives: a life may continue any of them that has what was
    /// acknowledged.
    rows: Vec<Vec<Vec<u8>>>,
    begun: Option<EventIndex>,
    /// One past the last acknowledged determinant.
    acknowledged: EventIndex,
    clock: u64,
    /// The clocks of two checkpoint generations; only events after the first one are needed.
    trims: [Clock; 2],
}

pub fn header(batch: &[u8]) -> BatchHeader {
    BatchHeader::peek(batch).expect("a batch that was made here")
}

fn batch_of(life: (Rank, Incarnation), first: EventIndex, clock: u64, rng: &mut Rng) -> Vec<u8> {
    let count = *rng.choice(&[1, 2, 3, 40]).expect("not empty");
    let payload_bytes = rng.usize(1..200);
    let header = BatchHeader {
        job_tag: job_tag(JOB),
        rank: life.0,
        incarnation: life.1,
        lives_before: 0,
        first,
        count,
        first_clock: Clock(clock),
        last_clock: Clock(clock + u64::from(count) - 1),
        payload_bytes: payload_bytes as u32,
    };
    let mut batch = vec![0; HEADER_BYTES];
    batch.extend((0..payload_bytes).map(|_| rng.u8(..)));
    header.seal(&mut batch);
    batch
}

impl RankModel {
    pub fn new(rank: Rank, loggers: &Loggers, deaths: Vec<(u64, bool)>) -> Self {
        let life = Life {
            rank,
            incarnation: Incarnation(0),
        };
        let crash_point = CrashPoint::new(deaths);
        Self {
            rank,
            life,
            client: loggers.connect(life, crash_point.clone()),
            crash_point,
            undead: Vec::new(),
            committed: Vec::new(),
            rows: Vec::new(),
            begun: None,
            acknowledged: EventIndex(0),
            clock: FIRST_CLOCK,
            trims: [Clock(0); 2],
        }
    }

    pub fn end(&self) -> EventIndex {
        let last = self.committed.last();
        last.map_or(EventIndex(0), |batch| header(batch).end())
    }

    /// Whether everything is stable and `replicas` loggers have admitted the life. Batches at a
    /// logger that the life has lost are read only after the life, or the next one, has rejoined
    /// that logger.
    pub fn is_all_stable(&self, replicas: u32) -> bool {
        let is_stable = self.client.stable_end() >= self.end();
        let is_in = self.client.live() == replicas as usize;
        self.begun.is_some() && !self.crash_point.is_dead() && is_stable && is_in
    }

    pub fn explain(&self) -> String {
        format!("{:?}: {:?}", self.life, self.client.explain())
    }

    /// Polls for acknowledgements; returns the number of determinants that became stable.
    pub fn look(&mut self, loggers: &Loggers) -> Result<u64, String> {
        if self.begun.is_none() {
            self.begin(loggers)?;
        }
        for undead in &mut self.undead {
            let end = undead.client.poll();
            if undead.fence.is_some_and(|fence| end > fence) {
                return Err(format!(
                    "FENCE-1: {:?} of rank {} was told that it is stable up to {end}",
                    undead.incarnation, self.rank.0
                ));
            }
        }
        let end = self.client.poll();
        if self.crash_point.is_dead() {
            return Ok(0);
        }
        let reached = loggers.reached_end(self.rank);
        if end > reached {
            return Err(format!(
                "GATE-3, EL-1: rank {} was told that it is stable up to {end}, a quorum holds \
                 what is before {reached}",
                self.rank.0
            ));
        }
        let newly = end.0.saturating_sub(self.acknowledged.0);
        self.acknowledged = self.acknowledged.max(end);
        Ok(newly)
    }

    /// A life that a quorum has admitted reads the records of its replay.
    fn begin(&mut self, loggers: &Loggers) -> Result<(), String> {
        let Some(start) = self.client.start() else {
            return Ok(());
        };
        if self.life.incarnation == Incarnation(0) {
            self.begun = Some(start);
            return Ok(());
        }
        // Too few loggers with all batches may be alive; then the next call tries again.
        let Ok(read) = loggers.read(self.rank, self.life.incarnation, self.trims[0]) else {
            return Ok(());
        };
        self.check_read(&read, start)?;
        for undead in &mut self.undead {
            undead.fence.get_or_insert(start);
        }
        self.begun = Some(start);
        Ok(())
    }

    /// Checks that the life has read what was acknowledged, and perhaps more of what was committed,
    /// up to its beginning. EL-5
    fn check_read(&mut self, read: &[Vec<u8>], start: EventIndex) -> Result<(), String> {
        if start < self.acknowledged {
            return Err(format!(
                "EL-3: rank {} goes on from {start}, acknowledged was {}",
                self.rank.0, self.acknowledged
            ));
        }
        let after = self.trims[0];
        let is_kept = |batch: &&Vec<u8>| header(batch).last_clock > after;
        let is_before = |batch: &&Vec<u8>| header(batch).end() <= start;
        let acknowledged = self.acknowledged;
        let mut stable = self.committed.clone();
        stable.retain(|batch| header(batch).end() <= acknowledged);
        let fits = |row: &&Vec<Vec<u8>>| {
            let last = row.iter().rfind(is_before);
            let ends_there = last.map_or(0, |it| header(it).end().0);
            let wanted = row.iter().filter(is_before).filter(is_kept);
            ends_there == start.0 && row.starts_with(&stable) && wanted.eq(read)
        };
        let row = self
            .rows
            .iter()
            .chain([&self.committed])
            .find(fits)
            .cloned();
        let Some(row) = row else {
            let ends = |it: BatchHeader| (it.incarnation.0, it.first.0, it.last_clock.0);
            let read: Vec<_> = read.iter().map(|batch| ends(header(batch))).collect();
            return Err(format!(
                "EL-5: rank {} reads {read:?} after {after:?}, to go on from {start}; no life \
                 had that row, with what was acknowledged up to {acknowledged}",
                self.rank.0
            ));
        };
        self.committed = row;
        self.committed.retain(|batch| header(batch).end() <= start);
        let last = self.committed.last();
        self.clock = last.map_or(FIRST_CLOCK, |batch| header(batch).last_clock.0 + 1);
        Ok(())
    }

    pub fn commit(&mut self, rng: &mut Rng) {
        if self.begun.is_none() || self.crash_point.is_dead() {
            return;
        }
        let life = (self.rank, self.life.incarnation);
        let batch = batch_of(life, self.end(), self.clock, rng);
        self.clock = header(&batch).last_clock.0 + rng.u64(1..4);
        self.client.commit(&header(&batch), &batch);
        // The life may have died in the commit; loggers may still have received the batch.
        self.committed.push(batch);
    }

    /// A replaced life commits a batch.
    pub fn undead_commit(&mut self, rng: &mut Rng) {
        if let Some(undead) = self.undead.last_mut() {
            let life = (self.rank, undead.incarnation);
            let batch = batch_of(life, undead.next, undead.clock, rng);
            let header = header(&batch);
            undead.clock = header.last_clock.0 + 1;
            undead.next = header.end();
            undead.client.commit(&header, &batch);
            // A replica that has not received the hello of the next life takes the batch.
            undead.row.push(batch);
            self.rows.push(undead.row.clone());
        }
    }

    /// Starts the next life; the present one is dead, or only suspected.
    pub fn next_life(&mut self, loggers: &Loggers, is_suspected: bool) {
        let is_suspected = is_suspected && self.begun.is_some() && !self.crash_point.is_dead();
        if self.begun.is_some() {
            self.rows.push(self.committed.clone());
        }
        if !is_suspected {
            self.crash_point.kill();
        }
        self.life.incarnation = Incarnation(self.life.incarnation.0 + 1);
        self.crash_point = CrashPoint::default();
        let client = loggers.connect(self.life, self.crash_point.clone());
        let client = core::mem::replace(&mut self.client, client);
        if is_suspected {
            self.undead.push(Undead {
                client,
                fence: None,
                next: self.end(),
                clock: self.clock,
                incarnation: Incarnation(self.life.incarnation.0 - 1),
                row: self.committed.clone(),
            });
        }
        self.begun = None;
    }

    /// A checkpoint is stable: determinants before the previous checkpoint are trimmed. GC-1
    pub fn trim(&mut self) {
        if self.begun.is_none() || self.crash_point.is_dead() {
            return;
        }
        let stable = self.client.stable_end();
        let covered = self.committed.iter().rev().map(|batch| header(batch));
        let newest = covered.clone().find(|batch| batch.end() <= stable);
        if let Some(newest) = newest {
            self.trims = [self.trims[1], newest.last_clock];
            self.client.trim(self.trims[0]);
        }
    }

    pub fn end_undead(&mut self) {
        self.undead.clear();
    }

    /// Returns whether the rank has left. A life that died at an effect does not leave.
    pub fn leave(&mut self) -> bool {
        self.client.leave() || self.crash_point.is_dead()
    }

    /// Checks what the rank would read if it died now.
    pub fn check_now(&mut self, loggers: &Loggers) -> Result<usize, String> {
        let last = self.committed.last().map(|batch| header(batch));
        let writer = last.map_or(Incarnation(0), |last| last.incarnation);
        let ends = (writer, self.end());
        let ask = || {
            // A logger may die at its answer; it is restarted.
            loggers.heal();
            loggers.read_up_to(self.rank, self.trims[0], Some(ends))
        };
        let read = (0..8)
            .map(|_| ask())
            .find(Result::is_ok)
            .unwrap_or_else(ask);
        let read = read.map_err(|error| format!("EL-5: {error}"))?;
        let end = self.end();
        self.check_read(&read, end)?;
        Ok(read.len())
    }
}
