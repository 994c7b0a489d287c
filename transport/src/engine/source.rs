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
    /// All before, in each stream,
    pub until: Frontier,
    /// but for these, in ascending order: they had not been received, or had not
    /// come wholly.
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
    /// Of each stream the message that has not begun to arrive in any life of the
    /// sender.
    pub next: Frontier,
    /// Messages of which fragments are still to come, or to land for a receive.
    pub assembling: Vec<(Ssn, Target)>,
    /// Messages below the next that have to be sent again: the receive or stored message
    /// that waits for each, if there is one. REC-7
    pub missing: BTreeMap<Ssn, Option<Target>>,
    /// The horizons that it was told. LOG-4
    pub horizon: Frontier,
    /// Frames that are kept in this sender's log.
    pub in_place: usize,
    /// Frames may be left readable in its log.
    pub reads_in_place: bool,
    /// It was disconnected: that its payload is lost is no fault.
    pub fenced: bool,
}

/// What the first record of a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It has not been here before.
    New,
    /// A part of it has been here, which is void: it starts again.
    Void(Target),
    /// All of it is here, or was delivered.
    Duplicate,
    /// This one should have come.
    Gap(Ssn),
}

impl Source {
    /// Of each stream the first message that is missing, and with which its sender
    /// starts again. REC-3
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

    /// Judges the first record of a message. A sender sends each message of a stream
    /// that is missing, in their order; the others are duplicates as a whole.
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

    /// Whether a message has not begun to arrive, or has to come again.
    pub fn misses(&self, ssn: Ssn) -> bool {
        !self.next.is_beyond(ssn) || self.missing.contains_key(&ssn)
    }

    /// Whether a message is missing and has no match.
    pub fn misses_unmatched(&self, ssn: Ssn) -> bool {
        let is_matched = |target: &Option<Target>| matches!(target, Some(Target::Request(_)));
        let missing = self.missing.get(&ssn);
        !self.next.is_beyond(ssn) || missing.is_some_and(|target| !is_matched(target))
    }

    /// Remembers where later fragments of a message go, or all of it if it has to
    /// come again.
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

    /// Raises the horizon to be sent to the sender: all its messages before `ssn` are free.
    /// Returns whether it was lower before. LOG-4
    pub fn raise_horizon(&mut self, ssn: Ssn) -> bool {
        let is_news = ssn > self.horizon.of(ssn.stream());
        self.horizon.raise_to(ssn);
        is_news
    }

    /// Which messages are delivered, if those `waiting` are not and no receive is
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

    /// Begins where an earlier life had these delivered.
    pub fn begin_with(&mut self, delivered: &Delivered) {
        self.next = delivered.until.clone();
        self.missing = delivered.except.iter().map(|ssn| (*ssn, None)).collect();
    }
}
