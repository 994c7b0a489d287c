//! Messages, in order, and one-sided writes between clients and loggers. The job's seed decides
//! what arrives next.

use super::ledger::{Ledger, batches_in};
use crate::crash_point::CrashPoint;
use crate::happening::Life;
use crate::planted::Planted;
use fastrand::Rng;
use refrain_eventlog::message::{ToClient, ToLogger};
use refrain_eventlog::ring::{LINE_BYTES, RingIdentity, RingMemory};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES};
use refrain_ring::Incarnation;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The provider takes in a write once in this many questions of loggers.
const ASKED_IN_VAIN: u64 = 3;

/// The number of a session; ascending.
pub(super) type SessionId = u64;

/// A session with a logger, of a client or of another logger.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) logger: usize,
    /// The life of the client; `None`: a reader of per-rank event logs.
    pub(super) life: Option<Life>,
    pub(super) caller: CrashPoint,
    /// Messages under way.
    to_logger: VecDeque<ToLogger>,
    to_caller: VecDeque<ToClient>,
    /// Messages that have arrived.
    pub(super) at_logger: VecDeque<ToLogger>,
    pub(super) at_caller: VecDeque<ToClient>,
    /// Whether the caller sends no more; its messages may still arrive.
    caller_closed: bool,
    /// Whether the logger sends no more.
    logger_closed: bool,
    /// The number of the connection at the logger, once the logger has accepted it.
    pub(super) connection: Option<u64>,
    /// The batch that was sent last, for [`Planted::AckUnchecked`].
    last_sent: Option<BatchHeader>,
}

impl Session {
    /// Whether no more messages will arrive for the caller.
    pub(super) fn is_closed(&self) -> bool {
        self.logger_closed && self.to_caller.is_empty()
    }
}

/// The next arrival of a message or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A message reaches the logger.
    AtLogger(SessionId),
    /// A message reaches the caller.
    AtCaller(SessionId),
    /// A part of a one-sided write reaches memory.
    Landing(usize),
}

/// A one-sided write under way.
#[derive(Debug)]
struct Flight {
    key: u64,
    offset: usize,
    bytes: Vec<u8>,
    landed: usize,
    token: u64,
    port: Rc<RefCell<PortState>>,
    caller: CrashPoint,
    /// Whether the writer is gone: the write may still arrive, completely, in part or not at all.
    is_orphan: bool,
}

/// The state of a client's writes.
#[derive(Debug, Default)]
pub(super) struct PortState {
    pub(super) completed: Vec<u64>,
    /// Whether the outcome of the writes under way is unknown.
    pub(super) is_broken: bool,
}

/// Memory that clients write with its key.
#[derive(Debug)]
struct Target {
    logger: usize,
    memory: RingMemory,
    identity: RingIdentity,
}

/// Everything under way.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    next_session: SessionId,
    flights: Vec<Flight>,
    targets: BTreeMap<u64, Target>,
    next_key: u64,
    ledger: Ledger,
    pub(super) level: Level,
    pub(super) bug: Option<Planted>,
    /// Number of times that loggers asked whether they may sleep.
    asked: u64,
    /// By logger: whether it needs a turn, because something has arrived.
    pub(super) calls: Vec<bool>,
    pub(super) lives: Vec<bool>,
}

impl Network {
    pub(super) fn new(replicas: usize, level: Level, ledger: Ledger) -> Self {
        Self {
            sessions: BTreeMap::new(),
            next_session: 0,
            flights: Vec::new(),
            targets: BTreeMap::new(),
            next_key: 1,
            ledger,
            level,
            bug: None,
            asked: 0,
            calls: vec![false; replicas],
            lives: vec![true; replicas],
        }
    }

    /// Begins a session with a logger, if the logger is alive.
    pub(super) fn call(
        &mut self,
        logger: usize,
        life: Option<Life>,
        caller: CrashPoint,
    ) -> Option<SessionId> {
        if !self.lives[logger] {
            return None;
        }
        let id = self.next_session;
        self.next_session += 1;
        let session = Session {
            logger,
            life,
            caller,
            to_logger: VecDeque::new(),
            to_caller: VecDeque::new(),
            at_logger: VecDeque::new(),
            at_caller: VecDeque::new(),
            caller_closed: false,
            logger_closed: false,
            connection: None,
            last_sent: None,
        };
        self.sessions.insert(id, session);
        self.calls[logger] = true;
        Some(id)
    }

