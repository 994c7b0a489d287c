//! The calls of one program on a real engine, one at a time: requests, their memory, and the
//! answers.

use super::collectives::{Collectives, Lent};
use super::rank::SimEngine;
use super::room::Room;
use crate::collective::Collective;
use crate::happening::Life;
use crate::planted::Planted;
use crate::program::{Answer, Call, Ended, Found, From, RequestNumber, TakenNumber};
use fastrand::Rng;
use refrain_rank::calls::{self, Answer as Told, Handle, Handles, NoAnswer};
use refrain_rank::collective::{Covers, Whole, WholePart};
use refrain_ring::Clock;
use refrain_transport::engine::{EngineError, Matched, Outcome, SendTo, Status};
use refrain_transport::matching::Pattern;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

const CONTEXT: u32 = 0;

/// The state of a program's requests outside its engine.
#[derive(Debug)]
pub struct Caller {
    /// All requests that the program has begun, by number; `None` once ended.
    requests: Vec<Option<Request>>,
    taken: Vec<Option<Matched>>,
    /// The request of a blocking receive.
    receiving: Option<RequestNumber>,
    collectives: Collectives,
    /// Values from outside; they differ between lives.
    fresh: Fresh,
}

/// Numbers and bytes from outside.
#[derive(Debug)]
struct Fresh {
    chance: Rng,
    last: i64,
}

impl Fresh {
    /// A number above the previous one, as times are.
    fn number(&mut self) -> i64 {
        self.last += self.chance.i64(1..1 << 30);
        self.last
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.chance.u8(..)).collect()
    }
}

fn pattern(from: From) -> Pattern {
    Pattern {
        context: CONTEXT,
        source: from.source,
        tag: from.tag,
    }
}

fn found(status: Status) -> Found {
    Found {
        source: status.source,
        tag: status.tag,
        bytes: status.bytes,
    }
}

impl Caller {
    /// For a life whose program has made `requests` requests and taken `taken` messages in earlier
    /// lives; none of them is open. No other life gets the same values from outside.
    pub fn new(
        life: Life,
        requests: u32,
        taken: u32,
        planted: Option<Planted>,
        whole: Option<Whole>,
    ) -> Self {
        let seed = u64::from(life.rank.0) << 32 | u64::from(life.incarnation.0);
        Self {
            requests: (0..requests).map(|_| None).collect(),
            taken: (0..taken).map(|_| None).collect(),
            receiving: None,
            collectives: Collectives::new(planted, whole),
            fresh: Fresh {
                chance: Rng::with_seed(seed),
                last: 0,
            },
        }
    }

    /// Hashes the open requests and the contents of their memory.
    pub fn hash_into(&self, hash: &mut impl Hasher) {
        (self.requests.len(), self.taken.len(), self.receiving).hash(hash);
        for (number, request) in self.requests.iter().enumerate() {
            if let Some(request) = request {
                (number, request.memory.room().read(usize::MAX)).hash(hash);
            }
        }
    }

