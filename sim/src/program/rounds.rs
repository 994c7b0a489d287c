//! [`Program`]: the calls of a rank, round by round.

use super::beginning::{Step, Style};
use super::collectives::Groups;
use super::script::Script;
use super::stamp::{fold, verify};
use super::{Answer, Call, Ended, Found, RequestNumber, TakenNumber};
use crate::plan::Plan;
use crate::plan::STAMP_BYTES;
use fastrand::Rng;
use refrain_ring::Rank;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The program of one rank, between two calls.
///
/// **Why it always ends**, for any answers. In a round a rank first *begins* (sends, some receives,
/// probes and tests): of these calls only a wait for a cancelled receive blocks, and such a receive
/// has ended, or is matched with a message that is under way. Then the rank *receives* the rest,
/// and then it *completes* the open requests.
///
/// While it begins, a rank may also wait for a collective, if it has begun all that come before this
/// one in the plan. Of the collectives for which ranks wait, take the first one in the plan: a
/// member that has not begun it waits for none, and will begin it. So all ranks get to the next
/// phase, and there all collectives of the round have begun at all members and will end.
///
/// Let all ranks have ended the rounds before some round. Then all ranks begin all their sends of
/// the round, and these arrive without calls of other ranks. Every receive that blocks a program in
/// its phase *receive* is due:
///
/// * There are never more receives from a named source than the source sends until the end of the
///   round, and only these receives take messages of that tag.
/// * There are never more receives from any source, begun or ended, than messages of the other tag
///   are sent to the rank until the end of the round. The exception is the extra receive, which is
///   cancelled before another receive from any source begins. If the extra receive has a message,
///   all receives begun before it have one as well, since they match in order; it then counts as
///   one of those that are due, in this round or a later one. A receive may get a message of a
///   later round of a fast peer: then one of this round is left for later, and the numbers stay the
///   same.
///
/// So all ranks reach the phase *complete*. Only here may a rank wait for a synchronous send, and
/// by then its receiver has begun, or will begin, to receive all named messages of the round while
/// it waits only for messages that have been sent: the send is matched. Other sends need only the
/// log, which has room for them (the plan ensures it). Receives that get nothing are cancelled.
/// Tests and probes that may find nothing are bounded in each round (besides at most one after each
/// send); calls that block end at least one request.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) script: Rc<Script>,
    pub(super) rank: Rank,
    pub(super) state: u64,
    pub(super) chance: Rng,
    pub(super) round: usize,
    pub(super) phase: Phase,
    pub(super) style: Style,
    /// Steps of the beginning; the next one is the last item.
    pub(super) steps: Vec<Step>,
    /// Calls that follow directly; the next one is the last item.
    pub(super) then: Vec<Then>,
    /// The last call.
    pub(super) asked: Asked,
    /// Requests that have not ended.
    pub(super) open: Vec<Open>,
    /// Receives from any source, begun or ended, without cancelled ones.
    pub(super) wild_begun: u64,
    /// By source: receives from named sources, begun or ended.
    pub(super) named_begun: Vec<u32>,
    /// By source: one bit for each message, set when it was received.
    pub(super) received: Vec<Vec<u64>>,
    pub(super) groups: Groups,
    pub(super) tries_left: u32,
    /// Number of operations of a script that have begun.
    pub(super) place: usize,
    /// The kind of wait: for one, any, some or all.
    pub(super) wait: usize,
    pub(super) complaint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Begin,
    Receive,
    Complete,
    Print,
    Checkpoint,
    Over,
}

/// A call that follows directly on an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// Receive the message that a matched probe took.
    ReceiveTaken(TakenNumber, Kind),
    /// Receive the message that a probe found.
    ReceiveFound(super::Found),
    Test(RequestNumber),
    /// Test this request, alone or with other open ones.
    TestWith(RequestNumber),
    Cancel(RequestNumber),
    Wait(RequestNumber),
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send {
        synchronous: bool,
    },
    Collective {
        group: usize,
        makes: Option<usize>,
        waits: bool,
    },
    Named {
        source: Rank,
        index: u32,
    },
    Wild,
    Extra,
    Never,
}

/// What the answer to the last call needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// A post, or a blocking receive, of this kind.
    Kind(Kind),
    Look,
    TakeWild,
    TakeNamed(Rank),
    /// A probe whose message is received next.
    Found,
    Nothing,
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub number: RequestNumber,
    pub kind: Kind,
    pub is_cancelled: bool,
}

impl Open {
    /// Whether the request ends without a cancel.
    pub fn will_end(&self) -> bool {
        self.kind != Kind::Never || self.is_cancelled
    }
}

