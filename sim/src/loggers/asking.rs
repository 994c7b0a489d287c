//! Questions to loggers. First, of a logger that asks the other replicas for determinants that it
//! lacks: a thread of the real server does this with sockets (`server/catch_up.rs`), here it goes
//! step by step. Second, of a recovering rank: the real reading of per-rank event logs, from
//! loggers that answer at once.

use super::Loggers;
use super::host::FetchState;
use super::network::{Network, SessionId};
use crate::crash_point::CrashPoint;
use refrain_eventlog::client::read::{AnswerFault, Asks};
use refrain_eventlog::message::{ToClient, ToLogger};
use refrain_eventlog::server::host::{Fetched, Wanted};
use refrain_eventlog::server::inquiry::{Inquiry, Learned};
use refrain_wire::WireError;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum time for a replica's answer, in ticks.
const PATIENCE: u64 = 5000;
/// Number of rounds; a replica that fails is asked once in each.
const ROUNDS: usize = 4;
/// Time between two rounds, in ticks.
const PAUSE: u64 = 500;
/// Maximum number of pieces that wait for the logger.
const PIECES_HELD: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) logger: usize,
    wanted: Wanted,
    state: Rc<RefCell<FetchState>>,
    process: CrashPoint,
    /// Replicas to ask in this round.
    unasked: VecDeque<usize>,
    failed: VecDeque<usize>,
    round: usize,
    /// The replica that is being asked, the session, and the deadline of its answer in ticks.
    asked: Option<(usize, SessionId, u64)>,
    inquiry: Option<Inquiry>,
    paused_until: u64,
}

impl Fetching {
    pub(super) fn new(
        logger: usize,
        replicas: usize,
        wanted: Wanted,
        state: Rc<RefCell<FetchState>>,
        process: CrashPoint,
    ) -> Self {
        let others = (0..replicas).filter(|other| *other != logger);
        Self {
            logger,
            wanted,
            state,
            process,
            unasked: others.collect(),
            failed: VecDeque::new(),
            round: 1,
            asked: None,
            inquiry: None,
            paused_until: 0,
        }
    }

    /// Whether the logger no longer waits for the fetch, or all replicas have been asked.
    pub(super) fn is_over(&self) -> bool {
        let is_alone = Rc::strong_count(&self.state) == 1;
        self.process.is_dead() || is_alone || self.state.borrow().is_over
    }

    /// Ends the session under way.
    pub(super) fn end(&mut self, network: &mut Network) {
        if let Some((_, session, _)) = self.asked.take() {
            network.hang_up(session);
        }
    }

    /// Whether a step is possible now.
    pub(super) fn is_ready(&self, network: &Network, now: u64) -> bool {
        if self.state.borrow().said.len() >= PIECES_HELD {
            return false;
        }
        match self.asked {
            None => now >= self.paused_until,
            Some((_, session, until)) => {
                let has_heard = network.sessions.get(&session);
                now >= until
                    || has_heard
                        .is_none_or(|session| !session.at_caller.is_empty() || session.is_closed())
            }
        }
    }

    /// Sends one question or takes one answer.
    pub(super) fn step(&mut self, network: &mut Network, now: u64) {
        match self.asked {
            None => self.ask(network, now),
            Some((peer, session, until)) => self.hear(network, now, (peer, session, until)),
        }
    }

    fn say(&self, said: Fetched) {
        self.state.borrow_mut().said.push_back(said);
    }

    fn ask(&mut self, network: &mut Network, now: u64) {
        let Some(peer) = self.unasked.pop_front() else {
            if self.failed.is_empty() || self.round == ROUNDS {
                self.state.borrow_mut().is_over = true;
            } else {
                self.round += 1;
                self.unasked = core::mem::take(&mut self.failed);
                self.paused_until = now + PAUSE;
            }
            network.calls[self.logger] = true;
            return;
        };
        let (inquiry, question) = Inquiry::begin(self.wanted.clone());
        let session = network.call(peer, None, self.process.clone());
        match session {
            Some(session) => {
                self.process.act(|| network.say(session, question));
                self.inquiry = Some(inquiry);
                self.asked = Some((peer, session, now + PATIENCE));
            }
            None => self.fail(network, peer, "it is not there"),
        }
    }

    fn fail(&mut self, network: &mut Network, peer: usize, why: &str) {
        self.end(network);
        self.failed.push_back(peer);
        self.say(Fetched::Failed(format!("logger {peer}: {why}")));
        network.calls[self.logger] = true;
    }

    fn hear(
        &mut self,
        network: &mut Network,
        now: u64,
        (peer, session, until): (usize, SessionId, u64),
    ) {
        match network.hear(session) {
            Ok(Some(answer)) => {
                let taken = self.inquiry.as_mut().map(|inquiry| inquiry.take(answer));
                match taken.unwrap_or_else(|| Ok(Learned::default())) {
                    Ok(learned) => self.learn(network, now, (peer, session), learned),
                    Err(reason) => self.fail(network, peer, &reason),
                }
            }
            Ok(None) if now < until => {}
            Ok(None) => self.fail(network, peer, "it does not answer"),
            Err(()) => self.fail(network, peer, "its session has ended"),
        }
    }

    fn learn(
        &mut self,
        network: &mut Network,
        now: u64,
        (peer, session): (usize, SessionId),
        learned: Learned,
    ) {
        self.asked = Some((peer, session, now + PATIENCE));
        self.state.borrow_mut().said.extend(learned.said);
        if let Some(question) = learned.question {
            self.process.act(|| network.say(session, question));
        }
        if learned.is_whole {
            self.end(network);
        }
        network.calls[self.logger] = true;
    }
}

/// Maximum number of turns of a logger for one answer.
const TURNS_MAX: usize = 400;

/// A session with one logger, which gets all the turns that it needs.
pub(super) struct Question<'a> {
    loggers: &'a Loggers,
    logger: usize,
    session: SessionId,
}

impl<'a> Question<'a> {
    pub(super) fn begin(loggers: &'a Loggers, logger: usize) -> Result<Self, AnswerFault> {
        let session = loggers.call_as_nobody(logger);
        Ok(Self {
            loggers,
            logger,
            session: session.ok_or(WireError::Closed)?,
        })
    }
}

impl Asks for Question<'_> {
    fn ask(&mut self, question: &ToLogger) -> Result<(), AnswerFault> {
        let mut network = self.loggers.shared.shard.network.borrow_mut();
        match network.say(self.session, question.clone()) {
            true => {
                network.arrive_at_logger(self.session);
                Ok(())
            }
            false => Err(WireError::Closed.into()),
        }
    }

    fn answer(&mut self) -> Result<ToClient, AnswerFault> {
        for _ in 0..TURNS_MAX {
            let heard = {
                let mut network = self.loggers.shared.shard.network.borrow_mut();
                network.arrive_at_caller(self.session);
                network.hear(self.session)
            };
            match heard {
                Ok(Some(ToClient::Refused { reason })) => return Err(AnswerFault::Refused(reason)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => self.loggers.turn(self.logger),
                Err(()) => return Err(WireError::Closed.into()),
            }
        }
        Err(AnswerFault::Timeout(super::TICK * TURNS_MAX as u32))
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut network = self.loggers.shared.shard.network.borrow_mut();
        network.hang_up(self.session);
    }
}
