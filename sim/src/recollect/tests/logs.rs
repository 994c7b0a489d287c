//! LOG-1, LOG-2, LOG-4, LOG-5

use super::*;
use crate::happening::Life;
use crate::world::room::Room;
use core::time::Duration;
use refrain_logging::segment::slot_offset;
use refrain_logging::spill::{SpillLog, SpillOptions};
use refrain_logging::store::faulty::{Delivery, MemoryDisk, MemoryOptions, MemoryStore};
use refrain_rank::spilling::{Environment, Spilling};
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank, Region};
use refrain_transport::engine::{Engine, EngineOptions, SendTo};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::{Event, Protocol};

const JOB: u64 = 7;
const MESSAGES: u64 = 60;

/// Keeps payload and ignores events.
struct Keeping;

impl Protocol for Keeping {
    fn name(&self) -> &'static str {
        "keeping"
    }

    fn keeps_payload(&self) -> bool {
        true
    }

    fn event(&mut self, _event: Event<'_>) -> bool {
        false
    }

    fn advance(&mut self, _wanted: u64) -> u64 {
        u64::MAX
    }
}

struct Quiet;

impl Environment for Quiet {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn report(&mut self, _text: &str) {}
}

/// Two ranks; the first one sends, with a log of a few chunks and a disk.
struct Pair {
    network: Network,
    engines: [Engine<Keeping>; 2],
    memory: Region,
    disk: MemoryDisk,
    rooms: Vec<Room>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let network = Network::new(Options::calm(seed));
        let names = [Rank(0), Rank(1)];
        let start = |rank| network.start(rank, Incarnation(0), 6 * CHUNK_BYTES);
        let mut started = names.map(start);
        let addresses = started.each_ref().map(|(fabric, _)| fabric.address());
        for rank in names {
            let peer = names[1 - rank.index()];
            let (fabric, _) = &mut started[rank.index()];
            let connected = fabric.connect(peer, Incarnation(0), &addresses[peer.index()]);
            connected.expect("a peer that was started");
        }
        let memory = started[0].1.region().clone();
        let mut ranks = 0..;
        let [sender, receiver] = started.map(|(fabric, arena)| {
            let options = EngineOptions {
                rank: Rank(ranks.next().unwrap_or_default()),
                incarnation: Incarnation(0),
                size: 2,
                window_bytes: 6 * CHUNK_BYTES as u64,
            };
            Engine::new(options, arena, Box::new(fabric), Keeping)
        });
        let store = MemoryStore::new(MemoryOptions {
            seed,
            file_prefix: String::new(),
            job: JOB,
            delivery: Delivery::Shuffled { late_percent: 30 },
            room_bytes: u64::MAX,
        });
        let disk = store.disk();
        let options = SpillOptions {
            job: JOB,
            rank: Rank(0),
            incarnation: Incarnation(0),
            size: 2,
            disk_bytes: 64 << 20,
            writes_max: 2,
        };
        let log = SpillLog::new(options, store);
        let spilling = Spilling::new(log, "the disk".into(), CHUNK_BYTES as u64, Quiet);
        Self {
            network,
            engines: [sender.with_spill(Box::new(spilling)), receiver],
            memory,
            disk,
            rooms: Vec::new(),
        }
    }

    /// The first rank sends messages of all lengths; the second one receives `received` of them.
    fn exchange(&mut self, received: u64) {
        for number in 0..MESSAGES {
            let room = Room::holding(&bytes(number));
            let to = SendTo {
                rank: Rank(1),
                context: 0,
                tag: number as i32,
                synchronous: false,
            };
            let started = self.engines[0].start_send(room.to_send(), to);
            started.expect("there is room");
            self.rooms.push(room);
            if number < received {
                let room = Room::empty(200 << 10);
                let pattern = Pattern {
                    context: 0,
                    source: Some(Rank(0)),
                    tag: None,
                };
                let id = self.engines[1].start_receive(room.to_receive(), pattern);
                self.rooms.push(room);
                while self.engines[1].outcome(id).is_none() {
                    self.go_on();
                }
                self.engines[1].retire(id);
            }
        }
        while self.engines[0].has_unposted() {
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        for engine in &mut self.engines {
            engine.progress().expect("nothing is broken");
        }
        self.network.step();
    }

    fn ask(&mut self, from: u64) -> Result<Messages, String> {
        let mut asking = Asking::new(&self.engines[0], Rank(1), Ssn(from));
        for _ in 0..10_000 {
            if let Heard::All(messages) = asking.step(&mut self.engines[0])? {
                return Ok(messages);
            }
            self.go_on();
        }
        panic!("it never ends");
    }

    /// The sender dies; returns what it leaves.
    fn die(self) -> Remains {
        self.network.kill(Rank(0));
        Remains {
            life: Life {
                rank: Rank(0),
                incarnation: Incarnation(0),
            },
            job: JOB,
            memory: self.memory.clone(),
            files: self.disk.crash(),
        }
    }
}

