//! A rank with several channels, an arena and a [`SpillLog`], driven step by
//! step, with the expected state beside them.

mod checks;

use crate::channel::{Channel, INCARNATION, SOURCE};
use crate::disk::{Disk, DiskBug, JOB, Outcome};
use crate::reader::Reader;
use core::time::Duration;
use refrain_logging::spill::{Event, Refused, Report, SpillLog, SpillOptions};
use refrain_logging::store::{ReadToken, StoreError};
use refrain_ring::read_back::ChunkBytes;
use refrain_ring::read_back::Progress;
use refrain_ring::{Arena, CHUNK_BYTES, LoanEnd, Rank, Ssn};
use std::collections::BTreeMap;

pub const CHANNELS: usize = 3;
const ARENA_CHUNKS: usize = 20;
const WINDOW_CHUNKS: u64 = 9;
const WRITES_MAX: usize = 4;
const READERS_MAX: usize = 4;
/// A pause is no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    Send {
        channel: usize,
        bytes: u64,
        is_rendezvous: bool,
    },
    PackOn {
        channel: usize,
        which: usize,
        fragments: usize,
    },
    Publish {
        channel: usize,
        records: usize,
    },
    Release {
        channel: usize,
        part: u8,
    },
    Lend {
        channel: usize,
        chunks: usize,
    },
    /// The disk performs one of the requested operations.
    Act {
        which: usize,
        outcome: Outcome,
    },
    Poll,
    /// The receiver's checkpoint advances; the log gets the horizon now or later.
    Checkpoint {
        channel: usize,
        part: u8,
        is_told: bool,
    },
    Trim {
        channel: usize,
    },
    Read {
        channel: usize,
        which: usize,
    },
    /// Begins to read a channel back from a message on.
    ReadBack {
        channel: usize,
        part: u8,
    },
    ReadOn {
        reader: usize,
        steps: usize,
    },
    Wait {
        milliseconds: u64,
    },
    CheckAll,
}

/// Bugs of the code between log and disk, to show that the oracle sees
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankBug {
    TakesFailureForSuccess,
    TakesSuccessForFailure,
    LendsWhatIsNotPublished,
    TrimsTheLogAhead,
    TrimsTheDiskAhead,
    TrimsWhatIsNotConsumed,
    NeverTrimsTheDisk,
    LosesAChunk,
    HidesTheHorizon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    Paused,
    Stopped,
}

pub struct RankUnderTest {
    arena: Arena,
    channels: Vec<Channel>,
    spill: SpillLog<Disk>,
    disk: Disk,
    reads: BTreeMap<ReadToken, (usize, u64)>,
    readers: Vec<Reader>,
    now: Duration,
    health: Health,
    paused_at: Duration,
    failed_at: Duration,
    hard_failures_when_good: u64,
    /// Reported files that could not be removed.
    undeleted_told: u64,
    bug: Option<RankBug>,
}

impl RankUnderTest {
    pub fn new(disk_files: u64, disk_bug: Option<DiskBug>, bug: Option<RankBug>) -> Self {
        let mut options = SpillOptions {
            job: JOB,
            rank: SOURCE,
            incarnation: INCARNATION,
            size: CHANNELS as u32 + 1,
            disk_bytes: SpillOptions::DISK_BYTES_MIN,
            writes_max: WRITES_MAX,
        };
        options.disk_bytes = options.file_bytes() * disk_files + 4095;
        let disk = Disk::new(options.disk_bytes, CHANNELS, disk_bug);
        let channel = |to| Channel::new(Rank(to as u32), WINDOW_CHUNKS * CHUNK_BYTES as u64);
        Self {
            arena: Arena::heap(ARENA_CHUNKS * CHUNK_BYTES),
            channels: (0..CHANNELS).map(channel).collect(),
            spill: SpillLog::new(options, disk.clone()),
            disk,
            reads: BTreeMap::new(),
            readers: Vec::new(),
            now: Duration::ZERO,
            health: Health::Good,
            paused_at: Duration::ZERO,
            failed_at: Duration::ZERO,
            hard_failures_when_good: 0,
            undeleted_told: 0,
            bug,
        }
    }

