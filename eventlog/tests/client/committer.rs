//! The core against a naive model: loggers are vectors of batches, what is under
//! way is a queue, and everything is counted anew after every step.

use crate::batches::{RANK, batch};
use crate::fixed_seed;
use proptest::prelude::*;
use refrain_eventlog::LoggerId;
use refrain_eventlog::client::committer::{Acknowledgement, Committer, LogEnd};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use std::collections::VecDeque;

/// Lives of the rank at most. (With three deaths at the right moments, what was
/// taken over and confirmed without one new batch can be lost: a life leaves no
/// trace in a row before its first batch.)
const LIVES: u32 = 3;

type Batch = (BatchHeader, Vec<u8>);

/// One logger, as it is itself, and the connection to it.
#[derive(Default)]
struct Logger {
    row: Vec<Batch>,
    /// Batches on their way to it.
    incoming: VecDeque<Batch>,
    /// Acknowledgements on their way back.
    outgoing: VecDeque<Acknowledgement>,
    /// Hello said; not yet welcomed.
    joining: Option<EventIndex>,
    /// When it was said, it was known where this life begins.
    knew_start: bool,
    /// It said what it has when this life was to begin.
    has_answered: bool,
    /// What this client knows that it has.
    confirmed: u64,
    /// Up to where this client sent since it joined.
    sent: u64,
}

impl Logger {
    fn end(&self) -> EventIndex {
        self.row
            .last()
            .map_or(EventIndex(0), |(header, _)| header.end())
    }

    fn clock(&self) -> Clock {
        self.row
            .last()
            .map_or(Clock(0), |(header, _)| header.last_clock)
    }

    /// As an acceptor does.
    fn accept(&mut self, new: Batch) {
        let (header, _) = &new;
        if header.first < self.end() {
            let old = self.row.iter().find(|(old, _)| old.first == header.first);
            let (old, _) = old.expect("batches are cut alike everywhere");
            if old.incarnation == header.incarnation {
                assert_eq!(old, header, "a number has one content in a life");
                return;
            }
            let first = header.first;
            self.row.retain(|(old, _)| old.first < first);
        }
        assert_eq!(self.end(), header.first, "batches come in order (GATE-2)");
        self.row.push(new);
    }

    fn cut_off(&mut self) {
        self.incoming.clear();
        self.outgoing.clear();
        self.joining = None;
        self.has_answered = false;
    }
}

struct World {
    committer: Committer,
    incarnation: u32,
    quorum: usize,
    loggers: Vec<Logger>,
    /// Everything that this life and those before committed.
    history: Vec<Batch>,
    stable: u64,
    start: Option<u64>,
    /// What was stable when the life before ended.
    stable_before: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Commit {
        count: u16,
        clocks: u64,
        payload: usize,
    },
    Send(usize),
    /// As over shared memory: the batch is there when it was sent.
    Place(usize),
    PlaceEverywhere {
        clocks: u64,
    },
    /// A logger takes in a batch and acknowledges.
    Deliver(usize),
    Hear(usize),
    /// An acknowledgement comes once more.
    HearTwice(usize),
    Lie(usize, Lie),
    Die(usize),
    Hello(usize),
    Welcome(usize),
    NextLife,
}

#[derive(Clone, Copy, Debug)]
enum Lie {
    Logger,
    Rank,
    Incarnation,
    Clock,
    HigherEnd,
    MiddleOfBatch,
}

impl World {
    fn new(replicas: usize, quorum: usize) -> Self {
        Self {
            committer: Committer::new(RANK, Incarnation(0), replicas, quorum),
            incarnation: 0,
            quorum,
            loggers: (0..replicas).map(|_| Logger::default()).collect(),
            history: Vec::new(),
            stable: 0,
            start: None,
            stable_before: 0,
        }
    }

    fn end(&self) -> u64 {
        self.history.last().map_or(0, |(header, _)| header.end().0)
    }

    fn next_batch(&self, count: u16, clocks: u64, payload: usize) -> Batch {
        let last = self
            .history
            .last()
            .map_or(0, |(header, _)| header.last_clock.0);
        batch(
            self.incarnation,
            EventIndex(self.end()),
            count,
            last + clocks,
            payload,
        )
    }

    fn batch_at(&self, first: u64) -> Option<&Batch> {
        self.history
            .iter()
            .find(|(header, _)| header.first.0 == first)
    }

