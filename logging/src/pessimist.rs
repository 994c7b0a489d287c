//! The pessimistic protocol: no emission before every earlier determinant is
//! stable (docs/design/protocol.md, the gate; Open MPI-V, section 3). Pure: batches leave
//! through [`Commits`].

use crate::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};
use crate::determinant::record::ALONE_BYTES_MAX;
use crate::determinant::recorder::{Counts, Foreseen, Identity, Recorder};
use crate::determinant::{EventIndex, Match};
use core::hash::{Hash, Hasher};
use refrain_ring::{Carriage, Clock, Rank};
use std::collections::VecDeque;

/// Makes batches stable.
pub trait Commits {
    /// Begins to make a batch stable. Batches come in the order of their numbers,
    /// without gaps. GATE-2
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]);

    /// Whether [`Commits::commit_match`] takes batches of a single match. Then they are not sealed, and none
    /// are prepared.
    #[inline]
    fn takes_matches(&self) -> bool {
        false
    }

    /// As [`Commits::commit`], of a batch whose only determinant is this match.
    fn commit_match(&mut self, _header: &BatchHeader, _payload: &[u8], _alone: Match) {}

    /// One past the last determinant known to be stable; does not check for acknowledgements.
    fn stable_end(&self) -> EventIndex;

    /// Checks for acknowledgements, and returns [`Commits::stable_end`]. Does not
    /// block.
    fn poll(&mut self) -> EventIndex;

    /// Prepares, for [`Commits::commit_prepared`], a batch that may be the next: no other
    /// process may see it yet. A commit of another batch drops it.
    fn prepare(&mut self, _header: &BatchHeader, _batch: &[u8]) {}

    /// [`Commits::commit`] of the batch that was prepared last, with no commit since.
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.commit(header, batch);
    }

    /// Whether a commit is usually stable as soon as it has begun: then an early commit gains
    /// nothing.
    fn is_instant(&self) -> bool;

    /// Lets determinants up to this operation be dropped: they are not needed again. GC-1
    fn trim(&mut self, _before: Clock) {}

    /// Leaves the job; called when all commits of the rank are stable. Returns whether the leave
    /// is complete. Called again until then.
    fn leave(&mut self) -> bool {
        true
    }

    /// An emission waits for batches that were committed. For stores where commits alone do not make
    /// them stable. CAUSAL-3
    #[inline]
    fn press(&mut self) {}

    /// Nothing arrives.
    #[inline]
    fn idle(&mut self) {}

    /// Whether a message to a rank may leave with the batches that it has to carry, and with events that are in no
    /// batch yet, if `has_pending` says that there are any; else it waits until all are stable. CAUSAL-1
    #[inline]
    fn may_carry(&self, _to: Rank, _has_pending: impl FnOnce() -> bool) -> bool {
        true
    }

    /// Writes what the next message to a rank has to carry; nothing if there is none. Returns whether it is
    /// all: what does not fit belongs into a record before it. CAUSAL-1
    #[inline]
    fn carry(&mut self, _carriage: Carriage, _out: &mut Vec<u8>) -> bool {
        true
    }

    /// As [`Commits::carry`], of all batches so far and of one that is committed next, with the number
    /// `first`: its only determinant is this match. Returns whether it has written that; else there are other
    /// batches to carry, or the store does not do this.
    #[inline]
    fn carry_alone(
        &mut self,
        _carriage: Carriage,
        _first: EventIndex,
        _alone: &Match,
        _out: &mut Vec<u8>,
    ) -> bool {
        false
    }

    /// What [`Commits::carry`] wrote last for this rank is in the log. Without this call it counts as
    /// never written.
    #[inline]
    fn carried(&mut self, _to: Rank) {}

    /// Takes what messages of a rank carried.
    ///
    /// # Errors
    /// When no rank carries that.
    fn take_carried(&mut self, _from: Rank, _attachment: &[u8]) -> Result<(), &'static str> {
        Err("messages to this rank carry no events")
    }

    /// A receive was matched with a message of this rank.
    #[inline]
    fn matched(&mut self, _source: Rank) {}

    /// Moves the next bytes that are for another rank's store into `piece`; returns which rank, and
    /// how many. For stores that are at other ranks. GATE-4
    #[inline]
    fn tell(&mut self, _piece: &mut [u8]) -> Option<(Rank, usize)> {
        None
    }

    /// Takes bytes of another rank's store.
    ///
    /// # Errors
    /// When no store tells them.
    fn hear(&mut self, _from: Rank, _piece: &[u8]) -> Result<(), &'static str> {
        Err("this rank's events are not kept by ranks")
    }

    /// Nothing arrives from the present life of a peer any more.
    fn fenced(&mut self, _peer: Rank) {}

    /// A peer was connected.
    fn connected(&mut self, _peer: Rank) {}

    /// Why a commit does not become stable, for messages to the user.
    fn explain(&self) -> Option<String> {
        None
    }
}

