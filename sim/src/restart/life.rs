//! One life of a rank: the real engine, protocol and records, and how far its
//! program has come.

use super::desk::Desk;
use super::ghost::Ghost;
use super::size::{Bug, Operation, Size};
use super::wire::{Begun, Wire};
use crate::interposed::Interposed;
use crate::job::room::Room;
use refrain_logging::Member;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::row::determinants;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_logging::pessimist::Pessimist;
use refrain_rank::checkpoint::{Loaded, LogLoading, decode_engine};
use refrain_rank::past::Records;
use refrain_rank::protocol::Logging;
use refrain_ring::{Arena, CHUNK_BYTES, Clock, Incarnation, Rank};
use refrain_transport::engine::{
    Beginning, Engine, EngineOptions, Horizon, RequestId, SendTo, Started,
};
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{Address, Fabric};
use refrain_transport::matching::Pattern;
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// The job's number, in every batch.
pub(super) const JOB: u64 = 1;
/// Log memory of a rank.
pub(super) const LOG_BYTES: usize = 4 * CHUNK_BYTES;
/// Payload of one record, at most.
pub(super) const FRAGMENT_BYTES: usize = 64;
/// Bytes of a message of two records.
pub(super) const LONG_BYTES: usize = FRAGMENT_BYTES + 8;
/// Bytes of others.
const SHORT_BYTES: usize = 8;

/// Where a program is; all of it is in its checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub place: usize,
    /// What it was told, all of it.
    pub told: u64,
    /// Messages that it received, by source.
    pub given: Vec<u64>,
    /// Messages that it sent, by destination.
    pub sent: Vec<u64>,
}

/// A checkpoint.
#[derive(Clone, Debug, Hash)]
pub(super) struct Image {
    pub at: Position,
    /// The engine's part, as bytes.
    pub engine: Vec<u8>,
    /// Its log, as bytes, by destination.
    pub logs: Vec<Vec<u8>>,
}

/// A message that is being sent.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Sent {
    pub to: usize,
    pub ssn: u64,
    /// Its sender waits until it is matched.
    pub synchronous: bool,
}

/// What a rank waits for.
#[derive(Debug)]
pub(super) enum Doing {
    Nothing,
    Sending(RequestId, Room, Sent),
    Receiving {
        request: RequestId,
        room: Room,
        /// The clock at its post.
        clock: Clock,
        /// It names its source.
        is_named: bool,
    },
    /// A checkpoint that is not stable.
    Saving(Box<(Image, Horizon)>),
}

/// The engine of a life.
type LifeEngine = Engine<Logging<Desk>>;

/// See the [module](self).
pub(super) struct Life {
    // First: what is lent to it goes after it.
    pub engine: LifeEngine,
    pub rank: usize,
    pub incarnation: Incarnation,
    pub address: Address,
    pub desk: Desk,
    /// What it knew of lives before.
    pub records: Vec<Determinant>,
    pub begun: Begun,
    pub at: Position,
    pub doing: Doing,
    pub ghost: Rc<RefCell<Ghost>>,
    pub bug: Option<Bug>,
}

/// What a life begins with.
pub(super) struct Start<'a> {
    pub size: &'a Size,
    pub rank: usize,
    pub incarnation: Incarnation,
    pub image: Option<&'a Image>,
    /// Batches that are stable.
    pub row: &'a [Rc<[u8]>],
    pub ghost: &'a Rc<RefCell<Ghost>>,
    /// Lives that are there; by rank.
    pub peers: Vec<Option<(Incarnation, Address)>>,
}

