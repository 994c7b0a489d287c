//! A logbook on a faulty disk, compared with lists of the batches given to it, over several
//! lives of its process.

use crate::batches::Which;
use crate::dice::Dice;
use core::ops::ControlFlow;
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::Refusal;
use refrain_eventlog::logbook::{Logbook, LogbookOptions, ReadError, Ticket, Verdict};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_storage::Io;
use refrain_storage::simulated::SimulatedDisk;

pub const JOBS: [u64; 2] = [7, 7 << 40];
pub const RANKS: u32 = 3;

/// Why a life of the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has done all its steps.
    Done,
    /// The logbook has failed.
    Broken,
}

#[derive(Clone, Debug, Default)]
struct RowModel {
    job: u64,
    rank: u32,
    /// The log as the logbook has it, from the first determinant kept.
    row: Vec<Which>,
    /// All states of the log since it was last read back.
    history: Vec<Vec<Which>>,
    /// What was acknowledged.
    written: Vec<Which>,
    durable: Vec<Which>,
    /// Latest life that said hello, and of which the logbook has said that no
    /// restart forgets it.
    said: Option<u32>,
    promised: Option<u32>,
    open_promise: Option<(Ticket, u32)>,
    trimmed: u64,
}

pub struct Driver {
    pub disk: SimulatedDisk,
    pub logbook: Logbook,
    pub sync: bool,
    rows: Vec<RowModel>,
    dice: Dice,
    /// Temporary errors.
    pub waits: u32,
    pub cuts: u32,
}

pub fn options(sync: bool) -> LogbookOptions {
    LogbookOptions {
        logger: LoggerId(1),
        sync,
        io: Io::Auto,
        continues: false,
        segment_bytes: 0,
    }
}