    /// Progress of the engine and of collectives.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn progress(&mut self, engine: &mut SimEngine) -> Result<bool, EngineError> {
        let moved = engine.progress()?;
        self.collectives.advance(engine)?;
        if self.collectives.planted == Some(Planted::StreamBackEarly) {
            self.give_streams_back(engine);
        }
        Ok(moved)
    }

    /// Ends the requests of collectives before the program sees their ends, as a planted bug does.
    fn give_streams_back(&mut self, engine: &mut SimEngine) {
        for Request { handle, memory } in self.requests.iter_mut().flatten() {
            if let Memory::Collective(lent, _) = memory
                && handle.id().is_some()
                && let Some(outcome) = calls::try_wait(engine, handle)
            {
                *handle = Handle::send(lent.begun_at, outcome, None);
            }
        }
    }

    /// Whether results of neighbours are still to be kept.
    pub fn is_sharing(&self) -> bool {
        self.collectives.is_sharing()
    }

    /// Drops messages that no collective receives any more, before a checkpoint.
    pub fn tidy(&mut self, engine: &mut SimEngine) {
        if let Some(whole) = self.collectives.whole() {
            whole.tidy(engine);
        }
    }

    /// For a checkpoint: the results that are kept.
    pub fn whole_part(&mut self) -> WholePart {
        let whole = self.collectives.whole();
        whole.map(|it| it.part()).unwrap_or_default()
    }

    /// The logs of a checkpoint are saved.
    pub fn saved(&mut self, engine: &mut SimEngine) {
        if let Some(whole) = self.collectives.whole() {
            whole.saved(engine);
        }
    }

    /// What a checkpoint covers that is taken now.
    pub fn covers(&mut self) -> Option<Covers> {
        self.collectives.whole().map(|it| it.covers())
    }

    /// Publishes what a stable checkpoint covers.
    pub fn publish(&mut self, covers: Option<&Covers>, engine: &mut SimEngine) {
        if let (Some(whole), Some(covers)) = (self.collectives.whole(), covers) {
            whole.publish(covers, engine);
        }
    }

    /// What is wrong with a collective, if anything.
    pub fn complaint(&self) -> Option<&str> {
        self.collectives.complaint.as_deref()
    }

    /// Begins a call. Returns the answer if there is one already; `None` if the call blocks or the
    /// engine has no part in it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn begin(
        &mut self,
        engine: &mut SimEngine,
        call: &Call,
    ) -> Result<Option<Answer>, EngineError> {
        if let Some(posted) = self.post(engine, call)? {
            return Ok(Some(posted));
        }
        match call {
            Call::Cancel(number) => {
                calls::cancel(engine, self.handle(*number));
                return Ok(Some(Answer::Done));
            }
            Call::Number { series } => {
                let (clock, fresh) = (engine.tick(), self.fresh.number());
                let number = calls::number(engine, clock, *series, fresh);
                return Ok(number.map(Answer::Number));
            }
            Call::Bytes { count } => {
                let (clock, mut bytes) = (engine.tick(), self.fresh.bytes(*count));
                let are_right = calls::bytes(engine, clock, &mut bytes);
                return Ok(are_right.then_some(Answer::Bytes(bytes)));
            }
            Call::Print(_) | Call::Checkpoint | Call::Finish => return Ok(None),
            Call::Recv { from, room_bytes } => {
                let room = Room::empty(*room_bytes);
                let handle = calls::post_receive(engine, room.to_receive(), pattern(*from));
                self.receiving = Some(self.add(handle, Memory::Received(room)));
                return Ok(self.ask(engine, call));
            }
            _ => {}
        }
        engine.tick();
        if waits(call) {
            return Ok(self.ask(engine, call));
        }
        self.progress(engine)?;
        Ok(self.ask(engine, call))
    }

    fn post(&mut self, engine: &mut SimEngine, call: &Call) -> Result<Option<Answer>, EngineError> {
        let (handle, memory) = match call {
            Call::Isend {
                to,
                tag,
                payload,
                synchronous,
            } => {
                let room = Room::holding(payload);
                let to = SendTo {
                    rank: *to,
                    context: CONTEXT,
                    tag: *tag,
                    synchronous: *synchronous,
                };
                let handle = calls::post_send(engine, room.to_send(), to)?;
                (handle, Memory::Sent(room))
            }
            Call::Collective(call) => {
                let (handle, lent) = self.collectives.begin(engine, call)?;
                (handle, Memory::Collective(lent, Rc::clone(call)))
            }
            Call::Irecv { from, room_bytes } => {
                let room = Room::empty(*room_bytes);
                let handle = calls::post_receive(engine, room.to_receive(), pattern(*from));
                (handle, Memory::Received(room))
            }
            Call::Imrecv(TakenNumber(number)) => {
                let matched = self.taken[*number as usize].take();
                let matched = matched.expect("a message is received once");
                let room = Room::empty(matched.status.bytes as usize);
                let handle = calls::post_matched(engine, room.to_receive(), matched);
                (handle, Memory::Received(room))
            }
            _ => return Ok(None),
        };
        let number = self.add(handle, memory);
        Ok(Some(Answer::Posted(number)))
    }

    /// The answer to the call that has begun, if there is one.
    pub fn ask(&mut self, engine: &mut SimEngine, call: &Call) -> Option<Answer> {
        let clock = engine.now();
        match self.look(engine, call) {
            Ok(answer) => Some(answer),
            nothing @ Err(NoAnswer::Nothing) if is_wait_for_some(call) => {
                calls::awaited(engine, clock, nothing)
            }
            Err(NoAnswer::Nothing) if !waits(call) => {
                calls::found_nothing(engine, clock);
                Some(found_nothing(call))
            }
            Err(NoAnswer::Nothing | NoAnswer::NotYet) => None,
        }
    }

    fn look(&mut self, engine: &mut SimEngine, call: &Call) -> Told<Answer> {
        let clock = engine.now();
        match call {
            // The replay has diverged: the next progress fails. REC-8
            Call::Number { .. } | Call::Bytes { .. } => Err(NoAnswer::NotYet),
            Call::Recv { .. } => self.received(engine).ok_or(NoAnswer::Nothing),
            Call::Wait(number) => self.one(engine, clock, *number, false),
            Call::Test(number) => self.one(engine, clock, *number, true),
            Call::WaitAny(all) | Call::TestAny(all) => {
                self.several(engine, clock, all, Several::Any)
            }
            Call::WaitSome(all) | Call::TestSome(all) => {
                self.several(engine, clock, all, Several::Some)
            }
            Call::WaitAll(all) => self.several(engine, clock, all, Several::All),
            Call::TestAll(all) => self.several(engine, clock, all, Several::TestedAll),
            Call::Probe(from) | Call::Iprobe(from) => {
                let status = calls::look_now(engine, clock, &pattern(*from));
                status.map(|status| Answer::Found(Some(found(status))))
            }
            Call::Mprobe(from) | Call::Improbe(from) => {
                let taken = calls::take_now(engine, clock, &pattern(*from));
                taken.map(|matched| {
                    let number = TakenNumber(self.taken.len() as u32);
                    let found = found(matched.status);
                    self.taken.push(Some(matched));
                    Answer::Taken(Some((number, found)))
                })
            }
            _ => Err(NoAnswer::Nothing),
        }
    }

    fn received(&mut self, engine: &mut SimEngine) -> Option<Answer> {
        let number = self.receiving?;
        let outcome = engine.finish(self.handle(number).id()?)?;
        self.receiving = None;
        Some(Answer::Ended(vec![self.end(number, &outcome)]))
    }

    fn one(
        &mut self,
        engine: &mut SimEngine,
        clock: Clock,
        number: RequestNumber,
        is_test: bool,
    ) -> Told<Answer> {
        let Some(request) = &mut self.requests[number.0 as usize] else {
            return Err(NoAnswer::Nothing);
        };
        let handle = &mut request.handle;
        let outcome = match is_test {
            true => calls::test(engine, clock, handle),
            false => calls::try_wait(engine, handle).ok_or(NoAnswer::Nothing),
        };
        outcome.map(|outcome| Answer::Ended(vec![self.end(number, &outcome)]))
    }

    fn several(
        &mut self,
        engine: &mut SimEngine,
        clock: Clock,
        chosen: &[RequestNumber],
        which: Several,
    ) -> Told<Answer> {
        let all = &mut self.requests;
        let mut handles = Chosen { all, chosen };
        let mut ended = Vec::new();
        let mut give = |index, outcome| ended.push((index, outcome));
        let answer = match which {
            Several::Any => {
                let one = calls::test_any(engine, clock, &mut handles);
                one.map(|(index, outcome)| give(index, outcome))
            }
            Several::Some => calls::test_some(engine, clock, &mut handles, give).map(|_count| ()),
            Several::All => calls::try_all(engine, &mut handles, give).ok_or(NoAnswer::Nothing),
            Several::TestedAll => calls::test_all(engine, clock, &mut handles, give),
        };
        answer.map(|()| {
            let ended = ended.into_iter();
            let end = |(index, outcome): (usize, Outcome)| self.end(chosen[index], &outcome);
            Answer::Ended(ended.map(end).collect())
        })
    }

    /// Adds the next request of the program.
    fn add(&mut self, handle: Handle, memory: Memory) -> RequestNumber {
        let number = RequestNumber(self.requests.len() as u32);
        self.requests.push(Some(Request { handle, memory }));
        number
    }

    /// The engine's handle of a request.
    fn handle(&self, number: RequestNumber) -> &Handle {
        let request = self.requests[number.0 as usize].as_ref();
        request.map_or(&Handle::NULL, |request| &request.handle)
    }

    /// Ends a request and makes its answer; the engine no longer uses the memory.
    fn end(&mut self, number: RequestNumber, outcome: &Outcome) -> Ended {
        let request = self.requests[number.0 as usize].take();
        let request = request.expect("a request ends once");
        let status = outcome.status;
        let (room, bytes) = match &request.memory {
            Memory::Received(room) if !status.cancelled => {
                (room, outcome.truncated_to.unwrap_or(status.bytes) as usize)
            }
            Memory::Received(room) | Memory::Sent(room) => (room, 0),
            Memory::Collective(lent, call) => (&lent.output, call.part.result_bytes()),
        };
        Ended {
            request: number,
            collective: match &request.memory {
                Memory::Collective(_, call) => Some(call.id),
                Memory::Received(_) | Memory::Sent(_) => None,
            },
            peer: status.source,
            tag: status.tag,
            bytes: status.bytes,
            cancelled: status.cancelled,
            payload: room.read(bytes),
        }
    }
}