    fn step(&mut self, step: &Step) {
        let has_begun = self.start.is_some();
        match *step {
            Step::Commit {
                count,
                clocks,
                payload,
            } if has_begun => {
                let (header, bytes) = self.next_batch(count, clocks, payload);
                self.committer.commit(&header, &bytes);
                self.history.push((header, bytes));
            }
            Step::Send(to) => {
                if let Some(sent) = self.expect_next(to) {
                    self.committer.sent(to);
                    self.loggers[to].sent = sent.0.end().0;
                    self.loggers[to].incoming.push_back(sent);
                }
            }
            Step::Place(to) => {
                let logger = &self.loggers[to];
                let is_empty = logger.incoming.is_empty() && logger.outgoing.is_empty();
                if is_empty && let Some(placed) = self.expect_next(to) {
                    self.committer.placed(to);
                    let end = placed.0.end().0;
                    let logger = &mut self.loggers[to];
                    (logger.sent, logger.confirmed) = (end, end);
                    logger.accept(placed);
                }
            }
            Step::PlaceEverywhere { clocks } if self.committer.keeps_nothing() => {
                assert_eq!(
                    self.stable,
                    self.end(),
                    "nothing that is kept may be under way"
                );
                let new = self.next_batch(1, clocks, 16);
                self.committer.placed_everywhere(&new.0);
                let end = new.0.end().0;
                for (index, logger) in self.loggers.iter_mut().enumerate() {
                    if self.committer.is_live(index) {
                        assert_eq!(logger.sent, new.0.first.0);
                        (logger.sent, logger.confirmed) = (end, end);
                        logger.accept(new.clone());
                    }
                }
                self.history.push(new);
            }
            Step::Deliver(to) => self.deliver(to),
            Step::Hear(from) => {
                if let Some(ack) = self.loggers[from].outgoing.pop_front() {
                    self.hear(from, ack);
                }
            }
            Step::HearTwice(from) => {
                if let Some(ack) = self.loggers[from].outgoing.front().copied() {
                    self.hear(from, ack);
                }
            }
            Step::Lie(from, lie) => self.lie(from, lie),
            Step::Die(which) => {
                self.committer.lose(which);
                self.loggers[which].cut_off();
            }
            Step::Hello(to) if self.committer.is_lost(to) => {
                self.loggers[to].cut_off();
                self.loggers[to].joining = Some(self.committer.joins(to));
                self.loggers[to].knew_start = self.start.is_some();
            }
            Step::Welcome(from) => self.welcome(from),
            Step::NextLife if self.incarnation < LIVES - 1 && has_begun => self.next_life(),
            _ => {}
        }
    }

    /// What the core wants to send next has to be what the model says.
    fn expect_next(&self, to: usize) -> Option<Batch> {
        if !self.committer.is_live(to) {
            assert_eq!(self.committer.next_for(to), None);
            return None;
        }
        let expected = self.batch_at(self.loggers[to].sent).cloned();
        let bytes = expected.as_ref().map(|(_, bytes)| bytes.as_slice());
        assert_eq!(self.committer.next_for(to), bytes, "next for {to} (EL-3)");
        expected
    }

    fn deliver(&mut self, to: usize) {
        let logger = &mut self.loggers[to];
        let Some(batch) = logger.incoming.pop_front() else {
            return;
        };
        let (end, clock) = (batch.0.end(), batch.0.last_clock);
        logger.accept(batch);
        logger.outgoing.push_back(Acknowledgement {
            logger: LoggerId(to as u32),
            rank: RANK,
            incarnation: Incarnation(self.incarnation),
            clock,
            end,
        });
    }

    fn hear(&mut self, from: usize, ack: Acknowledgement) {
        self.committer.acknowledged(from, &ack).expect("the truth");
        if self.committer.is_live(from) {
            let logger = &mut self.loggers[from];
            logger.confirmed = logger.confirmed.max(ack.end.0);
        }
    }

    /// GATE-3: each of the fields is checked.
    fn lie(&mut self, from: usize, lie: Lie) {
        if !self.committer.is_live(from) {
            return;
        }
        let sent = self.loggers[from].sent;
        let under_way = self.history.iter().rev().find(|(header, _)| {
            header.end().0 <= sent && header.end().0 > self.loggers[from].confirmed
        });
        let Some((header, _)) = under_way else { return };
        let mut ack = Acknowledgement {
            logger: LoggerId(from as u32),
            rank: RANK,
            incarnation: Incarnation(self.incarnation),
            clock: header.last_clock,
            end: header.end(),
        };
        match lie {
            Lie::Logger => ack.logger.0 += 1,
            Lie::Rank => ack.rank = Rank(RANK.0 + 1),
            Lie::Incarnation => ack.incarnation.0 += 1,
            Lie::Clock => ack.clock.0 += 1,
            Lie::HigherEnd => ack.end.0 = sent + 1,
            Lie::MiddleOfBatch if header.count > 1 => ack.end.0 -= 1,
            Lie::MiddleOfBatch => return,
        }
        let refused = self.committer.acknowledged(from, &ack);
        assert!(refused.is_err(), "{lie:?} must be found (GATE-3): {ack:?}");
        assert!(self.committer.is_lost(from));
        self.loggers[from].cut_off();
    }

