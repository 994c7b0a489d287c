//! Executes plans by MPI's rules for matching, without any buffering.

use super::epoch;
use crate::workload::chaos::plan::{
    Ending, MessageId, Pattern, ReceiveManner, Round, SendManner, SlotId, Step,
};
use crate::workload::chaos::verify::{self, Outcome, Post};
use crate::workload::prng::Prng;
use std::collections::VecDeque;

/// A step, or a part of the end of a round.
#[derive(Clone, Debug)]
enum Action {
    Step(Step),
    Finish,
    Meet,
}

/// A message of a round.
type Id = (usize, MessageId);

#[derive(Debug, Default)]
struct Rank {
    actions: Vec<(usize, Action)>,
    at: usize,
    /// What the current action waits for.
    waits: Waits,
    unexpected: Vec<Id>,
    /// Posts by round, in order, each with the message that it received.
    posts: Vec<Vec<(Post, Option<MessageId>)>>,
    pending_sends: Vec<Id>,
    pending_posts: Vec<(usize, usize)>,
}

#[derive(Debug, Default)]
enum Waits {
    #[default]
    Nothing,
    Sent(Vec<Id>),
    Received(Vec<(usize, usize)>),
    Both(Id, (usize, usize)),
    Probe(usize, SlotId),
    Repeat(Step, usize),
    Meeting(usize),
}

/// All ranks, and the messages between them.
pub struct Model<'a> {
    rounds: &'a [Round],
    ranks: Vec<Rank>,
    flying: Vec<Vec<VecDeque<Id>>>,
    matched: Vec<Vec<bool>>,
    meetings: Vec<usize>,
    prng: Prng,
}

impl<'a> Model<'a> {
    pub fn new(rounds: &'a [Round], schedule: u64) -> Self {
        let size = rounds[0].programs.len();
        let actions = |rank: usize| {
            let mut actions = Vec::new();
            for (number, round) in rounds.iter().enumerate() {
                actions.extend(
                    round.programs[rank]
                        .iter()
                        .map(|step| (number, Action::Step(step.clone()))),
                );
                actions.push((number, Action::Finish));
                actions.extend((round.ends_with != Ending::Open).then_some((number, Action::Meet)));
            }
            actions
        };
        let rank = |rank| Rank {
            actions: actions(rank),
            posts: vec![Vec::new(); rounds.len()],
            ..Rank::default()
        };
        Self {
            rounds,
            ranks: (0..size).map(rank).collect(),
            flying: vec![vec![VecDeque::new(); size]; size],
            matched: rounds
                .iter()
                .map(|round| vec![false; round.messages.len()])
                .collect(),
            meetings: vec![0; size],
            prng: Prng::new(schedule),
        }
    }

    /// Runs to the end, with enabled actions in random order.
    ///
    /// # Errors
    /// The actions at which the ranks are stuck, if no action is enabled.
    pub fn run(&mut self) -> Result<(), String> {
        let size = self.ranks.len();
        let mut candidates: Vec<(usize, Option<usize>)> = (0..size)
            .flat_map(|a| (0..size).map(move |b| (a, Some(b))).chain([(a, None)]))
            .collect();
        loop {
            self.prng.shuffle(&mut candidates);
            let happened = candidates.iter().copied().any(|(rank, to)| match to {
                Some(to) => self.arrive(rank, to),
                None => self.advance(rank),
            });
            if !happened {
                break;
            }
        }
        match self
            .ranks
            .iter()
            .position(|rank| rank.at < rank.actions.len())
        {
            None => Ok(()),
            Some(rank) => {
                let Rank {
                    actions, at, waits, ..
                } = &self.ranks[rank];
                Err(format!(
                    "rank {rank} is stuck at {:?}, waiting for {waits:?}",
                    actions[*at]
                ))
            }
        }
    }