    /// A caller sends a message; false: the session has ended.
    pub(super) fn say(&mut self, id: SessionId, message: ToLogger) -> bool {
        let Some(session) = self
            .sessions
            .get_mut(&id)
            .filter(|session| !session.logger_closed)
        else {
            return false;
        };
        if let ToLogger::Commit { batch } = &message {
            session.last_sent = BatchHeader::peek(batch).ok();
        }
        session.to_logger.push_back(message);
        true
    }

    /// The next message that has arrived for a caller; `Err`: the session has ended.
    pub(super) fn hear(&mut self, id: SessionId) -> Result<Option<ToClient>, ()> {
        let session = self.sessions.get_mut(&id).ok_or(())?;
        match session.at_caller.pop_front() {
            Some(message) if self.bug == Some(Planted::AckUnchecked) => {
                let forged = session.last_sent.and_then(|last| forged(&message, &last));
                Ok(Some(forged.unwrap_or(message)))
            }
            Some(message) => Ok(Some(message)),
            None if session.is_closed() => Err(()),
            None => Ok(None),
        }
    }

    /// Number of messages of a caller that the logger has not taken.
    pub(super) fn backlog(&self, id: SessionId) -> usize {
        let session = self.sessions.get(&id);
        session.map_or(0, |session| {
            session.to_logger.len() + session.at_logger.len()
        })
    }

