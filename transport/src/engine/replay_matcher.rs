//! Matching in a replay: a stage in front of the matcher that exists only while there are records.
//! REC-4, REC-5
//!
//! | the receive | |
//! |---|---|
//! | records name its message | takes this message, never any other |
//! | records say that it is cancelled | takes none |
//! | named its source, and such matches are not recorded | takes messages as usual: it depends only on the order of its channel |
//! | else | is *undecided*: it keeps its place in the order of posts, and takes nothing before the records end |
//!
//! A message that would go to an undecided receive is held, and so is every later message of its
//! source: its receive is not known, and a receive that was posted later must not get it instead.
//! In the first life the message came after everything that is recorded, so records name no message
//! that is held.

use super::EngineError;
use super::inbox::{Inbox, Place};
use super::request::{RequestId, Requests};
use super::stored::MessageHead;
use crate::matching::{Envelope, Pattern, UnexpectedId};
use refrain_ring::recorded::{RecordedEvents, RecordedOutcome, RecordedReceive};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct ReplayMatcher {
    recorded: RecordedEvents,
    /// Whether all records have been replayed; a message that records name may still be to come.
    pub is_over: bool,
    /// Receives that wait for the one message that records name.
    forced: BTreeMap<(Rank, Ssn), (Pattern, RequestId)>,
    /// Messages in the matcher.
    waiting: BTreeMap<(Rank, Ssn), UnexpectedId>,
    /// Messages that are held, in no order.
    held: Vec<usize>,
    blocked: BTreeSet<Rank>,
    /// Whether the present operation has looked up its receive.
    asked_receive: bool,
    /// Whether the present operation has looked up its outcome.
    asked_outcome: bool,
    /// Recorded outcomes that were replayed.
    pub replayed: u64,
    /// Messages that arrived before the records ended.
    pub arrived: u64,
}

/// Where a message is that records name.
#[derive(Debug)]
pub(super) enum Whereabouts {
    /// In the matcher.
    Here(usize, UnexpectedId),
    /// It has not arrived.
    ToCome,
    /// It will not arrive any more: the reason, for messages to the user.
    Gone(&'static str),
}

impl ReplayMatcher {
    /// Whether records say how the operation ended.
    #[inline]
    pub fn has(&self, clock: Clock) -> bool {
        clock < self.recorded.before()
    }

    pub fn receive(&mut self, request: Clock) -> RecordedReceive {
        self.asked_receive = true;
        self.recorded.receive(request)
    }

    pub fn at(&mut self, clock: Clock) -> RecordedOutcome {
        self.asked_outcome = true;
        self.recorded.at(clock)
    }

    /// Ends the operation `clock`, which must have looked up its records. REC-8
    fn close(&mut self, clock: Clock) -> Result<(), String> {
        let asked_receive = core::mem::take(&mut self.asked_receive);
        let asked_outcome = core::mem::take(&mut self.asked_outcome);
        let receive = self.recorded.receive(clock);
        if receive != RecordedReceive::Open {
            if !asked_receive {
                return Err(format!("{receive}, and is another operation now"));
            }
            self.replayed += 1;
        }
        let outcome = self.recorded.at(clock);
        if matches!(outcome, RecordedOutcome::Open | RecordedOutcome::Nothing) {
            return Ok(());
        }
        if !asked_outcome {
            return Err(format!("{outcome}, and is something else now"));
        }
        self.replayed += 1;
        Ok(())
    }
}

impl Inbox {
    /// Matches by records from now on, while there are any.
    pub fn begin_replay(&mut self, recorded: RecordedEvents) {
        if recorded.before() <= self.now {
            return;
        }
        let mut replay = ReplayMatcher {
            recorded,
            is_over: false,
            forced: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held: Vec::new(),
            blocked: BTreeSet::new(),
            // Earlier operations are not replayed.
            asked_receive: true,
            asked_outcome: true,
            replayed: 0,
            arrived: 0,
        };
        for source in (0..self.sources.len() as u32).map(Rank) {
            for (id, _, index) in self.matcher.unexpected_of(source) {
                replay.waiting.insert(self.messages[*index].key(), id);
            }
        }
        self.replay = Some(Box::new(replay));
    }

    /// Chooses by records the place of a message that has begun to arrive.
    #[cold]
    pub(super) fn place_from_records(
        &mut self,
        head: &MessageHead,
        requests: &mut Requests,
    ) -> Place {
        let (source, ssn) = (head.envelope.source, head.ssn);
        let (matcher, replay) = (&mut self.matcher, &mut self.replay);
        let Some(replay) = replay else {
            return Place::Queue;
        };
        replay.arrived += u64::from(!replay.is_over);
        if let Some((pattern, id)) = replay.forced.remove(&(source, ssn)) {
            let is_behind = replay.blocked.contains(&source);
            let posted_at = requests.get(id).map_or(self.now, |it| it.posted_at);
            self.check_forced(posted_at, &pattern, &head.envelope, ssn);
            if is_behind {
                let what = format!(
                    "it got message {ssn} of rank {source}, but a receive that was posted earlier matches an earlier message of that rank"
                );
                self.diverge(posted_at, what);
            }
            return Place::Receive(id);
        }
        if replay.blocked.contains(&source) {
            return Place::Hold;
        }
        let Some(id) = matcher.find_posted(&head.envelope).copied() else {
            return Place::Queue;
        };
        if !replay.is_over && requests.receiving(id).is_some_and(|it| it.is_undecided) {
            replay.blocked.insert(source);
            return Place::Hold;
        }
        matcher.take_posted(head.envelope);
        Place::Receive(id)
    }

