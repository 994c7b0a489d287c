//! One life of a rank: the position of its program, its lanes to peers, and the real gate, recorder
//! and holdings.

use super::size::{Bug, Size};
use crate::loggers::JOB;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::held::{Collected, Gives, Holdings, Tolerance};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Carriage, Clock, Incarnation, Rank, Ssn};
use refrain_transport::gate::{Gate, Mark};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The state of a program; a checkpoint contains all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub place: usize,
    /// A hash of all messages that the program received.
    pub told: u64,
    /// Number of messages received, by source.
    pub given: Vec<usize>,
    /// The matches of receives from any source, with their clocks.
    pub matches: Vec<(Clock, Matched)>,
    /// Contents of messages sent, by destination.
    pub sent: Vec<Vec<u64>>,
}

impl Position {
    pub fn start(ranks: usize) -> Self {
        Self {
            given: vec![0; ranks],
            sent: vec![Vec::new(); ranks],
            ..Self::default()
        }
    }

    /// The clock of the next operation; the first operation has clock 1.
    fn clock(&self) -> Clock {
        Clock(self.place as u64 + 1)
    }

    /// The clock of the latest operation that has ended.
    pub fn clock_before(&self) -> Clock {
        Clock(self.place as u64)
    }
}

/// The log for one peer, and the lane to it.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Lane {
    /// The peer's life, once it is connected.
    pub peer: Option<Incarnation>,
    /// The peer has told where the lane begins.
    pub is_open: bool,
    /// The next message that goes over the lane; earlier ones have gone, or have arrived in earlier
    /// lives.
    pub next: usize,
    /// The lane has caught up with the log: messages go at once.
    pub is_live: bool,
    /// By message of this life's log: the gate's mark, and the number of events before it.
    pub marks: Vec<(Mark, usize)>,
    /// Messages that some life has published; they may pass again.
    pub published: usize,
}