    /// The posts of a rank in a round with their messages, for the oracle.
    pub fn posts(&self, round: usize, rank: usize) -> Vec<(Post, Option<MessageId>)> {
        self.ranks[rank].posts[round].clone()
    }

    fn message(&self, (round, id): Id) -> &'a crate::workload::chaos::plan::Message {
        &self.rounds[round].messages[id]
    }

    /// The next message of a pair arrives: it matches the first post that admits it, or becomes
    /// unexpected.
    fn arrive(&mut self, source: usize, destination: usize) -> bool {
        let Some(id) = self.flying[source][destination].pop_front() else {
            return false;
        };
        let message = self.message(id);
        let rank = &self.ranks[destination];
        let open = |&&(round, post): &&(usize, usize)| {
            let (post, _) = &rank.posts[round][post];
            post.outcome.is_none() && post.pattern.admits(message)
        };
        let every = rank
            .posts
            .iter()
            .enumerate()
            .flat_map(|(round, posts)| (0..posts.len()).map(move |post| (round, post)));
        let every: Vec<_> = every.collect();
        match every.iter().find(open) {
            Some(&post) => self.deliver(destination, post, id),
            None => self.ranks[destination].unexpected.push(id),
        }
        true
    }

    fn deliver(&mut self, rank: usize, (round, post): (usize, usize), id: Id) {
        assert_eq!(
            round, id.0,
            "a message of round {} reached a receive of round {round}",
            id.0
        );
        let message = self.message(id);
        let (post, received) = &mut self.ranks[rank].posts[round][post];
        let slot = &self.rounds[round].slots[post.slot];
        assert!(
            slot.may_truncate || message.bytes <= slot.room_bytes,
            "{message:?} is too long for {slot:?}, which the plan does not know"
        );
        post.outcome = Some(Outcome::of(message, slot));
        *received = Some(id.1);
        self.matched[id.0][id.1] = true;
    }

    fn emit(&mut self, rank: usize, id: Id) {
        let destination = self.message(id).destination as usize;
        self.flying[rank][destination].push_back(id);
    }

    fn unexpected(&self, rank: usize, pattern: Pattern) -> Option<usize> {
        self.ranks[rank]
            .unexpected
            .iter()
            .position(|&id| pattern.admits(self.message(id)))
    }

    fn post(&mut self, rank: usize, round: usize, slot: SlotId) -> (usize, usize) {
        let pattern = self.rounds[round].slots[slot].pattern;
        if self.rounds[round].slots[slot].manner == ReceiveManner::CancelRace
            && self.unexpected(rank, pattern).is_none()
            && self.prng.chance(2)
        {
            let post = Post {
                slot,
                pattern,
                second_buffer: false,
                outcome: Some(Outcome::Cancelled),
            };
            self.ranks[rank].posts[round].push((post, None));
        }
        let at = (round, self.ranks[rank].posts[round].len());
        self.ranks[rank].posts[round].push((
            Post {
                slot,
                pattern,
                second_buffer: false,
                outcome: None,
            },
            None,
        ));
        if let Some(place) = self.unexpected(rank, pattern) {
            let id = self.ranks[rank].unexpected.remove(place);
            self.deliver(rank, at, id);
        }
        at
    }

    /// Continues a rank's program, if possible.
    fn advance(&mut self, rank: usize) -> bool {
        let waits = std::mem::take(&mut self.ranks[rank].waits);
        let over = match &waits {
            Waits::Nothing => return self.begin(rank),
            Waits::Sent(ids) => ids.iter().all(|&id| self.is_matched(id)),
            Waits::Received(posts) => posts.iter().all(|&post| self.is_received(rank, post)),
            Waits::Both(id, post) => self.is_matched(*id) && self.is_received(rank, *post),
            Waits::Meeting(number) => self.meetings.iter().all(|&met| met >= *number),
            Waits::Probe(round, slot) => return self.probe(rank, *round, *slot),
            Waits::Repeat(step, done) => return self.repeat(rank, step, *done),
        };
        if over {
            self.ranks[rank].at += 1;
        } else {
            self.ranks[rank].waits = waits;
        }
        over
    }

    fn is_matched(&self, (round, id): Id) -> bool {
        self.matched[round][id]
    }

    fn is_received(&self, rank: usize, (round, post): (usize, usize)) -> bool {
        self.ranks[rank].posts[round][post].0.outcome.is_some()
    }

    fn begin(&mut self, rank: usize) -> bool {
        let Some((round, action)) = self.ranks[rank].actions.get(self.ranks[rank].at).cloned()
        else {
            return false;
        };
        let waits = match action {
            Action::Finish => self.finish(rank),
            Action::Meet | Action::Step(Step::Barrier) => {
                self.meetings[rank] += 1;
                Waits::Meeting(self.meetings[rank])
            }
            Action::Step(step) => self.step(rank, round, step),
        };
        if matches!(waits, Waits::Nothing) {
            self.ranks[rank].at += 1;
        }
        self.ranks[rank].waits = waits;
        true
    }

    /// Completes sends first, since they depend on no receives of the same rank.
    fn finish(&mut self, rank: usize) -> Waits {
        let sends = std::mem::take(&mut self.ranks[rank].pending_sends);
        let posts = std::mem::take(&mut self.ranks[rank].pending_posts);
        self.ranks[rank].pending_posts.clear();
        let posts: Vec<_> = posts
            .into_iter()
            .filter(|&post| !self.cancel_never(rank, post))
            .collect();
        if sends.is_empty() {
            return Waits::Received(posts);
        }
        let at = self.ranks[rank].at;
        let finish = self.ranks[rank].actions[at].clone();
        self.ranks[rank].actions.insert(at + 1, finish);
        self.ranks[rank].pending_posts = posts;
        Waits::Sent(sends)
    }

    fn cancel_never(&mut self, rank: usize, (round, post): (usize, usize)) -> bool {
        let (post, _) = &mut self.ranks[rank].posts[round][post];
        let never = self.rounds[round].slots[post.slot].manner == ReceiveManner::CancelNever;
        if never {
            assert_eq!(post.outcome, None, "something came that is never sent");
            post.outcome = Some(Outcome::Cancelled);
        }
        never
    }

    fn step(&mut self, rank: usize, round: usize, step: Step) -> Waits {
        match step {
            Step::Post(slot) => {
                let post = self.post(rank, round, slot);
                self.ranks[rank].pending_posts.push(post);
                Waits::Nothing
            }
            Step::Receive(slot) => match self.rounds[round].slots[slot].manner {
                ReceiveManner::Recv => Waits::Received(vec![self.post(rank, round, slot)]),
                manner if ReceiveManner::IMMEDIATE.contains(&manner) => {
                    Waits::Received(vec![self.post(rank, round, slot)])
                }
                _ => Waits::Probe(round, slot),
            },
            Step::Send(id) => {
                self.emit(rank, (round, id));
                if SendManner::BLOCKING.contains(&self.message((round, id)).manner) {
                    return Waits::Sent(vec![(round, id)]);
                }
                self.ranks[rank].pending_sends.push((round, id));
                Waits::Nothing
            }
            Step::SendAndWait(id) => {
                assert_ne!(self.message((round, id)).manner, SendManner::Sendrecv);
                self.emit(rank, (round, id));
                Waits::Sent(vec![(round, id)])
            }
            Step::Exchange(id, slot) => {
                let post = self.post(rank, round, slot);
                self.emit(rank, (round, id));
                Waits::Both((round, id), post)
            }
            Step::SendRepeatedly(_) | Step::ReceiveRepeatedly(..) => Waits::Repeat(step, 0),
            Step::Await(_) => {
                let receives =
                    self.ranks[rank]
                        .pending_posts
                        .iter()
                        .copied()
                        .filter(|&(round, post)| {
                            let slot = self.ranks[rank].posts[round][post].0.slot;
                            self.rounds[round].slots[slot].manner != ReceiveManner::CancelNever
                        });
                Waits::Received(receives.collect())
            }
            Step::Poke(_) | Step::Iprobe(_) => Waits::Nothing,
            Step::Barrier => unreachable!("handled by begin"),
        }
    }

    /// A probe takes the message that it finds.
    fn probe(&mut self, rank: usize, round: usize, slot: SlotId) -> bool {
        let found = self
            .unexpected(rank, self.rounds[round].slots[slot].pattern)
            .is_some();
        if found {
            let post = self.post(rank, round, slot);
            assert!(self.is_received(rank, post));
            self.ranks[rank].at += 1;
        } else {
            self.ranks[rank].waits = Waits::Probe(round, slot);
        }
        found
    }

    /// Executes one repetition of a persistent request.
    fn repeat(&mut self, rank: usize, step: &Step, done: usize) -> bool {
        let round = self.ranks[rank].actions[self.ranks[rank].at].0;
        let (before, times) = match step {
            Step::SendRepeatedly(ids) => (
                done == 0 || self.is_matched((round, ids[done - 1])),
                ids.len(),
            ),
            Step::ReceiveRepeatedly(_, times) => {
                let last = self.ranks[rank].posts[round].len().wrapping_sub(1);
                (done == 0 || self.is_received(rank, (round, last)), *times)
            }
            _ => unreachable!("only these repeat"),
        };
        if before && done == times {
            self.ranks[rank].at += 1;
            return true;
        }
        if before {
            match step {
                Step::SendRepeatedly(ids) => self.emit(rank, (round, ids[done])),
                Step::ReceiveRepeatedly(slot, _) => drop(self.post(rank, round, *slot)),
                _ => unreachable!("only these repeat"),
            }
        }
        self.ranks[rank].waits = Waits::Repeat(step.clone(), done + usize::from(before));
        before
    }
}

