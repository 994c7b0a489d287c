//! No emission (to another rank's program, or output) leaves a rank while an earlier event is
//! not stable. GATE-1
//!
//! What counts is the moment when an emission was *made*, not when it leaves: for sends and printed
//! words the program's call, for the answer to an announced or synchronous send the match. A match
//! that is an event must itself be stable. For a match that is no event, only the events before the
//! message was posted are known to come before. A clear-to-send for a named receive carries no
//! information to a program (GATE-4), nor does a horizon.
//!
//! Where messages carry events, what counts for a message is that the events before it are stable or
//! were posted to its receiver with it or before it, by an account of the bytes that carry them (CAUSAL-1).
//! To a later life of the receiver, messages that were made before are sent again without: as long as
//! it has not got their events, it counts as gone (TICKET-4).

use super::rule::{Oracle, Pairs, Witness, index};
use crate::happening::{Happening, Life};
use crate::plan::Process;
use crate::program::{Call, Stamp};
use refrain_logging::LeftInLogs;
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Incarnation, Rank, RecordHeader, RecordKind, Ssn, Stream};
use refrain_transport::control::Control;
use refrain_transport::engine::CARRIER_CONTEXT;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The clock of the latest event before an emission; `None`: there was no event.
type Before = Option<Clock>;

/// An answer that a sender waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    before: Before,
    /// Whether the match was an event.
    is_event: bool,
    /// Number of answers that were asked for and not given.
    asked: u32,
}

/// GATE-1; see the [module](self).
#[derive(Debug)]
pub struct Gate {
    ranks: Vec<Present>,
    /// By (sender, receiver).
    sends: Pairs<Sends>,
    /// By (sender, receiver): messages whose match the receiver confirms.
    awaited: Pairs<BTreeMap<Ssn, Awaited>>,
    /// By (sender, receiver).
    carried: Pairs<CarriedTo>,
}

/// What messages carried to a rank.
#[derive(Debug, Default)]
struct CarriedTo {
    /// The clock of the last event.
    until: Before,
    events: LeftInLogs,
    /// The messages before this one, and these collectives, were made before the sender fenced the last
    /// life of the receiver.
    made_before: usize,
    begun_before: BTreeSet<(u32, i32)>,
}

#[derive(Clone, Debug, Default)]
struct Present {
    latest: Before,
    /// By context and number: the latest event before the collective began. Its steps are sent
    /// later, perhaps after other events.
    collectives: BTreeMap<(u32, i32), Before>,
    /// Printed words that are not output yet, each with the latest event before it.
    printed: VecDeque<(u64, Before)>,
}

#[derive(Debug, Default)]
struct Sends {
    /// Number of the first of `made`.
    first: usize,
    made: VecDeque<Before>,
}