impl Program {
    /// The program of this rank.
    pub fn new(plan: &Plan, rank: Rank) -> Self {
        let ranks = plan.ranks as usize;
        let mut chance = Rng::with_seed(0);
        let mut program = Self {
            script: Rc::new(Script::new(plan, rank)),
            rank,
            state: fold(0, u64::from(rank.0)),
            style: Style::new(&mut chance),
            chance,
            round: 0,
            phase: Phase::Begin,
            steps: Vec::new(),
            then: Vec::new(),
            asked: Asked::Nothing,
            open: Vec::new(),
            wild_begun: 0,
            named_begun: vec![0; ranks],
            received: vec![Vec::new(); ranks],
            groups: Groups::new(plan.groups.len()),
            tries_left: 0,
            place: 0,
            wait: 0,
            complaint: None,
        };
        match plan.is_explored() {
            true => program.style.tested_percent = 0,
            false => program.begin_round(),
        }
        program
    }

    /// Takes the answer to the last call (at first [`Answer::Begin`]) and returns the next call.
    pub fn next(&mut self, answer: &Answer) -> Call {
        self.learn(answer);
        loop {
            if let Some(call) = self.step() {
                return call;
            }
        }
    }

    /// A hash of all answers so far, in order.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// What is wrong with an answer: a message that was not sent, was sent to another rank, or
    /// arrived twice.
    pub fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }

    /// Number of messages received.
    #[cfg(test)]
    pub fn messages_received(&self) -> u64 {
        let bits = self.received.iter().flatten();
        bits.map(|word| u64::from(word.count_ones())).sum()
    }

    /// Number of messages that all rounds send to this rank.
    #[cfg(test)]
    pub fn messages_expected(&self) -> u64 {
        let expected = self.script.expected.iter();
        expected.map(|of| of.len() as u64).sum()
    }

    /// Hashes the state of the program, without what follows from the plan.
    pub fn hash_into(&self, hash: &mut impl Hasher) {
        (self.state, self.round, self.place, self.wild_begun).hash(hash);
        (&self.named_begun, &self.received, self.tries_left).hash(hash);
        self.groups.hash(hash);
        for open in &self.open {
            (open.number, open.is_cancelled).hash(hash);
        }
    }

    /// Takes a step; `None`: the state has changed and there is no call.
    fn step(&mut self) -> Option<Call> {
        if !self.script.operations.is_empty() {
            return Some(self.operate());
        }
        if let Some(then) = self.then.pop() {
            return self.follow(then);
        }
        match self.phase {
            Phase::Begin => match self.steps.pop() {
                Some(step) => self.begin(step),
                None => self.go_on(Phase::Receive),
            },
            Phase::Receive => self.receive(),
            Phase::Complete => self.complete(),
            Phase::Print => {
                self.phase = Phase::Checkpoint;
                self.asked = Asked::Nothing;
                let prints = self.script.rounds[self.round].prints;
                prints.then_some(Call::Print(self.state))
            }
            Phase::Checkpoint => {
                let takes_checkpoint = self.script.rounds[self.round].takes_checkpoint;
                self.round += 1;
                self.begin_round();
                self.asked = Asked::Nothing;
                takes_checkpoint.then_some(Call::Checkpoint)
            }
            Phase::Over => Some(Call::Finish),
        }
    }

    pub(super) fn go_on(&mut self, phase: Phase) -> Option<Call> {
        self.phase = phase;
        None
    }

    /// Whether sends may stay open until the next round.
    pub(super) fn may_carry(&self) -> bool {
        let is_last = self.round + 1 >= self.script.rounds.len();
        self.style.carries && !is_last && !self.script.rounds[self.round].takes_checkpoint
    }
}

impl Program {
    pub(super) fn learn(&mut self, answer: &Answer) {
        match answer {
            Answer::Begin => self.told(1),
            Answer::Posted(number) => {
                self.told(2);
                self.told(u64::from(number.0));
                if let Asked::Kind(kind) = self.asked {
                    self.posted(Open {
                        number: *number,
                        kind,
                        is_cancelled: false,
                    });
                }
            }
            Answer::Ended(all) => {
                self.told(3);
                self.told(all.len() as u64);
                for ended in all {
                    self.ended(ended);
                }
            }
            Answer::Found(found) => {
                self.told_found(found.as_ref());
                if let (Asked::Found, Some(found)) = (self.asked, found) {
                    self.then.push(Then::ReceiveFound(*found));
                }
            }
            Answer::Taken(taken) => {
                self.told_found(taken.as_ref().map(|(_, found)| found));
                if let Some((number, _)) = taken {
                    let kind = match self.asked {
                        Asked::TakeNamed(source) => self.next_named(source),
                        _ => self.next_wild(),
                    };
                    self.then.push(Then::ReceiveTaken(*number, kind));
                }
            }
            Answer::Done => self.told(5),
            Answer::Number(number) => {
                self.told(6);
                self.told(*number as u64);
            }
            Answer::Bytes(bytes) => {
                self.told(7);
                bytes.iter().for_each(|byte| self.told((*byte).into()));
            }
        }
    }