impl Lane {
    /// The peer's life is fenced. FENCE-1
    pub fn close(&mut self) {
        (self.peer, self.is_open, self.is_live) = (None, false, false);
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub(super) struct Process {
    pub incarnation: Incarnation,
    pub events: Pessimist<Holdings>,
    pub gate: Gate,
    pub at: Position,
    pub lanes: Vec<Lane>,
    /// Messages that have arrived, by source.
    pub arrived: Vec<Vec<u64>>,
    /// Determinants that remain to be replayed.
    pub replay: VecDeque<Matched>,
    /// The carriers in this life's logs. CAUSAL-4
    pub carriers: Vec<Vec<u8>>,
    /// Messages sent by earlier lives, by destination: until this one has sent as many, their logs
    /// are kept.
    pub sent_before: Vec<usize>,
}

impl Process {
    /// A life that begins at this position. `collected`: of a later life, with the matches to replay.
    pub fn new(
        rank: usize,
        size: &Size,
        incarnation: Incarnation,
        at: Position,
        collected: Option<(Collected, VecDeque<Matched>)>,
    ) -> Self {
        let ranks = size.programs.len();
        let life = (Rank(rank as u32), incarnation);
        let (collected, replay) = collected.unzip();
        let is_first = collected.is_none();
        let start = collected.as_ref().map_or(EventIndex(0), |all| all.end);
        let failures = match size.has(Bug::HeldByOne) {
            true => 1,
            false => size.failures,
        };
        let tolerance = Tolerance::new(failures, &[]);
        let holdings = Holdings::new((size.gives, tolerance), life, ranks as u32, collected);
        let identity = Identity {
            job: JOB,
            rank: life.0,
            incarnation,
        };
        let events = Pessimist::after_unstable(identity, start, holdings);
        let mut gate = Gate::default();
        gate.note_events(events.recorded());
        let lane = |peer: usize| Lane {
            peer: (is_first && peer != rank).then_some(Incarnation(0)),
            is_open: is_first && peer != rank,
            is_live: is_first,
            // Everything before a checkpoint was stable.
            marks: vec![(Mark(0), 0); at.sent[peer].len()],
            ..Lane::default()
        };
        Self {
            incarnation,
            events,
            gate,
            lanes: (0..ranks).map(lane).collect(),
            // Messages received before are in the checkpoint.
            arrived: at.given.iter().map(|&given| vec![0; given]).collect(),
            at,
            replay: replay.unwrap_or_default(),
            carriers: Vec::new(),
            sent_before: vec![0; ranks],
        }
    }

    pub fn holdings(&self) -> &Holdings {
        self.events.commits()
    }

    pub fn holdings_mut(&mut self) -> &mut Holdings {
        self.events.commits_mut()
    }

    /// The match that a receive from any source would make with the next message of `source`, if
    /// that message has arrived.
    pub fn next_of(&self, source: usize) -> Option<Matched> {
        let number = self.at.given[source];
        (self.arrived[source].len() > number).then(|| Matched {
            request: self.at.clock(),
            source: Rank(source as u32),
            ssn: Ssn(number as u64),
        })
    }

    /// A receive from any source got this message; the match is an event unless it is replayed.
    pub fn matched(&mut self, source: usize, matched: Matched, is_new: bool) {
        let at = self.at.clock();
        if is_new {
            self.gate.note_events(1);
            self.events.record().matched(at, matched, false);
            self.holdings_mut().matched(matched.source);
            if self.events.commits_early() {
                self.events.operation_ended();
            }
        }
        self.at.matches.push((at, matched));
        self.take(source);
    }

    /// Runs a receive from any source whose determinant is known, if its message has arrived. REC-4
    pub fn replayed(&mut self) -> Result<bool, String> {
        let Some(&matched) = self.replay.front() else {
            return Ok(false);
        };
        let source = matched.source.index();
        let number = self.at.given[source];
        if matched.ssn != Ssn(number as u64) || matched.request != self.at.clock() {
            return Err(format!(
                "REC-4: a determinant says {matched:?} where the receive at {:?} would get number {number}",
                self.at.clock()
            ));
        }
        if self.arrived[source].len() <= number {
            return Ok(false);
        }
        self.replay.pop_front();
        self.matched(source, matched, false);
        Ok(true)
    }

    /// A receive gets the next message of `source`.
    pub fn take(&mut self, source: usize) {
        let content = self.arrived[source][self.at.given[source]];
        self.at.given[source] += 1;
        self.at.told = mixed(&(self.at.told, source, content));
        self.at.place += 1;
    }

    /// Puts the next message to a rank into the log.
    pub fn send(&mut self, rank: usize, to: usize) {
        let content = mixed(&(rank, to, self.at.place, self.at.told));
        self.at.sent[to].push(content);
        let before = (self.gate.mark(), self.at.matches.len());
        self.lanes[to].marks.push(before);
        self.at.place += 1;
    }

    /// Updates the gate. `wanted`: something waits until these events are stable.
    pub fn advance(&mut self, wanted: Mark) {
        let mut stable = self.events.advance(wanted.0);
        if stable < wanted.0 {
            self.holdings_mut().press();
            stable = self.events.stable();
        }
        self.gate.note_stable(stable);
    }

    /// Whether the next message to a rank may leave with what it carries. CAUSAL-1
    pub fn may_carry(&mut self, to: usize) -> bool {
        self.advance(self.gate.mark());
        self.events.may_carry(Rank(to as u32))
    }

    /// What the next message to a rank carries, in parts; empty: nothing is to be carried. CAUSAL-1
    pub fn carriers_to(&mut self, to: usize, size: &Size) -> Vec<Vec<u8>> {
        // Each can be read alone: what lanes leave out is not a matter of orders.
        let lives: Vec<_> = self.lanes.iter().map(|lane| lane.peer).collect();
        let carriage = |to: Rank| Carriage {
            to,
            life: lives[to.index()].unwrap_or(Incarnation(0)),
            may_be_first: true,
            bytes_max: usize::MAX,
        };
        let to = Rank(to as u32);
        let mut carriers = Vec::new();
        let recorded = self.events.recorded();
        let stable = self.events.advance(recorded);
        self.gate.note_stable(stable);
        let mut is_all = false;
        while !is_all {
            let mut carrier = Vec::new();
            is_all = self.events.carry(carriage(to), &mut carrier);
            if !carrier.is_empty() {
                self.events.carried(to);
                carriers.push(carrier);
            }
        }
        self.carriers.extend(carriers.iter().cloned());
        if size.has(Bug::CarriedOnce) {
            for other in (0..size.programs.len() as u32).map(Rank) {
                let unused = &mut Vec::new();
                self.events.carry(carriage(other), unused);
                self.events.carried(other);
            }
        }
        carriers
    }

    /// Whether everything that the logs of earlier lives had has left its own.
    pub fn has_caught_up(&self, rank: usize) -> bool {
        let mut lanes = self.lanes.iter().enumerate();
        let mut sent = self.at.sent.iter().zip(&self.sent_before);
        self.replay.is_empty()
            && lanes
                .all(|(peer, lane)| peer == rank || lane.is_open && lane.next >= lane.marks.len())
            && sent.all(|(sent, before)| sent.len() >= *before)
    }

    /// Whether messages carry events.
    pub fn carries(size: &Size) -> bool {
        size.gives == Gives::WithMessages
    }
}

/// A hash of `what`.
pub(super) fn mixed(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
