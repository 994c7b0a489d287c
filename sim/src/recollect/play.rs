//! A dead rank's program is played again with what was collected.

use super::Messages;
use crate::happening::Breach;
use crate::oracle::orphan::Again;
use crate::program::{Answer, Call, Program};
use crate::reference::{Beginning, Choices, Delivered, Reference, Stop};
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;

/// What a checkpoint contains.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The program, and what it has of its channels.
    pub beginning: Beginning,
    /// Words that it had printed.
    pub printed: usize,
    /// Where its engine stood; of the beginning there is none.
    pub engine: Option<EnginePart>,
}

/// The engine's part of a checkpoint, as bytes. LOG-5
#[derive(Clone, Debug, Default)]
pub struct EnginePart {
    /// Where it stood.
    pub state: Vec<u8>,
    /// By receiver: the log that nobody had freed.
    pub logs: Vec<Vec<u8>>,
}

/// Counts what a program has of its channels, so that a checkpoint can be taken.
#[derive(Clone, Debug)]
pub struct Tally {
    requests: u32,
    taken: u32,
    next_ssn_to: Vec<Ssn>,
    delivered: Vec<(u64, BTreeSet<u64>)>,
    printed: usize,
}

impl Tally {
    /// Of a program that has not begun.
    pub fn new(ranks: u32) -> Self {
        Self {
            requests: 0,
            taken: 0,
            next_ssn_to: vec![Ssn(0); ranks as usize],
            delivered: vec![Default::default(); ranks as usize],
            printed: 0,
        }
    }

    /// Of a program that goes on from a checkpoint.
    pub fn of(saved: &Saved) -> Self {
        let beginning = &saved.beginning;
        let delivered = beginning.delivered.iter().map(|delivered| {
            let and = delivered.and.iter().map(|ssn| ssn.0).collect();
            (delivered.before.0, and)
        });
        Self {
            requests: beginning.requests,
            taken: beginning.taken,
            next_ssn_to: beginning.next_ssn_to.clone(),
            delivered: delivered.collect(),
            printed: saved.printed,
        }
    }

    /// The program calls.
    pub fn called(&mut self, call: &Call) {
        match call {
            Call::Isend { to, .. } => {
                let next = &mut self.next_ssn_to[to.index()];
                *next = next.next();
                self.requests += 1;
            }
            Call::Irecv { .. } | Call::Imrecv(_) | Call::Recv { .. } => self.requests += 1,
            Call::Print(_) => self.printed += 1,
            _ => {}
        }
    }

    /// The program is answered.
    pub fn answered(&mut self, answer: &Answer) {
        let all = match answer {
            Answer::Ended(all) => all,
            Answer::Taken(found) => {
                self.taken += u32::from(found.is_some());
                return;
            }
            _ => return,
        };
        for ended in all.iter().filter(|ended| !ended.cancelled) {
            let Some(stamp) = crate::program::Stamp::decode(&ended.payload) else {
                continue;
            };
            let (before, and) = &mut self.delivered[ended.peer.index()];
            and.insert(stamp.number);
            while and.remove(before) {
                *before += 1;
            }
        }
    }

    /// A checkpoint of this program that is taken now.
    pub fn save(&self, program: &Program, clock: Clock, engine: EnginePart) -> Saved {
        let delivered = self.delivered.iter().map(|(before, and)| Delivered {
            before: Ssn(*before),
            and: and.iter().copied().map(Ssn).collect(),
        });
        Saved {
            beginning: Beginning {
                program: program.clone(),
                answer: Answer::Done,
                clock,
                requests: self.requests,
                taken: self.taken,
                next_ssn_to: self.next_ssn_to.clone(),
                delivered: delivered.collect(),
            },
            printed: self.printed,
            engine: Some(engine),
        }
    }
}

/// All that the next life of a rank has collected.
#[derive(Clone, Debug)]
pub struct Recollection {
    /// Which rank.
    pub rank: Rank,
    /// Its newest stable checkpoint, or its beginning.
    pub saved: Saved,
    /// What happened to it behind that.
    pub determinants: Vec<Determinant>,
    /// By sender: messages to it that were not delivered before.
    pub messages: Vec<Messages>,
}

impl Recollection {
    /// The first message of each sender that was not delivered before the
    /// checkpoint: what its peers are asked for. REC-3
    pub fn first_wanted(saved: &Saved, source: Rank) -> Ssn {
        saved.beginning.delivered[source.index()].before
    }

    /// Plays the program again: what it makes. `may_wait`: it may wait for a message
    /// of which only the beginning has left its sender. REC-4, REC-5
    ///
    /// # Errors
    /// When it does not fit to what was collected, or when a message is missing so
    /// that records are left over.
    pub fn play(&self, may_wait: bool) -> Result<Again, Breach> {
        let choices = Choices::new(&self.determinants);
        let beginning = &self.saved.beginning;
        let mut reference = Reference::new(self.rank, beginning, choices);
        for (source, messages) in (0..).map(Rank).zip(&self.messages) {
            for (ssn, message) in messages {
                reference.deliver(source, *ssn, message.tag, message.payload.clone().into());
            }
        }
        let stop = reference.run();
        let end = self.determinants.last().map(Determinant::at);
        let waits = may_wait && stop == Stop::Blocked;
        let is_left_over = stop != Stop::Finished && !waits && end > Some(reference.clock());
        if matches!(stop, Stop::Diverged { .. }) || is_left_over {
            let clock = reference.clock();
            let what = format!(
                "rank {}, played again from clock {}, comes to clock {clock} ({stop:?}); its records go to {end:?}",
                self.rank, beginning.clock
            );
            let oracle = "recollect";
            return Err(Breach { oracle, what });
        }
        let sent = reference.sends().iter();
        Ok(Again {
            sent_before: beginning.next_ssn_to.iter().map(|ssn| ssn.0).collect(),
            sent: sent
                .map(|sent| (sent.to, sent.tag, sent.payload.to_vec()))
                .collect(),
            printed_before: self.saved.printed,
            printed: reference.prints().to_vec(),
        })
    }
}
