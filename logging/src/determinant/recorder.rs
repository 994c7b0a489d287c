//! Turns events into batches: merges a match with the completion
//! of its receive, counts operations that found nothing, and numbers the determinants.
//!
//! **Pending determinants** have not been taken, and no emission has left after them:
//! they may still be encoded in another equivalent way.
//!
//! **Merging.** A match gives the message of a request, whenever the match
//! happened: on replay it is looked up by the request. So when a completion of just
//! this request finds the match pending, with only matches recorded
//! since, one record at the clock of the completion states both. The merged record
//! then passes the matches behind it. If a batch ended between them and it, that batch
//! would contain the later matches but not the earlier one: after a failure the
//! earlier receive would be free again, could get another message, and
//! messages would seem to have overtaken each other. Therefore a match passes
//! others only if all pending determinants go into one batch, which is kept as
//! a whole or not at all. It never passes a probe, a set, a run, or a value
//! from outside (a number, bytes).
//!
//! **Runs.** Operations that find nothing are only counted: a later completion
//! or successful probe implies them (before its clock nothing was found), and
//! drops the run. A match does not, because no program sees it. When an emission
//! waits, the run becomes a record at the clock of its last operation: matches
//! behind it have later clocks. While no emission waits, those matches wait with the run, so
//! that clocks never decrease, up to a limit (`HELD_MAX`).

mod foreseen;

pub use foreseen::Foreseen;

use super::batch::job_tag;
use super::batch::{
    BATCH_BYTES_MAX, BatchHeader, Beginning, COUNT_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX,
};
use super::record::{
    ALONE_BYTES_MAX, BYTES_HEAD_MAX, COMPLETION_BYTES_MAX, DETERMINANT_BYTES_MAX, Encoder,
    MATCH_BYTES_MAX, NUMBER_BYTES_MAX, REQUEST_BYTES_MAX, match_alone,
};
use super::{Determinant, EventIndex, Match, Matched};
use foreseen::Rhythm;
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use std::collections::VecDeque;

/// Limits of a merge past other matches: at most this number of pending determinants,
const REACH: usize = 48;
/// with at most this number of requests in their sets,
const REACH_REQUESTS: usize = 128;
/// and at most this number of bytes from outside: together they fit one batch.
const REACH_BYTES: usize = 512;
const _: () = assert!(COMPLETION_BYTES_MAX <= MATCH_BYTES_MAX && REACH <= COUNT_MAX as usize);
const _: () = assert!(NUMBER_BYTES_MAX <= MATCH_BYTES_MAX && BYTES_HEAD_MAX <= MATCH_BYTES_MAX);
const _: () = assert!(
    REACH * MATCH_BYTES_MAX + REACH_REQUESTS * REQUEST_BYTES_MAX + REACH_BYTES <= PAYLOAD_BYTES_MAX
);

/// Maximum number of matches that wait for a run that might still be dropped.
const HELD_MAX: usize = 64;

/// The rank that records.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Identity {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Determinants recorded so far, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Matches that are not merged.
    pub matches: u64,
    /// Matches that are merged with their completion.
    pub merged: u64,
    /// Successful probes.
    pub probes: u64,
    /// Completions that are not merged; a continued set counts once for each part.
    pub completions: u64,
    /// Cancelled receives.
    pub cancelled: u64,
    /// Numbers and bytes from outside.
    pub given: u64,
    /// Records of operations that found nothing, in batches.
    pub nothing: u64,
    /// Operations that found nothing, whether in records or dropped.
    pub nothing_found: u64,
    /// Matches (merged or not) of receives that named their source.
    pub named: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// Bytes of all batches, including headers.
    pub batch_bytes: u64,
    /// Batches by their number of determinants: 1, 2 to 3, 4 to 7, … and 1024.
    pub batches: [u64; COUNT_MAX.ilog2() as usize + 1],
}

/// A determinant that is in no batch yet. Its requests and bytes are the next ones in the
/// recorder's queues: it holds their number.
type Pending = Determinant<usize, usize>;

/// Consecutive operations that found nothing.
#[derive(Clone, Copy, Debug, Hash)]
struct Run {
    first: Clock,
    last: Clock,
    count: u64,
}

/// Bytes that are aligned to words.
#[repr(align(8))]
struct Words([u8; HEADER_BYTES + ALONE_BYTES_MAX]);

