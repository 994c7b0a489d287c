//! The pessimistic protocol: no emission before every earlier determinant is
//! stable (docs/protocol.md, the gate; Open MPI-V, section 3). Pure: what
//! becomes of batches is behind [`Commits`].

use crate::determinant::EventIndex;
use crate::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};
use crate::determinant::recorder::{Counts, Identity, Recorder};

/// Where batches become stable.
pub trait Commits {
    /// Begins to make a batch stable. They come in the order of their numbers,
    /// without gaps. GATE-2
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]);

    /// One past the last determinant known to be stable, without looking.
    fn stable_end(&self) -> EventIndex;

    /// Looks for acknowledgements, and returns [`Commits::stable_end`]. Does not
    /// block.
    fn poll(&mut self) -> EventIndex;

    /// Whether a commit is, as a rule, stable when it has begun: then nothing is
    /// won by beginning early.
    fn is_instant(&self) -> bool;
}

/// Determinants that are pending at most before a commit is begun without being
/// asked for: they are memory.
const PENDING_MAX: u64 = 512;

/// One rank's side of the protocol.
#[derive(Debug)]
pub struct Pessimist<C> {
    recorder: Recorder,
    commits: C,
    /// The batch that is being committed, for its memory.
    batch: Vec<u8>,
    /// What is pending has been seen by an [`Pessimist::advance`] before: the
    /// call that made it is over, so that nothing will be merged with it.
    has_aged: bool,
    recorded: u64,
    committed: u64,
}

impl<C: Commits> Pessimist<C> {
    /// Numbers determinants from `next` on.
    pub fn new(identity: Identity, next: EventIndex, commits: C) -> Self {
        Self {
            recorder: Recorder::new(identity, next),
            commits,
            batch: Vec::with_capacity(BATCH_BYTES_MAX),
            has_aged: false,
            recorded: 0,
            committed: 0,
        }
    }

    /// The recorder, to be told what has happened.
    #[inline]
    pub fn record(&mut self) -> &mut Recorder {
        self.recorded += 1;
        self.has_aged = false;
        &mut self.recorder
    }

    /// Moves commits on; returns whether everything recorded is stable, so that
    /// emissions may go on. GATE-1, GATE-2
    pub fn advance(&mut self, emission_waits: bool) -> bool {
        if emission_waits || self.is_due() {
            self.commit(emission_waits);
        }
        self.has_aged = self.recorder.has_pending(false);
        let next = self.recorder.next();
        // What is only counted is no determinant yet, but the program knows it.
        let is_stable = self.commits.stable_end() >= next || self.commits.poll() >= next;
        is_stable && !self.recorder.has_pending(true)
    }

    /// The application computes now: a commit that takes time begins.
    pub fn operation_ended(&mut self) {
        if !self.commits.is_instant() && !self.is_in_flight() {
            self.commit(false);
        }
    }

    /// Whether a commit is to begin though no emission waits: early, but not
    /// before the call that made the event is over, and one at a time, so that
    /// what comes meanwhile forms the next batch.
    fn is_due(&self) -> bool {
        if self.recorded - self.committed >= PENDING_MAX {
            return true;
        }
        self.has_aged && !self.commits.is_instant() && !self.is_in_flight()
    }

    fn is_in_flight(&self) -> bool {
        self.commits.stable_end() < self.recorder.next()
    }

    fn commit(&mut self, flush: bool) {
        while let Some(header) = self.recorder.take_batch(flush, &mut self.batch) {
            self.commits.commit(&header, &self.batch);
        }
        self.committed = self.recorded;
        self.has_aged = false;
    }

    /// What was recorded so far.
    pub fn counts(&self) -> Counts {
        self.recorder.counts()
    }

    /// Whether anything has happened that no commit has.
    pub fn has_pending(&self) -> bool {
        self.recorder.has_pending(true)
    }

    /// Number of the first determinant that no commit has.
    pub fn next(&self) -> EventIndex {
        self.recorder.next()
    }

    /// Where batches become stable.
    pub fn commits(&mut self) -> &mut C {
        &mut self.commits
    }

    /// Where batches become stable.
    pub fn commits_ref(&self) -> &C {
        &self.commits
    }
}
