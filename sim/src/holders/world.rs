//! The state of the model, and the steps that need no choice: programs run, messages leave, pieces
//! are posted, next lives begin, until the next step depends on an action.
//!
//! Doing these steps at once loses no behaviour: a blocking receive does not depend on when its
//! message arrived, an incarnation has no effect before its peers know of it, and a death before a
//! message has left is equivalent to a death before what let it pass.

use super::process::{Position, Process};
use super::size::{Bug, Size};
use crate::loggers::JOB;
use crate::model::Operation;
use refrain_logging::LeftInLogs;
use refrain_logging::determinant::row::determinants;
use refrain_logging::determinant::{Determinant, Matched};
use refrain_logging::held::{Answers, Collected, Losses, Tolerance};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::control::Piece;
use std::collections::VecDeque;

/// Emissions of a rank in all its lives; an observer's record that no process reads.
#[derive(Clone, Debug, Hash)]
pub(super) struct Said {
    /// Contents of messages, by destination.
    pub messages: Vec<Vec<u64>>,
    /// The events before the latest of these messages.
    pub events: Vec<(Clock, Matched)>,
}

/// News of the launcher about a life of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum News {
    Down(usize, Incarnation),
    Up(usize, Incarnation),
}

impl News {
    pub fn of(self) -> usize {
        match self {
            Self::Down(of, _) | Self::Up(of, _) => of,
        }
    }
}

/// What goes over a lane, from a life of the sender to a life of the receiver.
#[derive(Clone, Debug, Hash)]
pub(super) struct Frame<T> {
    pub from: Incarnation,
    pub to: Incarnation,
    pub content: T,
}

/// A rank of the job.
#[derive(Clone, Debug, Hash)]
pub(super) struct RankState {
    /// The present life; none: it is dead.
    pub life: Option<Box<Process>>,
    pub incarnation: Incarnation,
    /// The older and the newest generation.
    pub checkpoints: [Position; 2],
    /// Carriers in the logs of earlier lives.
    pub remains: Vec<Vec<u8>>,
    /// Messages that earlier lives have put into their logs, by destination.
    pub sent: Vec<usize>,
    pub news: Vec<News>,
    pub said: Said,
}

/// A message on its way.
#[derive(Clone, Debug, Hash)]
pub(super) struct Message {
    /// What it carries, in parts.
    pub carriers: Vec<Vec<u8>>,
    pub content: u64,
    /// The number of events before it, which it does not wait for. CAUSAL-1
    pub preceded: Option<usize>,
}

type Lanes<T> = Vec<Vec<VecDeque<Frame<T>>>>;

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub struct World {
    pub(super) ranks: Vec<RankState>,
    /// By sender and receiver: messages.
    pub(super) data: Lanes<Message>,
    /// Pieces of the control lane.
    pub(super) control: Lanes<Vec<u8>>,
    pub(super) losses: Losses,
    pub(super) deaths: u8,
}

impl World {
    pub(super) fn first(size: &Size) -> Self {
        let ranks = size.programs.len();
        let mut losses = Losses::new(Some(Tolerance::new(size.failures, &[])));
        losses.begin();
        let rank = |rank: usize| {
            let start = Position::start(ranks);
            let first = Process::new(rank, size, Incarnation(0), start.clone(), None);
            RankState {
                life: Some(Box::new(first)),
                incarnation: Incarnation(0),
                checkpoints: [start.clone(), start],
                remains: Vec::new(),
                sent: vec![0; ranks],
                news: Vec::new(),
                said: Said {
                    messages: vec![Vec::new(); ranks],
                    events: Vec::new(),
                },
            }
        };
        Self {
            ranks: (0..ranks).map(rank).collect(),
            data: vec![vec![VecDeque::new(); ranks]; ranks],
            control: vec![vec![VecDeque::new(); ranks]; ranks],
            losses,
            deaths: size.deaths,
        }
    }

    pub(super) fn life(&self, rank: usize) -> Option<&Process> {
        self.ranks[rank].life.as_deref()
    }

    /// Takes all steps that need no choice.
    pub(super) fn flow(&mut self, size: &Size) -> Result<(), String> {
        let mut has_moved = true;
        while has_moved {
            has_moved = self.begin_lives(size)?;
            for rank in 0..self.ranks.len() {
                while self.play(rank, size)? {
                    has_moved = true;
                }
                has_moved |= self.let_out(rank, size)?;
                has_moved |= self.post_pieces(rank);
                has_moved |= self.let_in(rank)?;
                self.settle(rank);
            }
        }
        Ok(())
    }

    /// Runs one operation of a program, unless it has to wait.
    fn play(&mut self, rank: usize, size: &Size) -> Result<bool, String> {
        let Some(process) = self.ranks[rank].life.as_deref_mut() else {
            return Ok(false);
        };
        let Some(&operation) = size.programs[rank].get(process.at.place) else {
            return Ok(false);
        };
        match operation {
            Operation::Send(to) => {
                process.send(rank, to);
                // A message leaves before the next operation, if it may.
                self.let_out(rank, size)?;
                Ok(true)
            }
            Operation::From(source) => {
                let is_here = process.arrived[source].len() > process.at.given[source];
                if is_here {
                    process.take(source);
                }
                Ok(is_here)
            }
            Operation::Any => process.replayed(),
            Operation::Checkpoint => {
                process.advance(process.gate.mark());
                let is_closed = process.gate.is_closed();
                if !is_closed {
                    self.checkpoint(rank, size);
                }
                Ok(!is_closed)
            }
        }
    }

