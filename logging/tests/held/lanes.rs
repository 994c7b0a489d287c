//! What messages carry, under random events, refused records, deaths and logs that are read from the middle,
//! against a model: the batches that each life has made.

use crate::batches::{Stored, batches_of};
use crate::carried::{Process, deliver, life};
use crate::fixed_seed::cases;
use proptest::prelude::*;
use refrain_logging::LeftInLogs;
use refrain_logging::determinant::Matched;
use refrain_logging::held::Collected;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Carriage, Clock, Incarnation, Rank, Ssn};
use std::collections::{BTreeMap, VecDeque};

const RANKS: usize = 3;

/// What happens next. Numbers choose among the ranks.
#[derive(Clone, Debug)]
enum Step {
    /// The rank, the kind of the event, steps of the clock, and other numbers in it.
    Event(u8, u8, u8, u64),
    /// A message leaves. Its record goes into a new chunk, or finds no room, or has little.
    Send {
        pair: (u8, u8),
        in_new_chunk: bool,
        is_refused: bool,
        bytes_max: usize,
    },
    Deliver(u8, u8),
    Idle(u8),
    /// Pieces on control lanes arrive.
    Drain,
    /// A rank dies, and its next life gets the logs for it again, from some record on.
    Replace(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let pair = || any::<(u8, u8)>();
    let rarely = || prop::bool::weighted(0.1);
    let room = prop_oneof![8 => Just(255usize), 1 => 1..60usize];
    let send = (pair(), rarely(), rarely(), room);
    prop_oneof![
        20 => (any::<u8>(), 0..12u8, 1..4u8, 0..400u64).prop_map(|(rank, kind, step, number)| {
            Step::Event(rank, kind, step, number)
        }),
        20 => send.prop_map(|(pair, in_new_chunk, is_refused, bytes_max)| Step::Send {
            pair,
            in_new_chunk,
            is_refused,
            bytes_max,
        }),
        20 => pair().prop_map(|(from, to)| Step::Deliver(from, to)),
        6 => any::<u8>().prop_map(Step::Idle),
        2 => Just(Step::Drain),
        1 => pair().prop_map(|(rank, from)| Step::Replace(rank, from)),
    ]
}

/// A record with events.
#[derive(Clone, Debug)]
struct Record {
    bytes: Vec<u8>,
    is_first_in_chunk: bool,
    /// The batches that must be at the receiver when the record is.
    batches: Vec<Stored>,
}

/// The log from one rank to another.
#[derive(Clone, Debug, Default)]
struct Log {
    records: Vec<Record>,
    /// Records that have not arrived in the receiver's present life.
    on_way: VecDeque<Record>,
    has_some_in_chunk: bool,
}

struct World {
    job: Vec<Process>,
    incarnations: [u32; RANKS],
    clocks: [u64; RANKS],
    ssns: [[u64; RANKS]; RANKS],
    logs: BTreeMap<(usize, usize), Log>,
    /// By rank: the logs of its earlier lives.
    left: Vec<Vec<Log>>,
    /// By rank and first number: what was made. A later life may make another batch.
    made: [BTreeMap<(u64, u32), Stored>; RANKS],
    deaths: u32,
}

impl World {
    fn new() -> Self {
        Self {
            job: (0..RANKS as u32)
                .map(|rank| life(rank, 0, RANKS as u32, None))
                .collect(),
            incarnations: [0; RANKS],
            clocks: [0; RANKS],
            ssns: [[0; RANKS]; RANKS],
            logs: BTreeMap::new(),
            left: vec![Vec::new(); RANKS],
            made: Default::default(),
            deaths: 0,
        }
    }

