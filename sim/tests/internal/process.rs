//! A life of a rank: its engine, its program, and exchanges that progress advances.

use crate::script::{HEAD_BYTES, Script, Step};
use crate::store::Store;
use refrain_rank::calls::{self, Handle, NoAnswer};
use refrain_rank::protocol::Logging;
use refrain_ring::{Clock, Rank};
use refrain_sim::happening::Life;
use refrain_sim::saved::EnginePart;
use refrain_sim::world::log::Saving;
use refrain_sim::world::room::Room;
use refrain_transport::engine::{
    Engine, EngineError, InternalOperation, RequestId, SendTo, Started,
};
use refrain_transport::fabric::Address;
use refrain_transport::matching::{Envelope, Pattern};
use std::collections::BTreeMap;

const TAG: i32 = 1;

/// The numbering of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// On the stream of the operation.
    Streams,
    /// The planted bug: like the program's messages, in the order in which they are issued.
    AsTheProgram,
}

pub fn mix(a: u64, b: u64) -> u64 {
    let mixed = (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 31)
}

/// An exchange under way: in round r each rank sends its value to the rank 2^r after it and mixes
/// the value from the rank 2^r before it into its own.
struct Exchange {
    operation: InternalOperation,
    round: u32,
    value: u64,
    receive: Option<(RequestId, Room)>,
    sends: Vec<RequestId>,
}

/// The state of a program between two steps.
#[derive(Clone, Default)]
pub struct Known {
    pub next_step: usize,
    pub state: u64,
    /// Messages by receiver.
    pub sent: Vec<Vec<Vec<u8>>>,
    pub received: Vec<Vec<u8>>,
    pub inputs: BTreeMap<usize, u64>,
    pub results: BTreeMap<usize, u64>,
}

/// A checkpoint, with the engine's part as the library writes it.
pub struct Checkpoint {
    pub known: Known,
    pub engine: EnginePart,
}

/// What a program waits for.
enum Waiting {
    Any(RequestId, Room),
    Test(usize, Clock),
    Exchange(usize),
    Sends,
}

pub type LoggedEngine = Engine<Logging<Store>>;

/// The process of a life, with its program.
pub struct Process {
    pub life: Life,
    ranks: u32,
    pub engine: LoggedEngine,
    pub address: Address,
    pub known: Known,
    waiting: Option<Waiting>,
    exchanges: BTreeMap<usize, Exchange>,
    handles: BTreeMap<usize, Handle>,
    sends: Vec<Handle>,
    numbering: Numbering,
    /// Dropped after the engine.
    rooms: Vec<Room>,
}

impl Process {
    /// A process whose program continues from there.
    pub fn new(
        life: Life,
        ranks: u32,
        engine: LoggedEngine,
        address: Address,
        known: Known,
        numbering: Numbering,
    ) -> Self {
        Self {
            life,
            ranks,
            engine,
            address,
            known,
            waiting: None,
            exchanges: BTreeMap::new(),
            handles: BTreeMap::new(),
            sends: Vec::new(),
            numbering,
            rooms: Vec::new(),
        }
    }

