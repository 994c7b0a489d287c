//! From events as they happen to batches: merges a match with the completion
//! of its receive, counts what found nothing, and numbers what is left.

use super::batch::BatchHeader;
use super::{Determinant, EventIndex, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

/// Who records.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its life.
    pub incarnation: Incarnation,
}

/// Determinants recorded so far, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Matches alone.
    pub matches: u64,
    /// Matches merged with their completion.
    pub merged: u64,
    /// Successful probes.
    pub probes: u64,
    /// Completions alone.
    pub completions: u64,
    /// Records of operations that found nothing.
    pub nothing: u64,
    /// Operations that found nothing, recorded or dropped.
    pub nothing_found: u64,
    /// Of the matches (merged or not): those of named receives.
    pub named: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// Bytes of all batches with their headers.
    pub batch_bytes: u64,
    /// Batches.
    pub batches: u64,
}

/// Collects the determinants of one rank; pure. GATE-2
#[derive(Debug)]
pub struct Recorder {
    _identity: Identity,
}

impl Recorder {
    /// Numbers from `next` on.
    pub fn new(identity: Identity, next: EventIndex) -> Self {
        let _ = next;
        Self {
            _identity: identity,
        }
    }
    /// A receive was matched.
    pub fn matched(&mut self, _at: Clock, _matched: Matched, _is_named: bool) {}
    /// A probe found a message.
    pub fn probed(&mut self, _at: Clock, _source: Rank, _ssn: Ssn, _tag: i32, _bytes: u64) {}
    /// An operation whose outcome depends on timing completed these requests.
    pub fn completed(&mut self, _at: Clock, _requests: &[Clock]) {}
    /// An operation found nothing.
    pub fn nothing(&mut self, _at: Clock) {}
    /// Whether there is anything that [`Recorder::take_batch`] would give,
    /// with what is only counted (`flush`) or without.
    pub fn has_pending(&self, _flush: bool) -> bool {
        false
    }
    /// Moves what is pending into one sealed batch, as much as it takes, and
    /// returns its header; `batch` is overwritten. `None`: nothing is pending.
    /// `flush`: an emission waits, so that what is only counted goes too.
    pub fn take_batch(&mut self, _flush: bool, _batch: &mut Vec<u8>) -> Option<BatchHeader> {
        None
    }
    /// Number of the next determinant that will be in a batch.
    pub fn next(&self) -> EventIndex {
        EventIndex(0)
    }
    /// What was recorded so far.
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
    /// Only for the types.
    fn _types(_: Determinant) {}
}