#[test]
fn no_plan_deadlocks_and_the_oracle_accepts_every_legal_run() {
    for seed in 0..60 {
        let ranks = [1, 2, 3, 5, 8][seed as usize % 5];
        let rounds = epoch(seed, ranks);
        for schedule in 0..3 {
            let mut model = Model::new(&rounds, schedule);
            if let Err(stuck) = model.run() {
                panic!("seed {seed}, {ranks} ranks, schedule {schedule}: {stuck}");
            }
            for (number, round) in rounds.iter().enumerate() {
                for rank in 0..ranks {
                    let (posts, received): (Vec<_>, Vec<_>) =
                        model.posts(number, rank as usize).into_iter().unzip();
                    let assigned = verify::assign(round, rank, &posts);
                    assert_eq!(
                        assigned,
                        Ok(received),
                        "seed {seed}, round {number}, rank {rank}, schedule {schedule}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_model_notices_a_deadlock() {
    // Two ranks that both send synchronously before they receive.
    let mut rounds = epoch(1, 2);
    rounds.truncate(1);
    let round = &mut rounds[0];
    let mut message = round.messages[0].clone();
    let mut slot = round.slots[0].clone();
    slot.manner = ReceiveManner::Recv;
    slot.pattern = Pattern {
        context: message.context,
        source: None,
        tag: None,
    };
    message.manner = SendManner::Ssend;
    round.messages = vec![message.clone(), message];
    round.slots = vec![slot.clone(), slot];
    for rank in 0..2 {
        round.messages[rank].source = rank as u32;
        round.messages[rank].destination = 1 - rank as u32;
        round.slots[rank].receiver = rank as u32;
        round.slots[rank].may_truncate = true;
        round.programs[rank] = vec![Step::Send(rank), Step::Receive(rank)];
    }
    assert!(Model::new(&rounds, 0).run().unwrap_err().contains("stuck"));
    // With one of the programs reversed there is no deadlock.
    rounds[0].programs[0].reverse();
    Model::new(&rounds, 0).run().unwrap();
}
