//! The receiving side of one peer: which of its messages are here, which are
//! missing, and which are void.

use super::request::RequestId;
use refrain_ring::{Frontier, Ssn, Stream};
use std::collections::BTreeMap;

/// Where the further fragments of a message go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Request(RequestId),
    Message(usize),
}

/// The messages of a sender that were delivered to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Of each stream the first message that had not begun to arrive.
    pub until: Frontier,
    /// Messages before `until` that were not delivered, in ascending order: they had not been
    /// received, or had not arrived completely.
    pub except: Vec<Ssn>,
}

impl Delivered {
    /// The first message of the program's stream that was not delivered.
    pub fn first_missing(&self) -> Ssn {
        let first = self.except.first().filter(|ssn| ssn.is_program());
        first.map_or(self.until.program, |first| *first)
    }
}

/// The receiving side of one peer.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Of each stream the first message that has not begun to arrive in any life of the sender.
    pub next: Frontier,
    /// Messages of which fragments are still to arrive, or to land for a receive.
    pub assembling: Vec<(Ssn, Target)>,
    /// Messages before `next` that have to be sent again, each with the receive or stored message
    /// that waits for it, if there is one. REC-7
    pub missing: BTreeMap<Ssn, Option<Target>>,
    /// The horizon that the sender was informed of. LOG-4
    pub horizon: Frontier,
    /// Number of frames that are kept in this sender's log.
    pub in_place: usize,
    /// Whether frames may stay in its log and be read there.
    pub reads_in_place: bool,
    /// Whether it was disconnected: then the loss of its payload is not an error.
    pub fenced: bool,
}

/// What the first record of a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// No part of the message has arrived before.
    New,
    /// A part of the message has arrived and is void: the message starts again.
    Void(Target),
    /// All of the message has arrived, or was delivered.
    Duplicate,
    /// A message is missing: this one should have come first.
    Gap(Ssn),
}

impl Source {
    /// Of each stream the first message that is missing: its sender starts again with it. REC-3
    pub fn first_missing(&self) -> Frontier {
        let mut first = self.next.clone();
        self.missing.keys().for_each(|ssn| first.lower_to(*ssn));
        first
    }

    /// The first message of a stream that is missing.
    pub fn first_missing_of(&self, stream: Stream) -> Ssn {
        let mut missing = self.missing.range(Ssn::first(stream)..);
        let first = missing.next().map(|(ssn, _)| *ssn);
        let first = first.filter(|ssn| ssn.stream() == stream);
        first.unwrap_or(self.next.of(stream))
    }

    /// Judges the first record of a message. A sender sends each missing message of a stream, in
    /// order; all its other messages are complete duplicates.
    pub fn judge(&mut self, ssn: Ssn) -> Judgement {
        let expected = self.first_missing_of(ssn.stream());
        if expected < ssn {
            return Judgement::Gap(expected);
        }
        if ssn == self.next.of(ssn.stream()) {
            self.next.raise_to(ssn.next());
            return Judgement::New;
        }
        match self.missing.remove(&ssn) {
            Some(Some(target)) => Judgement::Void(target),
            Some(None) => Judgement::New,
            None => Judgement::Duplicate,
        }
    }

    /// Whether a message has not begun to arrive, or has to arrive again.
    pub fn misses(&self, ssn: Ssn) -> bool {
        !self.next.is_beyond(ssn) || self.missing.contains_key(&ssn)
    }

    /// Whether a message is missing and has no match.
    pub fn misses_unmatched(&self, ssn: Ssn) -> bool {
        let is_matched = |target: &Option<Target>| matches!(target, Some(Target::Request(_)));
        let missing = self.missing.get(&ssn);
        !self.next.is_beyond(ssn) || missing.is_some_and(|target| !is_matched(target))
    }

    /// Stores where later fragments of a message go, or all of the message if it has to arrive
    /// again.
    pub fn expect_more(&mut self, ssn: Ssn, target: Target) {
        if let Some(void) = self.missing.get_mut(&ssn) {
            *void = Some(target);
            return;
        }
        match self.assembling.iter_mut().find(|(of, _)| *of == ssn) {
            Some(entry) => entry.1 = target,
            None => self.assembling.push((ssn, target)),
        }
    }

    /// Raises the horizon to be sent to the sender, which may free all messages before `ssn`.
    /// Returns whether the horizon was lower before. LOG-4
    pub fn raise_horizon(&mut self, ssn: Ssn) -> bool {
        let is_news = ssn > self.horizon.of(ssn.stream());
        self.horizon.raise_to(ssn);
        is_news
    }

    /// The delivered messages, given that those in `waiting` are not delivered and no receive is
    /// open.
    pub fn delivered(&self, waiting: impl Iterator<Item = Ssn>) -> Delivered {
        let mut except: Vec<Ssn> = self.missing.keys().copied().chain(waiting).collect();
        except.sort_unstable();
        except.dedup();
        Delivered {
            until: self.next.clone(),
            except,
        }
    }

    /// Starts with the messages that an earlier life had delivered.
    pub fn begin_with(&mut self, delivered: &Delivered) {
        self.next = delivered.until.clone();
        self.missing = delivered.except.iter().map(|ssn| (*ssn, None)).collect();
    }
}