    /// Takes the next step of an exchange, if that is possible.
    pub fn advance(&mut self, number: usize, bytes: usize) -> Result<(), EngineError> {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return Ok(());
        };
        let distance = 1 << exchange.round;
        let tag = number as i32 * 8 + exchange.round as i32;
        if let Some((id, room)) = &exchange.receive {
            if self.engine.outcome(*id).is_none() {
                return Ok(());
            }
            self.engine.retire(*id);
            let word = room
                .read(bytes)
                .first_chunk()
                .map(|word| u64::from_le_bytes(*word));
            exchange.value = mix(exchange.value, word.unwrap_or_default());
            exchange.receive = None;
            exchange.round += 1;
            return Ok(());
        }
        if distance < self.ranks {
            let mut payload = vec![number as u8; bytes];
            payload[..8].copy_from_slice(&exchange.value.to_le_bytes());
            let (from, into) = (Room::holding(&payload), Room::empty(bytes));
            self.rooms.extend([from.clone(), into.clone()]);
            let to = SendTo {
                rank: Rank((self.life.rank.0 + distance) % self.ranks),
                context: 0,
                tag,
                synchronous: false,
            };
            let source = Rank((self.life.rank.0 + self.ranks - distance) % self.ranks);
            let (engine, operation) = (&mut self.engine, &exchange.operation);
            let (started, id) = match self.numbering {
                Numbering::Streams => {
                    let started = engine.send_internal(operation, from.to_send(), to)?;
                    let envelope = Envelope {
                        context: 0,
                        source,
                        tag,
                    };
                    let id = engine.receive_internal(operation, into.to_receive(), envelope);
                    (started, id)
                }
                Numbering::AsTheProgram => {
                    let context = 1;
                    let to = SendTo { context, ..to };
                    let started = engine.start_send(from.to_send(), to)?;
                    let pattern = Pattern {
                        context,
                        source: Some(source),
                        tag: Some(tag),
                    };
                    (started, engine.start_receive(into.to_receive(), pattern))
                }
            };
            if let Started::Pending(id) = started {
                exchange.sends.push(id);
            }
            exchange.receive = Some((id, into));
            return Ok(());
        }
        let engine = &mut self.engine;
        exchange.sends.retain(|id| {
            let is_over = engine.outcome(*id).is_some();
            if is_over {
                engine.retire(*id);
            }
            !is_over
        });
        if exchange.sends.is_empty()
            && let Some(exchange) = self.exchanges.remove(&number)
        {
            self.known.results.insert(number, exchange.value);
            self.engine.finish_internal(exchange.operation);
        }
        Ok(())
    }

    pub fn step(&mut self, script: &Script) -> Result<Option<Checkpoint>, EngineError> {
        if let Some(waiting) = self.waiting.take() {
            self.waiting = self.ask(waiting);
            return Ok(None);
        }
        let steps = &script.steps[self.life.rank.index()];
        let Some(step) = steps.get(self.known.next_step).copied() else {
            return Ok(None);
        };
        self.known.next_step += 1;
        match step {
            Step::Begin(number) => {
                let (operation, handle) = calls::begin_internal(&mut self.engine)?;
                let value = mix(self.known.state, number as u64);
                self.known.inputs.insert(number, value);
                self.handles.insert(number, handle);
                let exchange = Exchange {
                    operation,
                    round: 0,
                    value,
                    receive: None,
                    sends: Vec::new(),
                };
                self.exchanges.insert(number, exchange);
            }
            Step::Send { to, bytes } => {
                let sent = &mut self.known.sent[to as usize];
                let mut payload = vec![sent.len() as u8; bytes];
                payload[..4].copy_from_slice(&self.life.rank.0.to_le_bytes());
                payload[8..16].copy_from_slice(&(sent.len() as u64).to_le_bytes());
                payload[16..24].copy_from_slice(&self.known.state.to_le_bytes());
                let room = Room::holding(&payload);
                self.rooms.push(room.clone());
                sent.push(payload);
                let to = SendTo {
                    rank: Rank(to),
                    context: 0,
                    tag: TAG,
                    synchronous: false,
                };
                let handle = calls::post_send(&mut self.engine, room.to_send(), to)?;
                self.sends.push(handle);
            }
            Step::ReceiveAny => {
                let room = Room::empty(HEAD_BYTES + 300);
                self.rooms.push(room.clone());
                let pattern = Pattern {
                    context: 0,
                    source: None,
                    tag: Some(TAG),
                };
                let handle = calls::post_receive(&mut self.engine, room.to_receive(), pattern);
                let id = handle.id().expect("a receive has one");
                self.waiting = Some(Waiting::Any(id, room));
            }
            Step::Test(number) if self.handles.contains_key(&number) => {
                let clock = self.engine.tick();
                self.waiting = Some(Waiting::Test(number, clock));
            }
            Step::Test(_) => {}
            Step::Wait(number) if self.handles.contains_key(&number) => {
                self.engine.tick();
                self.waiting = Some(Waiting::Exchange(number));
            }
            Step::Wait(_) => {}
            Step::WaitSends => {
                self.engine.tick();
                self.waiting = Some(Waiting::Sends);
            }
            Step::Checkpoint => {
                let checkpoint = self.checkpoint();
                self.known.next_step -= usize::from(checkpoint.is_none());
                return Ok(checkpoint);
            }
        }
        Ok(None)
    }

    /// Checks what the program waits for; returns it if it is still missing.
    fn ask(&mut self, waiting: Waiting) -> Option<Waiting> {
        let engine = &mut self.engine;
        match waiting {
            Waiting::Any(id, room) => {
                let Some(outcome) = engine.finish(id) else {
                    return Some(Waiting::Any(id, room));
                };
                let payload = room.read(outcome.status.bytes as usize);
                let hash = payload
                    .iter()
                    .fold(0, |hash, byte| mix(hash, u64::from(*byte)));
                self.known.state = mix(self.known.state, hash);
                self.known.received.push(payload);
            }
            Waiting::Test(number, clock) => {
                let handle = self.handles.get_mut(&number).expect("it was begun");
                match calls::test(engine, clock, handle) {
                    Ok(_) => self.saw(number),
                    Err(NoAnswer::Nothing) => {
                        calls::found_nothing(engine, clock);
                        self.known.state = mix(self.known.state, 1);
                    }
                    Err(NoAnswer::NotYet) => return Some(Waiting::Test(number, clock)),
                }
            }
            Waiting::Exchange(number) => {
                let handle = self.handles.get_mut(&number).expect("it was begun");
                if calls::try_wait(engine, handle).is_none() {
                    return Some(Waiting::Exchange(number));
                }
                self.saw(number);
            }
            Waiting::Sends => {
                self.sends
                    .retain_mut(|handle| calls::try_wait(engine, handle).is_none());
                if !self.sends.is_empty() {
                    return Some(Waiting::Sends);
                }
            }
        }
        None
    }

    /// The program sees the end of an exchange.
    fn saw(&mut self, number: usize) {
        self.handles.remove(&number);
        self.known.state = mix(self.known.state, self.known.results[&number]);
    }

    /// Takes a checkpoint with its logs, if the log can be read now.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        if !self.engine.is_settled() || self.engine.has_unposted() {
            return None;
        }
        let state = self.engine.state().ok()?;
        let mut saving = Saving::new((0, self.life.rank), &self.engine, state, Default::default());
        let part = saving.step(&mut self.engine).expect("all is in memory");
        let engine = part?;
        self.engine.publish(&saving.horizon);
        let known = self.known.clone();
        Some(Checkpoint { known, engine })
    }

    pub fn is_through(&self, script: &Script) -> bool {
        self.waiting.is_none() && self.known.next_step == script.steps[self.life.rank.index()].len()
    }
}
