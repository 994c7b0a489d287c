//! All programs, replayed in the reference with the events of their engines, have the same results:
//! sends, printed words, final states.
//!
//! The events of a rank that died are its records and then the events of its later lives.

use super::rule::{Oracle, Witness, breach, digest};
use crate::choices::Choices;
use crate::happening::{Breach, Happening, Life};
use crate::plan::Plan;
use crate::program::Call;
use crate::reference::{Stop, begin_all, play_all};
use crate::saved::Beginning;
use refrain_logging::determinant::Determinant;
use refrain_ring::Rank;

/// See the [module](self).
#[derive(Debug)]
pub struct Outcomes {
    pub(super) ranks: Vec<History>,
}

/// The history of a rank over the lives that led to the present one.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Events, in order.
    pub(super) happened: Vec<Determinant>,
    /// Receiver, tag and digest of each message.
    sent: Vec<(Rank, i32, u64)>,
    printed: Vec<u64>,
    is_over: bool,
}

impl History {
    /// Adds an event. Engines report sets of requests as a whole: a part of one is left from a dead
    /// life, and the set after it contains the whole operation. REC-4
    pub(super) fn happen(&mut self, event: Determinant) {
        while let Some(Determinant::Completion {
            continues: true, ..
        }) = self.happened.last()
        {
            self.happened.pop();
        }
        self.happened.push(event);
    }
}

impl Outcomes {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks: (0..ranks).map(|_| History::default()).collect(),
        }
    }

    /// Judges a job that has ended. `states`: those of the programs that have ended.
    ///
    /// # Errors
    /// The first difference.
    pub fn judge(&self, plan: &Plan, states: &[Option<u64>]) -> Result<(), Breach> {
        let choices = self.ranks.iter().map(|told| Choices::of(&told.happened));
        let choices: Result<_, String> = choices.collect();
        let choices = choices.map_err(|what| breach(self.name(), what))?;
        let mut references = begin_all(plan, choices);
        let stops = play_all(&mut references);
        for (rank, told) in self.ranks.iter().enumerate() {
            let (reference, stop) = (&references[rank], &stops[rank]);
            let wrong = |what: String| {
                let clock = reference.clock();
                let place = format!("rank {rank}, in the reference at clock {clock} ({stop:?})");
                Err(breach(self.name(), format!("{place}: {what}")))
            };
            if matches!(stop, Stop::Diverged { .. }) {
                return wrong("it diverges from the records".into());
            }
            if told.is_over && *stop != Stop::Finished {
                return wrong("the program had ended".into());
            }
            let sends = reference.sends().iter();
            let sends: Vec<_> = sends
                .map(|sent| (sent.to, sent.tag, digest(&sent.payload)))
                .collect();
            if let Some(other) = differs(&told.sent, &sends) {
                return wrong(format!("send {other} is another"));
            }
            if let Some(other) = differs(&told.printed, reference.prints()) {
                return wrong(format!("word {other} is another"));
            }
            let state = states.get(rank).copied().flatten();
            if told.is_over && state.is_some_and(|state| state != reference.state()) {
                return wrong("its final state is another".into());
            }
        }
        Ok(())
    }

    /// Events of a rank, in order.
    #[cfg(test)]
    pub fn happened(&self, rank: Rank) -> &[Determinant] {
        &self.ranks[rank.index()].happened
    }

    /// Words that a rank printed.
    #[cfg(test)]
    pub fn printed(&self, rank: Rank) -> &[u64] {
        &self.ranks[rank.index()].printed
    }

    /// A later life begins. Events without a record do not count. REC-5
    fn resumed(&mut self, life: Life, beginning: &Beginning, events: &[Determinant]) {
        let told = &mut self.ranks[life.rank.index()];
        told.happened.retain(|event| event.at() <= beginning.clock);
        told.happened.extend_from_slice(events);
        let tally = &beginning.tally;
        let sent: u64 = tally.next_ssn_to.iter().map(|ssn| ssn.0).sum();
        told.sent.truncate(sent as usize);
        told.printed.truncate(tally.printed);
        told.is_over = false;
    }

    fn called(&mut self, life: Life, call: &Call) {
        let told = &mut self.ranks[life.rank.index()];
        match call {
            Call::Isend {
                to, tag, payload, ..
            } => told.sent.push((*to, *tag, digest(payload))),
            Call::Print(word) => told.printed.push(*word),
            Call::Finish => told.is_over = true,
            _ => {}
        }
    }
}

/// The index of the first item of `real` that differs from `played`, which may be longer.
fn differs<T: PartialEq>(real: &[T], played: &[T]) -> Option<usize> {
    (0..real.len()).find(|at| played.get(*at) != real.get(*at))
}

impl Oracle for Outcomes {
    fn name(&self) -> &'static str {
        "outcome"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Resumed {
                life,
                saved,
                events,
                ..
            } => self.resumed(*life, &saved.beginning, events),
            Happening::Called(life, _, call) if world.is_present(*life) => {
                self.called(*life, call);
            }
            Happening::Event(life, event) if world.is_present(*life) => {
                self.ranks[life.rank.index()].happen(event.clone());
            }
            _ => {}
        }
        Ok(())
    }
}
