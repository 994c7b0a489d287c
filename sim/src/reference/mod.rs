//! The reference: a program and the choices of one of its lives, without engine, network or
//! failures.
//!
//! A [`Reference`] replays a program. It gets messages in the order of their channels
//! ([`Reference::deliver`]); the [`Choices`] say what depended on timing, in the terms of
//! docs/design/protocol.md's table; everything else follows from MPI's rules:
//!
//! * Every call but the last three is one operation: the clock counts it.
//! * A receive from any source gets the message of its record. A receive from a named source gets
//!   the first message of the channel that matches, that no earlier receive takes, and that no
//!   receive from any source gets.
//! * A wait for one request, or for all, ends when they are complete. In such a wait every send
//!   counts as complete: a program cannot see when it completes.
//! * A collective has the plain result of the contributions of all members. It is complete when
//!   those on which the member's result depends have been given.
//! * A wait for any, a test, a probe and a cancel have the outcome that the record of their clock
//!   says. Without one, if a later record exists, a test or probe has found nothing and a cancel
//!   came too late; otherwise the records have ended. A send may be tested: whether its call has
//!   copied it is recorded. It is never cancelled: that has no record.

mod asked;
mod receives;

use crate::choices::Choices;
use crate::collective::{Collective, Contributions};
use crate::plan::Plan;
use crate::program::{Answer, Call, Program, RequestNumber};
use crate::saved::{Beginning, Tally};
use receives::{Channel, Message};
use refrain_ring::{Clock, Rank, Ssn};
use std::cell::RefCell;
use std::rc::Rc;

/// Why the replay stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The program needs a message that was not delivered yet.
    Blocked,
    /// The records end before the outcome of this operation.
    EndOfRecords {
        /// The operation.
        clock: Clock,
    },
    /// The program has ended.
    Finished,
    /// Records and program do not fit: the program is not piecewise deterministic, or the records
    /// are not those of its life.
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
    /// Its SSN.
    pub ssn: Ssn,
    /// The clock of its send.
    pub clock: Clock,
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Rc<[u8]>,
}

/// A program in replay.
#[derive(Clone, Debug)]
pub struct Reference {
    rank: Rank,
    program: Program,
    choices: Choices,
    clock: Clock,
    /// The next answer to the program.
    answer: Answer,
    /// A call that was counted and has no answer yet.
    asked: Option<Call>,
    /// Requests that have not ended, in the order of their posts.
    open: Vec<Open>,
    /// The program's state of its requests and channels.
    tally: Tally,
    /// Messages that matched probes took.
    taken: Vec<Option<(Rank, Message)>>,
    /// By source.
    channels: Vec<Channel>,
    sends: Vec<SentMessage>,
    /// The contributions of all ranks to collectives.
    contributions: Rc<RefCell<Contributions>>,
    prints: Vec<u64>,
    /// Checkpoints since the beginning.
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
    Collective(Rc<Collective>),
    Cancelled,
}

/// Why an operation cannot end.
enum Halt {
    /// A message is missing.
    Message,
    /// The records have ended.
    Records,
    /// Records and program do not fit.
    Diverged(String),
}

impl Reference {
    /// The program of this rank from `beginning` on, with these choices.
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
            contributions: Rc::default(),
            prints: Vec::new(),
            #[cfg(test)]
            checkpoints: Vec::new(),
            is_over: false,
        }
    }

    /// With these contributions to collectives; it adds its own.
    #[must_use]
    pub fn with_contributions(mut self, contributions: Rc<RefCell<Contributions>>) -> Self {
        self.contributions = contributions;
        self
    }

    /// Delivers the next message of a channel. A message that was delivered before the beginning is
    /// ignored. Returns false, and does not take the message, if one before it is missing.
    pub fn deliver(&mut self, source: Rank, ssn: Ssn, tag: i32, payload: Rc<[u8]>) -> bool {
        let is_reserved = self.choices.is_reserved(source, ssn);
        self.channels[source.index()].deliver(Message {
            ssn,
            tag,
            payload,
            is_reserved,
        })
    }

    /// Runs until the program ends, or needs a message or record.
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

    /// Messages sent since the beginning.
    pub fn sends(&self) -> &[SentMessage] {
        &self.sends
    }

    /// What ranks have given to collectives.
    #[cfg(test)]
    pub(crate) fn contributions(&self) -> Contributions {
        self.contributions.borrow().clone()
    }

    /// A hash of the program's answers.
    pub fn state(&self) -> u64 {
        self.program.state()
    }

    /// Words printed since the beginning.
    pub fn prints(&self) -> &[u64] {
        &self.prints
    }

    /// The clock of the latest operation.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// Runs all ranks of a job, which share contributions, until none can continue. Returns why each
/// has stopped.
pub fn play_all(ranks: &mut [Reference]) -> Vec<Stop> {
    // Number of each rank's sends that were delivered.
    let mut delivered = vec![0; ranks.len()];
    loop {
        let given = |ranks: &[Reference]| {
            ranks
                .first()
                .map(|rank| rank.contributions.borrow().count())
        };
        let before = given(ranks);
        let stops = ranks.iter_mut().map(Reference::run).collect();
        if !deliver(ranks, &mut delivered) && given(ranks) == before {
            return stops;
        }
    }
}

/// All ranks of a plan at their beginnings, with these choices.
pub fn begin_all(plan: &Plan, choices: Vec<Choices>) -> Vec<Reference> {
    let contributions = Rc::default();
    let begin = |(rank, choices): (u32, Choices)| {
        let program = Program::new(plan, Rank(rank));
        let beginning = Beginning::new(program, plan.ranks, Clock(plan.first_clock));
        let reference = Reference::new(Rank(rank), &beginning, choices);
        reference.with_contributions(Rc::clone(&contributions))
    };
    (0..plan.ranks).zip(choices).map(begin).collect()
}

/// Delivers new sends. Returns whether there were any.
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
