//! All places of a group together, in an order that a seed chooses.

use super::fault::Fault;
use super::steps::check_steps;
use crate::group::Group;
use crate::schedule::{Action, Buffer, Part, Schedule, Side};
use std::collections::{BTreeMap, VecDeque};

/// When a send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// At once: the network has taken the message.
    Buffered,
    /// When the message is received.
    Blocking,
}

/// A place before its execution.
#[derive(Clone, Debug)]
pub struct Place<T> {
    /// Its steps.
    pub schedule: Schedule,
    /// Its input.
    pub input: Vec<T>,
    /// Its output.
    pub output: Vec<T>,
}

/// What went over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Messages that were received.
    pub messages: u64,
    /// Elements in them.
    pub elements: u64,
    /// Elements that senders log: one that is published counts once.
    pub logged: u64,
}

/// The end of an execution.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The output of each place.
    pub outputs: Vec<Vec<T>>,
    /// What went over the network.
    pub volume: Volume,
}

/// Executes the schedules of all places. `junk` fills scratch.
pub fn execute<T: Clone>(
    places: Vec<Place<T>>,
    combine: &dyn Fn(&T, &T) -> T,
    junk: &T,
    sends: Sends,
    seed: u64,
) -> Result<Outcome<T>, Fault> {
    let size = u32::try_from(places.len()).expect("fewer than 2^32 places");
    for (me, place) in (0..).zip(&places) {
        let (input, output) = (place.input.len() as u64, place.output.len() as u64);
        check_steps(&place.schedule, Group { size, me }, input, output)?;
    }
    let mut execution = Execution {
        places: places
            .into_iter()
            .map(|place| State::new(place, junk))
            .collect(),
        channels: BTreeMap::new(),
        combine,
        sends,
        possible: (0..size).map(Event::Begin).collect(),
        volume: Volume::default(),
    };
    let mut random = seed | 1;
    while !execution.possible.is_empty() {
        // xorshift64 (Marsaglia 2003)
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let chosen = random % execution.possible.len() as u64;
        match execution.possible.swap_remove(chosen as usize) {
            Event::Begin(place) => execution.begin(place),
            Event::Match(source, to) => execution.transfer(source, to)?,
        }
    }
    execution.end()
}

#[derive(Clone, Copy)]
enum Event {
    /// The next step of a place, if it need not wait.
    Begin(u32),
    /// The first message of a pair of places meets its receive, if both are there.
    Match(u32, u32),
}

struct State<T> {
    schedule: Schedule,
    buffers: [Vec<T>; 3],
    next: usize,
    /// Messages that each step still waits for.
    open: Vec<u32>,
    /// Steps at the beginning that are complete.
    complete: usize,
}

/// Messages, with the sender's step, and receives of one pair of places.
type Channel<T> = (VecDeque<(usize, Vec<T>)>, VecDeque<usize>);

struct Execution<'a, T> {
    places: Vec<State<T>>,
    channels: BTreeMap<(u32, u32), Channel<T>>,
    combine: &'a dyn Fn(&T, &T) -> T,
    sends: Sends,
    possible: Vec<Event>,
    volume: Volume,
}

impl<T: Clone> State<T> {
    fn new(place: Place<T>, junk: &T) -> Self {
        let scratch = vec![junk.clone(); place.schedule.scratch() as usize];
        Self {
            open: vec![0; place.schedule.steps().len()],
            schedule: place.schedule,
            buffers: [place.input, place.output, scratch],
            next: 0,
            complete: 0,
        }
    }

    fn slice(&mut self, part: Part) -> &mut [T] {
        let start = part.start as usize;
        &mut self.buffers[index(part.buffer)][start..start + part.count as usize]
    }

    fn read(&mut self, part: Part) -> Vec<T> {
        self.slice(part).to_vec()
    }

    fn combine(&mut self, combine: &dyn Fn(&T, &T) -> T, left: &[T], right: &[T], into: Part) {
        let results = left
            .iter()
            .zip(right)
            .map(|(left, right)| combine(left, right));
        let results: Vec<T> = results.collect();
        self.slice(into).clone_from_slice(&results);
    }

    fn advance(&mut self) {
        while self.complete < self.next && self.open[self.complete] == 0 {
            self.complete += 1;
        }
    }
}