    /// Stores a message until a receive takes it.
    pub(super) fn add_waiting(&mut self, place: Place, index: usize) {
        if let (Place::Hold, Some(replay)) = (place, &mut self.replay) {
            replay.held.push(index);
            return;
        }
        let MessageHead { envelope, ssn, .. } = self.messages[index].head;
        if !ssn.is_program() {
            self.internal.push_unexpected(envelope, index);
            return;
        }
        let id = self.matcher.push_unexpected(envelope, index);
        if let Some(replay) = &mut self.replay {
            replay.waiting.insert((envelope.source, ssn), id);
        }
    }

    /// Notes that a message has been taken out of the matcher.
    #[inline]
    pub fn note_taken(&mut self, index: usize) {
        if let Some(replay) = &mut self.replay {
            replay.waiting.remove(&self.messages[index].key());
        }
    }

    /// Finds the message that records name. `is_missing`: it has not begun to arrive, or has to be
    /// sent again.
    pub fn whereabouts(&self, source: Rank, ssn: Ssn, is_missing: bool) -> Whereabouts {
        let replay = self.replay.as_ref();
        let id = replay.and_then(|replay| replay.waiting.get(&(source, ssn)));
        let found = id.and_then(|id| Some((*self.matcher.unexpected_value(*id)?, *id)));
        if let Some((index, id)) = found {
            return Whereabouts::Here(index, id);
        }
        let is_it = |index: &usize| self.messages[*index].key() == (source, ssn);
        if replay.is_some_and(|replay| replay.held.iter().any(is_it)) {
            return Whereabouts::Gone("a receive that was posted earlier matches it");
        }
        match is_missing {
            true => Whereabouts::ToCome,
            false => Whereabouts::Gone("another operation has received it already"),
        }
    }

    /// Makes a receive wait for exactly this message.
    pub fn force(&mut self, source: Rank, ssn: Ssn, pattern: Pattern, id: RequestId) {
        if let Some(replay) = &mut self.replay {
            replay.forced.insert((source, ssn), (pattern, id));
        }
    }

    /// Checks that a forced message fits its receive. REC-8
    pub fn check_forced(
        &mut self,
        posted_at: Clock,
        pattern: &Pattern,
        envelope: &Envelope,
        ssn: Ssn,
    ) {
        if !pattern.accepts(envelope) {
            let Envelope {
                context,
                source,
                tag,
            } = envelope;
            let what = format!(
                "it got message {ssn} of rank {source} (context {context}, tag {tag}), \
                 which does not match what it asks for now: {pattern:?}"
            );
            self.diverge(posted_at, what);
        }
    }

    /// Holds the waiting messages that would go to an undecided receive that was just posted.
    pub fn hold_for(&mut self, pattern: &Pattern) {
        while let Some((first, envelope, _)) = self.matcher.find_unexpected(pattern) {
            let source = envelope.source;
            let ids = self.matcher.unexpected_of(source).map(|(id, ..)| id);
            let behind: Vec<_> = ids.skip_while(|id| *id != first).collect();
            let mut taken = Vec::new();
            for id in behind {
                if let Some((_, index)) = self.matcher.remove_unexpected(id) {
                    self.note_taken(index);
                    taken.push(index);
                }
            }
            if let Some(replay) = &mut self.replay {
                replay.held.extend(taken);
                replay.blocked.insert(source);
            }
        }
    }

    /// Notes that an operation has ended. REC-8
    pub fn close_operation(&mut self, clock: Clock) {
        let replay = self.replay.as_mut();
        if let Some(Err(what)) = replay.map(|replay| replay.close(clock)) {
            self.diverge(clock, what);
        }
    }

    /// Ends the replay of records if none exist from `clock` on: no receive is undecided any more.
    /// Returns the messages that were held, those of each source in the order in which they were
    /// sent: any receive may take them. REC-5
    pub fn end_records(&mut self, clock: Clock) -> Vec<usize> {
        let mut held = match &mut self.replay {
            Some(replay) if !replay.has(clock) && !replay.is_over => {
                replay.is_over = true;
                replay.blocked.clear();
                core::mem::take(&mut replay.held)
            }
            _ => return Vec::new(),
        };
        // The last record may be of a match that came before the end of the next operation: matches
        // from now on come after it.
        self.now = self.now.max(clock);
        // A receive that was posted later may hold messages that were sent before those
        // which an earlier receive holds.
        held.sort_unstable_by_key(|index| self.messages[*index].key());
        held
    }

    /// Whether the replay has ended for all operations from `clock` on.
    pub fn is_replayed(&self, clock: Clock) -> bool {
        let ended = |it: &ReplayMatcher| clock > it.recorded.before() && it.forced.is_empty();
        self.replay.as_ref().is_some_and(|it| ended(it))
    }

    /// Notes a divergence: the next progress returns the error. REC-8
    #[cold]
    pub fn diverge(&mut self, clock: Clock, what: String) {
        self.violation
            .get_or_insert(EngineError::Diverged { clock, what });
    }
}