impl Gate {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks: vec![Present::default(); ranks as usize],
            sends: Pairs::new(ranks),
            awaited: Pairs::new(ranks),
            carried: Pairs::new(ranks),
        }
    }

    fn began(&mut self, rank: Rank) {
        for carried in self.carried.row(rank) {
            *carried = CarriedTo::default();
        }
        self.ranks[rank.index()] = Present::default();
        for sends in self.sends.row(rank) {
            *sends = Sends::default();
        }
        // Earlier matches are in the records, which are stable.
        for sender in (0..self.ranks.len() as u32).map(Rank) {
            for awaited in self.awaited[(sender, rank)].values_mut() {
                (awaited.before, awaited.is_event) = (None, false);
            }
        }
    }

    /// What a rank makes from now on is for the next life of the other.
    fn fenced(&mut self, by: Rank, of: Rank) {
        let sends = &self.sends[(by, of)];
        let begun = &self.ranks[by.index()].collectives;
        self.carried[(by, of)] = CarriedTo {
            until: None,
            events: LeftInLogs::default(),
            made_before: sends.first + sends.made.len(),
            begun_before: begun.keys().copied().collect(),
        };
    }

    /// Messages before the checkpoint are covered by it, and the events before them were stable.
    fn resumed(&mut self, life: Life, next_ssns: &[Ssn]) {
        for (to, next) in (0..).map(Rank).zip(next_ssns) {
            self.sends[(life.rank, to)].first = index(*next);
        }
    }

    fn called(&mut self, life: Life, call: &Call) {
        let present = &mut self.ranks[life.rank.index()];
        match call {
            Call::Isend { to, payload, .. } => {
                let sends = &mut self.sends[(life.rank, *to)];
                if sends.made.is_empty()
                    && let Some(stamp) = Stamp::decode(payload)
                {
                    sends.first = index(Ssn(stamp.number));
                }
                sends.made.push_back(present.latest);
            }
            Call::Collective(call) => {
                let name = (call.context, call.number);
                present.collectives.insert(name, present.latest);
            }
            Call::Print(word) => present.printed.push_back((*word, present.latest)),
            _ => {}
        }
    }

    fn happened(&mut self, life: Life, event: &Determinant) {
        let present = &mut self.ranks[life.rank.index()];
        present.latest = present.latest.max(Some(event.at()));
        if let Determinant::Match(it) = event
            && let Some(awaited) =
                self.awaited[(it.matched.source, life.rank)].get_mut(&it.matched.ssn)
        {
            (awaited.before, awaited.is_event) = (present.latest, true);
        }
    }

    fn posted(
        &mut self,
        from: Life,
        to: Rank,
        (header, payload): (&RecordHeader, &[u8]),
        world: &dyn Witness,
    ) -> Result<(), String> {
        if header.ssn.stream() == Stream::RESULTS {
            return match header.context {
                CARRIER_CONTEXT => self.carry(from, to, payload, world),
                _ => Ok(()),
            };
        }
        if !header.ssn.is_program() {
            return self.posted_step(from, to, header, world);
        }
        let sends = &mut self.sends[(from.rank, to)];
        let ssn = index(header.ssn);
        let before = match ssn.checked_sub(sends.first) {
            // The frame comes from the log of a checkpoint.
            None if from.incarnation > Incarnation(0) => Some(&None),
            at => at.and_then(|at| sends.made.get(at)),
        };
        let Some(before) = before else {
            return Err(format!(
                "{from:?} posts message {ssn} to {to}, which its program has not sent"
            ));
        };
        let carried = &self.carried[(from.rank, to)];
        let is_carried = *before <= carried.until
            || ssn < carried.made_before
            || is_for_the_dead(from.rank, to, world);
        let may_carry = may_carry(from.rank, to, *before, world);
        if !(may_carry && is_carried) {
            judge(from.rank, *before, world, || {
                format!("{from:?} posts a frame of message {ssn} to {to}")
            })?;
        }
        let is_announced = header.kind == RecordKind::Rendezvous;
        if is_announced || header.flags & RecordHeader::WANT_ACK != 0 {
            self.asked(from.rank, to, header.ssn);
        }
        Ok(())
    }

    fn carry(
        &mut self,
        from: Life,
        to: Rank,
        carried: &[u8],
        world: &dyn Witness,
    ) -> Result<(), String> {
        let carries = &mut self.carried[(from.rank, to)];
        let life = world.told_of(from.rank, to);
        let taken = carries.events.take(carried, Some(life));
        taken.map_err(|why| format!("what {from:?} sends to {to} carries: {why}"))?;
        carries.until = carries.events.row().last_clock().max(carries.until);
        Ok(())
    }

    fn posted_step(
        &self,
        from: Life,
        to: Rank,
        header: &RecordHeader,
        world: &dyn Witness,
    ) -> Result<(), String> {
        let collectives = &self.ranks[from.rank.index()].collectives;
        // A later fragment, or the step of a collective before the checkpoint, follows others.
        let name = (header.context, header.tag);
        let before = collectives.get(&name);
        let carried = &self.carried[(from.rank, to)];
        let is_carried = |before: &Before| {
            *before <= carried.until
                || carried.begun_before.contains(&name)
                || is_for_the_dead(from.rank, to, world)
        };
        let before = before
            .filter(|before| !(may_carry(from.rank, to, **before, world) && is_carried(before)));
        before.map_or(Ok(()), |before| {
            judge(from.rank, *before, world, || {
                format!("{from:?} posts a step of a collective to {to}")
            })
        })
    }

    /// A sender waits for an answer; a second time if one of the two has died.
    fn asked(&mut self, from: Rank, to: Rank, ssn: Ssn) {
        let before = self.ranks[to.index()].latest;
        let first = || Awaited {
            before,
            ..Awaited::default()
        };
        let awaited = self.awaited[(from, to)].entry(ssn).or_insert_with(first);
        awaited.asked += 1;
    }

    fn posted_control(
        &mut self,
        from: Life,
        to: Rank,
        control: Control,
        world: &dyn Witness,
    ) -> Result<(), String> {
        let (ssn, is_seen_if_named) = match control {
            Control::Matched { ssn } => (ssn, true),
            Control::ClearToSend { ssn } => (ssn, false),
            Control::AskMatched { ssn } => {
                self.asked(from.rank, to, ssn);
                return Ok(());
            }
            Control::Horizon { .. }
            | Control::Restart { .. }
            | Control::Collective { .. }
            | Control::Freed { .. }
            | Control::Token { .. }
            | Control::TokenSeen { .. }
            | Control::Protocol(_) => {
                return Ok(());
            }
        };
        let awaited = self.awaited[(to, from.rank)].get_mut(&ssn);
        let Some(awaited) = awaited.filter(|awaited| awaited.asked > 0) else {
            return Err(format!(
                "{from:?} answers message {ssn} of {to}, which asked for no answer"
            ));
        };
        awaited.asked -= 1;
        let awaited = *awaited;
        if !awaited.is_event && !is_seen_if_named {
            return Ok(());
        }
        judge(from.rank, awaited.before, world, || {
            format!("{from:?} tells {to} that message {ssn} is matched")
        })
    }

    fn seen(&mut self, life: Life, word: u64, world: &dyn Witness) -> Result<(), String> {
        let printed = self.ranks[life.rank.index()].printed.pop_front();
        let Some((expected, before)) = printed else {
            return Err(format!("{life:?} did not print {word}"));
        };
        if expected != word {
            return Err(format!(
                "{life:?} printed {expected}, and the output is {word}"
            ));
        }
        judge(life.rank, before, world, || {
            format!("what {life:?} printed is output")
        })
    }
}