/// All batches that a logbook has of a rank.
pub fn read_all(
    logbook: &Logbook,
    job: u64,
    rank: u32,
    from: u64,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut batches = Vec::new();
    let from = EventIndex(from);
    logbook.read(job, Rank(rank), from, None, &mut |batch| {
        batches.push(batch.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(batches)
}

impl Driver {
    pub fn new(disk: SimulatedDisk, sync: bool, seed: u64) -> Result<Self, String> {
        let logbook = Logbook::open_on(disk.clone().into(), &options(sync));
        let ranks = JOBS
            .iter()
            .flat_map(|&job| (0..RANKS).map(move |rank| (job, rank)));
        let rows = ranks.map(|(job, rank)| RowModel {
            job,
            rank,
            history: vec![Vec::new()],
            ..RowModel::default()
        });
        Ok(Self {
            disk,
            logbook: logbook.map_err(|error| error.to_string())?,
            sync,
            rows: rows.collect(),
            dice: Dice::new(seed),
            waits: 0,
            cuts: 0,
        })
    }

    /// Performs that many steps, or as many as possible.
    pub fn work(&mut self, steps: u32) -> End {
        for _ in 0..steps {
            let number = self.dice.below(self.rows.len() as u64) as usize;
            let goes = match self.dice.below(20) {
                0 => self.hello(number),
                1 => self.trim(number),
                2 => self.settle(),
                3..=8 => self.progress(),
                _ => self.batch(number),
            };
            if !goes {
                return End::Broken;
            }
            self.note_acknowledged();
        }
        match self.settle() {
            true => {
                self.note_acknowledged();
                End::Done
            }
            false => End::Broken,
        }
    }

    fn hello(&mut self, number: usize) -> bool {
        let model = &mut self.rows[number];
        let incarnation = model.said.map_or(0, |said| said + 1);
        let rank = Rank(model.rank);
        match self
            .logbook
            .hello(model.job, rank, Incarnation(incarnation))
        {
            Ok(standing) => {
                model.said = Some(incarnation);
                model.open_promise = Some((standing.ticket, incarnation));
                let end = model
                    .row
                    .last()
                    .map_or(standing.end, |last| last.header().end());
                assert_eq!(standing.end, end);
                true
            }
            Err(Refusal::Store { .. }) => false,
            Err(refused) => panic!("{refused}"),
        }
    }

    fn batch(&mut self, number: usize) -> bool {
        let model = &self.rows[number];
        let Some(incarnation) = model.said else {
            return self.hello(number);
        };
        // A life's first batch may begin at an earlier one's end.
        let is_new_life = model
            .row
            .last()
            .is_some_and(|last| last.incarnation < incarnation);
        let mut kept = model.row.len();
        if is_new_life && self.dice.below(2) == 0 {
            let after = model
                .row
                .iter()
                .filter(|batch| batch.last_clock > model.trimmed);
            kept -= self.dice.below(after.count() as u64 + 1) as usize;
        }
        let before = kept.checked_sub(1).map(|last| model.row[last]);
        let holding = self
            .logbook
            .hello(model.job, Rank(model.rank), Incarnation(incarnation));
        let Ok(standing) = holding else { return false };
        let (first, clock) = match before {
            Some(before) => (before.header().end().0, before.last_clock),
            None if model.row.is_empty() => (standing.end.0, standing.last_clock.0),
            None => (
                model.row[0].first,
                model.trimmed.min(model.row[0].first_clock),
            ),
        };
        let first_clock = clock + self.dice.below(3);
        let counts = [1, 2, 3, 64, 1024];
        let which = Which {
            job: model.job,
            rank: model.rank,
            incarnation,
            first,
            count: counts[self.dice.below(5) as usize],
            first_clock,
            last_clock: first_clock + self.dice.below(5),
        };
        match self.logbook.accept(model.job, &which.bytes()) {
            Ok(verdict) => assert_eq!(verdict, Verdict::Taken, "{which:?}"),
            Err(Refusal::Store { .. }) => return false,
            Err(Refusal::Busy { .. }) => {
                self.waits += 1;
                self.disk.set_room(u64::MAX);
                return true;
            }
            Err(refused) => panic!("{which:?}: {refused}"),
        }
        let model = &mut self.rows[number];
        if kept < model.row.len() {
            self.cuts += 1;
            model.row.truncate(kept);
            model.history.push(model.row.clone());
        }
        model.row.push(which);
        model.history.push(model.row.clone());
        // GATE-3
        let again = self.logbook.accept(model.job, &which.bytes());
        assert_eq!(again, Ok(Verdict::Known), "{which:?}");
        true
    }

    fn trim(&mut self, number: usize) -> bool {
        let model = &mut self.rows[number];
        if model.row.is_empty() {
            return true;
        }
        let acknowledged = if self.sync {
            &model.durable
        } else {
            &model.written
        };
        // A checkpoint is stable, so what it covers is.
        if acknowledged.is_empty() {
            return true;
        }
        let upto = self.dice.below(acknowledged.len() as u64) as usize;
        let clock = acknowledged[upto].last_clock;
        self.logbook.trim(model.job, Rank(model.rank), Clock(clock));
        model.trimmed = model.trimmed.max(clock);
        true
    }

    fn progress(&mut self) -> bool {
        match self.logbook.progress() {
            Ok(_) => true,
            Err(error) if error.is_temporary() => {
                self.waits += 1;
                self.disk.set_room(u64::MAX);
                true
            }
            Err(_) => false,
        }
    }

    fn settle(&mut self) -> bool {
        match self.logbook.settle() {
            Ok(()) => {
                assert!(self.logbook.is_settled());
                true
            }
            Err(error) if error.is_temporary() => {
                self.waits += 1;
                self.disk.set_room(u64::MAX);
                self.settle()
            }
            Err(_) => false,
        }
    }

    fn note_acknowledged(&mut self) {
        for model in &mut self.rows {
            let rank = Rank(model.rank);
            let upto = |(end, clock): (EventIndex, Clock)| {
                let row = model.row.iter();
                let covered: Vec<_> = row
                    .take_while(|batch| batch.header().end() <= end)
                    .copied()
                    .collect();
                if let Some(last) = covered.last() {
                    assert_eq!(last.header().end(), end, "inside of a batch");
                    assert_eq!(
                        last.last_clock, clock.0,
                        "EL-1: end and clock belong together"
                    );
                }
                covered
            };
            model.written = upto(self.logbook.written(model.job, rank));
            model.durable = upto(self.logbook.durable(model.job, rank));
            assert!(
                model.durable.len() <= model.written.len(),
                "durable before written"
            );
            if let Some((ticket, incarnation)) = model.open_promise
                && self.logbook.has_stored(ticket)
            {
                model.promised = Some(incarnation);
            }
        }
    }

    /// Batches read back are those written, from the first one kept.
    pub fn check_reading(&self) {
        for model in &self.rows {
            let holdings = self.logbook.holdings();
            let holding = holdings
                .iter()
                .find(|holding| (holding.job, holding.rank) == (model.job, model.rank));
            let Some(holding) = holding else {
                assert!(model.said.is_none());
                continue;
            };
            let read = read_all(&self.logbook, model.job, model.rank, holding.first)
                .unwrap_or_else(|error| panic!("EL-5: {error}"));
            let kept = |batch: &&Which| batch.first >= holding.first;
            let written: Vec<_> = model
                .written
                .iter()
                .filter(kept)
                .map(Which::bytes)
                .collect();
            assert!(read == written, "EL-5: another row than was written");
            // Determinants after the clock of the last trim are always there.
            let mut after = Vec::new();
            let clock = Some(Clock(model.trimmed));
            let from = EventIndex(0);
            let read = self
                .logbook
                .read(model.job, Rank(model.rank), from, clock, &mut |batch| {
                    after.push(batch.to_vec());
                    ControlFlow::Continue(())
                });
            read.unwrap_or_else(|error| panic!("EL-5: {error}"));
            let asked = |batch: &&Which| batch.last_clock > model.trimmed;
            let asked: Vec<_> = model
                .written
                .iter()
                .filter(asked)
                .map(Which::bytes)
                .collect();
            assert!(after == asked, "EL-5: another row after the clock");
        }
    }

    /// The process is dead; another one starts with this disk. EL-3
    pub fn restart(&mut self, disk: SimulatedDisk, only_durable: bool) -> Result<(), String> {
        let opened = Logbook::open_on(disk.clone().into(), &options(self.sync));
        let logbook = opened.map_err(|error| format!("it does not open: {error}"))?;
        for model in &mut self.rows {
            let promised = match only_durable {
                true => &model.durable,
                false => &model.written,
            };
            let holdings = logbook.holdings();
            let holding = holdings
                .iter()
                .find(|holding| (holding.job, holding.rank) == (model.job, model.rank));
            let Some(holding) = holding else {
                if model.promised.is_some() || !promised.is_empty() {
                    return Err(format!("rank {} of job {} is gone", model.rank, model.job));
                }
                model.said = None;
                model.open_promise = None;
                model.row.clear();
                model.forget();
                continue;
            };
            // FENCE-1
            if Some(holding.incarnation) < model.promised {
                return Err("a fenced life is not fenced any more".into());
            }
            if Some(holding.incarnation) > model.said {
                return Err("a life that never said hello".into());
            }
            let read = read_all(&logbook, model.job, model.rank, holding.first);
            let read = read.map_err(|error| format!("EL-5: {error}"))?;
            let kept = |row: &[Which]| -> Vec<Which> {
                let kept = row.iter().filter(|batch| batch.first >= holding.first);
                kept.copied().collect()
            };
            let is_read = |row: &&Vec<Which>| {
                let row = kept(row);
                row.len() == read.len()
                    && row
                        .iter()
                        .zip(&read)
                        .all(|(batch, read)| batch.bytes() == *read)
            };
            let Some(found) = model.history.iter().rev().find(is_read) else {
                let headers = read.iter().map(|batch| BatchHeader::peek(batch));
                let headers: Vec<_> = headers.collect();
                return Err(format!(
                    "EL-2: never was a row like {headers:?}, {holding:?}"
                ));
            };
            let found = kept(found);
            for batch in promised {
                let is_given_up = batch.last_clock <= model.trimmed;
                if !found.contains(batch) && !is_given_up {
                    return Err(format!("EL-3: lost {batch:?}, {holding:?}"));
                }
            }
            let end = found.last().map(|last| last.header().end().0);
            if end.is_some_and(|end| end != holding.end) {
                return Err("the row ends elsewhere than what is read".into());
            }
            model.said = Some(holding.incarnation);
            model.open_promise = None;
            model.row = found;
            model.forget();
        }
        self.disk = disk;
        self.logbook = logbook;
        self.note_acknowledged();
        Ok(())
    }
}

impl RowModel {
    /// What was before the restart cannot come again.
    fn forget(&mut self) {
        self.history = vec![self.row.clone()];
        self.written.clear();
        self.durable.clear();
        self.promised = self.said;
    }
}
