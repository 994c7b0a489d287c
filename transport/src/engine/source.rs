//! The receiving side of one peer: which of its messages are here, which are
//! missing, and which are void.

use super::destination::Sides;
use super::per_rank::Begin;
use super::request::RequestId;
use core::ops::Range;
use refrain_ring::{Frontier, Rank, Ssn, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Whether its log may have gaps in internal streams. WHOLE-4, WHOLE-5
    pub skips: bool,
    /// Messages of internal streams that its log does not have: in an earlier life they were received,
    /// or their collectives are closed. A later life of the sender may send them; no horizon
    /// waits for them.
    pub gaps: Vec<Range<Ssn>>,
    /// Of each stream the first message behind its last gap: since it has connected, the sender has left
    /// out all before it that are missing.
    pub passed: Frontier,
    /// Whether it was disconnected: then the loss of its payload is not an error.
    pub fenced: bool,
}

/// How the receiving side of a peer begins.
#[derive(Debug)]
pub(super) struct NewSource {
    pub sides: Arc<Sides>,
    /// By side: see [`Source::reads_in_place`].
    pub reads_in_place: Vec<bool>,
    /// See [`Source::skips`].
    pub skips: bool,
}

impl Begin for NewSource {
    type State = Source;

    fn begin(&self, rank: Rank) -> Source {
        Source {
            reads_in_place: self.reads_in_place[self.sides.side_of(rank)],
            skips: self.skips,
            ..Source::default()
        }
    }
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
    /// Of each stream the first message that is missing, also in gaps.
    fn first_missing(&self) -> Frontier {
        let mut first = self.first_uncovered();
        self.gaps.iter().for_each(|gap| first.lower_to(gap.start));
        first
    }

    /// Of each stream the first message that is missing, apart from gaps: no checkpoint covers it.
    pub fn first_uncovered(&self) -> Frontier {
        let mut first = self.next.clone();
        self.missing.keys().for_each(|ssn| first.lower_to(*ssn));
        first
    }

    /// The first message of a stream that is missing and not left out.
    pub fn first_missing_of(&self, stream: Stream) -> Ssn {
        let mut missing = self.missing.range(self.passed.of(stream)..);
        let first = missing.next().map(|(ssn, _)| *ssn);
        let first = first.filter(|ssn| ssn.stream() == stream);
        first.unwrap_or(self.next.of(stream))
    }

    /// Judges the first record of a message. A sender sends each missing message of a stream, in
    /// order; all its other messages are complete duplicates. `is_first`: of an operation; behind a gap
    /// all others are left out, too, since the messages before them are not there.
    pub fn judge(&mut self, ssn: Ssn, is_first: bool) -> Judgement {
        let expected = self.first_missing_of(ssn.stream());
        if expected < ssn {
            if ssn.is_program() || !self.skips {
                return Judgement::Gap(expected);
            }
            if !is_first {
                return Judgement::Duplicate;
            }
            self.pass_gap(ssn);
        }
        if ssn == self.next.of(ssn.stream()) {
            self.next.raise_to(ssn.next());
            return Judgement::New;
        }
        if self.fill_gap(ssn, is_first) {
            return Judgement::New;
        }
        match self.missing.remove(&ssn) {
            Some(Some(target)) => Judgement::Void(target),
            Some(None) => Judgement::New,
            None => Judgement::Duplicate,
        }
    }

