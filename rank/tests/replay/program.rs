//! A program that does at random what depends on timing, and the same again
//! when it is told the same.

use crate::room::Room;
use core::hash::{Hash, Hasher};
use fastrand::Rng;
use refrain_rank::calls::{self, Answer, Handle, Handles};
use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Engine, EngineError, Matched, Outcome, SendTo, Status};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::Protocol;
use std::hash::DefaultHasher;

/// Bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 20_000;
/// Tags of messages.
pub const TAGS: i32 = 2;

/// One call. Requests by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Receive(Pattern),
    ReceiveTaken,
    Send {
        to: u32,
        tag: i32,
        synchronous: bool,
    },
    Wait(usize),
    WaitAll(Vec<usize>),
    WaitAny(Vec<usize>),
    WaitSome(Vec<usize>),
    Test(usize),
    TestAny(Vec<usize>),
    TestSome(Vec<usize>),
    TestAll(Vec<usize>),
    Probe(Pattern),
    Mprobe(Pattern),
    Iprobe(Pattern),
    Improbe(Pattern),
    Cancel(usize),
    Number(u8),
    Bytes(usize),
}

/// What it is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Done,
    Nothing,
    Ended(Vec<(usize, Status, Vec<u8>)>),
    Found(Status),
    Number(i64),
    Bytes(Vec<u8>),
}

/// A receive and the message that it got: for the order of messages.
#[derive(Clone, Debug)]
pub struct Got {
    pub at: Clock,
    pub asked: Pattern,
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct Request {
    handle: Handle,
    room: Room,
    /// Of a receive, what it asked for; of one of a taken message, with its probe.
    asked: Option<(Clock, Pattern)>,
}

#[derive(Debug)]
pub struct Program {
    seed: u64,
    ranks: u32,
    /// Of all that it was told.
    state: u64,
    /// What it is given from outside: something else in each life.
    fresh: Rng,
    requests: Vec<Option<Request>>,
    taken: Option<(Matched, Clock, Pattern)>,
    asked: Option<(Clock, Call)>,
    /// Every call with its clock and what came of it.
    pub told: Vec<(Clock, Call, Said)>,
    pub got: Vec<Got>,
}

struct Chosen<'a>(&'a mut Vec<Option<Request>>, &'a [usize]);

impl Handles for Chosen<'_> {
    fn count(&self) -> usize {
        self.1.len()
    }

    fn get(&self, index: usize) -> &Handle {
        let request = self.0[self.1[index]].as_ref();
        request.map_or(&Handle::NULL, |it| &it.handle)
    }

    fn clear(&mut self, index: usize) {
        if let Some(request) = &mut self.0[self.1[index]] {
            request.handle = Handle::NULL;
        }
    }
}