fn index(buffer: Buffer) -> usize {
    match buffer {
        Buffer::Input => 0,
        Buffer::Output => 1,
        Buffer::Scratch => 2,
    }
}

impl<T: Clone> Execution<'_, T> {
    fn begin(&mut self, me: u32) {
        let place = &mut self.places[me as usize];
        place.advance();
        let step = place.next;
        let Some(it) = place.schedule.steps().get(step).copied() else {
            return;
        };
        if it.after as usize > place.complete {
            return;
        }
        place.next += 1;
        match it.action {
            Action::Send { to, from } => self.send(me, step, to..to + 1, from),
            Action::Publish {
                first,
                number,
                from,
            } => self.send(me, step, first..first + number, from),
            Action::Receive { source, .. } | Action::ReceiveReduce { source, .. } => {
                place.open[step] = 1;
                self.channels
                    .entry((source, me))
                    .or_default()
                    .1
                    .push_back(step);
                self.possible.push(Event::Match(source, me));
            }
            Action::Reduce { left, right, into } => {
                let (left, right) = (place.read(left), place.read(right));
                place.combine(self.combine, &left, &right, into);
            }
            Action::Copy { from, into } => {
                let data = place.read(from);
                place.slice(into).clone_from_slice(&data);
            }
        }
        self.possible.push(Event::Begin(me));
    }

    fn send(&mut self, me: u32, step: usize, receivers: std::ops::Range<u32>, from: Part) {
        let place = &mut self.places[me as usize];
        let data = place.read(from);
        self.volume.logged += from.count;
        for to in receivers.filter(|to| *to != me) {
            if self.sends == Sends::Blocking {
                place.open[step] += 1;
            }
            let channel = self.channels.entry((me, to)).or_default();
            channel.0.push_back((step, data.clone()));
            self.possible.push(Event::Match(me, to));
        }
    }

    fn transfer(&mut self, source: u32, to: u32) -> Result<(), Fault> {
        let (messages, receives) = self.channels.entry((source, to)).or_default();
        let (Some(_), Some(_)) = (messages.front(), receives.front()) else {
            return Ok(());
        };
        let (sender_step, data) = messages.pop_front().expect("looked at");
        let step = receives.pop_front().expect("looked at");
        let place = &mut self.places[to as usize];
        let action = place.schedule.steps()[step].action;
        let (Action::Receive { into, .. } | Action::ReceiveReduce { into, .. }) = action else {
            unreachable!("only receives wait for messages");
        };
        if into.count != data.len() as u64 {
            return Err(Fault::Length {
                source_place: source,
                to,
                step: step as u32,
                expected: into.count,
                sent: data.len() as u64,
            });
        }
        self.volume.messages += 1;
        self.volume.elements += into.count;
        match action {
            Action::ReceiveReduce { message, with, .. } => {
                let with = place.read(with);
                match message {
                    Side::Left => place.combine(self.combine, &data, &with, into),
                    Side::Right => place.combine(self.combine, &with, &data, into),
                }
            }
            _ => place.slice(into).clone_from_slice(&data),
        }
        place.open[step] = 0;
        if self.sends == Sends::Blocking {
            self.places[source as usize].open[sender_step] -= 1;
            self.possible.push(Event::Begin(source));
        }
        self.possible
            .extend([Event::Begin(to), Event::Match(source, to)]);
        Ok(())
    }

    fn end(mut self) -> Result<Outcome<T>, Fault> {
        let mut waiting = Vec::new();
        for (me, place) in (0..).zip(&mut self.places) {
            place.advance();
            if place.complete < place.schedule.steps().len() {
                waiting.push((me, place.complete as u32));
            }
        }
        if !waiting.is_empty() {
            return Err(Fault::Deadlock { waiting });
        }
        for ((source_place, to), (messages, _)) in self.channels {
            if !messages.is_empty() {
                let messages = messages.len();
                return Err(Fault::NotReceived {
                    source_place,
                    to,
                    messages,
                });
            }
        }
        let outputs = self.places.into_iter().map(|place| {
            let [_, output, _] = place.buffers;
            output
        });
        Ok(Outcome {
            outputs: outputs.collect(),
            volume: self.volume,
        })
    }
}