    /// The sender starts again: with the first message of each stream that is missing. REC-3
    pub fn start_again(&mut self) -> Frontier {
        self.fenced = false;
        self.passed = Frontier::default();
        self.first_missing()
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

    /// The sender's log does not have the messages of a stream below `ssn` that are missing.
    pub fn pass_gap(&mut self, ssn: Ssn) {
        self.passed.raise_to(ssn);
        let next = self.next.of(ssn.stream());
        if next < ssn {
            self.next.raise_to(ssn);
            self.gaps.push(next..ssn);
        }
        let first = Ssn::first(ssn.stream());
        let missing = self.missing.range(first..ssn);
        let missing: Vec<Ssn> = missing
            .filter(|it| it.1.is_none())
            .map(|it| *it.0)
            .collect();
        for ssn in missing {
            self.missing.remove(&ssn);
            self.gaps.push(ssn..ssn.next());
        }
    }

    /// Whether a message is in a gap, which then ends there.
    fn fill_gap(&mut self, ssn: Ssn, is_first: bool) -> bool {
        let fills = |gap: &Range<Ssn>| gap.start == ssn || is_first && gap.contains(&ssn);
        let Some(at) = self.gaps.iter().position(fills) else {
            return false;
        };
        let gap = self.gaps.swap_remove(at);
        let both = [gap.start..ssn, ssn.next()..gap.end];
        self.gaps
            .extend(both.into_iter().filter(|gap| !gap.is_empty()));
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ssn(count: u64) -> Ssn {
        Ssn(Ssn::first(Stream::FIRST_OPERATION).0 + count)
    }

    fn source() -> Source {
        Source {
            skips: true,
            ..Source::default()
        }
    }

    /// Behind a gap comes the first message of an operation; those before it belong to an operation
    /// whose beginning is gone.
    // WHOLE-5
    #[test]
    fn a_stream_goes_on_behind_a_gap_with_an_operation() {
        let mut source = source();
        assert_eq!(source.judge(ssn(0), true), Judgement::New);
        assert_eq!(source.judge(ssn(3), false), Judgement::Duplicate);
        assert_eq!(source.judge(ssn(4), true), Judgement::New);
        assert_eq!(source.judge(ssn(5), false), Judgement::New);
        assert_eq!(source.first_uncovered().of(Stream::FIRST_OPERATION), ssn(6));
        assert_eq!(source.first_missing().of(Stream::FIRST_OPERATION), ssn(1));
    }

    /// A message in a gap that had arrived in part keeps its place, and does not make the next ones late.
    // WHOLE-5 REC-7
    #[test]
    fn a_void_message_in_a_gap_is_not_expected() {
        let mut source = source();
        assert_eq!(source.judge(ssn(0), true), Judgement::New);
        source.missing.insert(ssn(0), Some(Target::Message(7)));
        assert_eq!(source.judge(ssn(3), true), Judgement::New);
        assert_eq!(source.judge(ssn(4), false), Judgement::New);
        let restart = source.start_again();
        assert_eq!(restart.of(Stream::FIRST_OPERATION), ssn(0));
        assert_eq!(source.judge(ssn(2), false), Judgement::Duplicate);
        let void = Judgement::Void(Target::Message(7));
        assert_eq!(source.judge(ssn(0), true), void);
    }

    /// A later life of the sender may send what is in a gap, and have gaps of its own there.
    // WHOLE-5 REC-3
    #[test]
    fn a_gap_is_filled_in_order_or_from_the_beginning_of_an_operation() {
        let mut source = source();
        assert_eq!(source.judge(ssn(8), true), Judgement::New);
        assert_eq!(source.judge(ssn(0), true), Judgement::New);
        assert_eq!(source.judge(ssn(1), false), Judgement::New);
        assert_eq!(source.judge(ssn(1), false), Judgement::Duplicate);
        assert_eq!(source.judge(ssn(4), false), Judgement::Duplicate);
        assert_eq!(source.judge(ssn(5), true), Judgement::New);
        assert_eq!(source.judge(ssn(6), false), Judgement::New);
        assert_eq!(source.judge(ssn(8), true), Judgement::Duplicate);
        assert_eq!(source.gaps.len(), 2, "2 to 4, and 7");
    }

    /// Where nothing is left out, and in the program's stream, a gap is an error.
    #[test]
    fn a_gap_is_an_error_elsewhere() {
        let mut program = source();
        assert_eq!(program.judge(Ssn(2), true), Judgement::Gap(Ssn(0)));
        let mut kept = Source::default();
        assert_eq!(kept.judge(ssn(2), true), Judgement::Gap(ssn(0)));
        assert_eq!(kept.judge(ssn(0), false), Judgement::New);
    }

    /// What a checkpoint misses, and its sender has freed, is missed no more.
    // WHOLE-4
    #[test]
    fn messages_that_are_gone_are_not_waited_for() {
        let mut source = source();
        source.begin_with(&Delivered {
            until: Frontier::from(ssn(6)),
            except: vec![ssn(2), ssn(5)],
        });
        source.pass_gap(ssn(4));
        assert_eq!(source.first_uncovered().of(Stream::FIRST_OPERATION), ssn(5));
        assert_eq!(source.judge(ssn(2), true), Judgement::New);
        assert_eq!(source.judge(ssn(2), true), Judgement::Duplicate);
    }
}
