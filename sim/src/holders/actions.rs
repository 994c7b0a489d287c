//! The actions of the model: which are possible, and what each does.

use super::process::Process;
use super::size::{Bug, Size};
use super::world::{News, World};
use crate::model::Operation;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Incarnation, Rank};

/// A step of the model that the explorer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A receive from any rank gets a message of `source`.
    Match { rank: usize, source: usize },
    /// The next message arrives, behind its carrier.
    Deliver { from: usize, to: usize },
    /// The next piece of the control lane arrives.
    Hear { from: usize, to: usize },
    /// A rank is idle, and confirms what was carried to it.
    Idle(usize),
    /// A rank handles the first news of another.
    Tell { rank: usize, of: usize },
    /// A rank dies.
    Die(usize),
}

impl World {
    pub(super) fn actions(&self, size: &Size) -> Vec<Action> {
        let mut all = Vec::new();
        let ranks = 0..self.ranks.len();
        for rank in ranks.clone() {
            let Some(process) = self.life(rank) else {
                continue;
            };
            let operation = size.programs[rank].get(process.at.place);
            if operation == Some(&Operation::Any) && process.replay.is_empty() {
                let is_here = |source: &usize| process.next_of(*source).is_some();
                let sources = ranks.clone().filter(is_here);
                all.extend(sources.map(|source| Action::Match { rank, source }));
            }
            for from in ranks.clone() {
                let arrives = |life| self.arrives(from, rank, life);
                if self.data[from][rank]
                    .front()
                    .is_some_and(|it| arrives(it.from))
                {
                    all.push(Action::Deliver { from, to: rank });
                }
                if self.control[from][rank]
                    .front()
                    .is_some_and(|it| arrives(it.from))
                {
                    all.push(Action::Hear { from, to: rank });
                }
                if self.ranks[rank].news.iter().any(|news| news.of() == from) {
                    all.push(Action::Tell { rank, of: from });
                }
            }
            if Process::carries(size) {
                all.push(Action::Idle(rank));
            }
            if self.may_die(rank) {
                all.push(Action::Die(rank));
            }
        }
        all
    }

    /// Whether the job goes on after a death of this rank now. TICKET-4
    pub(super) fn may_die(&self, rank: usize) -> bool {
        let mut losses = self.losses.clone();
        let incarnation = self.ranks[rank].incarnation;
        self.deaths > 0 && losses.died(Rank(rank as u32), incarnation, []).is_ok()
    }

    pub(super) fn act(&mut self, action: Action, size: &Size) -> Result<(), String> {
        match action {
            Action::Match { rank, source } => {
                let process = self.alive(rank);
                if let Some(matched) = process.next_of(source) {
                    process.matched(source, matched, true);
                }
            }
            Action::Deliver { from, to } => self.receive(from, to)?,
            Action::Hear { from, to } => {
                let piece = self.control[from][to]
                    .pop_front()
                    .ok_or("nothing arrives")?;
                let process = self.alive(to);
                let heard = process
                    .holdings_mut()
                    .hear(Rank(from as u32), &piece.content);
                heard.map_err(|why| format!("TICKET-1: a piece cannot be read: {why}"))?;
            }
            Action::Idle(rank) => self.alive(rank).holdings_mut().idle(),
            Action::Tell { rank, of } => self.tell(rank, of, size),
            Action::Die(rank) => self.die(rank, size),
        }
        Ok(())
    }

    fn alive(&mut self, rank: usize) -> &mut Process {
        let life = self.ranks[rank].life.as_deref_mut();
        life.expect("only the living act")
    }

    fn tell(&mut self, rank: usize, of: usize, size: &Size) {
        let news = &mut self.ranks[rank].news;
        let Some(first) = news.iter().position(|news| news.of() == of) else {
            return;
        };
        match news.remove(first) {
            News::Down(_, life) => self.fence(rank, of, life, size),
            News::Up(_, life) => {
                if size.has(Bug::HoldersForgotten) {
                    self.alive(rank).holdings_mut().fenced(Rank(of as u32));
                }
                self.connect(rank, of, life);
            }
        }
    }

    /// FENCE-1, TICKET-2, TICKET-4
    fn fence(&mut self, rank: usize, of: usize, life: Incarnation, size: &Size) {
        let dead = (Rank(of as u32), life);
        self.data[of][rank].retain(|frame| frame.from > life);
        self.control[of][rank].retain(|frame| frame.from > life);
        let process = self.alive(rank);
        process.lanes[of].close();
        if !size.has(Bug::HoldersForgotten) {
            process.holdings_mut().fenced(dead.0);
        }
        let answer = process.holdings().answer(dead.0);
        process.holdings_mut().note_death(dead.0, life);
        self.losses.held(Rank(rank as u32), dead, &answer, true);
    }

    /// Two ranks are connected, and each tells where the other's lane begins. REC-3
    fn connect(&mut self, rank: usize, of: usize, life: Incarnation) {
        let is_there = self.life(of).is_some_and(|it| it.incarnation == life);
        let process = self.alive(rank);
        process.lanes[of].peer = Some(life);
        process.holdings_mut().connected(Rank(of as u32));
        if !is_there {
            return;
        }
        let own = process.incarnation;
        let (here, there) = (self.arrived(rank, of), self.arrived(of, rank));
        self.open(rank, of, there);
        let is_connected = self
            .life(of)
            .is_some_and(|it| it.lanes[rank].peer == Some(own));
        if is_connected {
            self.open(of, rank, here);
        }
    }

    fn arrived(&self, at: usize, from: usize) -> usize {
        self.life(at)
            .map_or(0, |process| process.arrived[from].len())
    }

    /// The lane to a peer begins with the first message that has not arrived there.
    fn open(&mut self, rank: usize, to: usize, next: usize) {
        let lane = &mut self.alive(rank).lanes[to];
        (lane.is_open, lane.next, lane.is_live) = (true, next, false);
        // What has arrived was published.
        lane.published = lane.published.max(next);
    }

    fn die(&mut self, rank: usize, size: &Size) {
        self.deaths -= 1;
        let state = &mut self.ranks[rank];
        let Some(process) = state.life.take() else {
            return;
        };
        state.remains.extend(process.carriers);
        for (before, sent) in state.sent.iter_mut().zip(&process.at.sent) {
            *before = sent.len().max(*before);
        }
        state.news.clear();
        let dead = (Rank(rank as u32), process.incarnation);
        let mut survivors = Vec::new();
        for other in 0..self.ranks.len() {
            self.data[other][rank].clear();
            self.control[other][rank].clear();
            if self.life(other).is_some() {
                survivors.push(Rank(other as u32));
                self.ranks[other].news.push(News::Down(rank, dead.1));
            }
        }
        let died = self.losses.died(dead.0, dead.1, survivors.iter().copied());
        debug_assert!(died.is_ok(), "it may die");
        self.losses.asked(dead.0);
        if size.has(Bug::RestoredAtOnce) {
            for survivor in survivors {
                self.losses.restored(survivor, dead);
            }
        }
    }
}
