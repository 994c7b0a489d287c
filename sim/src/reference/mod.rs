//! The reference: a program and the choices of one of its lives, without engine,
//! network or failures.
//!
//! A [`Reference`] plays a program again. Messages are delivered to it in the
//! order of their channels ([`Reference::deliver`]); what depended on timing the
//! [`Choices`] say, in the words of docs/design/protocol.md's table; everything else
//! follows from MPI's rules:
//!
//! - Every call but the last three is one operation: the clock counts it.
//! - A receive from any source gets the message of its record. One from a named
//!   source gets the first of the channel that fits, that no other receive posted
//!   before it takes, and that is no receive's from any source.
//! - A wait for one request, or for all, ends when they are complete, and all
//!   sends are, since that is nothing which a program sees.
//! - A wait for any, a test, a probe and a cancel come to what the record of
//!   their clock says; without one, a test or probe has found nothing and a
//!   cancel came too late, if a later record exists. Else the records are over.
//!   A send may be tested so, whenever its call had copied it. It is never
//!   cancelled: that has no record.

mod asked;
mod receives;

use crate::choices::Choices;
use crate::plan::Plan;
use crate::program::{Answer, Call, Program, RequestNumber};
use crate::saved::{Beginning, Tally};
use receives::{Channel, Message};
use refrain_ring::{Clock, Rank, Ssn};
use std::rc::Rc;

/// How far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It needs a message that was not delivered yet.
    Blocked,
    /// What this operation came to is not in the records: they are over.
    EndOfRecords {
        /// The operation.
        clock: Clock,
    },
    /// The program is over.
    Finished,
    /// Records and program do not fit: the program is not piecewise
    /// deterministic, or the records are not those of its life.
    Diverged {
        /// The operation.
        clock: Clock,
        /// Why.
        what: String,
    },
}

/// A message that the program sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// Its receiver.
    pub to: Rank,
    /// Its number on the channel.
    pub ssn: Ssn,
    /// The clock of its send.
    pub clock: Clock,
    /// Its tag.
    pub tag: i32,
    /// What.
    pub payload: Rc<[u8]>,
}

/// A program that is replayed.
#[derive(Clone, Debug)]
pub struct Reference {
    rank: Rank,
    program: Program,
    choices: Choices,
    clock: Clock,
    /// What is to be told to the program next.
    answer: Answer,
    /// Asked, counted, and not answered.
    asked: Option<Call>,
    /// Requests that have not ended, in the order of their posts.
    open: Vec<Open>,
    /// What its program has.
    tally: Tally,
    /// Messages that matched probes took.
    taken: Vec<Option<(Rank, Message)>>,
    /// By source.
    channels: Vec<Channel>,
    sends: Vec<SentMessage>,
    prints: Vec<u64>,
    /// That it took since its beginning.
    #[cfg(test)]
    pub(crate) checkpoints: Vec<Beginning>,
    is_over: bool,
}

/// A request that has not ended.
#[derive(Clone, Debug)]
struct Open {
    number: RequestNumber,
    posted_at: Clock,
    state: RequestState,
}

#[derive(Clone, Debug)]
enum RequestState {
    Send {
        to: Rank,
        tag: i32,
        bytes: u64,
    },
    Receive {
        from: crate::program::From,
        room_bytes: usize,
        got: Option<(Rank, Message)>,
    },
    Cancelled,
}

/// Why an operation does not come to its end.
enum Halt {
    /// A message is missing.
    Message,
    /// The records are over.
    Records,
    /// They do not fit.
    Diverged(String),
}

impl Reference {
    /// The program of this rank from here on, with these choices.
    pub fn new(rank: Rank, beginning: &Beginning, choices: Choices) -> Self {
        Self {
            rank,
            program: beginning.program.clone(),
            choices,
            clock: beginning.clock,
            answer: beginning.answer.clone(),
            asked: None,
            open: Vec::new(),
            tally: beginning.tally.clone(),
            taken: vec![None; beginning.tally.taken as usize],
            channels: (beginning.tally.delivered.iter())
                .map(Channel::after)
                .collect(),
            sends: Vec::new(),
            prints: Vec::new(),
            #[cfg(test)]
            checkpoints: Vec::new(),
            is_over: false,
        }
    }

    /// Delivers the next message of a channel. One that was delivered before the
    /// beginning is not needed, and does no harm. False: one before it is missing,
    /// and it is not taken.
    pub fn deliver(&mut self, source: Rank, ssn: Ssn, tag: i32, payload: Rc<[u8]>) -> bool {
        let is_reserved = self.choices.is_reserved(source, ssn);
        self.channels[source.index()].deliver(Message {
            ssn,
            tag,
            payload,
            is_reserved,
        })
    }

    /// Runs as far as it can.
    pub fn run(&mut self) -> Stop {
        loop {
            if self.is_over {
                return Stop::Finished;
            }
            let call = match self.asked.take() {
                Some(call) => call,
                None => self.ask(),
            };
            match self.answer_to(&call) {
                Ok(answer) => {
                    self.tally.answered(&answer);
                    self.answer = answer;
                }
                Err(halt) => {
                    self.asked = Some(call);
                    return self.stop(halt);
                }
            }
        }
    }

    fn ask(&mut self) -> Call {
        let call = self.program.next(&self.answer);
        self.clock.0 += u64::from(call.is_operation());
        self.tally.called(&call);
        call
    }

    fn stop(&self, halt: Halt) -> Stop {
        let clock = self.clock;
        match halt {
            Halt::Message => Stop::Blocked,
            Halt::Records => Stop::EndOfRecords { clock },
            Halt::Diverged(what) => Stop::Diverged { clock, what },
        }
    }

    /// Everything that it sent since its beginning.
    pub fn sends(&self) -> &[SentMessage] {
        &self.sends
    }

    /// What its program was told, as a hash.
    pub fn state(&self) -> u64 {
        self.program.state()
    }

    /// What it printed since its beginning.
    pub fn prints(&self) -> &[u64] {
        &self.prints
    }

    /// The latest operation.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// Runs all ranks of a job until none can continue. Returns why each has stopped.
pub fn play_all(ranks: &mut [Reference]) -> Vec<Stop> {
    // Number of each rank's sends that were delivered.
    let mut delivered = vec![0; ranks.len()];
    loop {
        let stops = ranks.iter_mut().map(Reference::run).collect();
        if !deliver(ranks, &mut delivered) {
            return stops;
        }
    }
}

/// All ranks of a plan at their beginnings, with these choices.
pub fn begin_all(plan: &Plan, choices: Vec<Choices>) -> Vec<Reference> {
    let begin = |(rank, choices): (u32, Choices)| {
        let program = Program::new(plan, Rank(rank));
        let beginning = Beginning::new(program, plan.ranks, Clock(plan.first_clock));
        Reference::new(Rank(rank), &beginning, choices)
    };
    (0..plan.ranks).zip(choices).map(begin).collect()
}

/// Whether there was anything to deliver.
fn deliver(ranks: &mut [Reference], delivered: &mut [usize]) -> bool {
    let mut has_moved = false;
    for from in 0..ranks.len() {
        let new = ranks[from].sends()[delivered[from]..].to_vec();
        delivered[from] += new.len();
        has_moved |= !new.is_empty();
        for sent in new {
            let to = &mut ranks[sent.to.index()];
            to.deliver(Rank(from as u32), sent.ssn, sent.tag, sent.payload);
        }
    }
    has_moved
}

#[cfg(test)]
pub(crate) mod tests;