/// Number of pending determinants at which a commit begins though no emission waits, because
/// they take memory.
const PENDING_MAX: u64 = 512;

/// A batch that was made before its event, if any.
#[derive(Clone, Debug, Default)]
struct Ahead {
    foreseen: Option<Foreseen>,
    batch: Vec<u8>,
}

/// Hashes nothing: it affects only when a batch is made, not its contents.
impl Hash for Ahead {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// One rank's side of the protocol.
#[derive(Clone, Debug, Hash)]
pub struct Pessimist<C> {
    recorder: Recorder,
    commits: C,
    /// Buffer of the batch that is being committed.
    batch: Vec<u8>,
    /// The batch that may be the next.
    ahead: Ahead,
    /// An earlier [`Pessimist::advance`] has seen the pending determinants: the
    /// call that made them is over, so nothing will be merged with them.
    has_aged: bool,
    /// Number of events so far.
    recorded: u64,
    /// Number of events up to the last commit.
    committed: u64,
    /// Number of events up to the last commit that left nothing pending.
    covered: u64,
    /// Ends of those commits that are not known to be stable, each with the number of events up
    /// to it.
    under_way: VecDeque<(EventIndex, u64)>,
    /// Number of first events that are stable.
    stable: u64,
    /// Clocks to trim at, each with the number of first events that must be stable before.
    to_trim: VecDeque<(u64, Clock)>,
    /// A message carries what is pending, a match: it is the next batch, whatever happens. It is committed
    /// when there is time, or before anything else is.
    is_promised: bool,
}

impl<C: Commits> Pessimist<C> {
    /// Numbers determinants from `next` on.
    pub fn new(identity: Identity, next: EventIndex, commits: C) -> Self {
        Self {
            recorder: Recorder::new(identity, next),
            commits,
            batch: Vec::with_capacity(BATCH_BYTES_MAX),
            ahead: Ahead::default(),
            has_aged: false,
            recorded: 0,
            committed: 0,
            covered: 0,
            under_way: VecDeque::new(),
            stable: 0,
            to_trim: VecDeque::new(),
            is_promised: false,
        }
    }

    /// As [`Pessimist::new`], where determinants before `next` may not be stable yet: together they
    /// count as an event before all others. CAUSAL-4
    pub fn after_unstable(identity: Identity, next: EventIndex, commits: C) -> Self {
        let mut pessimist = Self::new(identity, next, commits);
        if pessimist.commits.stable_end() < next {
            (pessimist.recorded, pessimist.committed, pessimist.covered) = (1, 1, 1);
            pessimist.under_way.push_back((next, 1));
        }
        pessimist
    }

    /// Counts an event and returns the recorder for it.
    #[inline]
    pub fn record(&mut self) -> &mut Recorder {
        self.keep_promise();
        self.recorded += 1;
        self.has_aged = false;
        &mut self.recorder
    }

    /// Advances commits. Emissions wait for the first `wanted` events: if any of
    /// them is in no commit yet, all pending determinants are committed, including operations
    /// that are only counted. Later events wait for their own emissions: a program that
    /// tests without a result behind a waiting send does not commit each test.
    /// Returns the number of first events that are stable. GATE-1, GATE-2
    #[inline(always)]
    pub fn advance(&mut self, wanted: u64) -> u64 {
        // GATE-1: trims are emissions, too.
        let to_trim = self.to_trim.front().map_or(0, |(events, _)| *events);
        self.move_on(wanted.max(to_trim));
        if !self.to_trim.is_empty() {
            self.trim();
        }
        self.stable
    }

    #[inline(always)]
    fn move_on(&mut self, wanted: u64) {
        self.keep_promise();
        if wanted > self.covered {
            self.commit(true);
        } else if self.is_due() {
            self.commit(false);
        }
        self.has_aged = self.recorder.has_pending(false);
        if !self.under_way.is_empty() {
            self.settle(self.commits.stable_end());
            if !self.under_way.is_empty() {
                let end = self.commits.poll();
                self.settle(end);
            }
        }
    }

