//! From a hello to a welcome: how a life that begins is let in by a replica.
//!
//! What the server decides (`eventlog/src/server/joining.rs`) is in the real row:
//! `Row::fit`, `Row::lends`, `Row::follow`, `Row::let_in`. In which order it asks
//! the others is said here once more. Without marks, as it was before: planted.

use super::process::{Phase, Seeking};
use super::replica::{Batch, Shelf};
use super::size::{Bug, Joining, Reading, Size};
use super::world::World;
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::{Fit, Origin};
use refrain_eventlog::client::committer::RowEnd;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};

impl World {
    /// A replica hears of a life. FENCE-1
    fn fence(&mut self, rank: usize, replica: usize, size: &Size) -> bool {
        let incarnation = self.ranks[rank].incarnation;
        let shelf = &mut self.shelves[replica][rank];
        let is_heard = shelf.row.hello(Rank(rank as u32), incarnation).is_ok();
        if size.bug != Some(Bug::NoFence) {
            // The real row refuses them; so it does not matter when they come.
            let row = &shelf.row;
            let header = |batch: &_| super::replica::header(batch);
            shelf
                .late
                .retain(|batch| row.judge(&header(batch), Origin::Writer).is_ok());
        }
        is_heard
    }

    /// A replica says what it has of the lives before.
    pub(super) fn survey(&mut self, rank: usize, replica: usize, size: &Size) {
        self.fence(rank, replica, size);
        let shelf = &self.shelves[replica][rank];
        let end = match size.joining {
            Joining::FirstKept => shelf.unmarked_end(),
            Joining::Marked => shelf.row_end(),
        };
        let Phase::Seeking(seeking) = &mut self.ranks[rank].phase else {
            return;
        };
        seeking.note_answer(replica, end);
        seeking.hear(replica, end, size);
        if seeking.desk.committer.start().is_none() {
            return;
        }
        let greatest = seeking.answers.iter().copied().flatten().max();
        if size.bug == Some(Bug::RunsAtOnce) {
            let holders = (0..size.replicas).find(|&replica| {
                let shelf = &self.shelves[replica][rank];
                Some(shelf.unmarked_end()) == greatest || Some(shelf.row_end()) == greatest
            });
            if let Some(holder) = holders {
                // A life that has begun always finds what it began with.
                let _ = self.begin(rank, &[holder]);
            }
        }
    }

    /// A replica is asked to let a life in. `reversed`: in which order it asks
    /// the others.
    pub(super) fn join(&mut self, rank: usize, replica: usize, reversed: bool, size: &Size) {
        let Some(committer) = self.ranks[rank].committer_mut() else {
            return;
        };
        let needs = committer.joins(replica);
        let mut peers: Vec<usize> = (0..size.replicas).filter(|peer| *peer != replica).collect();
        if reversed {
            peers.reverse();
        }
        let place = match self.fence(rank, replica, size) {
            false => None,
            true => match size.joining {
                Joining::FirstKept => self.let_in_from(rank, replica, needs, &peers),
                Joining::Marked => self.let_in(rank, replica, &peers),
            },
        };
        let Some(committer) = self.ranks[rank].committer_mut() else {
            return;
        };
        match place {
            None => committer.lose(replica),
            Some((end, clock)) => {
                // One that cannot be right loses the replica.
                let _ = committer.welcomed(replica, LoggerId(replica as u32), end, clock);
            }
        }
    }

    /// Once a quorum has let a life in, it reads and runs.
    pub(super) fn begin_if_joined(&mut self, rank: usize, size: &Size) -> Result<(), String> {
        if size.reading != Reading::Joined || !self.is_joined(rank) {
            return Ok(());
        }
        let committer = self.ranks[rank].committer();
        let live = |replica: &usize| committer.is_some_and(|it| it.is_live(*replica));
        let live: Vec<usize> = (0..size.replicas).filter(live).collect();
        self.begin(rank, &live[..1])
    }

    /// Whether a life waits for nothing but its determinants.
    pub(super) fn is_joined(&self, rank: usize) -> bool {
        let Phase::Seeking(seeking) = &self.ranks[rank].phase else {
            return false;
        };
        let committer = &seeking.desk.committer;
        let live = (0..self.shelves.len()).filter(|replica| committer.is_live(*replica));
        live.count() >= committer.quorum()
    }

    /// Reads from these replicas, and runs. EL-5
    pub(super) fn begin(&mut self, rank: usize, from: &[usize]) -> Result<(), String> {
        let Phase::Seeking(seeking) = &self.ranks[rank].phase else {
            return Ok(());
        };
        let desk = seeking.desk.clone();
        let start = desk.committer.start().unwrap_or_default();
        let shelves = from.iter().map(|replica| &self.shelves[*replica][rank]);
        let Some(shelf) = shelves.max_by_key(|shelf| shelf.unmarked_end()) else {
            return Ok(());
        };
        let after = self.ranks[rank].at.clock_before();
        if shelf.row.clock_before > after {
            return Err(format!(
                "GC-1: rank {rank} starts again from its checkpoint at {after:?}, and determinants \
                 up to {:?} were given up",
                shelf.row.clock_before
            ));
        }
        let replay = shelf.matches(start, after);
        let process = &mut self.ranks[rank];
        let found = process.at.matches.len() + replay.len();
        if found as u64 != start.0 {
            return Err(format!(
                "EL-5: incarnation {} of rank {rank} begins at number {start} and finds {found}",
                process.incarnation.0
            ));
        }
        process.replay = replay.into();
        process.run(rank, desk);
        Ok(())
    }