    fn event(&mut self, rank: usize, kind: u8, step: u8, number: u64) {
        self.clocks[rank] += u64::from(step);
        let at = Clock(self.clocks[rank]);
        let source = number as usize % RANKS;
        let ssn = &mut self.ssns[rank][source];
        *ssn += 1 + u64::from(number.is_multiple_of(7));
        let ssn = Ssn(*ssn);
        let request = Clock(at.0.saturating_sub(number % 5));
        let matched = Matched {
            request,
            source: Rank(source as u32),
            ssn,
        };
        let recorder = self.job[rank].record();
        match kind {
            0 => recorder.nothing(at),
            1 => recorder.probed(at, matched.source, ssn, number as i32 % 3, number % 9),
            2 => recorder.completed(at, &vec![request; 1 + number as usize % 300]),
            3 => recorder.cancelled(at, request),
            4 => recorder.number(at, number as u8 % 16, number as i64 - 200),
            5 => recorder.bytes(at, &vec![7; 1 + number as usize % 256]),
            _ => recorder.matched(at, matched, kind == 6),
        }
    }

    fn send(&mut self, (from, to): (usize, usize), room: (bool, bool, usize)) {
        let (in_new_chunk, is_refused, bytes_max) = room;
        let log = self.logs.entry((from, to)).or_default();
        log.has_some_in_chunk &= !in_new_chunk;
        let is_first_in_chunk = !log.has_some_in_chunk;
        let carriage = Carriage {
            to: Rank(to as u32),
            life: Incarnation(self.incarnations[to]),
            may_be_first: is_first_in_chunk,
            bytes_max,
        };
        let mut bytes = Vec::new();
        let is_all = self.job[from].carry(carriage, &mut bytes);
        // A clone is asked, because the question commits what is promised.
        let mut asked = self.job[from].clone();
        let commits = asked.commits_mut();
        let own = batches_of(&commits.own());
        let stable = commits.stable_end().0;
        for batch in &own {
            let key = (batch.first, batch.incarnation);
            let before = self.made[from].insert(key, batch.clone());
            assert!(before.is_none_or(|before| before == *batch));
        }
        if bytes.is_empty() || is_refused {
            return;
        }
        self.job[from].carried(Rank(to as u32));
        let mut unstable = own.into_iter().filter(|batch| batch.end() > stable);
        let batches = match is_all {
            true => unstable.collect(),
            false => unstable.next().into_iter().collect::<Vec<_>>(),
        };
        let record = Record {
            bytes,
            is_first_in_chunk,
            // What does not fit goes with a later record; the first one fits always, or was there before.
            batches: if is_all { batches } else { Vec::new() },
        };
        log.has_some_in_chunk = true;
        log.records.push(record.clone());
        log.on_way.push_back(record);
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let Some(record) = self.logs.entry((from, to)).or_default().on_way.pop_front() else {
            return;
        };
        let commits = self.job[to].commits_mut();
        let taken = commits.take_carried(Rank(from as u32), &record.bytes);
        taken.expect("what a rank carries can be read");
        let held = batches_of(&commits.held_of(Rank(from as u32)));
        for batch in &record.batches {
            assert!(
                held.contains(batch),
                "{from} to {to}: {batch:?} is not in {held:?}"
            );
        }
        self.check(from, &held);
    }

    /// All batches are as they were made.
    fn check(&self, of: usize, batches: &[Stored]) {
        for batch in batches {
            let made = self.made[of].get(&(batch.first, batch.incarnation));
            assert_eq!(made, Some(batch), "of rank {of}");
        }
    }

    /// The batches in a log, from some chunk on.
    fn read(log: &Log, chunk: usize, left: &mut LeftInLogs) {
        let firsts = (0..log.records.len()).filter(|at| log.records[*at].is_first_in_chunk);
        let firsts: Vec<usize> = firsts.collect();
        if firsts.is_empty() {
            return;
        }
        left.begin_log();
        for record in &log.records[firsts[chunk % firsts.len()]..] {
            let taken = left.take(&record.bytes, None);
            taken.expect("what a rank carries can be read from any chunk on");
        }
    }

