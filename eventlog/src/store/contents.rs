//! Contents of the files: the ranks' logs, and the files in which their parts lie.
//!
//! Its size depends on ranks and files, not on batches.

use crate::acceptor::RankLog;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Rank};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Determinants of a log that lie in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub file: u64,
    /// Place of the group with the first of them.
    pub place: u64,
    pub from: EventIndex,
    pub to: EventIndex,
    /// Clock of the last of them.
    pub last_clock: Clock,
}

/// An end of a log, and the clock there.
pub(crate) type End = (EventIndex, Clock);

/// Index of a log in the list of logs that a group extends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub group: u64,
    pub index: usize,
}

/// A rank's log, and its parts in files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracked {
    pub job: u64,
    pub rank: Rank,
    pub row: RankLog,
    /// In order; each part continues where the previous one ends.
    pub parts: VecDeque<Part>,
    pub written: End,
    pub durable: End,
    pub mark: Mark,
}

impl Tracked {
    pub fn end(&self) -> End {
        (self.row.end, self.row.last_clock)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileState {
    /// End of its groups, when all are written.
    pub end: u64,
    /// End of its groups that are written.
    pub written_end: u64,
    /// Number of log parts in the file.
    pub parts: usize,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub rows: Vec<Tracked>,
    numbers: HashMap<(u64, u32), usize>,
    /// Index of the last log found, which is often requested again.
    latest: usize,
    pub files: BTreeMap<u64, FileState>,
}

impl Contents {
    pub fn find(&self, job: u64, rank: Rank) -> Option<usize> {
        self.numbers.get(&(job, rank.0)).copied()
    }

    pub fn find_cached(&mut self, job: u64, rank: Rank) -> Option<usize> {
        if let Some(row) = self.rows.get(self.latest)
            && (row.job, row.rank) == (job, rank)
        {
            return Some(self.latest);
        }
        self.latest = self.find(job, rank)?;
        Some(self.latest)
    }

    pub fn find_or_add(&mut self, job: u64, rank: Rank) -> usize {
        if let Some(number) = self.find(job, rank) {
            return number;
        }
        let number = self.rows.len();
        self.rows.push(Tracked {
            job,
            rank,
            ..Tracked::default()
        });
        self.numbers.insert((job, rank.0), number);
        number
    }

    /// Adds a batch in the group at that place.
    pub fn put(&mut self, number: usize, batch: &BatchHeader, file: u64, place: u64) {
        let tracked = &mut self.rows[number];
        tracked.row.take(batch);
        match tracked.parts.back_mut() {
            Some(part) if part.file == file => {
                part.to = batch.end();
                part.last_clock = batch.last_clock;
            }
            _ => {
                tracked.parts.push_back(Part {
                    file,
                    place,
                    from: batch.first,
                    to: batch.end(),
                    last_clock: batch.last_clock,
                });
                self.files.entry(file).or_default().parts += 1;
            }
        }
    }

    /// Replaces the description of a log.
    pub fn restore(&mut self, number: usize, row: RankLog) {
        self.rows[number].row = row;
        self.clip(number);
    }

    /// Removes the parts that the log no longer has.
    pub fn clip(&mut self, number: usize) {
        let Tracked { row, parts, .. } = &mut self.rows[number];
        let files = &mut self.files;
        parts.retain_mut(|part| {
            // An empty log may begin inside a part.
            let is_empty = row.first == row.end;
            let stays = !is_empty && part.to > row.first && part.from < row.end;
            if stays && part.to > row.end {
                part.to = row.end;
                part.last_clock = row.last_clock;
            }
            if !stays && let Some(file) = files.get_mut(&part.file) {
                file.parts -= 1;
            }
            stays
        });
    }

    /// Drops trimmed parts at the beginning. GC-1
    pub fn release(&mut self, number: usize) {
        let Tracked { row, parts, .. } = &mut self.rows[number];
        let trimmed = parts
            .iter()
            .take_while(|part| part.last_clock <= row.trimmed);
        if let Some(&last) = trimmed.last() {
            row.drop_before(last.to, last.last_clock);
            self.clip(number);
        }
    }
}