    /// Planted: without marks, by the first number that the life can send.
    fn let_in_from(
        &mut self,
        rank: usize,
        replica: usize,
        needs: EventIndex,
        peers: &[usize],
    ) -> Option<(EventIndex, Clock)> {
        let incarnation = self.ranks[rank].incarnation;
        let row = &self.shelves[replica][rank].row;
        let life_start = row.last_life().map_or(row.end, |life| life.start);
        let is_own = is_of_life(&self.shelves[replica][rank], incarnation);
        if needs > row.end || (needs > life_start && !is_own) {
            let needed = match incarnation {
                Incarnation(0) => 1,
                _ => (peers.len() / 2).max(1),
            };
            let mut whole = 0;
            for &peer in peers {
                let theirs = self.shelves[peer][rank].clone();
                if theirs.row.first > life_start {
                    continue;
                }
                let mine = &mut self.shelves[replica][rank];
                let is_wanted = |batch: &&Batch| super::replica::header(batch).end() > life_start;
                // A batch that is refused ends the piece, not the fetch.
                let mut wanted = theirs.batches.iter().filter(is_wanted);
                let _ = wanted.try_for_each(|batch| mine.accept(batch, Origin::Replica));
                whole += 1;
                if whole >= needed && mine.row.end >= needs {
                    break;
                }
            }
            if whole < needed || self.shelves[replica][rank].row.end < needs {
                return None;
            }
        }
        Some(common_end(&self.shelves[replica][rank], incarnation, needs))
    }

    /// As the server does it: the row becomes like one that is what the life
    /// begins with, if it is not; then it keeps that the life has begun.
    fn let_in(
        &mut self,
        rank: usize,
        replica: usize,
        peers: &[usize],
    ) -> Option<(EventIndex, Clock)> {
        let life = self.ranks[rank].committer()?.beginning()?;
        for &peer in peers {
            if self.shelves[replica][rank].row.fit(&life) != Fit::Lacks {
                break;
            }
            let theirs = self.shelves[peer][rank].clone();
            // One that is refused is told, and the next is asked.
            let _ = self.shelves[replica][rank].follow(rank, &theirs, &life);
        }
        let mine = &mut self.shelves[replica][rank];
        mine.let_in(rank, &life).ok()?;
        Some((mine.row.end, mine.row.last_clock))
    }
}

impl Seeking {
    /// What those have said that are lost again does not count.
    fn note_answer(&mut self, replica: usize, answer: RowEnd) {
        for (other, said) in self.answers.iter_mut().enumerate() {
            if self.desk.committer.is_lost(other) {
                *said = None;
            }
        }
        self.answers[replica] = Some(answer);
    }

    /// Tells the committer what a replica has.
    fn hear(&mut self, replica: usize, end: RowEnd, size: &Size) {
        let committer = &mut self.desk.committer;
        let mut say = |replica: usize, end: RowEnd| {
            committer.joins(replica);
            // One that cannot be right loses the replica.
            let _ = committer.answered(replica, LoggerId(replica as u32), end);
        };
        match size.bug {
            Some(Bug::SurveyOfOne) => {
                say(replica, end);
                for other in (0..size.replicas).filter(|other| *other != replica) {
                    say(other, RowEnd::default());
                }
            }
            // What all say is the least that was said; the first is taken back.
            Some(Bug::ShortestAnswer) => {
                let answers = self.answers.iter().copied().flatten();
                let least = answers.min().unwrap_or(end);
                for other in 0..size.replicas {
                    if other != replica && !committer.is_lost(other) {
                        committer.joins(other);
                        let id = LoggerId(other as u32);
                        let _ = committer.answered(other, id, least);
                    }
                }
                committer.joins(replica);
                let id = LoggerId(replica as u32);
                let _ = committer.answered(replica, id, least);
            }
            _ => say(replica, end),
        }
    }
}

/// Whether a row ends with a batch of this life, or has none.
fn is_of_life(shelf: &Shelf, incarnation: Incarnation) -> bool {
    let last = shelf.batches.last();
    last.is_none_or(|batch| super::replica::header(batch).incarnation == incarnation)
}

/// Planted: up to where a row is the client's.
fn common_end(shelf: &Shelf, incarnation: Incarnation, needs: EventIndex) -> (EventIndex, Clock) {
    if needs >= shelf.row.end || is_of_life(shelf, incarnation) {
        return (shelf.row.end, shelf.row.last_clock);
    }
    let headers = shelf
        .batches
        .iter()
        .map(|batch| super::replica::header(batch));
    let last = headers.rev().find(|header| header.first < needs);
    let clock = match last {
        Some(batch) if batch.end() == needs => batch.last_clock,
        Some(batch) => batch.first_clock,
        None => Clock(0),
    };
    (needs, clock)
}
