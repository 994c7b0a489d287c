//! The state with which a life begins: the beginning of its program, or a checkpoint.

use crate::program::{Answer, Call, Ended, Program, Stamp};
use refrain_rank::collective::WholePart;
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;

/// The messages of a channel that were delivered to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// All messages before this one were delivered,
    pub before: Ssn,
    /// and these: receives of another tag took them before earlier messages.
    pub and: BTreeSet<Ssn>,
}

impl Delivered {
    /// Adds a message.
    pub fn add(&mut self, ssn: Ssn) {
        self.and.insert(ssn);
        while self.and.remove(&self.before) {
            self.before = self.before.next();
        }
    }

    /// Whether a message was delivered.
    pub fn has(&self, ssn: Ssn) -> bool {
        ssn < self.before || self.and.contains(&ssn)
    }
}

/// A program's state of its requests, channels and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Number of posts so far.
    pub requests: u32,
    /// Number of messages that matched probes took so far.
    pub taken: u32,
    /// By receiver: the SSN of the next message.
    pub next_ssn_to: Vec<Ssn>,
    /// By source: the messages that were delivered.
    pub delivered: Vec<Delivered>,
    /// Number of printed words.
    pub printed: usize,
}

impl Tally {
    /// The tally of a program that has not begun.
    pub fn new(ranks: u32) -> Self {
        Self {
            requests: 0,
            taken: 0,
            next_ssn_to: vec![Ssn(0); ranks as usize],
            delivered: vec![Delivered::default(); ranks as usize],
            printed: 0,
        }
    }

    /// Counts a call of the program.
    pub fn called(&mut self, call: &Call) {
        match call {
            Call::Isend { to, .. } => {
                let next = &mut self.next_ssn_to[to.index()];
                *next = next.next();
                self.requests += 1;
            }
            Call::Irecv { .. } | Call::Imrecv(_) | Call::Recv { .. } | Call::Collective(_) => {
                self.requests += 1;
            }
            Call::Print(_) => self.printed += 1,
            _ => {}
        }
    }

    /// Counts an answer to the program.
    pub fn answered(&mut self, answer: &Answer) {
        if let Answer::Taken(found) = answer {
            self.taken += u32::from(found.is_some());
        }
        for (source, ssn) in delivered_by(answer) {
            self.delivered[source.index()].add(ssn);
        }
    }
}

/// Sources and SSNs of the messages that an answer delivers.
pub fn delivered_by(answer: &Answer) -> impl Iterator<Item = (Rank, Ssn)> {
    let all = match answer {
        Answer::Ended(all) => &all[..],
        _ => &[],
    };
    let is_message = |ended: &&Ended| !ended.cancelled && ended.collective.is_none();
    let received = all.iter().filter(is_message);
    received.filter_map(|ended| Some((ended.peer, Ssn(Stamp::decode(&ended.payload)?.number))))
}

/// The state in which a program begins.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// The program.
    pub program: Program,
    /// The first answer to the program: [`Answer::Begin`], or, at a checkpoint, [`Answer::Done`].
    pub answer: Answer,
    /// The clock of the latest operation before.
    pub clock: Clock,
    /// Its requests, channels and output.
    pub tally: Tally,
}

impl Beginning {
    /// The beginning of a program that has not run.
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

/// The contents of a checkpoint.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The state of the program.
    pub beginning: Beginning,
    /// The state of its engine; `None` for the beginning of a program.
    pub engine: Option<EnginePart>,
}

/// The engine's part of a checkpoint, as bytes. LOG-5
#[derive(Clone, Debug, Default)]
pub struct EnginePart {
    /// The encoded state of the engine.
    pub state: Vec<u8>,
    /// Results of collectives that are kept.
    pub whole: WholePart,
    /// By receiver: the log, without freed messages.
    pub logs: Vec<Vec<u8>>,
}