    /// A logger answers a hello, once it has what cannot be sent any more.
    fn welcome(&mut self, from: usize) {
        let Some(first_kept) = self.loggers[from].joining else {
            return;
        };
        if self.committer.is_lost(from) {
            return self.loggers[from].cut_off();
        }
        let had_begun = self.start.is_some();
        if !had_begun && self.incarnation > 0 {
            return self.answer(from);
        }
        if !self.has_true_row(from, first_kept) && !self.catch_up(from, first_kept) {
            return;
        }
        let knew_start = self.loggers[from].knew_start;
        self.loggers[from].joining = None;
        let (end, clock) = self.common_end(from, first_kept);
        let id = LoggerId(from as u32);
        self.loggers[from].has_answered = true;
        let welcomed = self.committer.welcomed(from, id, end, clock);
        assert_eq!(welcomed, Ok(()));
        if had_begun && knew_start {
            assert!(
                self.committer.is_live(from),
                "what it needs was kept for it"
            );
        }
        if !had_begun && let Some(start) = self.committer.start() {
            self.life_began(start);
        } else if self.committer.is_live(from) {
            let logger = &mut self.loggers[from];
            (logger.confirmed, logger.sent) = (end.0, end.0);
        }
    }

    /// What it has of the lives before, the last of which it has fenced.
    fn answer(&mut self, from: usize) {
        self.loggers[from].has_answered = true;
        self.loggers[from].joining = None;
        let logger = &self.loggers[from];
        let (end, clock) = (logger.end(), logger.clock());
        let life = logger
            .row
            .last()
            .map_or(Incarnation(0), |(header, _)| header.incarnation);
        let id = LoggerId(from as u32);
        let said = LogEnd {
            life,
            end,
            clock,
            writer: life,
            made_by: life,
        };
        self.committer.answered(from, id, said).expect("the truth");
        if let Some(start) = self.committer.start() {
            self.life_began(start);
        }
    }

    /// Whether its row is the client's as far as the client cannot send it.
    fn has_true_row(&self, which: usize, first_kept: EventIndex) -> bool {
        let row = &self.loggers[which].row;
        let before = |batch: &&Batch| batch.0.end() <= first_kept;
        let expected = self.history.iter().filter(before);
        self.start.is_none() || expected.eq(row.iter().filter(before))
    }

    /// Up to where its row is the client's.
    fn common_end(&self, which: usize, first_kept: EventIndex) -> (EventIndex, Clock) {
        let row = &self.loggers[which].row;
        let is_of_this_life =
            |(header, _): &Batch| header.incarnation == Incarnation(self.incarnation);
        let before = |batch: &&Batch| batch.0.end() <= first_kept;
        let last = match row.last().is_none_or(is_of_this_life) {
            true => row.last(),
            false => row.iter().rfind(before),
        };
        last.map_or_else(Default::default, |(header, _)| {
            (header.end(), header.last_clock)
        })
    }

    /// From another one that has enough. A row of a dead life is replaced.
    fn catch_up(&mut self, which: usize, first_kept: EventIndex) -> bool {
        let mut others = (0..self.loggers.len()).filter(|other| *other != which);
        let Some(source) = others.find(|other| self.has_true_row(*other, first_kept)) else {
            return false;
        };
        let (end, _) = self.common_end(source, first_kept);
        let mut row = self.loggers[source].row.clone();
        row.retain(|(header, _)| header.end() <= end);
        self.loggers[which].row = row;
        true
    }

    fn life_began(&mut self, start: EventIndex) {
        assert!(
            start.0 >= self.stable_before,
            "what was stable is in every life (EL-3)"
        );
        let last = |row: &[Batch]| row.last().map(|(header, _)| header.incarnation);
        let answered = self.loggers.iter().filter(|logger| logger.has_answered);
        let of_start = answered.filter(|logger| logger.end() == start);
        let greatest = of_start.max_by_key(|logger| last(&logger.row));
        self.history = greatest.expect("it begins where a row ends").row.clone();
        self.start = Some(start.0);
        self.stable = 0;
        for (index, logger) in self.loggers.iter_mut().enumerate() {
            logger.confirmed = 0;
            if self.committer.is_live(index) {
                (logger.confirmed, logger.sent) = (start.0, start.0);
            }
        }
    }