    pub fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
            self.check();
        }
        self.finish();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send {
                channel,
                bytes,
                is_rendezvous,
            } => self.channels[channel].send(&mut self.arena, bytes, is_rendezvous),
            Step::PackOn {
                channel,
                which,
                fragments,
            } => {
                for _ in 0..fragments {
                    self.channels[channel].pack_on(&mut self.arena, which);
                }
            }
            Step::Publish { channel, records } => {
                self.channels[channel].publish(&self.arena, records);
            }
            Step::Release { channel, part } => self.channels[channel].release(part),
            Step::Lend { channel, chunks } => self.lend(channel, chunks),
            Step::Act { which, outcome } => self.act(which, outcome),
            Step::Poll => self.poll(),
            Step::Checkpoint {
                channel,
                part,
                is_told,
            } => self.checkpoint(channel, part, is_told),
            Step::Trim { channel } => self.trim(channel),
            Step::Read { channel, which } => self.read(channel, which),
            Step::ReadBack { channel, part } => self.read_back(channel, part),
            Step::ReadOn { reader, steps } => self.read_on(reader, steps),
            Step::Wait { milliseconds } => self.now += Duration::from_millis(milliseconds),
            Step::CheckAll => self.check_all(),
        }
    }

    fn lend(&mut self, channel: usize, chunks: usize) {
        for _ in 0..chunks {
            let from = &mut self.channels[channel];
            let posted = match self.bug {
                Some(RankBug::LendsWhatIsNotPublished) => from.log.tail(),
                _ => from.posted(),
            };
            let Some(sequence) = from.next_to_lend(posted) else {
                assert!(from.lend(&self.arena, posted).is_none());
                return;
            };
            assert_eq!(from.log.next_to_lend(posted), Some(sequence));
            let taken = self.spill.takes(Rank(channel as u32), sequence, self.now);
            self.check_taken(taken);
            if taken.is_err() {
                return;
            }
            let from = &mut self.channels[channel];
            let chunk = from.lend(&self.arena, posted).expect("it was the next");
            self.spill.put(chunk);
        }
    }

    fn check_taken(&self, taken: Result<(), Refused>) {
        let is_paused = match self.health {
            Health::Stopped => return assert_eq!(taken, Err(Refused::Stopped)),
            Health::Good => false,
            Health::Paused => taken == Err(Refused::Paused),
        };
        if self.health == Health::Paused && self.now < self.paused_at + PAUSE_MIN {
            assert!(is_paused);
        }
        if is_paused {
            assert!(self.now < self.failed_at + PAUSE_MAX, "it is tried again");
            return;
        }
        if self.spill.writes_under_way() >= WRITES_MAX {
            return assert_eq!(taken, Err(Refused::Busy));
        }
        match taken {
            Ok(()) => {}
            Err(Refused::Full) => {
                let options = self.spill.options();
                let disk_bytes = self.spill.statistics().disk_bytes;
                assert!(disk_bytes + options.file_bytes() > options.disk_bytes);
            }
            other => panic!("{other:?} without a reason"),
        }
    }

    fn act(&mut self, which: usize, outcome: Outcome) {
        let mut platter = self.disk.platter();
        let asked = platter.asked.len();
        if asked > 0 {
            platter.act(which % asked, outcome);
        }
    }

    fn poll(&mut self) {
        loop {
            let failures = self.disk.platter().failures;
            let event = self.spill.poll(|| self.now);
            if self.disk.platter().failures > failures {
                self.failed_at = self.now;
            }
            match event {
                None => return,
                Some(Event::Returned(chunk, end)) => {
                    if self.bug == Some(RankBug::LosesAChunk) {
                        continue;
                    }
                    let told = match self.bug {
                        Some(RankBug::TakesFailureForSuccess) => LoanEnd::OnDisk,
                        Some(RankBug::TakesSuccessForFailure) => LoanEnd::InMemory,
                        _ => end,
                    };
                    assert_eq!((chunk.source(), chunk.incarnation()), (SOURCE, INCARNATION));
                    self.channels[chunk.destination().index()].take_back(&chunk, end, told);
                }
                Some(Event::Read { token, result }) => {
                    self.end_read(token, result);
                }
                Some(Event::Report(report)) => self.hear(&report),
            }
        }
    }

    fn hear(&mut self, report: &Report) {
        let hard_failures = self.disk.platter().hard_failures;
        match report {
            Report::Paused { .. } => {
                assert_eq!(self.health, Health::Good);
                self.health = Health::Paused;
                self.paused_at = self.now;
            }
            Report::Resumed => {
                assert_eq!(self.health, Health::Paused);
                self.health = Health::Good;
                self.hard_failures_when_good = hard_failures;
            }
            Report::Stopped { error } => {
                assert_ne!(self.health, Health::Stopped);
                assert!(!error.is_lack_of_space(), "a full disk may get free again");
                assert!(hard_failures >= self.hard_failures_when_good + 3);
                self.health = Health::Stopped;
                self.disk.platter().is_given_up = true;
            }
            Report::Undeleted { .. } => self.undeleted_told += 1,
        }
    }

    fn checkpoint(&mut self, channel: usize, part: u8, is_told: bool) {
        self.channels[channel].checkpoint(part);
        if is_told {
            self.tell_horizon(channel);
        }
    }

    fn tell_horizon(&mut self, channel: usize) {
        let horizon = self.channels[channel].horizon;
        self.disk.platter().horizons[channel] = horizon;
        let told = match self.bug {
            Some(RankBug::NeverTrimsTheDisk) => return,
            Some(RankBug::TrimsTheDiskAhead) => Ssn(horizon.0 + 2),
            _ => horizon,
        };
        self.spill.trim(Rank(channel as u32), &told.into());
    }

    fn trim(&mut self, channel: usize) {
        self.tell_horizon(channel);
        let of = &mut self.channels[channel];
        let (mut horizon, mut released) = (of.horizon, of.released());
        match self.bug {
            Some(RankBug::TrimsTheLogAhead) => horizon.0 += 2,
            Some(RankBug::TrimsWhatIsNotConsumed) => released = of.log.tail(),
            _ => {}
        }
        of.trim(&mut self.arena, horizon, released);
    }

    fn read(&mut self, channel: usize, which: usize) {
        let chunks = self.channels[channel].places.len();
        if chunks == 0 {
            return;
        }
        let sequence = (which % chunks) as u64;
        let destination = Rank(channel as u32);
        let holds = self.spill.holds(destination, sequence);
        let token = self.spill.read(destination, sequence);
        assert_eq!(token.is_some(), holds);
        if let Some(token) = token {
            let former = self.reads.insert(token, (channel, sequence));
            assert_eq!(former, None, "a token is used once");
        }
    }

    fn end_read(&mut self, token: ReadToken, result: Result<ChunkBytes, StoreError>) {
        let Some((channel, sequence)) = self.reads.remove(&token) else {
            // Or it belongs to a reader that is gone, or no longer needs it.
            let mut result = Some(result);
            for reader in &mut self.readers {
                if reader.waits_for(token)
                    && let Some(result) = result.take()
                {
                    reader.arrived(token, result);
                }
            }
            return;
        };
        if let Ok(buffer) = result {
            self.channels[channel].check_disk(sequence, buffer.bytes());
        }
    }

    /// LOG-2
    fn read_back(&mut self, channel: usize, part: u8) {
        let of = &self.channels[channel];
        let from = Ssn(of.next_ssn.0 * u64::from(part) / 255);
        if self.readers.len() == READERS_MAX {
            self.readers.remove(0);
        }
        self.readers.push(Reader::new(channel, of, from));
    }

    fn read_on(&mut self, reader: usize, steps: usize) {
        if self.readers.is_empty() {
            return;
        }
        let at = reader % self.readers.len();
        for _ in 0..steps {
            self.step_reader(at);
        }
    }

    fn step_reader(&mut self, at: usize) -> Option<Progress> {
        let reader = &mut self.readers[at];
        let horizon = match self.bug {
            Some(RankBug::HidesTheHorizon) => Ssn(0),
            _ => self.disk.platter().horizons[reader.channel],
        };
        let of = &self.channels[reader.channel];
        reader.step(of, &self.arena, horizon, &mut self.spill)
    }

    /// All readers reach the end of the sent messages.
    fn read_to_the_end(&mut self) {
        for at in 0..self.readers.len() {
            while self.step_reader(at) != Some(Progress::End) {
                self.settle();
            }
        }
    }
}
