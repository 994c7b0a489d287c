//! One life of a rank: an engine, and how far its program has come.

use super::program::{Program, Seen, Step, bytes_of, see};
use crate::disk::MemoryDisk;
use crate::memory::{Room, receive_buffer, send_buffer};
use crate::recorder::{Recorder, TestProtocol};
use crate::rig::UNTOUCHED;
use refrain_ring::{Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::engine::{
    Beginning, Engine, EngineError, EngineOptions, Horizon, Progress, ReadBack, RequestId, SendTo,
    Started,
};
use refrain_transport::fabric::sim::Network;
use refrain_transport::fabric::{Address, Fabric};
use refrain_transport::matching::Pattern;
use std::collections::BTreeMap;

/// Rounds in which a log of a checkpoint must find room.
const ROUNDS_MAX: usize = 10_000;

/// What all lives of a job have in common.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    pub ranks: usize,
    pub log_bytes: usize,
    pub has_disk: bool,
}

/// Records of the log to one rank.
pub type SavedLog = Vec<(RecordHeader, Vec<u8>)>;

/// All that a later life begins with.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    next_step: usize,
    seen: Seen,
    beginning: Beginning,
    /// By receiver.
    logs: Vec<SavedLog>,
}

/// A checkpoint that is being taken.
struct Saving {
    checkpoint: Checkpoint,
    horizon: Horizon,
    /// By receiver, with the first message that is not written wholly.
    readers: Vec<Option<(ReadBack, Ssn)>>,
}

pub struct Life {
    pub rank: Rank,
    pub incarnation: Incarnation,
    pub engine: Engine<TestProtocol>,
    pub address: Address,
    pub protocol: Recorder,
    ranks: usize,
    next_step: usize,
    seen: Seen,
    receives: BTreeMap<usize, (RequestId, Room)>,
    sends: BTreeMap<usize, RequestId>,
    saving: Option<Saving>,
    /// Of a checkpoint that is stable and not published.
    unpublished: Option<Horizon>,
}

impl Life {
    /// Begins a life; a later one where the checkpoint says, with no peer.
    pub fn begin(
        network: &Network,
        means: Means,
        (rank, incarnation): (Rank, Incarnation),
        from: Option<&Checkpoint>,
        connected: &[Address],
    ) -> Self {
        let (fabric, arena) = network.start(rank, incarnation, means.log_bytes);
        Self::over(
            Box::new(fabric),
            arena,
            means,
            (rank, incarnation),
            from,
            connected,
        )
    }

    pub fn over(
        mut fabric: Box<dyn Fabric>,
        arena: refrain_ring::Arena,
        means: Means,
        (rank, incarnation): (Rank, Incarnation),
        from: Option<&Checkpoint>,
        connected: &[Address],
    ) -> Self {
        let address = fabric.address();
        for (peer, address) in (0..).map(Rank).zip(connected) {
            if peer != rank {
                let connected = fabric.connect(peer, Incarnation(0), address);
                connected.expect("a peer that was started");
            }
        }
        let protocol = Recorder::default();
        let options = EngineOptions {
            rank,
            incarnation,
            size: means.ranks as u32,
            window_bytes: means.log_bytes as u64,
        };
        let kept = TestProtocol {
            recorder: protocol.clone(),
            keeps_payload: true,
        };
        let mut engine = Engine::new(options, arena, fabric, kept);
        if means.has_disk {
            engine = engine.with_spill(Box::new(MemoryDisk::default()));
        }
        if let Some(from) = from {
            engine = engine.with_beginning(from.beginning.clone());
            load(&mut engine, &from.logs);
        }
        Self {
            rank,
            incarnation,
            engine,
            address,
            protocol,
            ranks: means.ranks,
            next_step: from.map_or(0, |from| from.next_step),
            seen: from.map_or(0, |from| from.seen),
            receives: BTreeMap::new(),
            sends: BTreeMap::new(),
            saving: None,
            unpublished: None,
        }
    }