/// Collects the determinants of one rank; pure. GATE-2
///
/// Clocks passed to it must never decrease. Call [`Recorder::take_batch`] once after an
/// operation that lets events happen, not
/// during it: determinants that were taken can no longer be merged.
#[derive(Clone, Debug, Hash)]
pub struct Recorder {
    identity: Identity,
    next: EventIndex,
    pending: VecDeque<Pending>,
    /// Requests of the pending completions, in order.
    requests: VecDeque<Clock>,
    /// Bytes of the pending determinants from outside, in order.
    bytes: VecDeque<u8>,
    run: Option<Run>,
    /// Number of pending determinants behind the last operation of the run.
    held: usize,
    /// The latest clock.
    clock: Clock,
    counts: Counts,
    encoder: Encoder,
    sealed: Beginning,
    rhythm: Rhythm,
}

impl Recorder {
    /// A recorder that numbers determinants from `next` on.
    pub fn new(identity: Identity, next: EventIndex) -> Self {
        Self {
            identity,
            next,
            pending: VecDeque::with_capacity(2 * HELD_MAX),
            requests: VecDeque::with_capacity(Determinant::REQUESTS_MAX),
            bytes: VecDeque::new(),
            run: None,
            held: 0,
            clock: Clock(0),
            counts: Counts::default(),
            encoder: Encoder::new(),
            sealed: Beginning::default(),
            rhythm: Rhythm::default(),
        }
    }

    /// Records that a receive was matched.
    #[inline]
    pub fn matched(&mut self, at: Clock, matched: Matched, is_named: bool) {
        self.counts.matches += 1;
        self.counts.named += u64::from(is_named);
        self.record(Pending::Match(Match {
            at,
            matched,
            is_named,
            is_completed: false,
        }));
    }

    /// Records that a probe found a message.
    pub fn probed(&mut self, at: Clock, source: Rank, ssn: Ssn, tag: i32, bytes: u64) {
        self.drop_run();
        self.counts.probes += 1;
        self.record(Pending::Probe {
            at,
            source,
            ssn,
            tag,
            bytes,
        });
    }

    /// Records that an operation whose outcome depends on timing completed these requests,
    /// in this order. With no requests, it found nothing.
    #[inline]
    pub fn completed(&mut self, at: Clock, requests: &[Clock]) {
        if requests.is_empty() {
            return self.nothing(at);
        }
        self.drop_run();
        if let [request] = *requests
            && self.merge(at, request)
        {
            return;
        }
        let mut left = requests.len();
        for part in requests.chunks(Determinant::REQUESTS_MAX) {
            left -= part.len();
            self.requests.extend(part);
            self.counts.completions += 1;
            self.record(Pending::Completion {
                at,
                requests: part.len(),
                continues: left > 0,
            });
        }
    }

    /// Records that a receive was cancelled before it was matched.
    pub fn cancelled(&mut self, at: Clock, request: Clock) {
        self.drop_run();
        self.counts.cancelled += 1;
        self.record(Pending::Cancelled { at, request });
    }

    /// Records a number from outside; `series`: below [`Determinant::SERIES`].
    #[inline]
    pub fn number(&mut self, at: Clock, series: u8, value: i64) {
        debug_assert!(series < Determinant::SERIES, "series {series}");
        self.drop_run();
        self.counts.given += 1;
        self.record(Pending::Number { at, series, value });
    }

    /// Records bytes from outside: 1 to [`Determinant::BYTES_MAX`].
    pub fn bytes(&mut self, at: Clock, bytes: &[u8]) {
        let count = bytes.len();
        debug_assert!((1..=Determinant::BYTES_MAX).contains(&count), "{count}");
        self.drop_run();
        self.counts.given += 1;
        self.bytes.extend(bytes);
        self.record(Pending::Bytes { at, bytes: count });
    }

    /// Records that an operation found nothing.
    #[inline]
    pub fn nothing(&mut self, at: Clock) {
        self.advance(at);
        self.counts.nothing_found += 1;
        self.held = 0;
        match &mut self.run {
            Some(run) => {
                run.last = at;
                run.count += 1;
            }
            None => {
                self.run = Some(Run {
                    first: at,
                    last: at,
                    count: 1,
                });
            }
        }
    }

    /// Whether [`Recorder::take_batch`] would give a batch,
    /// with counted operations (`flush`) or without.
    #[inline]
    pub fn has_pending(&self, flush: bool) -> bool {
        if self.is_run_due(flush) {
            return true;
        }
        self.pending.len() > self.held
    }

