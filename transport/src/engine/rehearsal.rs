//! Matching while a rank plays its past again: a stage in front of the matcher
//! that is there only as long as records are. REC-4, REC-5
//!
//! | the receive | |
//! |---|---|
//! | records name its message | takes this one, never any other |
//! | records say that it is cancelled | takes none |
//! | named its source, and such matches are not recorded | takes messages as ever: it depends on nothing but the order of its channel |
//! | else | is *in limbo*: it has its place in the order of posts, and takes nothing before the records are over |
//!
//! A message that would go to a receive in limbo is held, and everything behind
//! it of its source: who gets it is open, and nobody posted later may get it
//! instead. In the first life it came after everything that is recorded: so
//! nothing that records name is held.

use super::EngineError;
use super::inbox::{Begun, Inbox, Place};
use super::request::{RequestId, Requests};
use crate::matching::{Envelope, Pattern, UnexpectedId};
use crate::past::{Fate, Past, Recorded};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Rehearsal {
    past: Box<dyn Past>,
    told_before: Clock,
    /// All is told that there is to tell; what is forced may still be to come.
    pub is_over: bool,
    /// Receives that wait for the one message that they get.
    forced: BTreeMap<(Rank, Ssn), (Pattern, RequestId)>,
    /// Messages in the matcher.
    waiting: BTreeMap<(Rank, Ssn), UnexpectedId>,
    /// Messages that are held, in no order.
    held: Vec<usize>,
    blocked: BTreeSet<Rank>,
    /// What the present operation has asked for.
    asked: Asked,
    /// Outcomes that were told.
    pub told: u64,
    /// Messages that came.
    pub came: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    fate: bool,
    outcome: bool,
}

/// Where a message is that records name.
#[derive(Debug)]
pub(super) enum Whereabouts {
    /// It waits.
    Here(usize, UnexpectedId),
    /// It has not come.
    ToCome,
    /// It will not come any more: why, for people.
    Gone(&'static str),
}

impl Rehearsal {
    fn new(past: Box<dyn Past>) -> Self {
        Self {
            told_before: past.told_before(),
            past,
            is_over: false,
            forced: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held: Vec::new(),
            blocked: BTreeSet::new(),
            // What was before is not played.
            asked: Asked {
                fate: true,
                outcome: true,
            },
            told: 0,
            came: 0,
        }
    }

    /// Whether the operation's end is told.
    #[inline]
    pub fn tells(&self, clock: Clock) -> bool {
        clock < self.told_before
    }

    pub fn fate(&mut self, request: Clock) -> Fate {
        self.asked.fate = true;
        self.past.fate(request)
    }

    pub fn at(&mut self, clock: Clock) -> Recorded {
        self.asked.outcome = true;
        self.past.at(clock)
    }

    /// The operation `clock` is over: what records say of it must have been asked
    /// for. REC-8
    fn close(&mut self, clock: Clock) -> Result<(), String> {
        let asked = core::mem::take(&mut self.asked);
        let fate = self.past.fate(clock);
        if fate != Fate::Untold {
            if !asked.fate {
                return Err(format!("{fate}, and is no receive now"));
            }
            self.told += 1;
        }
        let recorded = self.past.at(clock);
        if matches!(recorded, Recorded::Open | Recorded::Nothing) {
            return Ok(());
        }
        if !asked.outcome {
            return Err(format!("{recorded}, and is something else now"));
        }
        self.told += 1;
        Ok(())
    }
}

impl Inbox {
    /// Begins to tell matches from records.
    pub fn rehearse(&mut self, past: Box<dyn Past>) {
        let mut rehearsal = Rehearsal::new(past);
        if rehearsal.told_before <= self.now {
            return;
        }
        for source in (0..self.sources.len() as u32).map(Rank) {
            for (id, _, index) in self.matcher.unexpected_of(source) {
                let ssn = self.messages[*index].ssn;
                rehearsal.waiting.insert((source, ssn), id);
            }
        }
        self.rehearsal = Some(Box::new(rehearsal));
    }

    /// Who gets a message that has begun to come.
    #[cold]
    pub(super) fn place_from_records(&mut self, begun: &Begun, requests: &Requests) -> Place {
        let source = begun.envelope.source;
        let (matcher, rehearsal) = (&mut self.matcher, &mut self.rehearsal);
        let Some(rehearsal) = rehearsal else {
            return Place::Queue;
        };
        rehearsal.came += u64::from(!rehearsal.is_over);
        if let Some((pattern, id)) = rehearsal.forced.remove(&(source, begun.ssn)) {
            let is_behind = rehearsal.blocked.contains(&source);
            let posted_at = requests.get(id).map_or(self.now, |it| it.posted_at);
            self.check_forced(posted_at, &pattern, &begun.envelope, begun.ssn);
            if is_behind {
                let ssn = begun.ssn;
                let what = format!(
                    "it got message {ssn} of rank {source}, but a receive that was posted before \
                     would have got one before it"
                );
                self.diverge(posted_at, what);
            }
            return Place::Receive(id);
        }
        if rehearsal.blocked.contains(&source) {
            return Place::Hold;
        }
        let first = matcher.find_posted(&begun.envelope).copied();
        match first {
            None => Place::Queue,
            Some(id) if !rehearsal.is_over && requests.is_in_limbo(id) => {
                rehearsal.blocked.insert(source);
                Place::Hold
            }
            Some(id) => {
                matcher.take_posted(&begun.envelope);
                Place::Receive(id)
            }
        }
    }

