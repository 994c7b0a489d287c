//! Hand-made histories: what each oracle accepts and what it rejects.

mod channel;
mod collective;
mod gate;
mod lives;
mod log;
mod orphan;
mod outcome;

use super::rule::{Oracle, Witness, breach};
use crate::choices::determinant;
use crate::happening::{Breach, Happening, Life};
use crate::plan::STAMP_BYTES;
use crate::program::{Answer, Call, Ended, From, RequestNumber};
use refrain_ring::{Clock, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::protocol::Event;

/// The answers of a job to the oracles' questions.
#[derive(Debug, Default)]
struct World {
    alive: [Incarnation; 2],
    stable: Option<Clock>,
    forgotten: Option<Clock>,
    /// The life of rank 0 that rank 1 knows of.
    told: Incarnation,
}

impl Witness for World {
    fn alive(&self, rank: Rank) -> Option<Incarnation> {
        Some(self.alive.get(rank.index()).copied().unwrap_or_default())
    }

    fn stable_clock(&self, _rank: Rank) -> Option<Clock> {
        self.stable
    }

    fn told_of(&self, _peer: Rank, of: Rank) -> Incarnation {
        if of == Rank(0) {
            self.told
        } else {
            Incarnation(0)
        }
    }

    fn forgotten_clock(&self, _rank: Rank) -> Option<Clock> {
        self.forgotten
    }
}

/// An oracle and the world that it asks.
struct Stage<O> {
    oracle: O,
    world: World,
}

impl<O: Oracle> Stage<O> {
    /// A stage in which two ranks have begun.
    fn new(mut oracle: O) -> Self {
        let world = World::default();
        for rank in [0, 1] {
            let began = oracle.see(&Happening::Began(life(rank)), &world);
            began.expect("a life may begin");
        }
        Self { oracle, world }
    }

    fn see(&mut self, happening: Happening<'_>) -> Result<(), Breach> {
        if let Happening::Began(life) = happening {
            self.world.alive[life.rank.index()] = life.incarnation;
        }
        let seen = self.oracle.see(&happening, &self.world);
        seen.map_err(|what| breach(self.oracle.name(), what))
    }

    fn called(&mut self, rank: u32, clock: u64, call: &Call) -> Result<(), Breach> {
        self.see(Happening::Called(life(rank), Clock(clock), call))
    }

    fn answered(&mut self, rank: u32, clock: u64, answer: &Answer) -> Result<(), Breach> {
        self.see(Happening::Answered(life(rank), Clock(clock), answer))
    }

    fn event(&mut self, rank: u32, event: Event<'_>) -> Result<(), Breach> {
        self.see(Happening::Event(life(rank), determinant(&event)))
    }

    fn posted(&mut self, rank: u32, header: &RecordHeader, payload: &[u8]) -> Result<(), Breach> {
        self.see(Happening::Posted(
            life(rank),
            Rank(1 - rank),
            header,
            payload,
        ))
    }

    fn control(&mut self, rank: u32, control: Control) -> Result<(), Breach> {
        self.see(Happening::PostedControl(
            life(rank),
            Rank(1 - rank),
            control,
        ))
    }

    fn at_end(&mut self) -> Result<(), Breach> {
        let ended = self.oracle.at_end(&self.world);
        ended.map_err(|what| breach(self.oracle.name(), what))
    }
}

/// Checks the oracle and the text of a breach.
#[track_caller]
fn assert_breach(result: Result<(), Breach>, oracle: &str, what: &str) {
    let breach = result.expect_err("a breach");
    assert_eq!(breach.oracle, oracle, "{breach}");
    assert!(breach.what.contains(what), "{breach}");
}

fn life(rank: u32) -> Life {
    Life {
        rank: Rank(rank),
        incarnation: Incarnation(0),
    }
}

/// The next life of rank 0.
fn next_life() -> Life {
    Life {
        rank: Rank(0),
        incarnation: Incarnation(1),
    }
}

/// A message from `from` to the other of two ranks.
fn payload(from: u32, number: u64, bytes: usize) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..bytes.max(STAMP_BYTES)).map(|i| i as u8).collect();
    payload[..4].copy_from_slice(&from.to_le_bytes());
    payload[4..8].copy_from_slice(&(1 - from).to_le_bytes());
    payload[8..16].copy_from_slice(&number.to_le_bytes());
    payload
}

fn isend(from: u32, number: u64, bytes: usize) -> Call {
    Call::Isend {
        to: Rank(1 - from),
        tag: 3,
        payload: payload(from, number, bytes),
        synchronous: false,
    }
}

fn synchronous(call: Call) -> Call {
    match call {
        Call::Isend {
            to, tag, payload, ..
        } => Call::Isend {
            to,
            tag,
            payload,
            synchronous: true,
        },
        other => other,
    }
}

/// The first frame of a message of `message` bytes; it carries `payload` of them.
fn first_frame(from: u32, ssn: u64, payload: usize, message: usize) -> RecordHeader {
    RecordHeader {
        payload_bytes: payload as u32,
        kind: RecordKind::Eager,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(from),
        ssn: Ssn(ssn),
        context: 0,
        tag: 3,
        extent: message as u64,
    }
}

fn irecv(source: Option<u32>) -> Call {
    Call::Irecv {
        from: From {
            source: source.map(Rank),
            tag: None,
        },
        room_bytes: 1000,
    }
}

fn posted(number: u32) -> Answer {
    Answer::Posted(RequestNumber(number))
}

/// A receive got this message of the other rank.
fn received(request: u32, source: u32, payload: Vec<u8>) -> Answer {
    Answer::Ended(vec![Ended {
        request: RequestNumber(request),
        collective: None,
        peer: Rank(source),
        tag: 3,
        bytes: payload.len() as u64,
        cancelled: false,
        payload,
    }])
}

/// A receive that was posted at `request` got message `ssn` of rank 0.
fn wildcard_match(at: u64, request: u64, ssn: u64) -> Event<'static> {
    Event::Match {
        at: Clock(at),
        request: Clock(request),
        source: Rank(0),
        ssn: Ssn(ssn),
        is_named: false,
    }
}

fn nothing(clock: u64) -> Event<'static> {
    Event::Nothing {
        clock: Clock(clock),
    }
}
