//! Where a life begins: the beginning of its program, or a checkpoint.

use crate::program::{Answer, Call, Program, Stamp};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;

/// The messages of a channel that were delivered to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// All before this one,
    pub before: Ssn,
    /// and these: receives of another tag had overtaken those that wait.
    pub and: BTreeSet<Ssn>,
}

impl Delivered {
    /// Adds one.
    pub fn add(&mut self, ssn: Ssn) {
        self.and.insert(ssn);
        while self.and.remove(&self.before) {
            self.before = self.before.next();
        }
    }

    /// Whether a message is among them.
    pub fn has(&self, ssn: Ssn) -> bool {
        ssn < self.before || self.and.contains(&ssn)
    }
}

/// What a program has of its requests, channels and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Posts so far.
    pub requests: u32,
    /// Messages that matched probes took so far.
    pub taken: u32,
    /// By receiver: the number of its next message.
    pub next_ssn_to: Vec<Ssn>,
    /// By source: the messages that were delivered.
    pub delivered: Vec<Delivered>,
    /// Printed words.
    pub printed: usize,
}

impl Tally {
    /// Of a program that has not begun.
    pub fn new(ranks: u32) -> Self {
        Self {
            requests: 0,
            taken: 0,
            next_ssn_to: vec![Ssn(0); ranks as usize],
            delivered: vec![Delivered::default(); ranks as usize],
            printed: 0,
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
        if let Answer::Taken(found) = answer {
            self.taken += u32::from(found.is_some());
        }
        for (source, ssn) in delivered_by(answer) {
            self.delivered[source.index()].add(ssn);
        }
    }
}

/// Source and number of the messages that an answer delivers.
pub fn delivered_by(answer: &Answer) -> impl Iterator<Item = (Rank, Ssn)> {
    let all = match answer {
        Answer::Ended(all) => &all[..],
        _ => &[],
    };
    let received = all.iter().filter(|ended| !ended.cancelled);
    received.filter_map(|ended| Some((ended.peer, Ssn(Stamp::decode(&ended.payload)?.number))))
}

/// Where a program begins.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// The program.
    pub program: Program,
    /// Its first answer: [`Answer::Begin`], or, at a checkpoint,
    /// [`Answer::Done`].
    pub answer: Answer,
    /// The latest operation before.
    pub clock: Clock,
    /// What it has.
    pub tally: Tally,
}

impl Beginning {
    /// The beginning of a program.
    pub fn new(program: Program, ranks: u32, first_clock: Clock) -> Self {
        Self {
            program,
            answer: Answer::Begin,
            clock: first_clock,
            tally: Tally::new(ranks),
        }
    }

    /// By source: one past the last message that was delivered.
    pub fn begun(&self) -> Vec<Ssn> {
        let of = |of: &Delivered| of.and.last().map_or(of.before, |last| last.next());
        self.tally.delivered.iter().map(of).collect()
    }
}

/// What a checkpoint contains.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The program, and what it has.
    pub beginning: Beginning,
    /// Where its engine stood; of the beginning there is none.
    pub engine: Option<EnginePart>,
}

/// The engine's part of a checkpoint, as bytes. LOG-5
#[derive(Clone, Debug, Default)]
pub struct EnginePart {
    /// Where it stood.
    pub state: Vec<u8>,
    /// By receiver: the log that was not freed.
    pub logs: Vec<Vec<u8>>,
}