    /// Trims up to `before` once all events so far are stable: loggers treat
    /// trimmed determinants as stable. GC-1, EL-5
    pub fn trim_when_stable(&mut self, before: Clock) {
        self.to_trim.push_back((self.recorded, before));
        self.trim();
    }

    #[cold]
    fn trim(&mut self) {
        while let Some((events, before)) = self.to_trim.front().copied()
            && events <= self.stable
        {
            self.to_trim.pop_front();
            self.commits.trim(before);
        }
    }

    /// Leaves the job; returns whether all events are stable and the leave is
    /// complete. Called again until then.
    pub fn leave(&mut self) -> bool {
        self.move_on(self.recorded);
        self.stable >= self.recorded && self.commits.leave()
    }

    /// See [`Commits::may_carry`].
    #[inline]
    pub fn may_carry(&self, to: Rank) -> bool {
        (self.commits).may_carry(to, || self.recorder.has_pending(true))
    }

    /// Writes what the next message to a rank has to carry: all events so far that are not stable, as far as it
    /// does not have them. Returns whether that is all; see [`Commits::carry`]. CAUSAL-1
    #[inline]
    pub fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        if !self.is_promised
            && let Some(alone) = self.recorder.alone()
            && (self.commits).carry_alone(carriage, self.recorder.next(), &alone, out)
        {
            self.is_promised = true;
            return true;
        }
        self.advance(self.recorded);
        self.commits.carry(carriage, out)
    }

    /// What [`Pessimist::carry`] wrote last for this rank is in the log.
    #[inline]
    pub fn carried(&mut self, to: Rank) {
        self.commits.carried(to);
    }

    #[inline(always)]
    fn keep_promise(&mut self) {
        if self.is_promised {
            self.is_promised = false;
            self.commit(true);
        }
    }