/// Whether a sender does not know the present life of a receiver: that life gets none of its frames.
fn is_for_the_dead(from: Rank, to: Rank, world: &dyn Witness) -> bool {
    world
        .alive(to)
        .is_none_or(|life| world.told_of(from, to) < life)
}

fn may_carry(from: Rank, to: Rank, before: Before, world: &dyn Witness) -> bool {
    before.is_none_or(|clock| world.may_carry(from, to, clock))
}

/// Fails if the latest event before an emission is not stable.
fn judge(
    rank: Rank,
    before: Before,
    world: &dyn Witness,
    what: impl FnOnce() -> String,
) -> Result<(), String> {
    let stable = world.stable_clock(rank);
    if before <= stable {
        return Ok(());
    }
    let clock = |clock: Before| clock.map_or("none".into(), |clock| clock.to_string());
    Err(format!(
        "{}, but its events are stable up to clock {}, and before that there was one at {}",
        what(),
        clock(stable),
        clock(before)
    ))
}

impl Oracle for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Began(Life { rank, .. }) | Happening::Died(Process::Rank(rank)) => {
                self.began(*rank);
            }
            Happening::Resumed { life, saved, .. } => {
                self.resumed(*life, &saved.beginning.tally.next_ssn_to);
            }
            // The fence oracle judges what a replaced life still posts.
            Happening::Called(life, ..)
            | Happening::Event(life, _)
            | Happening::Attached(life, ..)
            | Happening::Posted(life, ..)
            | Happening::PostedControl(life, ..)
            | Happening::Seen(life, _)
            | Happening::SeenBefore(life, _)
                if !world.is_present(*life) => {}
            Happening::Fenced(by, of) => self.fenced(by.rank, of.rank),
            Happening::Called(life, _, call) => self.called(*life, call),
            Happening::Event(life, event) => self.happened(*life, event),
            Happening::Attached(from, to, attachment) => {
                return self.carry(*from, *to, attachment, world);
            }
            Happening::Posted(from, to, header, payload) => {
                return self.posted(*from, *to, (header, payload), world);
            }
            Happening::PostedControl(life, to, control) => {
                return self.posted_control(*life, *to, *control, world);
            }
            // An earlier life has output the word.
            Happening::SeenBefore(life, _) => {
                self.ranks[life.rank.index()].printed.pop_front();
            }
            Happening::Seen(life, word) => return self.seen(*life, *word, world),
            _ => {}
        }
        Ok(())
    }
}