    /// Takes a checkpoint. Two generations are kept; determinants before the older one are trimmed.
    /// GC-1
    fn checkpoint(&mut self, rank: usize, size: &Size) {
        let state = &mut self.ranks[rank];
        let process = state.life.as_deref_mut().expect("it plays");
        process.at.place += 1;
        state.checkpoints.swap(0, 1);
        state.checkpoints[1] = process.at.clone();
        let behind = usize::from(size.has(Bug::TrimAtNewest));
        process
            .events
            .trim_when_stable(state.checkpoints[behind].clock_before());
    }

    /// Messages of a rank go to connected peers, as far as the gate lets them.
    fn let_out(&mut self, rank: usize, size: &Size) -> Result<bool, String> {
        let mut has_moved = false;
        for to in 0..self.ranks.len() {
            while self.let_out_one(rank, to, size)? {
                has_moved = true;
            }
        }
        Ok(has_moved)
    }

    fn let_out_one(&mut self, rank: usize, to: usize, size: &Size) -> Result<bool, String> {
        let Some(process) = self.ranks[rank].life.as_deref_mut() else {
            return Ok(false);
        };
        let lane = &mut process.lanes[to];
        let Some(peer) = lane.peer.filter(|_| lane.is_open) else {
            return Ok(false);
        };
        let number = lane.next;
        let Some(&(mark, events)) = lane.marks.get(number) else {
            lane.is_live |= number >= lane.marks.len();
            return Ok(false);
        };
        let mut message = Message {
            carriers: Vec::new(),
            content: process.at.sent[to][number],
            preceded: None,
        };
        let (is_live, published) = (lane.is_live, lane.published);
        if is_live && Process::carries(size) && process.may_carry(to) {
            message.carriers = process.carriers_to(to, size);
            message.preceded = Some(events);
        } else if number >= published && !size.has(Bug::GateOpen) {
            if process.gate.pass_behind(mark).is_none() {
                process.advance(mark);
            }
            if process.gate.pass_behind(mark).is_none() {
                return Ok(false);
            }
        }
        let lane = &mut process.lanes[to];
        lane.next += 1;
        lane.published = lane.published.max(lane.next);
        let from = process.incarnation;
        let before = process.at.matches[..events].to_vec();
        let said = &mut self.ranks[rank].said;
        said.says(rank, (to, number), message.content, &before)?;
        if self.life(to).is_some_and(|it| it.incarnation == peer) {
            let frame = Frame {
                from,
                to: peer,
                content: message,
            };
            self.data[rank][to].push_back(frame);
        }
        Ok(true)
    }

    /// What the holdings of a rank tell others leaves; it never waits. GATE-4
    fn post_pieces(&mut self, rank: usize) -> bool {
        let mut has_moved = false;
        let Some(process) = self.ranks[rank].life.as_deref_mut() else {
            return false;
        };
        let mut piece = [0; Piece::BYTES_MAX];
        let mut posted = Vec::new();
        while let Some((to, bytes)) = process.holdings_mut().tell(&mut piece) {
            let peer = process.lanes[to.index()].peer;
            posted.push((
                to.index(),
                process.incarnation,
                peer,
                piece[..bytes].to_vec(),
            ));
        }
        for (to, from, peer, content) in posted {
            if let Some(peer) = peer
                && self.life(to).is_some_and(|it| it.incarnation == peer)
            {
                let frame = Frame {
                    from,
                    to: peer,
                    content,
                };
                self.control[rank][to].push_back(frame);
            }
            has_moved = true;
        }
        has_moved
    }

    /// Messages without a carrier arrive at once: a late message equals a late receive.
    fn let_in(&mut self, to: usize) -> Result<bool, String> {
        let mut has_moved = false;
        for from in 0..self.ranks.len() {
            while let Some(frame) = self.data[from][to].front()
                && frame.content.carriers.is_empty()
                && self.arrives(from, to, frame.from)
            {
                self.receive(from, to)?;
                has_moved = true;
            }
        }
        Ok(has_moved)
    }

    /// The next message arrives, behind its carrier. CAUSAL-2
    pub(super) fn receive(&mut self, from: usize, to: usize) -> Result<(), String> {
        let frame = self.data[from][to].pop_front().ok_or("nothing arrives")?;
        let life = self.ranks[to].life.as_deref_mut();
        let process = life.ok_or("it is dead")?;
        let Message {
            carriers,
            content,
            preceded,
        } = frame.content;
        for carrier in carriers {
            let taken = process
                .holdings_mut()
                .take_carried(Rank(from as u32), &carrier);
            taken.map_err(|why| format!("CAUSAL-2: a carrier cannot be read: {why}"))?;
        }
        process.arrived[from].push(content);
        match preceded {
            Some(events) => self.check_preceded(from, frame.from, events),
            None => Ok(()),
        }
    }