impl Start<'_> {
    fn identity(&self) -> Identity {
        Identity {
            job: JOB,
            rank: Rank(self.rank as u32),
            incarnation: self.incarnation,
        }
    }

    fn bug(&self) -> Option<Bug> {
        self.size.bug
    }

    fn beginning(&self) -> Result<Option<Beginning>, String> {
        let Some(image) = self.image else {
            return Ok(None);
        };
        let (_, beginning) = decode_engine(&image.engine).map_err(|error| error.to_string())?;
        Ok(Some(beginning))
    }

    /// What is known of the lives before. REC-2
    fn records(&self, after: Option<Clock>) -> Result<Vec<Determinant>, String> {
        let batches = self.row.iter().map(|batch| &**batch);
        let found = determinants(Rank(self.rank as u32), JOB, batches, after);
        let mut found = found.map_err(|error| format!("REC-2: {error}"))?;
        if self.bug() == Some(Bug::RecordMissing) {
            found.pop();
        }
        Ok(found)
    }

    /// Where the determinants of this life begin.
    fn next_event(&self) -> EventIndex {
        let last = self.row.last().map(|batch| BatchHeader::read(batch));
        last.map_or(EventIndex(0), |read| {
            read.map_or(EventIndex(0), |(header, _)| header.end())
        })
    }

    /// Begins a life in a place of the network.
    pub fn begin(&self, (mut fabric, arena): (SimFabric, Arena)) -> Result<Life, String> {
        let ranks = self.size.programs.len();
        let own = Rank(self.rank as u32);
        let beginning = self.beginning()?;
        let begun = beginning.as_ref().map(|beginning| {
            let until =
                |delivered: &refrain_transport::engine::Delivered| delivered.until.program.0;
            beginning.delivered.iter().map(until).collect()
        });
        let begun: Begun = Rc::new(RefCell::new(begun.unwrap_or_else(|| vec![0; ranks])));
        let desk = Desk::default();
        desk.0.borrow_mut().stable = match self.bug() {
            Some(Bug::GateOpenLater) if self.incarnation > Incarnation(0) => EventIndex(u64::MAX),
            _ => self.next_event(),
        };
        let pessimist = Pessimist::new(self.identity(), self.next_event(), desk.clone());
        let address = fabric.address();
        let is_first = self.incarnation == Incarnation(0);
        for (peer, place) in (0..).zip(&self.peers) {
            if let (true, Some((incarnation, address))) = (is_first, place) {
                let connected = fabric.connect(Rank(peer), *incarnation, address);
                connected.map_err(|error| error.to_string())?;
            }
        }
        let between = Wire {
            ghost: Rc::clone(self.ghost),
            begun: Rc::clone(&begun),
            bug: self.bug(),
        };
        let wire = Interposed {
            end: fabric,
            between,
        };
        let options = EngineOptions {
            rank: own,
            incarnation: self.incarnation,
            size: ranks as u32,
            window_bytes: LOG_BYTES as u64,
        };
        let protocol = Logging::new(Member::Pessimist, Some(pessimist));
        let mut engine = Engine::new(options, arena, Box::new(wire), protocol);
        let after = beginning.as_ref().map(|beginning| beginning.clock);
        let records = self.records(after)?;
        if let (Some(beginning), Some(image)) = (beginning, self.image) {
            engine = self.restore(engine, beginning, image)?;
        }
        if !is_first {
            let past = Records::new(&records).map_err(|error| error.to_string())?;
            engine = engine.with_past(Box::new(past));
            for (peer, place) in (0..).map(Rank).zip(&self.peers) {
                if let Some((incarnation, address)) = place {
                    let connected = engine.connect(peer, *incarnation, address);
                    connected.map_err(|error| error.to_string())?;
                }
            }
        }
        let start = Position {
            given: vec![0; ranks],
            sent: vec![0; ranks],
            ..Position::default()
        };
        Ok(Life {
            engine,
            rank: self.rank,
            incarnation: self.incarnation,
            address,
            desk,
            records,
            begun,
            at: self.image.map_or(start, |image| image.at.clone()),
            doing: Doing::Nothing,
            ghost: Rc::clone(self.ghost),
            bug: self.bug(),
        })
    }

    /// LOG-5
    fn restore(
        &self,
        engine: LifeEngine,
        beginning: Beginning,
        image: &Image,
    ) -> Result<LifeEngine, String> {
        let own = Rank(self.rank as u32);
        let until = beginning.next.clone();
        let mut engine = engine.with_beginning(beginning);
        for (to, log) in (0..).map(Rank).zip(&image.logs) {
            if to == own || self.bug() == Some(Bug::LogNotSaved) {
                continue;
            }
            let from = &mut &log[..];
            let broken = |error: refrain_rank::checkpoint::LoadError| error.to_string();
            let mut loading =
                LogLoading::begin(from, (own, to), &until[to.index()]).map_err(broken)?;
            while loading.step(&mut engine, from).map_err(broken)? != Loaded::Done {}
        }
        Ok(engine)
    }
}

impl Life {
    /// All that moves without anybody else.
    pub fn flow(&mut self, size: &Size) -> Result<(), String> {
        // The second time shows that the first has left nothing.
        let mut idle = 0;
        while idle < 2 {
            let arrived = self.engine.progress();
            let arrived = arrived.map_err(|error| format!("rank {}: {error}", self.rank))?;
            let has_moved = self.step(size)?;
            idle = match arrived || has_moved {
                true => 0,
                false => idle + 1,
            };
        }
        let broken = self.ghost.borrow().broken.clone();
        broken.map_or(Ok(()), Err)
    }

    /// Whether its program is over.
    pub fn is_through(&self, size: &Size) -> bool {
        self.at.place == size.programs[self.rank].len()
    }