    fn told(&mut self, word: u64) {
        self.state = fold(self.state, word);
    }

    fn told_found(&mut self, found: Option<&Found>) {
        self.told(4);
        if let Some(found) = found {
            self.told(u64::from(found.source.0) << 32 | u64::from(found.tag as u32));
            self.told(found.bytes);
        }
    }

    fn posted(&mut self, open: Open) {
        self.open.push(open);
        let is_waited = matches!(open.kind, Kind::Collective { waits: true, .. });
        if is_waited {
            return self.then.push(Then::Wait(open.number));
        }
        let is_tested = matches!(open.kind, Kind::Send { .. } | Kind::Collective { .. });
        if is_tested && self.chance.u32(0..100) < self.style.tested_percent {
            self.then.push(Then::TestWith(open.number));
        }
        if open.kind == Kind::Extra {
            self.then.push(Then::Wait(open.number));
            self.then.push(Then::Cancel(open.number));
            for _ in 0..self.chance.u32(0..3) {
                self.then.push(Then::Test(open.number));
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.told(u64::from(ended.request.0) << 1 | u64::from(ended.cancelled));
        let is_it = |open: &Open| open.number == ended.request;
        let kind = match (self.open.iter().position(is_it), self.asked) {
            (Some(at), _) => self.open.remove(at).kind,
            // A blocking receive is not in `open`.
            (None, Asked::Kind(kind)) => kind,
            (None, _) => return self.complain(format_args!("{:?} ended twice", ended.request)),
        };
        if ended.cancelled {
            match kind {
                Kind::Extra => self.wild_begun -= 1,
                Kind::Never => {}
                _ => self.complain(format_args!("{:?} was cancelled", ended.request)),
            }
            return;
        }
        self.told(u64::from(ended.peer.0) << 32 | u64::from(ended.tag as u32));
        self.told(ended.bytes);
        match kind {
            Kind::Send { .. } => {}
            Kind::Collective { group, makes, .. } => {
                let (words, _) = ended.payload.as_chunks();
                words
                    .iter()
                    .for_each(|word| self.told(u64::from_le_bytes(*word)));
                if let Some(made) = makes {
                    self.make_group(group, made, &ended.payload);
                }
            }
            Kind::Never => self.complain(format_args!("{ended:?}: no rank sends this")),
            Kind::Named { .. } | Kind::Wild | Kind::Extra => self.received(kind, ended),
        }
    }

    fn received(&mut self, kind: Kind, ended: &Ended) {
        let stamp = match verify(&ended.payload, ended.bytes) {
            Ok(stamp) => stamp,
            Err(damage) => {
                for chunk in ended.payload.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    self.told(u64::from_le_bytes(word));
                }
                let (peer, bytes) = (ended.peer, ended.bytes);
                return self.complain(format_args!("{bytes} bytes of {peer}: {damage}"));
            }
        };
        // Everything else in the message follows from these.
        self.told(stamp.number);
        self.told(stamp.state);
        self.told(ended.payload.len() as u64);
        let of_source = self.script.expected.get(ended.peer.index());
        let expected = of_source.and_then(|of| of.get(stamp.number as usize));
        let is_named = matches!(kind, Kind::Named { .. });
        let fits = expected.is_some_and(|expected| {
            expected.is_named == is_named && expected.bytes as u64 == ended.bytes
        });
        let is_its = (stamp.source, stamp.destination) == (ended.peer, self.rank);
        let is_next = match kind {
            Kind::Named { source, index } => {
                let number = self.script.named[source.index()].get(index as usize);
                source == ended.peer
                    && number.map(|number| u64::from(*number)) == Some(stamp.number)
            }
            _ => true,
        };
        if !(fits && is_its && is_next && ended.payload.len() >= STAMP_BYTES) {
            let (peer, bytes) = (ended.peer, ended.bytes);
            self.complain(format_args!(
                "{kind:?} got {bytes} bytes of {peer} with {stamp:?}"
            ));
        } else if !self.mark(ended.peer.index(), stamp.number as usize) {
            self.complain(format_args!("{stamp:?} came twice"));
        }
    }

    /// Marks a message as received; false if it already was.
    fn mark(&mut self, source: usize, number: usize) -> bool {
        let words = &mut self.received[source];
        if words.len() <= number / 64 {
            words.resize(number / 64 + 1, 0);
        }
        let bit = 1 << (number % 64);
        let is_new = words[number / 64] & bit == 0;
        words[number / 64] |= bit;
        is_new
    }

    fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        self.complaint.get_or_insert_with(|| what.to_string());
    }
}