fn bytes(number: u64) -> Vec<u8> {
    let bytes = (number * number * 31) % (100 << 10);
    (0..bytes).map(|at| (at * 7 + number) as u8).collect()
}

fn expected(from: u64) -> Messages {
    let message = |number: u64| {
        let message = Message {
            tag: number as i32,
            payload: bytes(number),
        };
        (Ssn(number), message)
    };
    (from..MESSAGES).map(message).collect()
}

/// A living peer returns every message that it sent, from memory and disk, starting at any SSN.
// LOG-1, LOG-2, REC-3
#[test]
fn a_living_peer_gives_all_its_messages() {
    for (seed, from) in [(1, 0), (2, 1), (3, 59), (4, 60)] {
        let mut pair = Pair::new(seed);
        pair.exchange(MESSAGES);
        assert!(!pair.disk.files().is_empty(), "the disk takes part");
        assert_eq!(pair.ask(from).unwrap(), expected(from));
    }
}

/// A log that was freed beyond the first requested message reports that; it does not return the
/// rest as if complete.
// LOG-4
#[test]
fn a_peer_that_freed_too_much_is_found() {
    let mut pair = Pair::new(5);
    pair.exchange(40);
    pair.engines[1].publish_horizon();
    for _ in 0..1000 {
        pair.go_on();
    }
    assert_eq!(pair.ask(40).unwrap(), expected(40));
    let missing = pair.ask(0).unwrap_err();
    assert!(missing.contains("are gone"), "{missing}");
}

/// A dead peer's memory and files contain the same messages.
// LOG-2, LOG-5
#[test]
fn a_dead_peer_gives_all_its_messages() {
    for (seed, from) in [(1, 0), (2, 1), (3, 59), (4, 60)] {
        let mut pair = Pair::new(seed);
        pair.exchange(MESSAGES);
        let remains = pair.die();
        let mut read = of_remains(&remains, Rank(1), Ssn(from)).unwrap();
        read.retain(|ssn, _| ssn.0 >= from);
        assert_eq!(read, expected(from));
        // Nothing was sent to other ranks.
        let other = of_remains(&remains, Rank(2), Ssn(0)).unwrap();
        assert!(other.is_empty());
    }
}

/// Missing or damaged files of a log are noticed.
// LOG-2; known trap: a log that loses everything once its window slides
#[test]
fn a_log_without_its_files_is_found() {
    let mut pair = Pair::new(6);
    pair.exchange(MESSAGES);
    let remains = pair.die();
    let without_files = Remains {
        files: Vec::new(),
        ..remains.clone()
    };
    let read = of_remains(&without_files, Rank(1), Ssn(0)).unwrap();
    assert_ne!(read, expected(0));
    assert!(!read.contains_key(&Ssn(0)));
    let mut damaged = remains;
    // In the first chunk, which exists only in the file.
    damaged.files[0].bytes[slot_offset(0) as usize + 5000] ^= 0xff;
    let read = of_remains(&damaged, Rank(1), Ssn(0));
    assert!(read.is_err() || read.is_ok_and(|read| read != expected(0)));
}
