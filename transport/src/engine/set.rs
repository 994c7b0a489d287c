//! A correlated set: ranks that keep no payload for each other, because they go back to their
//! checkpoints together (Bouteiller et al. 2011). SET-1
//!
//! While a round of checkpoints of the set is open, they do keep it: what one member sends before its
//! checkpoint, and another one receives after its own, is then in a checkpoint. SET-2, SET-3

use super::Engine;
use super::beginning::{NotBetween, Undelivered};
use super::destination::Limits;
use super::inbox::Inbox;
use super::source::Delivered;
use crate::control::Control;
use crate::gate::Mark;
use crate::protocol::Protocol;
use refrain_ring::{Frontier, Rank, Ssn};
use std::collections::BTreeMap;

/// The set of this rank.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// The other members. Empty: the rank is in no set.
    members: Vec<Rank>,
    /// The round that is open, and the members that have not seen its token.
    round: Option<(u64, Vec<Rank>)>,
    /// By member that has begun a round: of each stream, its first message that had not begun to
    /// arrive when the token came.
    tokens: BTreeMap<Rank, Frontier>,
}

impl Set {
    pub fn token_seen(&mut self, by: Rank, round: u64) {
        if let Some((open, unseen)) = &mut self.round
            && *open == round
        {
            unseen.retain(|member| *member != by);
        }
    }

    /// Whether a checkpoint of this rank holds this message if it is not delivered: its sender need
    /// not have kept it. SET-3
    fn takes_along(&self, source: Rank, ssn: Ssn) -> bool {
        let token = self.tokens.get(&source);
        token.is_some_and(|begun| begun.is_beyond(ssn))
    }

    /// A member of which a message that a checkpoint has to hold is still arriving.
    pub fn arriving(&self, inbox: &Inbox) -> Option<NotBetween> {
        for member in self.tokens.keys() {
            let state = &inbox.sources[member.index()];
            let mut assembling = state.assembling.iter();
            let mut messages = inbox.messages.iter().map(|(_, message)| message);
            let is_in_part = assembling.any(|(ssn, _)| self.takes_along(*member, *ssn))
                || messages.any(|it| {
                    it.is_from(*member) && self.takes_along(*member, it.head.ssn) && !it.is_here()
                });
            if is_in_part {
                return Some(NotBetween::Arriving { from: *member });
            }
        }
        None
    }
}

impl Inbox {
    /// The messages that have arrived and were not delivered, of this rank to itself, and of members
    /// of its set: a checkpoint holds them. They must be [here](Set::arriving).
    pub fn undelivered(&self, own: Rank, set: &Set) -> Vec<Undelivered> {
        let messages = self.messages.iter().map(|(_, message)| message);
        let held = messages.filter(|it| {
            let (source, ssn) = it.key();
            source == own || set.takes_along(source, ssn)
        });
        let mut held: Vec<_> = held.map(|it| it.to_undelivered()).collect();
        held.sort_by_key(|it| (it.source, it.ssn));
        held
    }

    /// The messages of another rank that a checkpoint counts as delivered: those that were, and
    /// those that it holds.
    pub fn delivered_or_held(&self, source: Rank, set: &Set) -> Delivered {
        let mut delivered = self.delivered(source);
        let is_missing = |ssn: &Ssn| self.sources[source.index()].missing.contains_key(ssn);
        (delivered.except).retain(|ssn| is_missing(ssn) || !set.takes_along(source, *ssn));
        delivered
    }
}

impl<P: Protocol> Engine<P> {
    /// Puts this rank and `members`, the others, into a correlated set: payload for these is not
    /// kept. Call it last before the engine is used. SET-1
    ///
    /// # Panics
    /// When the job has no such rank.
    #[must_use]
    pub fn with_set(mut self, members: Vec<Rank>) -> Self {
        for member in &members {
            let destination = &mut self.outbox.destinations[member.index()];
            let attributes = self.fabric.attributes_to(*member);
            destination.is_member = true;
            destination.limits = Limits {
                // A message that is announced would be neither in a log nor here. SET-3
                eager_bytes_max: u64::MAX,
                at_once_bytes_max: destination.limits.fragment_bytes,
                ..Limits::new(attributes, None)
            };
        }
        // Members reuse their memory: messages that stay in their logs stall them.
        self.inbox.senders_keep &= members.is_empty();
        self.set.members = members;
        self
    }

    /// Begins a round of checkpoints: from now on messages to the other members are kept, and they
    /// are sent a token. A round that is open ends. SET-2
    pub fn begin_round(&mut self, round: u64) {
        for member in self.set.members.clone() {
            self.outbox.destinations[member.index()]
                .limits
                .keeps_payload = true;
            let token = Control::Token { round };
            self.outbox.push_control(member, token, Mark::default());
        }
        self.set.round = Some((round, self.set.members.clone()));
    }

    /// A bug for tests: tokens were sent, but messages to members are not kept.
    #[cfg(any(test, feature = "test-doubles"))]
    pub fn forget_to_keep(&mut self) {
        for member in &self.set.members {
            self.outbox.destinations[member.index()]
                .limits
                .keeps_payload = false;
        }
    }

    /// Whether all other members have seen the token of the round that is open. SET-2
    pub fn is_round_begun(&self) -> bool {
        let round = self.set.round.as_ref();
        round.is_some_and(|(_, unseen)| unseen.is_empty())
    }

    /// Ends the round: messages to the other members are not kept any more. No log of the rank may
    /// be read at this time.
    pub fn end_round(&mut self) {
        if self.set.round.take().is_none() {
            return;
        }
        for member in self.set.members.clone() {
            let destination = &mut self.outbox.destinations[member.index()];
            destination.limits.keeps_payload = false;
            if !destination.keeps_payload() {
                self.spilling.drop_log(destination);
            }
        }
        let (outbox, mut means) = self.sending();
        outbox.trim_all(&mut means.log);
    }

    /// Copies messages of members that have to be in a checkpoint out of their logs. Call it, and
    /// make progress, until [`Engine::state`] has no message that [arrives](NotBetween::Arriving).
    pub fn gather_from_members(&mut self) {
        for member in self.set.tokens.keys() {
            self.inbox.copy_out(*member, &mut *self.fabric);
        }
    }

    /// A member has begun a round: it has kept all messages that begin to arrive from now on.
    /// Those before are a matter of this rank's checkpoint. SET-2, SET-3
    #[cold]
    pub(super) fn token_comes(&mut self, from: Rank, round: u64) {
        let begun = self.inbox.sources[from.index()].next.clone();
        let mark = Mark::default();
        for ssn in begun.all().filter(|ssn| ssn.count() > 0) {
            self.outbox
                .push_control(from, Control::Horizon { ssn }, mark);
        }
        let seen = Control::TokenSeen { round };
        self.outbox.push_control(from, seen, mark);
        self.set.tokens.insert(from, begun);
    }
}