/// Whether a call blocks until it has an answer.
fn waits(call: &Call) -> bool {
    matches!(
        call,
        Call::Recv { .. }
            | Call::Wait(_)
            | Call::WaitAny(_)
            | Call::WaitSome(_)
            | Call::WaitAll(_)
            | Call::Probe(_)
            | Call::Mprobe(_)
    )
}

/// Whether timing decides which request or message ends the call.
fn is_wait_for_some(call: &Call) -> bool {
    matches!(
        call,
        Call::WaitAny(_) | Call::WaitSome(_) | Call::Probe(_) | Call::Mprobe(_)
    )
}

/// The answer to a test or probe that found nothing.
fn found_nothing(call: &Call) -> Answer {
    match call {
        Call::Iprobe(_) => Answer::Found(None),
        Call::Improbe(_) => Answer::Taken(None),
        _ => Answer::Ended(Vec::new()),
    }
}

/// One request of a program.
#[derive(Debug)]
struct Request {
    handle: Handle,
    /// Lent to the engine until the request ends.
    memory: Memory,
}

/// The memory of a request.
#[derive(Debug)]
enum Memory {
    Sent(Room),
    Received(Room),
    Collective(Lent, Rc<Collective>),
}

impl Memory {
    fn room(&self) -> &Room {
        match self {
            Self::Sent(room) | Self::Received(room) => room,
            Self::Collective(lent, _) => &lent.output,
        }
    }
}

/// The requests that one call names.
struct Chosen<'a> {
    all: &'a mut [Option<Request>],
    chosen: &'a [RequestNumber],
}

impl Handles for Chosen<'_> {
    fn count(&self) -> usize {
        self.chosen.len()
    }

    fn get(&self, index: usize) -> &Handle {
        let request = self.all[self.chosen[index].0 as usize].as_ref();
        request.map_or(&Handle::NULL, |request| &request.handle)
    }

    fn clear(&mut self, index: usize) {
        if let Some(request) = &mut self.all[self.chosen[index].0 as usize] {
            request.handle = Handle::NULL;
        }
    }
}

/// Which of its requests a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Several {
    /// The first request that has ended.
    Any,
    /// All requests that have ended.
    Some,
    /// All, if all have ended; this is not an event.
    All,
    /// All, if all have ended; whether they have is an event.
    TestedAll,
}