    /// Whether [`Pessimist::advance`] would do nothing while no emission waits, in a store that changes only
    /// when it hears something.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        let stable_end = self.commits.stable_end();
        let next_is_unstable = |(end, _): &(EventIndex, u64)| *end > stable_end;
        !self.is_promised
            && self.to_trim.is_empty()
            && self.recorded - self.committed < PENDING_MAX
            && self.under_way.front().is_none_or(next_is_unstable)
    }

    /// Number of events so far.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Number of first events that are known to be stable.
    pub fn stable(&self) -> u64 {
        self.stable
    }

    /// Called while nothing arrives: prepares the next commit, if it can be predicted.
    pub fn idle(&mut self) {
        self.keep_promise();
        self.commits.idle();
        if !self.commits.takes_matches()
            && self.ahead.foreseen.is_none()
            && let Some(foreseen) = self.recorder.foresee(&mut self.ahead.batch)
        {
            self.commits.prepare(foreseen.header(), &self.ahead.batch);
            self.ahead.foreseen = Some(foreseen);
        }
    }

    /// Whether commits begin early: they take time.
    pub fn commits_early(&self) -> bool {
        !self.commits.is_instant()
    }

    /// Called when the application computes, if [`Pessimist::commits_early`]: begins a commit.
    pub fn operation_ended(&mut self) {
        if !self.is_in_flight() {
            self.commit(false);
        }
    }

    /// Whether a commit begins though no emission waits: early, but only
    /// after the call that made the event is over, and one at a time, so that
    /// later events form the next batch.
    fn is_due(&self) -> bool {
        if self.recorded - self.committed >= PENDING_MAX {
            return self.recorder.has_pending(false);
        }
        self.has_aged && self.commits_early() && !self.is_in_flight()
    }

    fn is_in_flight(&self) -> bool {
        self.commits.stable_end() < self.recorder.next()
    }

    #[inline]
    fn commit(&mut self, flush: bool) {
        let is_all = match self.ahead.foreseen.take() {
            Some(it) if self.recorder.take_foreseen(&it) => {
                self.commits.commit_prepared(it.header(), &self.ahead.batch);
                true
            }
            _ => {
                self.commit_batches(flush);
                !self.recorder.has_pending(true)
            }
        };
        self.committed = self.recorded;
        self.has_aged = false;
        if is_all && self.covered < self.recorded {
            self.covered = self.recorded;
            let end = self.recorder.next();
            // Over shared memory the commit is usually stable already.
            if self.under_way.is_empty() && self.commits.stable_end() >= end {
                self.stable = self.recorded;
            } else {
                self.under_way.push_back((end, self.recorded));
            }
        }
    }

    fn commit_batches(&mut self, flush: bool) {
        let mut payload = [0; ALONE_BYTES_MAX];
        if self.commits.takes_matches()
            && let Some((header, alone)) = self.recorder.take_alone(&mut payload)
        {
            let payload = &payload[..header.payload_bytes as usize];
            return self.commits.commit_match(&header, payload, alone);
        }
        while let Some(header) = self.recorder.take_batch(flush, &mut self.batch) {
            self.commits.commit(&header, &self.batch);
            if !self.recorder.has_pending(flush) {
                break;
            }
        }
    }

    fn settle(&mut self, stable_end: EventIndex) {
        while let Some((end, events)) = self.under_way.front()
            && *end <= stable_end
        {
            self.stable = *events;
            self.under_way.pop_front();
        }
    }

    /// Counters of the recorded determinants.
    pub fn counts(&self) -> Counts {
        self.recorder.counts()
    }

    /// The commits.
    pub fn commits(&self) -> &C {
        &self.commits
    }

    /// The commits, for changes.
    #[inline]
    pub fn commits_mut(&mut self) -> &mut C {
        self.keep_promise();
        &mut self.commits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::determinant::Matched;
    use refrain_ring::{Incarnation, Ssn};

    /// Acknowledges a commit at the second poll after it.
    #[derive(Debug, Default)]
    struct Late {
        ends: Vec<EventIndex>,
        seen: usize,
        stable: EventIndex,
    }

    impl Commits for Late {
        fn commit(&mut self, header: &BatchHeader, _batch: &[u8]) {
            self.ends.push(header.end());
        }

        fn stable_end(&self) -> EventIndex {
            self.stable
        }

        fn poll(&mut self) -> EventIndex {
            if self.seen > 0 {
                self.stable = self.ends[self.seen - 1];
            }
            self.seen = self.ends.len();
            self.stable
        }

        fn is_instant(&self) -> bool {
            false
        }
    }

    fn pessimist() -> Pessimist<Late> {
        let identity = Identity {
            job: 1,
            rank: Rank(0),
            incarnation: Incarnation(0),
        };
        Pessimist::new(identity, EventIndex(0), Late::default())
    }

    /// A waiting send leaves when earlier events are stable, however often
    /// the program tests in vain meanwhile; those tests cause no commits.
    // GATE-1, GATE-2
    #[test]
    fn tests_behind_a_send_that_waits_neither_hold_it_nor_are_committed() {
        let mut pessimist = pessimist();
        pessimist.record().nothing(Clock(1));
        let wanted = pessimist.recorded();
        assert_eq!(pessimist.advance(wanted), 0);
        let mut stable = 0;
        for clock in 2..100 {
            pessimist.record().nothing(Clock(clock));
            stable = pessimist.advance(wanted);
            if stable >= wanted {
                break;
            }
        }
        assert_eq!(stable, wanted);
        for clock in 100..1000 {
            pessimist.record().nothing(Clock(clock));
            pessimist.advance(wanted);
        }
        assert_eq!(pessimist.commits.ends.len(), 1, "one run, one commit");
    }

    /// A match is committed when its call is over, without an emission; a match that
    /// comes while a commit is under way waits for the next commit.
    // GATE-2
    #[test]
    fn commits_begin_early_and_one_at_a_time() {
        let mut pessimist = pessimist();
        let matched = |clock: u64| Matched {
            request: Clock(clock),
            source: Rank(1),
            ssn: Ssn(clock),
        };
        pessimist.record().matched(Clock(1), matched(1), false);
        pessimist.advance(0);
        assert!(pessimist.commits.ends.is_empty(), "its call is not over");
        pessimist.advance(0);
        assert_eq!(pessimist.commits.ends, [EventIndex(1)]);
        pessimist.record().matched(Clock(2), matched(2), false);
        pessimist.record().matched(Clock(3), matched(3), false);
        pessimist.operation_ended();
        assert_eq!(pessimist.commits.ends.len(), 1, "one is under way");
        assert_eq!(pessimist.advance(0), 1);
        pessimist.operation_ended();
        assert_eq!(pessimist.commits.ends[1..], [EventIndex(3)]);
    }
}