    /// A message waits from now on.
    pub(super) fn add_waiting(&mut self, place: Place, envelope: Envelope, ssn: Ssn, index: usize) {
        if let (Place::Hold, Some(rehearsal)) = (place, &mut self.rehearsal) {
            rehearsal.held.push(index);
            return;
        }
        if !ssn.is_program() {
            self.internal.push_unexpected(envelope, index);
            return;
        }
        let id = self.matcher.push_unexpected(envelope, index);
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.waiting.insert((envelope.source, ssn), id);
        }
    }

    /// A message has been taken out of the matcher.
    #[inline]
    pub fn note_taken(&mut self, index: usize) {
        if let Some(rehearsal) = &mut self.rehearsal {
            let message = &self.messages[index];
            let key = (message.envelope.source, message.ssn);
            rehearsal.waiting.remove(&key);
        }
    }

    /// Where the message is that records name. `is_missing`: it has not begun to
    /// come, or has to come again.
    pub fn whereabouts(&self, source: Rank, ssn: Ssn, is_missing: bool) -> Whereabouts {
        let waiting = self.rehearsal.as_ref().map(|it| &it.waiting);
        let id = waiting.and_then(|waiting| waiting.get(&(source, ssn)));
        let found = id.and_then(|id| Some((*self.matcher.unexpected_value(*id)?, *id)));
        if let Some((index, id)) = found {
            return Whereabouts::Here(index, id);
        }
        let is_held = |index: &usize| {
            let message = &self.messages[*index];
            (message.envelope.source, message.ssn) == (source, ssn)
        };
        let held = self.rehearsal.as_ref().map(|it| &it.held);
        if held.is_some_and(|held| held.iter().any(is_held)) {
            return Whereabouts::Gone("a receive that was posted before would have got it");
        }
        match is_missing {
            true => Whereabouts::ToCome,
            false => Whereabouts::Gone("another operation has received it already"),
        }
    }

    /// This receive waits for just this message.
    pub fn force(&mut self, source: Rank, ssn: Ssn, pattern: Pattern, id: RequestId) {
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.forced.insert((source, ssn), (pattern, id));
        }
    }

    /// A forced message has to fit its receive. REC-8
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
            } = *envelope;
            self.diverge(
                posted_at,
                format!(
                    "it got message {ssn} of rank {source} (context {context}, tag {tag}), \
                     which does not fit what it asks for now: {pattern:?}"
                ),
            );
        }
    }

    /// A receive in limbo was posted: what waits and would go to it is held.
    pub fn hold_for(&mut self, pattern: &Pattern) {
        while let Some((id, envelope, _)) = self.matcher.find_unexpected(pattern) {
            let source = envelope.source;
            let mut behind = Vec::new();
            let of_source = self.matcher.unexpected_of(source);
            behind.extend(of_source.map(|(id, ..)| id).skip_while(|it| *it != id));
            let taken: Vec<usize> = behind
                .into_iter()
                .filter_map(|id| self.matcher.remove_unexpected(id))
                .map(|(_, index)| index)
                .collect();
            taken.iter().for_each(|index| self.note_taken(*index));
            if let Some(rehearsal) = &mut self.rehearsal {
                rehearsal.held.extend(taken);
                rehearsal.blocked.insert(source);
            }
        }
    }

    /// An operation is over. REC-8
    pub fn close_operation(&mut self, clock: Clock) {
        let rehearsal = self.rehearsal.as_mut();
        if let Some(Err(what)) = rehearsal.map(|rehearsal| rehearsal.close(clock)) {
            self.diverge(clock, what);
        }
    }

    /// Nothing is told from `clock` on: if that is so, receives are in limbo no
    /// more. Returns messages that were held, those of each source in the order in
    /// which they were sent: any receive may take them. REC-5
    pub fn end_records(&mut self, clock: Clock) -> Vec<usize> {
        let mut held = match &mut self.rehearsal {
            Some(rehearsal) if clock >= rehearsal.told_before && !rehearsal.is_over => {
                rehearsal.is_over = true;
                rehearsal.blocked.clear();
                core::mem::take(&mut rehearsal.held)
            }
            _ => return Vec::new(),
        };
        // The last record may be of a match that came before the next operation had
        // come to its end: what matches now comes behind it.
        self.now = self.now.max(clock);
        // A receive may have been posted later than another and hold what was sent
        // before what that one holds.
        held.sort_unstable_by_key(|index| {
            let message = &self.messages[*index];
            (message.envelope.source, message.ssn)
        });
        held
    }

    /// Whether nothing is told any more of what comes from `clock` on.
    pub fn is_rehearsed(&self, clock: Clock) -> bool {
        let ended = |it: &Rehearsal| clock > it.told_before && it.forced.is_empty();
        self.rehearsal.as_ref().is_some_and(|it| ended(it))
    }

    /// Told by the next progress. REC-8
    #[cold]
    pub fn diverge(&mut self, clock: Clock, what: String) {
        self.violation
            .get_or_insert(EngineError::Diverged { clock, what });
    }
}