    /// Writes a sealed batch of the first pending determinants, up to the limits of a batch, to
    /// `batch`, and returns its header. They are then no longer pending. `None`: none are pending.
    /// `flush`: an emission waits, so counted operations are included.
    #[inline]
    pub fn take_batch(&mut self, flush: bool, batch: &mut Vec<u8>) -> Option<BatchHeader> {
        if let Some(alone) = self.alone() {
            let header = self.seal_alone(&alone, batch);
            self.took_alone(alone, &header);
            return Some(header);
        }
        let is_run_due = self.is_run_due(flush);
        let first_clock = self.front(is_run_due)?.at();
        // The first determinant that does not fit is written, and cut off again.
        batch.clear();
        batch.reserve(BATCH_BYTES_MAX + DETERMINANT_BYTES_MAX);
        batch.resize(HEADER_BYTES, 0);
        self.encoder.begin(first_clock);
        let mut count = 0;
        let mut last_clock = first_clock;
        while count < COUNT_MAX
            && let Some(front) = self.front(is_run_due)
        {
            let end = batch.len();
            let (requests, bytes) = (&self.requests, &self.bytes);
            self.encoder.determinant(
                batch,
                &front,
                |count| requests.range(..*count).copied(),
                |count| bytes.range(..*count).copied(),
            );
            if batch.len() > BATCH_BYTES_MAX {
                batch.truncate(end);
                break;
            }
            self.take(front);
            last_clock = front.at();
            count += 1;
        }
        let clocks = (first_clock, last_clock);
        let header = self.seal(batch, count, clocks);
        self.took(&header);
        Some(header)
    }

    /// As [`Recorder::take_batch`] if a match is all that is pending, for a store that wants no sealed bytes.
    /// Writes the payload of the batch to the start of `payload`. `None`: something else is pending, or
    /// nothing.
    #[inline]
    pub(crate) fn take_alone(
        &mut self,
        payload: &mut [u8; ALONE_BYTES_MAX],
    ) -> Option<(BatchHeader, Match)> {
        let alone = self.alone()?;
        let header = self.header(1, (alone.at, alone.at), match_alone(payload, &alone));
        self.took_alone(alone, &header);
        Some((header, alone))
    }

    /// Makes the batch that [`Recorder::take_batch`] will give if the next event is
    /// the match predicted from the last two. A rank calls this while it waits, to save time when
    /// the event comes (docs/design/decisions.md). `None`: no prediction, or determinants are
    /// pending. Changes nothing but `batch`.
    pub fn foresee(&mut self, batch: &mut Vec<u8>) -> Option<Foreseen> {
        if !self.pending.is_empty() || self.run.is_some() {
            return None;
        }
        let alone = self.rhythm.next()?;
        let header = self.seal_alone(&alone, batch);
        Some(Foreseen { alone, header })
    }

    /// Whether the pending determinants are exactly the predicted match; if so, it is
    /// taken, as by [`Recorder::take_batch`].
    #[inline(always)]
    pub fn take_foreseen(&mut self, foreseen: &Foreseen) -> bool {
        let is_it = foreseen.header.first == self.next && self.alone() == Some(foreseen.alone);
        if is_it {
            self.took_alone(foreseen.alone, &foreseen.header);
        }
        is_it
    }

    /// The only pending determinant, if it is a match: the common case.
    #[inline(always)]
    pub(crate) fn alone(&self) -> Option<Match> {
        if self.pending.len() != 1 || self.run.is_some() {
            return None;
        }
        match self.pending.front() {
            Some(Pending::Match(alone)) => Some(*alone),
            _ => None,
        }
    }

    /// Makes its batch, with the same bytes as the general path.
    #[inline(always)]
    fn seal_alone(&mut self, alone: &Match, batch: &mut Vec<u8>) -> BatchHeader {
        let at = alone.at;
        // Aligned to words, for the checksum instructions.
        let mut words = Words([0; HEADER_BYTES + ALONE_BYTES_MAX]);
        let mut payload_bytes = 0;
        if let Some(payload) = words.0.last_chunk_mut() {
            payload_bytes = match_alone(payload, alone);
        }
        let bytes = &mut words.0[..HEADER_BYTES + payload_bytes];
        let header = self.seal(bytes, 1, (at, at));
        // A copy of fixed length, then cut off: needs no function call.
        batch.clear();
        batch.extend_from_slice(&words.0);
        batch.truncate(header.batch_bytes());
        header
    }

    #[inline(always)]
    fn took_alone(&mut self, alone: Match, header: &BatchHeader) {
        self.pending.pop_front();
        self.rhythm = Rhythm {
            last: Some(alone),
            before: self.rhythm.last,
        };
        self.took(header);
    }