    pub fn is_through(&self, program: &Program) -> bool {
        self.next_step == program.steps[self.rank.index()].len() && self.saving.is_none()
    }

    /// The step that comes next, for messages.
    pub fn place(&self, program: &Program) -> String {
        let steps = &program.steps[self.rank.index()];
        format!(
            "{:?} life {:?}: step {} of {}, {:?}; {:?}, unposted {}, stall {:?}, log {:?}, peers {:?}",
            self.rank,
            self.incarnation,
            self.next_step,
            steps.len(),
            steps.get(self.next_step),
            self.engine.statistics(),
            self.engine.has_unposted(),
            self.engine.stall(),
            self.engine.log_bytes(),
            self.peers(),
        )
    }

    /// Which life of each rank is connected, and whether it has what it missed.
    fn peers(&self) -> Vec<(Option<Incarnation>, bool)> {
        let ranks = (0..self.ranks as u32).map(Rank);
        let of = |peer| (self.engine.connected(peer), self.engine.is_live(peer));
        ranks.map(of).collect()
    }

    /// Makes progress; that a peer is lost is the job's affair.
    pub fn progress(&mut self) -> bool {
        match self.engine.progress() {
            Ok(arrived) => arrived,
            Err(EngineError::PeerLost { .. }) => true,
            Err(error) => panic!("{:?} life {:?}: {error}", self.rank, self.incarnation),
        }
    }

    /// Does the next step, if it can be done now; whether it could.
    pub fn step(&mut self, program: &Program, rooms: &mut Vec<Room>) -> bool {
        if self.saving.is_some() {
            return false;
        }
        let Some(step) = program.steps[self.rank.index()].get(self.next_step) else {
            return false;
        };
        let is_done = match *step {
            Step::Send(number) => self.send(program, number, rooms),
            Step::WaitSend(number) => self.wait_send(number),
            Step::Receive(number) => self.receive(program, number, rooms),
            Step::WaitReceive(number) => self.wait_receive(program, number),
            Step::Checkpoint => self.checkpoint(),
        };
        self.next_step += usize::from(is_done);
        if *step == Step::Checkpoint
            && let Some(saving) = &mut self.saving
        {
            saving.checkpoint.next_step = self.next_step;
        }
        is_done
    }

    fn send(&mut self, program: &Program, number: usize, rooms: &mut Vec<Room>) -> bool {
        let message = program.messages[number];
        let bytes = bytes_of(number, message.bytes, self.seen);
        assert!(
            bytes == program.expected[number],
            "{}: message {number} would be another one",
            self.place(program)
        );
        let room = Room::holding(&bytes);
        rooms.push(room.clone());
        let to = SendTo {
            rank: Rank(message.to as u32),
            context: 0,
            tag: message.tag,
            synchronous: message.synchronous,
        };
        let started = self.engine.start_send(send_buffer(&room), to);
        if let Started::Pending(id) = started.expect("the log can hold it") {
            self.sends.insert(number, id);
        }
        true
    }

    /// One that was sent before the checkpoint is complete.
    fn wait_send(&mut self, number: usize) -> bool {
        let Some(id) = self.sends.get(&number).copied() else {
            return true;
        };
        if self.engine.outcome(id).is_none() {
            return false;
        }
        self.engine.retire(id);
        self.sends.remove(&number);
        true
    }

    fn receive(&mut self, program: &Program, number: usize, rooms: &mut Vec<Room>) -> bool {
        let message = program.messages[number];
        let room = Room::holding(&vec![UNTOUCHED; message.bytes]);
        rooms.push(room.clone());
        let pattern = Pattern {
            context: 0,
            source: Some(Rank(message.from as u32)),
            tag: Some(message.tag),
        };
        let buffer = receive_buffer(&room, message.bytes);
        let id = self.engine.start_receive(buffer, pattern);
        self.receives.insert(number, (id, room));
        true
    }