    fn next_life(&mut self) {
        self.incarnation += 1;
        let replicas = self.loggers.len();
        let incarnation = Incarnation(self.incarnation);
        self.stable_before = self.committer.stable_end().0;
        self.committer = Committer::new(RANK, incarnation, replicas, self.quorum);
        self.start = None;
        for logger in &mut self.loggers {
            logger.cut_off();
            (logger.confirmed, logger.sent) = (0, 0);
        }
    }

    fn check(&mut self) {
        let Some(start) = self.start else { return };
        let mut confirmed: Vec<u64> = self.loggers.iter().map(|one| one.confirmed).collect();
        confirmed.sort_unstable_by(|a, b| b.cmp(a));
        let quorum_end = confirmed[self.quorum - 1];
        self.stable = self.stable.max(quorum_end);
        let stable = self.committer.stable_end().0;
        assert_eq!(stable, self.stable, "stable at a quorum, and never back");
        // What is called stable is where it is said to be, whatever was said.
        for (header, _) in self
            .history
            .iter()
            .filter(|(header, _)| header.end().0 <= stable)
        {
            let has = |logger: &&Logger| logger.row.iter().any(|(held, _)| held == header);
            let holders = self.loggers.iter().filter(has).count();
            assert!(holders >= self.quorum, "{holders} have {header:?}");
        }
        // EL-3: nothing leaves memory before that.
        let first_kept = self.committer.first_kept().0;
        assert!(first_kept <= stable.max(start));
        for index in 0..self.loggers.len() {
            self.expect_next(index);
        }
        self.check_that_nothing_is_kept_in_vain();
    }

    fn check_that_nothing_is_kept_in_vain(&self) {
        let end = self.end();
        let is_done = |(index, logger): (usize, &Logger)| {
            let is_live = self.committer.is_live(index);
            self.committer.is_lost(index) || is_live && logger.confirmed == end
        };
        if self.stable == end && self.loggers.iter().enumerate().all(is_done) {
            assert_eq!(self.committer.kept_bytes(), 0);
        }
    }

    /// All loggers come back, and all messages arrive.
    fn recover(&mut self) {
        for _ in 0..4 {
            for index in 0..self.loggers.len() {
                self.step(&Step::Hello(index));
                self.step(&Step::Welcome(index));
                self.check();
            }
        }
        for _ in 0..=self.history.len() {
            for index in 0..self.loggers.len() {
                for step in [Step::Send(index), Step::Deliver(index), Step::Hear(index)] {
                    self.step(&step);
                    self.check();
                }
            }
        }
        assert!(self.start.is_some(), "all are there");
        assert_eq!(
            self.committer.stable_end().0,
            self.end(),
            "all is stable in the end"
        );
    }
}

fn step(replicas: usize) -> impl Strategy<Value = Step> {
    let who = move || 0..replicas;
    let lie = prop_oneof![
        Just(Lie::Logger),
        Just(Lie::Rank),
        Just(Lie::Incarnation),
        Just(Lie::Clock),
        Just(Lie::HigherEnd),
        Just(Lie::MiddleOfBatch),
    ];
    prop_oneof![
        8 => (1..4u16, 0..3u64, 1..200usize)
            .prop_map(|(count, clocks, payload)| Step::Commit { count, clocks, payload }),
        8 => who().prop_map(Step::Send),
        4 => who().prop_map(Step::Place),
        4 => (0..3u64).prop_map(|clocks| Step::PlaceEverywhere { clocks }),
        8 => who().prop_map(Step::Deliver),
        8 => who().prop_map(Step::Hear),
        2 => who().prop_map(Step::HearTwice),
        2 => (who(), lie).prop_map(|(who, lie)| Step::Lie(who, lie)),
        2 => who().prop_map(Step::Die),
        6 => who().prop_map(Step::Hello),
        8 => who().prop_map(Step::Welcome),
        1 => Just(Step::NextLife),
    ]
}

fn world() -> impl Strategy<Value = (usize, usize, Vec<Step>)> {
    let shapes = prop_oneof![
        Just((1, 1)),
        Just((2, 1)),
        Just((2, 2)),
        Just((3, 1)),
        Just((3, 2)),
        Just((3, 3)),
        Just((5, 3)),
    ];
    shapes.prop_flat_map(|(replicas, quorum)| {
        let steps = proptest::collection::vec(step(replicas), 0..200);
        (Just(replicas), Just(quorum), steps)
    })
}

/// EL-3, GATE-2, GATE-3, FENCE-1
#[test]
fn what_is_stable_kept_and_sent_is_what_a_naive_count_says() {
    proptest!(fixed_seed::cases(1500), |((replicas, quorum, steps) in world())| {
        let mut world = World::new(replicas, quorum);
        for step in &steps {
            world.step(step);
            world.check();
        }
        world.recover();
    });
}