impl Program {
    pub fn new(seed: u64, ranks: u32, fresh: u64) -> Self {
        Self {
            fresh: Rng::with_seed(fresh),
            seed,
            ranks,
            state: 0,
            requests: Vec::new(),
            taken: None,
            asked: None,
            told: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Goes on by one look. Whether it was told anything.
    pub fn step(&mut self, engine: &mut Engine<impl Protocol>) -> Result<bool, EngineError> {
        let (clock, call) = match self.asked.take() {
            Some(asked) => asked,
            None => {
                let call = self.next();
                self.begin(engine, &call)?;
                (engine.now(), call)
            }
        };
        let said = match self.look(engine, clock, &call) {
            Answer::Told(said) => said,
            Answer::Nothing if !call.waits() => {
                calls::found_nothing(engine, clock);
                Said::Nothing
            }
            Answer::Nothing if call.waits_for_some() => {
                calls::awaited(engine, clock, Answer::<()>::Nothing);
                self.asked = Some((clock, call));
                return Ok(false);
            }
            Answer::Nothing | Answer::NotYet => {
                self.asked = Some((clock, call));
                return Ok(false);
            }
        };
        let mut hasher = DefaultHasher::new();
        (self.state, format!("{said:?}")).hash(&mut hasher);
        self.state = hasher.finish();
        self.told.push((clock, call, said));
        Ok(true)
    }

    /// What it does next depends on all that it was told.
    fn next(&self) -> Call {
        let mut rng = Rng::with_seed(self.seed ^ self.state.rotate_left(17));
        let open: Vec<usize> = (0..self.requests.len())
            .filter(|number| self.requests[*number].is_some())
            .collect();
        if self.taken.is_some() && rng.u8(..4) > 0 {
            return Call::ReceiveTaken;
        }
        let tag = (rng.u8(..3) > 0).then(|| rng.i32(..TAGS));
        let named = (rng.u8(..3) == 0).then(|| Rank(rng.u32(..self.ranks)));
        let any = Pattern {
            context: 0,
            source: None,
            tag: None,
        };
        let pattern = Pattern {
            context: 0,
            source: named,
            tag,
        };
        let choice = rng.u8(..25);
        if choice == 24 {
            return match rng.bool() {
                true => Call::Number(rng.u8(..16)),
                false => Call::Bytes(rng.usize(1..=256)),
            };
        }
        if open.is_empty() || choice < 8 {
            return match choice {
                6 | 7 => Call::Send {
                    to: if rng.bool() { 0 } else { rng.u32(..self.ranks) },
                    tag: rng.i32(..TAGS),
                    synchronous: rng.u8(..4) == 0,
                },
                5 if self.taken.is_none() => Call::Improbe(pattern),
                4 => Call::Iprobe(pattern),
                3 if self.taken.is_none() && rng.u8(..4) == 0 => Call::Mprobe(any),
                3 if rng.u8(..4) == 0 => Call::Probe(any),
                _ => Call::Receive(pattern),
            };
        }
        let mut several = open.clone();
        rng.shuffle(&mut several);
        several.truncate(rng.usize(1..6));
        let one = several[0];
        match choice {
            // What waits for one may wait for ever: seldom, and then the rank dies
            // there.
            8 if rng.u8(..4) == 0 => Call::Wait(one),
            9 if rng.u8(..8) == 0 => Call::WaitAll(several),
            10 | 11 if open.len() > 4 => Call::WaitAny(open),
            12 | 13 if open.len() > 4 => Call::WaitSome(open),
            14 | 15 => Call::Cancel(one),
            16 => Call::TestAll(several),
            17 | 18 => Call::TestAny(several),
            19 | 20 => Call::TestSome(several),
            _ => Call::Test(one),
        }
    }

    fn begin(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        call: &Call,
    ) -> Result<(), EngineError> {
        match call {
            Call::Receive(pattern) => {
                let room = Room::empty(MESSAGE_BYTES_MAX);
                let handle = calls::post_receive(engine, room.to_receive(), *pattern);
                self.add(handle, room, Some((engine.now(), *pattern)));
            }
            Call::ReceiveTaken => {
                let (matched, at, asked) = self.taken.take().expect("chosen only then");
                let room = Room::empty(MESSAGE_BYTES_MAX);
                let handle = calls::post_matched(engine, room.to_receive(), matched);
                self.add(handle, room, Some((at, asked)));
            }
            Call::Send {
                to,
                tag,
                synchronous,
            } => {
                let bytes = 12 + (self.state % 700) as usize;
                let payload: Vec<u8> = (0..bytes)
                    .map(|at| (at as u64 ^ self.state) as u8)
                    .collect();
                let room = Room::holding(&payload);
                let to = SendTo {
                    rank: Rank(*to),
                    context: 0,
                    tag: *tag,
                    synchronous: *synchronous,
                };
                let handle = calls::post_send(engine, room.to_send(), to)?;
                self.add(handle, room, None);
            }
            Call::Cancel(number) => {
                let request = self.requests[*number].as_ref();
                calls::cancel(engine, request.map_or(&Handle::NULL, |it| &it.handle));
            }
            Call::Number(_) | Call::Bytes(_) => drop(engine.tick()),
            _ => {
                engine.tick();
                if !call.waits() {
                    engine.progress()?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, handle: Handle, room: Room, asked: Option<(Clock, Pattern)>) {
        self.requests.push(Some(Request {
            handle,
            room,
            asked,
        }));
    }

    fn look(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        clock: Clock,
        call: &Call,
    ) -> Answer<Said> {
        let one = |answer: Answer<Outcome>| answer.map(|outcome| vec![(0, outcome)]);
        let (numbers, ended): (Vec<usize>, _) = match call {
            Call::Receive(_) | Call::ReceiveTaken | Call::Send { .. } | Call::Cancel(_) => {
                return Answer::Told(Said::Done);
            }
            Call::Number(lane) => {
                let number = calls::number(engine, clock, *lane, self.fresh.i64(..));
                return number.map_or(Answer::NotYet, |number| Answer::Told(Said::Number(number)));
            }
            Call::Bytes(count) => {
                let mut bytes: Vec<u8> = (0..*count).map(|_| self.fresh.u8(..)).collect();
                return match calls::bytes(engine, clock, &mut bytes) {
                    true => Answer::Told(Said::Bytes(bytes)),
                    false => Answer::NotYet,
                };
            }
            Call::Probe(from) | Call::Iprobe(from) => {
                return calls::look_now(engine, clock, from).map(Said::Found);
            }
            Call::Mprobe(from) | Call::Improbe(from) => {
                let taken = calls::take_now(engine, clock, from);
                return taken.map(|matched| {
                    let status = matched.status;
                    self.taken = Some((matched, clock, *from));
                    Said::Found(status)
                });
            }
            Call::Wait(number) => {
                let handle = self.handle(*number);
                let ended = Answer::free(calls::try_wait(engine, handle));
                (vec![*number], one(ended))
            }
            Call::Test(number) => {
                let handle = self.handle(*number);
                (vec![*number], one(calls::test(engine, clock, handle)))
            }
            Call::WaitAny(chosen) | Call::TestAny(chosen) => {
                let mut handles = Chosen(&mut self.requests, chosen);
                let ended = calls::test_any(engine, clock, &mut handles);
                (chosen.clone(), ended.map(|ended| vec![ended]))
            }
            Call::WaitSome(chosen) | Call::TestSome(chosen) => {
                let mut handles = Chosen(&mut self.requests, chosen);
                (
                    chosen.clone(),
                    calls::test_some(engine, clock, &mut handles),
                )
            }
            Call::WaitAll(chosen) => {
                let mut handles = Chosen(&mut self.requests, chosen);
                let ended = Answer::free(calls::try_all(engine, &mut handles));
                (chosen.clone(), ended.map(numbered))
            }
            Call::TestAll(chosen) => {
                let mut handles = Chosen(&mut self.requests, chosen);
                let ended = calls::test_all(engine, clock, &mut handles);
                (chosen.clone(), ended.map(numbered))
            }
        };
        ended.map(|ended| {
            let end = |(at, outcome): (usize, Outcome)| self.end(numbers[at], &outcome);
            Said::Ended(ended.into_iter().map(end).collect())
        })
    }

    fn handle(&mut self, number: usize) -> &mut Handle {
        let request = self.requests[number].as_mut();
        &mut request.expect("only of open ones").handle
    }

    fn end(&mut self, number: usize, outcome: &Outcome) -> (usize, Status, Vec<u8>) {
        let request = self.requests[number].take().expect("it ends once");
        let mut payload = Vec::new();
        if let Some((at, asked)) = request.asked
            && !outcome.status.cancelled
        {
            assert_eq!(outcome.truncated_to, None);
            payload = request.room.read(outcome.status.bytes as usize);
            self.got.push(Got {
                at,
                asked,
                payload: payload.clone(),
            });
        }
        (number, outcome.status, payload)
    }
}

impl Call {
    fn waits(&self) -> bool {
        self.waits_for_some() || matches!(self, Self::Wait(_) | Self::WaitAll(_))
    }

    fn waits_for_some(&self) -> bool {
        matches!(
            self,
            Self::WaitAny(_) | Self::WaitSome(_) | Self::Probe(_) | Self::Mprobe(_)
        )
    }
}

fn numbered(outcomes: Vec<Option<Outcome>>) -> Vec<(usize, Outcome)> {
    let numbered = outcomes.into_iter().enumerate();
    numbered
        .filter_map(|(index, outcome)| Some((index, outcome?)))
        .collect()
}