    /// Writes the header of a batch.
    #[inline(always)]
    fn seal(&mut self, batch: &mut [u8], count: u16, clocks: (Clock, Clock)) -> BatchHeader {
        let header = self.header(count, clocks, batch.len() - HEADER_BYTES);
        header.seal_with(batch, &mut self.sealed);
        header
    }

    /// The header of the next batch.
    #[inline(always)]
    fn header(
        &self,
        count: u16,
        (first_clock, last_clock): (Clock, Clock),
        payload_bytes: usize,
    ) -> BatchHeader {
        BatchHeader {
            job_tag: job_tag(self.identity.job),
            rank: self.identity.rank,
            incarnation: self.identity.incarnation,
            lives_before: 0,
            first: self.next,
            count,
            first_clock,
            last_clock,
            payload_bytes: payload_bytes as u32,
        }
    }

    /// Notes that the next determinant follows this batch.
    #[inline]
    fn took(&mut self, header: &BatchHeader) {
        self.next = header.end();
        self.counts.batches[header.count.max(1).ilog2() as usize] += 1;
        self.counts.payload_bytes += u64::from(header.payload_bytes);
        self.counts.batch_bytes += header.batch_bytes() as u64;
    }

    /// Number of the next determinant that will be in a batch.
    #[inline]
    pub fn next(&self) -> EventIndex {
        self.next
    }

    /// Counters of the recorded determinants.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    #[inline]
    fn record(&mut self, pending: Pending) {
        self.advance(pending.at());
        self.held += usize::from(self.run.is_some());
        self.pending.push_back(pending);
    }

    #[inline]
    fn advance(&mut self, at: Clock) {
        debug_assert!(at >= self.clock, "{at} comes after {}", self.clock);
        self.clock = at;
    }

    #[inline]
    fn drop_run(&mut self) {
        self.run = None;
        self.held = 0;
    }

    /// Merges a completion into the pending match of this request, by the rules of the
    /// module.
    #[inline(always)]
    fn merge(&mut self, at: Clock, request: Clock) -> bool {
        if let Some(Pending::Match(last)) = self.pending.back_mut()
            && !last.is_completed
            && last.matched.request == request
        {
            (last.at, last.is_completed) = (at, true);
            self.note_merged(at);
            return true;
        }
        self.merge_earlier(at, request)
    }

    #[inline]
    fn note_merged(&mut self, at: Clock) {
        self.counts.matches -= 1;
        self.counts.merged += 1;
        self.advance(at);
    }

    /// As [`Recorder::merge`], for a match that has others behind it.
    fn merge_earlier(&mut self, at: Clock, request: Clock) -> bool {
        let last = self.pending.len().wrapping_sub(1);
        let can_pass = last < REACH
            && self.requests.len() <= REACH_REQUESTS
            && self.bytes.len() <= REACH_BYTES;
        let candidates = if can_pass { REACH } else { 1 };
        let newest_first = self.pending.iter_mut().enumerate().rev();
        for (place, pending) in newest_first.take(candidates) {
            let Pending::Match(it) = pending else {
                return false;
            };
            if it.matched.request == request && !it.is_completed {
                (it.at, it.is_completed) = (at, true);
                if place < last
                    && let Some(merged) = self.pending.remove(place)
                {
                    self.pending.push_back(merged);
                }
                self.note_merged(at);
                return true;
            }
        }
        false
    }

    /// Whether the run, and the matches that wait behind it, go into a batch now.
    #[inline]
    fn is_run_due(&self, flush: bool) -> bool {
        self.run.is_some() && (flush || self.held >= HELD_MAX)
    }

    /// The next determinant of a batch.
    #[inline]
    fn front(&self, is_run_due: bool) -> Option<Pending> {
        if self.pending.len() > self.held {
            return self.pending.front().copied();
        }
        let Run { first, last, count } = self.run.filter(|_| is_run_due)?;
        Some(Pending::Nothing {
            at: last,
            first,
            count,
        })
    }

    /// Removes a determinant that a batch has taken.
    #[inline]
    fn take(&mut self, front: Pending) {
        match front {
            Pending::Nothing { .. } => {
                self.drop_run();
                self.counts.nothing += 1;
                return;
            }
            Pending::Completion { requests, .. } => drop(self.requests.drain(..requests)),
            Pending::Bytes { bytes, .. } => drop(self.bytes.drain(..bytes)),
            _ => {}
        }
        self.pending.pop_front();
    }
}