    /// The caller ends its session.
    pub(super) fn hang_up(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.caller_closed = true;
            self.calls[session.logger] = true;
        }
        self.forget(id);
    }

    /// A logger sends a message.
    pub(super) fn answer(&mut self, id: SessionId, message: ToClient) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.to_caller.push_back(message);
        }
    }

    /// The logger ends a session.
    pub(super) fn close(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.logger_closed = true;
            session.to_logger.clear();
            session.at_logger.clear();
        }
        self.forget(id);
    }

    fn forget(&mut self, id: SessionId) {
        let is_over = |session: &Session| session.logger_closed && session.caller_closed;
        if self.sessions.get(&id).is_some_and(is_over) {
            self.sessions.remove(&id);
        }
    }

    /// Whether the caller has ended the session and all its messages were taken.
    pub(super) fn is_ended(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| {
            session.caller_closed && session.to_logger.is_empty() && session.at_logger.is_empty()
        })
    }

    /// Lets clients write into a ring; returns the key.
    pub(super) fn register(
        &mut self,
        logger: usize,
        memory: RingMemory,
        identity: RingIdentity,
    ) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        let target = Target {
            logger,
            memory,
            identity,
        };
        self.targets.insert(key, target);
        key
    }

    /// The memory with this key cannot be written any more. FENCE-1
    pub(super) fn revoke(&mut self, key: u64) {
        if self.bug != Some(Planted::LoggerFenceForgotten) {
            self.targets.remove(&key);
        }
    }

    /// Begins a one-sided write.
    pub(super) fn write(
        &mut self,
        (key, offset, token): (u64, usize, u64),
        bytes: Vec<u8>,
        port: &Rc<RefCell<PortState>>,
        caller: &CrashPoint,
    ) {
        if self.bug == Some(Planted::AckEarly) && self.level == Level::Placed {
            port.borrow_mut().completed.push(token);
        }
        self.flights.push(Flight {
            key,
            offset,
            bytes,
            landed: 0,
            token,
            port: port.clone(),
            caller: caller.clone(),
            is_orphan: false,
        });
    }

    /// A logger's process died: its sessions end, and its memory can no longer be written.
    pub(super) fn logger_died(&mut self, logger: usize) {
        self.lives[logger] = false;
        let sessions = self
            .sessions
            .iter()
            .filter(|(_, session)| session.logger == logger);
        for id in sessions.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id);
        }
        self.targets.retain(|_, target| target.logger != logger);
    }

    /// The connections of a life break: messages under way arrive in part.
    pub(super) fn disconnect(&mut self, rng: &mut Rng, life: Life) {
        let meant = self
            .sessions
            .iter()
            .filter(|(_, session)| session.life == Some(life));
        let meant: Vec<SessionId> = meant.map(|(id, _)| *id).collect();
        let mut callers = Vec::new();
        for id in meant {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let arrives = rng.usize(0..=session.to_logger.len());
            session.at_logger.extend(session.to_logger.drain(..arrives));
            session.to_logger.clear();
            session.to_caller.clear();
            session.caller_closed = true;
            session.logger_closed = true;
            self.calls[session.logger] = true;
            callers.push(session.caller.clone());
            if session.connection.is_none() {
                self.sessions.remove(&id);
            }
        }
        self.orphan(rng, |caller| callers.iter().any(|it| it.is_same(caller)));
    }

    /// The completions of one-sided writes are lost; the writes may still land.
    pub(super) fn orphan(&mut self, rng: &mut Rng, is_meant: impl Fn(&CrashPoint) -> bool) {
        self.flights.retain_mut(|flight| {
            if flight.is_orphan || !is_meant(&flight.caller) {
                return true;
            }
            flight.port.borrow_mut().is_broken = true;
            flight.is_orphan = true;
            rng.u8(0..3) > 0
        });
    }

    /// Ends the sessions and orphans the writes of callers that have died.
    pub(super) fn bury(&mut self, rng: &mut Rng) {
        let dead: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.caller_closed && session.caller.is_dead())
            .map(|(id, _)| *id)
            .collect();
        for id in dead {
            self.hang_up(id);
        }
        if self
            .flights
            .iter()
            .any(|flight| !flight.is_orphan && flight.caller.is_dead())
        {
            self.orphan(rng, CrashPoint::is_dead);
        }
    }

    /// All possible next arrivals.
    pub(super) fn arrivals(&self, mut each: impl FnMut(Arrival)) {
        for (&id, session) in &self.sessions {
            if !session.to_logger.is_empty() {
                each(Arrival::AtLogger(id));
            }
            if !session.to_caller.is_empty() && !session.caller_closed {
                each(Arrival::AtCaller(id));
            }
        }
        // Each of the oldest writes may overtake the others.
        for index in 0..self.flights.len().min(4) {
            each(Arrival::Landing(index));
        }
    }

    /// Carries out an arrival.
    pub(super) fn arrive(&mut self, arrival: Arrival, rng: &mut Rng) {
        match arrival {
            Arrival::AtLogger(id) => self.arrive_at_logger(id),
            Arrival::AtCaller(id) => self.arrive_at_caller(id),
            Arrival::Landing(index) => self.land(index, rng),
        }
    }

    pub(super) fn arrive_at_caller(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.at_caller.extend(session.to_caller.pop_front());
        }
    }

    pub(super) fn arrive_at_logger(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(message) = session.to_logger.pop_front() else {
            return;
        };
        self.calls[session.logger] = true;
        if self.bug == Some(Planted::AckEarly)
            && let ToLogger::Commit { batch } = &message
            && let Ok(header) = BatchHeader::peek(batch)
        {
            let ack = ToClient::Stable {
                logger: LoggerId(session.logger as u32),
                rank: 0,
                incarnation: 0,
                clock: 0,
                end: 0,
                level: self.level,
            };
            session.to_caller.extend(forged(&ack, &header));
        }
        session.at_logger.push_back(message);
        if self.bug == Some(Planted::LoggerFenceForgotten) {
            self.take_for_latest(id);
        }
    }

    /// Planted: a batch of a dead life goes through the session of the latest life.
    fn take_for_latest(&mut self, id: SessionId) {
        let Some(&Session {
            logger,
            life: Some(life),
            ..
        }) = self.sessions.get(&id)
        else {
            return;
        };
        let later = self.sessions.iter().filter_map(|(id, other)| {
            let its = other.life.filter(|_| other.logger == logger)?;
            let is_later = its.rank == life.rank && its.incarnation > life.incarnation;
            is_later.then_some((its.incarnation, *id))
        });
        let Some((incarnation, latest)) = later.max() else {
            return;
        };
        let is_commit = |it: &mut ToLogger| matches!(it, ToLogger::Commit { .. });
        let dead = self.sessions.get_mut(&id);
        let taken = dead.and_then(|dead| dead.at_logger.pop_back_if(is_commit));
        if let Some(ToLogger::Commit { batch }) = taken
            && let Some(batch) = of_life(&batch, incarnation)
            && let Some(latest) = self.sessions.get_mut(&latest)
        {
            latest.at_logger.push_back(ToLogger::Commit { batch });
        }
    }

    /// The logger asks its provider whether it may sleep, and the provider takes in a write without
    /// a notice to the logger. Only sometimes: most writes land on their own. At level `placed` no
    /// client would wait for the logger until a ring is full.
    pub(super) fn take_in_unseen(&mut self, logger: usize) {
        if self.level == Level::Placed {
            return;
        }
        self.asked += 1;
        let is_its = |flight: &Flight| {
            let target = self.targets.get(&flight.key);
            target.is_some_and(|target| target.logger == logger)
        };
        let index = self.flights.iter().position(is_its);
        if let Some(index) = index.filter(|_| self.asked.is_multiple_of(ASKED_IN_VAIN)) {
            let is_called = self.calls[logger];
            self.land_lines(index, usize::MAX, || false);
            self.calls[logger] = is_called;
        }
    }

    /// Some or all of the remaining lines of a write reach memory; the last ones complete it.
    fn land(&mut self, index: usize, rng: &mut Rng) {
        let flight = &self.flights[index];
        if !self.targets.contains_key(&flight.key) {
            // FENCE-1: the key is revoked.
            flight.port.borrow_mut().is_broken = true;
            self.flights.remove(index);
            return;
        }
        let left = flight.bytes.len() - flight.landed;
        let lines = left.div_ceil(LINE_BYTES);
        let lands = match rng.u8(0..3) {
            0 => rng.usize(1..=lines),
            _ => lines,
        };
        self.land_lines(index, lands, || rng.bool());
    }

    /// Lands lines of a write. `stops`: whether an orphaned write ends there.
    fn land_lines(&mut self, index: usize, lines: usize, stops: impl FnOnce() -> bool) {
        let flight = &self.flights[index];
        let landed_bytes = lines.saturating_mul(LINE_BYTES);
        let end = flight.landed.saturating_add(landed_bytes);
        let end = end.min(flight.bytes.len());
        let bytes = match (self.bug, flight.is_orphan) {
            (Some(Planted::LoggerFenceForgotten), true) => self.for_latest(index),
            _ => None,
        };
        let flight = &mut self.flights[index];
        let Some(target) = self
            .targets
            .get(&bytes.as_ref().map_or(flight.key, |it| it.0))
        else {
            return;
        };
        if let Some((_, bytes)) = bytes {
            flight.bytes = bytes;
        }
        let part = &flight.bytes[flight.landed..end];
        target.memory.write(flight.offset + flight.landed, part);
        self.calls[target.logger] = true;
        flight.landed = end;
        if self.bug == Some(Planted::TornAccepted) {
            seal_torn(&target.memory, flight.offset);
        }
        let is_over = end == flight.bytes.len();
        if is_over {
            if self.level == Level::Placed {
                let headers = batches_in(&flight.bytes);
                self.ledger.holds_in_ring(target.logger, &headers);
            }
            flight.port.borrow_mut().completed.push(flight.token);
        }
        // An orphaned write may end anywhere.
        if is_over || flight.is_orphan && stops() {
            self.flights.remove(index);
        }
    }

    /// Planted: the batch of a dead life, changed to one of the latest, and the latest life's key.
    fn for_latest(&self, index: usize) -> Option<(u64, Vec<u8>)> {
        let flight = &self.flights[index];
        let old = self.targets.get(&flight.key)?;
        let is_later = |other: &Target| {
            other.logger == old.logger
                && other.identity.rank == old.identity.rank
                && other.identity.incarnation > old.identity.incarnation
        };
        let (&key, latest) = self.targets.iter().rfind(|(_, target)| is_later(target))?;
        let batch = of_life(&flight.bytes, latest.identity.incarnation)?;
        Some((key, batch))
    }
}