    fn wait_receive(&mut self, program: &Program, number: usize) -> bool {
        let (id, room) = &self.receives[&number];
        let Some(outcome) = self.engine.outcome(*id) else {
            return false;
        };
        self.engine.retire(*id);
        let message = program.messages[number];
        let status = outcome.status;
        assert_eq!(
            (status.source.index(), status.tag, status.bytes),
            (message.from, message.tag, message.bytes as u64)
        );
        let found = room.read();
        assert!(
            found == program.expected[number],
            "{}: message {number} is another one",
            self.place(program)
        );
        self.seen = see(self.seen, number, &found);
        self.receives.remove(&number);
        true
    }

    /// Begins to take a checkpoint, unless a receive is open.
    fn checkpoint(&mut self) -> bool {
        let beginning = match self.engine.state() {
            Ok(beginning) => beginning,
            Err(why) => return !why.ends_by_progress(),
        };
        let reader = |to: u32| {
            let from = self.engine.log_kept_from(Rank(to));
            let is_other = Rank(to) != self.rank;
            is_other.then(|| (self.engine.read_back(Rank(to), from), from))
        };
        self.saving = Some(Saving {
            readers: (0..beginning.next_ssns.len() as u32).map(reader).collect(),
            horizon: self.engine.horizon(),
            checkpoint: Checkpoint {
                next_step: 0,
                seen: self.seen,
                logs: vec![Vec::new(); beginning.next_ssns.len()],
                beginning,
            },
        });
        true
    }

    /// Goes on with the checkpoint that is being taken, if one is: returns it
    /// when it is stable.
    pub fn save(&mut self) -> Option<Checkpoint> {
        let saving = self.saving.as_mut()?;
        let Checkpoint {
            logs, beginning, ..
        } = &mut saving.checkpoint;
        for (to, entry) in saving.readers.iter_mut().enumerate() {
            let until = beginning.next_ssns[to];
            let Some((reader, written)) = entry else {
                continue;
            };
            if *written >= until {
                *entry = None;
                continue;
            }
            read_some(&mut self.engine, reader, written, until, &mut logs[to]);
            return None;
        }
        let saving = self.saving.take()?;
        self.unpublished = Some(saving.horizon);
        Some(saving.checkpoint)
    }

    /// Tells that the newest checkpoint is stable.
    pub fn publish(&mut self) {
        if let Some(horizon) = self.unpublished.take() {
            self.engine.publish(&horizon);
        }
    }
}

fn read_some(
    engine: &mut Engine<TestProtocol>,
    reader: &mut ReadBack,
    written: &mut Ssn,
    until: Ssn,
    log: &mut SavedLog,
) {
    let mut left_bytes = 0;
    if let Some((header, _)) = log.iter().rfind(|(it, _)| it.kind != RecordKind::Fragment) {
        let of_it = log.iter().filter(|(it, _)| it.ssn == header.ssn);
        let read_bytes: u64 = of_it.map(|(_, payload)| payload.len() as u64).sum();
        left_bytes = header.extent - read_bytes;
    }
    let progress = engine.read_on(reader, &mut |header, payload| {
        if header.ssn >= until {
            return;
        }
        if header.kind != RecordKind::Fragment {
            left_bytes = header.extent;
        }
        left_bytes -= payload.len() as u64;
        if left_bytes == 0 {
            *written = header.ssn.next();
        }
        log.push((*header, payload.to_vec()));
    });
    if let Progress::Passed(kept_from) = progress.expect("the log can be read") {
        *written = (*written).max(kept_from);
    }
}

fn load(engine: &mut Engine<TestProtocol>, logs: &[SavedLog]) {
    for (to, log) in (0..).map(Rank).zip(logs) {
        for (header, payload) in log {
            let mut rounds = 0..ROUNDS_MAX;
            while !engine.log_again(to, header, payload).expect("memory") {
                engine.progress().expect("nobody is there yet");
                rounds.next().expect("room comes");
            }
        }
    }
}