    /// Goes on with the program, if it can; whether it could.
    fn step(&mut self, size: &Size) -> Result<bool, String> {
        match core::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Sending(id, room, sent) => return self.end_send(id, room, sent),
            doing @ Doing::Receiving { .. } => return self.end_receive(doing),
            doing @ Doing::Saving(_) => {
                self.doing = doing;
                return Ok(false);
            }
        }
        let Some(operation) = size.programs[self.rank].get(self.at.place) else {
            return Ok(false);
        };
        match *operation {
            Operation::Send(to) => self.send(to, SHORT_BYTES, false),
            Operation::SendLong(to) => self.send(to, LONG_BYTES, false),
            Operation::SendMatched(to) => self.send(to, SHORT_BYTES, true),
            Operation::Any => Ok(self.receive(None)),
            Operation::From(source) => Ok(self.receive(Some(source))),
            Operation::Checkpoint => self.checkpoint(),
        }
    }

    /// What it sends depends on everything that it was told.
    fn send(&mut self, to: usize, bytes: usize, synchronous: bool) -> Result<bool, String> {
        let ssn = self.at.sent[to];
        let word = |nth: usize| mixed(&(self.rank, to, ssn, self.at.told, nth)).to_le_bytes();
        let content: Vec<u8> = (0..bytes / 8).flat_map(word).collect();
        let room = Room::holding(&content);
        let sent = Sent {
            to,
            ssn,
            synchronous,
        };
        let to = SendTo {
            rank: Rank(to as u32),
            context: 0,
            tag: 0,
            synchronous,
        };
        match self.engine.start_send(room.to_send(), to) {
            Ok(Started::Done(_)) => self.sent(sent),
            Ok(Started::Pending(id)) => self.doing = Doing::Sending(id, room, sent),
            Err(error) => return Err(format!("rank {}: {error}", self.rank)),
        }
        Ok(true)
    }

    fn end_send(&mut self, id: RequestId, room: Room, sent: Sent) -> Result<bool, String> {
        if self.engine.outcome(id).is_none() {
            self.doing = Doing::Sending(id, room, sent);
            return Ok(false);
        }
        self.engine.retire(id);
        self.check_sent(sent)?;
        self.sent(sent);
        Ok(true)
    }

    fn sent(&mut self, sent: Sent) {
        self.engine.operation_ended();
        self.at.sent[sent.to] += 1;
        self.at.place += 1;
    }

    fn receive(&mut self, source: Option<usize>) -> bool {
        if let Some(source) = source {
            let nth = self.at.given[source];
            self.ghost.borrow_mut().reach(self.rank, source, nth);
        }
        let room = Room::empty(LONG_BYTES);
        let pattern = Pattern {
            context: 0,
            source: source.map(|source| Rank(source as u32)),
            tag: Some(0),
        };
        let request = self.engine.start_receive(room.to_receive(), pattern);
        self.doing = Doing::Receiving {
            request,
            room,
            clock: self.engine.now(),
            is_named: source.is_some(),
        };
        true
    }

    fn end_receive(&mut self, doing: Doing) -> Result<bool, String> {
        let Doing::Receiving {
            request,
            ref room,
            clock,
            is_named,
        } = doing
        else {
            return Ok(false);
        };
        let Some(outcome) = self.engine.outcome(request) else {
            self.doing = doing;
            return Ok(false);
        };
        self.engine.retire(request);
        self.engine.operation_ended();
        let source = outcome.status.source.index();
        let content = room.read(outcome.status.bytes as usize);
        self.check_received(source, &content, (!is_named).then_some(clock))?;
        self.at.given[source] += 1;
        self.at.told = mixed(&(self.at.told, source, content));
        self.at.place += 1;
        Ok(true)
    }

    /// A life that plays its past takes none.
    fn checkpoint(&mut self) -> Result<bool, String> {
        if self.engine.is_replaying() {
            self.at.place += 1;
            return Ok(true);
        }
        let Some((image, horizon)) = self.take()? else {
            return Ok(false);
        };
        if self.bug == Some(Bug::PublishedEarly) {
            self.engine.publish(&horizon);
        }
        self.doing = Doing::Saving(Box::new((image, horizon)));
        Ok(true)
    }

    /// The checkpoint is stable: tells so. GC-1
    pub fn saved(&mut self) -> Option<Image> {
        let Doing::Saving(saving) = core::mem::replace(&mut self.doing, Doing::Nothing) else {
            return None;
        };
        let (image, horizon) = *saving;
        self.engine.publish(&horizon);
        self.at.place += 1;
        Some(image)
    }
}

/// A number that stands for all of this.
pub(super) fn mixed(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