    /// Whether something from this life of a rank arrives at another one. FENCE-1
    pub(super) fn arrives(&self, from: usize, to: usize, life: Incarnation) -> bool {
        self.life(to)
            .is_some_and(|process| process.lanes[from].peer == Some(life))
    }

    /// Updates the gate of a rank, and hears which deaths it has made good. TICKET-4
    fn settle(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let Some(process) = state.life.as_deref_mut() else {
            return;
        };
        process.advance(refrain_transport::gate::Mark(0));
        while let Some(of) = process.holdings_mut().next_restored() {
            self.losses.restored(Rank(rank as u32), of);
        }
        if !state.remains.is_empty() && process.has_caught_up(rank) {
            state.remains.clear();
        }
    }

    /// Next lives whose events are complete begin. TICKET-2, TICKET-3
    fn begin_lives(&mut self, size: &Size) -> Result<bool, String> {
        let mut has_moved = false;
        while let Some(answers) = self.losses.next_answers() {
            self.begin(&answers, size)?;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn begin(&mut self, answers: &Answers, size: &Size) -> Result<(), String> {
        let rank = answers.rank.index();
        let mut held = answers.held.clone();
        if !size.has(Bug::OwnCarriersForgotten) {
            held.extend(own_answer(answers.rank, &self.ranks[rank].remains)?);
        }
        let collected = collected(&held)?;
        let state = &mut self.ranks[rank];
        let at = state.checkpoints[1].clone();
        let replay = matches(answers.rank, &collected, at.clock_before())?;
        let replay = replay.into_iter().map(|(_, matched)| matched).collect();
        let incarnation = Incarnation(state.incarnation.0 + 1);
        self.losses.joined(answers.rank);
        let events = Some((collected, replay));
        let mut process = Process::new(rank, size, incarnation, at, events);
        process.sent_before.clone_from(&state.sent);
        state.incarnation = incarnation;
        // It learns of the peers that live, and they learn of it.
        for peer in 0..self.ranks.len() {
            if let Some(other) = self.life(peer)
                && peer != rank
            {
                process.lanes[peer].peer = Some(other.incarnation);
                process.holdings_mut().connected(Rank(peer as u32));
                self.ranks[peer].news.push(News::Up(rank, incarnation));
            }
        }
        self.ranks[rank].life = Some(Box::new(process));
        Ok(())
    }

    /// Whether every program has ended and every message has left.
    pub(super) fn is_over(&self, size: &Size) -> bool {
        let mut each = self.ranks.iter().zip(&size.programs);
        each.all(|(state, program)| {
            state.life.as_deref().is_some_and(|process| {
                let mut lanes = process.lanes.iter();
                process.at.place == program.len() && lanes.all(|it| it.next >= it.marks.len())
            })
        })
    }
}

impl Said {
    /// A message leaves. REC-8
    fn says(
        &mut self,
        rank: usize,
        (to, number): (usize, usize),
        content: u64,
        before: &[(Clock, Matched)],
    ) -> Result<(), String> {
        match self.messages[to].get(number) {
            None => self.messages[to].push(content),
            Some(known) if *known == content => {}
            Some(_) => {
                return Err(format!(
                    "no orphan (REC-8): message {number} of rank {rank} to rank {to} differs from \
                     that of an earlier life"
                ));
            }
        }
        if before.len() > self.events.len() {
            self.events = before.to_vec();
        }
        Ok(())
    }
}

/// What the logs of a rank's lives hold of it: what they carried. CAUSAL-4
pub(super) fn own_answer(
    rank: Rank,
    carriers: &[Vec<u8>],
) -> Result<Option<(Rank, Vec<u8>)>, String> {
    if carriers.is_empty() {
        return Ok(None);
    }
    let mut left = LeftInLogs::default();
    for carrier in carriers {
        left.begin_log();
        left.take(carrier, None)?;
    }
    Ok(Some((rank, left.answer())))
}

/// What a later life has of these answers.
pub(super) fn collected(held: &[(Rank, Vec<u8>)]) -> Result<Collected, String> {
    let held = held.iter().map(|(holder, bytes)| (*holder, &**bytes));
    Collected::of(held).map_err(|error| error.to_string())
}

/// The matches among what was collected, after the clock of a checkpoint.
pub(super) fn matches(
    rank: Rank,
    collected: &Collected,
    after: Clock,
) -> Result<Vec<(Clock, Matched)>, String> {
    let batches = collected.sealed(JOB, rank);
    let batches = batches.iter().map(Vec::as_slice);
    let after = (after > Clock(0)).then_some(after);
    let all = determinants(rank, JOB, batches, after);
    let all = all.map_err(|error| format!("EL-5: rank {rank}: {error}"))?;
    let matched = |it: &Determinant| match it {
        Determinant::Match(it) => Some((it.at, it.matched)),
        _ => None,
    };
    Ok(all.iter().filter_map(matched).collect())
}