    fn replace(&mut self, dead: usize, from: u8) {
        self.deaths += 1;
        deliver(&mut self.job);
        let of = Rank(dead as u32);
        for survivor in others(dead) {
            self.job[survivor].commits_mut().fenced(of);
            let log = self.logs.remove(&(dead, survivor)).unwrap_or_default();
            self.left[dead].push(log);
            // The log for it is sent again.
            let log = self.logs.entry((survivor, dead)).or_default();
            let begin = usize::from(from) % (log.records.len() + 1);
            log.on_way = log.records[begin..].iter().cloned().collect();
            log.on_way
                .iter_mut()
                .for_each(|record| record.batches.clear());
        }
        let mut left = LeftInLogs::default();
        for log in &self.left[dead] {
            Self::read(log, 0, &mut left);
        }
        self.check(dead, &batches_of(left.row()));
        let mut answers = vec![(of, left.answer())];
        for survivor in others(dead) {
            let answer = self.job[survivor].commits().answer(of);
            answers.push((Rank(survivor as u32), answer));
        }
        let answers = answers
            .iter()
            .map(|(holder, answer)| (*holder, &answer[..]));
        let collected = Collected::of(answers).expect("all are whole");
        self.incarnations[dead] += 1;
        self.job[dead] = life(
            dead as u32,
            self.incarnations[dead],
            RANKS as u32,
            Some(collected),
        );
        for survivor in others(dead) {
            self.job[survivor].commits_mut().connected(of);
            self.job[dead]
                .commits_mut()
                .connected(Rank(survivor as u32));
        }
    }

    fn end(&mut self, chunk: usize) {
        for pair in (0..RANKS).flat_map(|from| others(from).map(move |to| (from, to))) {
            while !self.logs.entry(pair).or_default().on_way.is_empty() {
                self.deliver(pair.0, pair.1);
            }
            let mut left = LeftInLogs::default();
            Self::read(&self.logs[&pair], chunk, &mut left);
            self.check(pair.0, &batches_of(left.row()));
        }
        self.job.iter_mut().for_each(Process::idle);
        deliver(&mut self.job);
        for rank in 0..RANKS {
            let stable = self.job[rank].commits_mut().stable_end().0;
            let held: Vec<_> = others(rank)
                .flat_map(|other| batches_of(&self.job[other].commits().held_of(Rank(rank as u32))))
                .collect();
            self.check(rank, &held);
            for batch in batches_of(&self.job[rank].commits().own()) {
                assert!(
                    batch.end() > stable || self.deaths > 0 || held.contains(&batch),
                    "rank {rank}: {batch:?} is stable, and no rank holds it"
                );
            }
        }
    }
}

fn others(rank: usize) -> impl Iterator<Item = usize> {
    (0..RANKS).filter(move |other| *other != rank)
}

proptest! {
    #![proptest_config(cases(600))]

    // CAUSAL-1, CAUSAL-2, CAUSAL-4
    #[test]
    fn lanes_carry_what_was_made(
        steps in prop::collection::vec(step(), 1..200),
        chunk in any::<u8>(),
    ) {
        let mut world = World::new();
        let rank = |number: u8| usize::from(number) % RANKS;
        let pair = |(from, to): (u8, u8)| {
            (rank(from), (rank(from) + 1 + usize::from(to) % (RANKS - 1)) % RANKS)
        };
        for step in steps {
            match step {
                Step::Event(of, kind, step, number) => world.event(rank(of), kind, step, number),
                Step::Send { pair: of, in_new_chunk, is_refused, bytes_max } => {
                    world.send(pair(of), (in_new_chunk, is_refused, bytes_max));
                }
                Step::Deliver(from, to) => {
                    let (from, to) = pair((from, to));
                    world.deliver(from, to);
                }
                Step::Idle(of) => world.job[rank(of)].idle(),
                Step::Drain => deliver(&mut world.job),
                Step::Replace(of, from) => world.replace(rank(of), from),
            }
        }
        world.end(chunk.into());
    }
}