/// Planted: gives the bytes there, complete or not, a correct checksum.
fn seal_torn(memory: &RingMemory, offset: usize) {
    let mut batch = vec![0; BATCH_BYTES_MAX];
    memory.read(offset, &mut batch[..HEADER_BYTES]);
    if let Ok(header) = BatchHeader::peek(&batch) {
        let bytes = header.batch_bytes();
        memory.read(offset, &mut batch[..bytes]);
        header.seal(&mut batch);
        memory.write(offset, &batch[..bytes]);
    }
}

/// A copy of an acknowledgement with the fields of this batch.
fn forged(ack: &ToClient, batch: &BatchHeader) -> Option<ToClient> {
    let ToClient::Stable { logger, level, .. } = ack else {
        return None;
    };
    Some(ToClient::Stable {
        logger: *logger,
        rank: batch.rank.0,
        incarnation: batch.incarnation.0,
        clock: batch.last_clock.0,
        end: batch.end().0,
        level: *level,
    })
}

/// A copy of the batch with another incarnation.
fn of_life(batch: &[u8], incarnation: Incarnation) -> Option<Vec<u8>> {
    let (mut header, _) = BatchHeader::read(batch).ok()?;
    header.incarnation = incarnation;
    let mut changed = batch[..header.batch_bytes()].to_vec();
    header.seal(&mut changed);
    Some(changed)
}
