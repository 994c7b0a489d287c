//! Ranks that are introduced when something is to be sent: what waits until then, what a peer costs
//! that never communicates, and what an idle one gives back.

#![allow(
    unsafe_code,
    reason = "lends buffers to the engine for the test, and counts memory"
)]

use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{
    Beginning, Engine, EngineOptions, ReceiveBuffer, RequestId, SendBuffer, SendTo, Stall, Started,
};
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use refrain_transport::fabric::{Address, Fabric};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::{Event, Protocol};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: passes all calls on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What docs/design/many-ranks.md promises for a peer that never communicates, in bytes.
const SILENT_BYTES_MAX: isize = 64;
/// As above, for a peer that communicates: the heap, without the lanes and the log in the segments.
const TALKING_BYTES_MAX: isize = 2048;
/// As above, once the log of the sender has given back its chunk; of both ranks.
const IDLE_BYTES_MAX: isize = 1024;

struct KeepsPayload(bool);

impl Protocol for KeepsPayload {
    fn name(&self) -> &'static str {
        "test"
    }
    fn keeps_payload(&self) -> bool {
        self.0
    }
    fn event(&mut self, _: Event<'_>) -> bool {
        false
    }
    fn advance(&mut self, _wanted: u64) -> u64 {
        u64::MAX
    }
}

type TestEngine = Engine<KeepsPayload>;

/// A rank that has met nobody, and its address.
fn rank(rank: u32, life: u32, size: u32, keeps: bool) -> (TestEngine, Address) {
    let (incarnation, window_bytes) = (Incarnation(life), 1 << 20);
    let (fabric, arena) = Shm::create(ShmOptions {
        job: 4,
        rank: Rank(rank),
        incarnation,
        size,
        log_bytes: 2 * window_bytes,
        window_bytes,
    })
    .expect("there is memory for two windows");
    let address = fabric.address();
    let options = EngineOptions {
        rank: Rank(rank),
        incarnation,
        size,
        window_bytes,
    };
    let engine = Engine::new(options, arena, Box::new(fabric), KeepsPayload(keeps));
    (engine.with_introductions(&[], &[]), address)
}

fn introduce(one: &mut (TestEngine, Address), other: &mut (TestEngine, Address), lives: [u32; 2]) {
    let ranks = [0, 1].map(Rank);
    let [one_life, other_life] = lives.map(Incarnation);
    one.0
        .connect(ranks[1], other_life, &other.1)
        .expect("it is there");
    other
        .0
        .connect(ranks[0], one_life, &one.1)
        .expect("it is there");
}

/// Sends from rank 0 or 1 to the other.
fn send(engine: &mut TestEngine, to: u32, data: &'static [u8]) -> Started {
    // SAFETY: static bytes live unchanged.
    let buffer = unsafe { SendBuffer::bytes(data.as_ptr(), data.len()) };
    let to = SendTo {
        rank: Rank(to),
        context: 0,
        tag: 1,
        synchronous: false,
    };
    engine.start_send(buffer, to).expect("the log has room")
}

fn receive(engine: &mut TestEngine, room: &mut [u8]) -> RequestId {
    let pattern = Pattern {
        context: 0,
        source: None,
        tag: Some(1),
    };
    // SAFETY: the callers leave the room alone until the receive is complete.
    let buffer = unsafe { ReceiveBuffer::bytes(room.as_mut_ptr(), room.len()) };
    engine.start_receive(buffer, pattern)
}

fn until(ended: RequestId, of: &mut TestEngine, other: &mut TestEngine) {
    while of.finish(ended).is_none() {
        of.progress().expect("no fault");
        other.progress().expect("no fault");
    }
}

#[test]
fn a_silent_peer_costs_at_most_64_bytes() {
    let heap_of = |size: u32| {
        let before = BYTES.get();
        let made = rank(0, 0, size, true);
        let bytes = BYTES.get() - before;
        drop(made);
        bytes
    };
    // The table of log chunks is the same; the first call may initialise the library.
    heap_of(2);
    let (few, many) = (heap_of(2), heap_of(4002));
    let each = (many - few) as f64 / 4000.0;
    println!("a silent peer costs {each} bytes in engine and shared memory");
    assert!(each <= SILENT_BYTES_MAX as f64, "{each}");
}

#[test]
fn a_talking_peer_costs_what_the_documents_say() {
    let (mut one, mut other) = (rank(0, 0, 8, true), rank(1, 0, 8, true));
    let before = BYTES.get();
    introduce(&mut one, &mut other, [0, 0]);
    let mut room = [0; 3];
    let receives = receive(&mut other.0, &mut room);
    send(&mut one.0, 1, b"abc");
    until(receives, &mut other.0, &mut one.0);
    // Of both ranks.
    let each = (BYTES.get() - before) / 2;
    println!("a talking peer costs {each} bytes of the heap");
    assert!(each <= TALKING_BYTES_MAX, "{each}");
}

/// A hub that has met all others, as rank 0.
struct Star {
    engines: Vec<TestEngine>,
    hub: Address,
    keeps: bool,
    /// Messages sent to each rank.
    sent: Vec<u8>,
}

impl Star {
    fn new(size: u32, keeps: bool) -> Self {
        let mut ranks: Vec<_> = (0..size).map(|it| rank(it, 0, size, keeps)).collect();
        let (hub, others) = ranks.split_first_mut().expect("a hub");
        for (other, peer) in others.iter_mut().zip(1..) {
            let connected = hub.0.connect(Rank(peer), Incarnation(0), &other.1);
            connected.expect("it is there");
            let connected = other.0.connect(Rank(0), Incarnation(0), &hub.1);
            connected.expect("it is there");
        }
        Self {
            hub: ranks[0].1.clone(),
            engines: ranks.into_iter().map(|(engine, _)| engine).collect(),
            keeps,
            sent: vec![0; size as usize],
        }
    }

    fn progress(&mut self) {
        for engine in &mut self.engines {
            engine.progress().expect("no fault");
        }
    }

    /// The hub sends to a rank, which takes a checkpoint if messages are kept. Returns how often the
    /// hub had to wait for memory.
    fn exchange(&mut self, to: u32) -> usize {
        static NUMBERS: [[u8; 3]; 256] = {
            let mut numbers = [[0; 3]; 256];
            let mut number = 0;
            while number < 256 {
                numbers[number] = [number as u8; 3];
                number += 1;
            }
            numbers
        };
        let number = self.sent[to as usize];
        self.sent[to as usize] += 1;
        let (mut room, mut stalls) = ([0; 3], 0);
        let receives = receive(&mut self.engines[to as usize], &mut room);
        send(&mut self.engines[0], to, &NUMBERS[number as usize]);
        while self.engines[to as usize].finish(receives).is_none() {
            self.progress();
            let stall = self.engines[0].stall();
            assert!(!stall.is_some_and(Stall::is_of_memory), "{stall:?}");
            stalls += usize::from(stall.is_some());
        }
        assert_eq!(room, NUMBERS[number as usize]);
        if self.keeps {
            self.engines[to as usize].publish_horizon();
        }
        // What was consumed is released once the lane is idle.
        (0..3).for_each(|_| self.progress());
        stalls
    }

    /// Kills a rank; its next life begins with a checkpoint, and is not connected.
    fn kill(&mut self, victim: u32, checkpoint: Beginning) -> Address {
        let (later, address) = rank(victim, 1, self.sent.len() as u32, self.keeps);
        let later = later
            .with_introductions(&[Rank(0)], &[])
            .with_beginning(checkpoint);
        let killed = core::mem::replace(&mut self.engines[victim as usize], later);
        // A killed process ends nothing.
        core::mem::forget(killed);
        self.engines[0].fence(Rank(victim));
        address
    }

    fn connect_again(&mut self, victim: u32, address: &Address) {
        let connected = self.engines[0].connect(Rank(victim), Incarnation(1), address);
        connected.expect("a later life");
        let connected = self.engines[victim as usize].connect(Rank(0), Incarnation(0), &self.hub);
        connected.expect("it is there");
    }
}

/// The log has room for eight channels that hold a chunk. Messages go to 200 peers: the channels that
/// are idle give back their chunks, also those of peers that are spoken to again later.
// LOG-3 LOG-4
#[test]
fn many_peers_are_spoken_to_with_little_log_memory() {
    const PEERS: u32 = 200;
    for keeps in [false, true] {
        let mut star = Star::new(PEERS + 1, keeps);
        for peer in 1..=PEERS {
            star.exchange(peer);
        }
        let (used_bytes, budget_bytes) = star.engines[0].log_bytes();
        assert!(used_bytes <= budget_bytes && budget_bytes < u64::from(PEERS) << 18);
        let mut chance = 7u32;
        for _ in 0..600 {
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            star.exchange(1 + (chance >> 8) % PEERS);
        }
    }
}

/// A receiver that computes, and so has not released what it has received, delays a send that finds no
/// memory. It does not make the log full.
// LOG-3 LOG-7
#[test]
fn receivers_that_compute_only_delay_a_send() {
    const ROOM: u32 = 8;
    let mut star = Star::new(ROOM + 2, false);
    for peer in 1..=ROOM + 1 {
        let (mut room, mut has_waited) = ([0; 3], false);
        let receives = receive(&mut star.engines[peer as usize], &mut room);
        send(&mut star.engines[0], peer, b"abc");
        while star.engines[peer as usize].finish(receives).is_none() {
            star.engines[0].progress().expect("no fault");
            star.engines[peer as usize].progress().expect("no fault");
            if let Some(stall) = star.engines[0].stall() {
                assert_eq!(stall, Stall::Window);
                has_waited = true;
                // Their computation is over.
                star.progress();
            }
        }
        assert_eq!(has_waited, peer > ROOM, "{peer}");
    }
}

/// A caller that looks for idle channels at times never finds the memory exhausted: a send waits for
/// no receiver.
#[test]
fn idle_channels_are_found_before_memory_is_exhausted() {
    let mut star = Star::new(101, true);
    for peer in 1..=100 {
        assert_eq!(star.exchange(peer), 0, "peer {peer}");
        for _ in 0..2 {
            star.engines[0].rest_idle();
            star.progress();
        }
        let (used_bytes, budget_bytes) = star.engines[0].log_bytes();
        assert!(used_bytes <= budget_bytes / 4 * 3, "{used_bytes}");
    }
}

/// Of hub and peer together: only what says where their channels stand stays.
#[test]
fn an_idle_peer_costs_what_the_documents_say() {
    const PEERS: u32 = 8;
    let mut star = Star::new(PEERS + 1, true);
    let before = BYTES.get();
    (1..=PEERS).for_each(|peer| _ = star.exchange(peer));
    let talking = (BYTES.get() - before) / PEERS as isize;
    for _ in 0..2 {
        star.engines[0].rest_idle();
        (0..2).for_each(|_| star.progress());
    }
    star.engines[0].trim();
    star.engines[0].rest_idle();
    assert_eq!(star.engines[0].log_bytes().0, 0);
    let idle = (BYTES.get() - before) / PEERS as isize;
    println!(
        "above a peer that is connected, hub and peer cost {talking} bytes while they talk, then {idle}"
    );
    assert!(
        idle < talking && idle <= IDLE_BYTES_MAX,
        "{idle} of {talking}"
    );
}

/// Records that no checkpoint covers are kept, and so is their chunk.
// LOG-4
#[test]
fn a_channel_whose_messages_may_be_needed_keeps_its_chunk() {
    let mut star = Star::new(9, true);
    star.keeps = false;
    (1..=8).for_each(|peer| _ = star.exchange(peer));
    let (used_bytes, budget_bytes) = star.engines[0].log_bytes();
    assert_eq!(used_bytes, budget_bytes);
    for _ in 0..2 {
        star.engines[0].rest_idle();
        star.progress();
    }
    assert_eq!(star.engines[0].log_bytes().0, used_bytes);
    star.engines[3].publish_horizon();
    (0..2).for_each(|_| star.progress());
    star.engines[0].rest_idle();
    (0..2).for_each(|_| star.progress());
    star.engines[0].trim();
    assert_eq!(star.engines[0].log_bytes().0, used_bytes - (256 << 10));
}

/// A rank that has ended leaves no chunk: its peers need not wait for it.
#[test]
fn a_rank_that_has_ended_holds_no_memory_of_its_peers() {
    let mut star = Star::new(21, false);
    for peer in 1..=20 {
        star.exchange(peer);
        // One that knows nobody takes its place.
        star.engines[peer as usize] = rank(peer, 0, 21, false).0;
    }
}

/// A channel whose chunk was given back, and a receiver that dies: its next life gets what it misses,
/// and the log counts on.
// REC-3 LOG-4
#[test]
fn a_later_life_gets_what_followed_a_chunk_that_was_given_back() {
    for sends_before_death in [0, 1, 3] {
        let mut star = Star::new(9, true);
        (1..=8).for_each(|peer| _ = star.exchange(peer));
        for _ in 0..2 {
            star.engines[0].rest_idle();
            (0..2).for_each(|_| star.progress());
        }
        star.engines[0].trim();
        assert_eq!(star.engines[0].log_bytes().0, 0);
        let checkpoint = star.engines[3].state().expect("between two operations");
        let covered = checkpoint.delivered[0].until.program;
        assert_eq!(star.engines[0].log_kept_from(Rank(3)).program, covered);
        let numbers: [&'static [u8]; 4] = [b"abc", b"def", b"ghi", b"jkl"];
        let (before, after) = numbers.split_at(sends_before_death);
        before
            .iter()
            .for_each(|data| _ = send(&mut star.engines[0], 3, data));
        (0..3).for_each(|_| star.progress());
        let address = star.kill(3, checkpoint);
        after
            .iter()
            .for_each(|data| _ = send(&mut star.engines[0], 3, data));
        star.connect_again(3, &address);
        for expected in numbers {
            let mut room = [0; 3];
            let receives = receive(&mut star.engines[3], &mut room);
            while star.engines[3].finish(receives).is_none() {
                star.progress();
            }
            assert_eq!(room, *expected);
        }
    }
}

/// Messages wait for the introduction, in their order, and nothing of them is lost with a log that is
/// reused.
#[test]
fn messages_wait_for_the_introduction() {
    for keeps in [false, true] {
        let (mut one, mut other) = (rank(0, 0, 8, keeps), rank(1, 0, 8, keeps));
        let sent = [b"abc", b"def", b"ghi"].map(|data| send(&mut one.0, 1, data));
        assert_eq!(one.0.next_wanted_peer(), Some(Rank(1)));
        assert_eq!(one.0.next_wanted_peer(), None, "it is named once");
        for _ in 0..100 {
            one.0.progress().expect("no fault");
        }
        let ids = sent.map(|sent| match sent {
            Started::Pending(id) => id,
            Started::Done(_) => panic!("it cannot have left"),
        });
        assert!(ids.iter().all(|id| !one.0.has_ended(*id)));
        introduce(&mut one, &mut other, [0, 0]);
        for expected in [b"abc", b"def", b"ghi"] {
            let mut room = [0; 3];
            let receives = receive(&mut other.0, &mut room);
            until(receives, &mut other.0, &mut one.0);
            assert_eq!(room, *expected);
        }
        assert!(ids.iter().all(|id| one.0.has_ended(*id)));
        assert!(matches!(send(&mut one.0, 1, b"jkl"), Started::Done(_)));
        assert_eq!(one.0.next_wanted_peer(), None);
    }
}

/// A later life has caught up although peers are silent that no life of it has met, and it meets them as a
/// first life does.
// REC-3 REC-9
#[test]
fn a_later_life_waits_for_no_peer_that_it_has_not_met() {
    let mut one = rank(0, 0, 8, true);
    let mut later = rank(1, 1, 8, true);
    let silent = |engine: &TestEngine| (2..8).map(Rank).all(|peer| engine.is_live(peer));
    assert!(silent(&later.0) && later.0.is_live(Rank(0)));
    assert!(
        (0..8)
            .map(Rank)
            .all(|peer| peer == Rank(1) || !later.0.is_away(peer))
    );
    send(&mut later.0, 0, b"abc");
    assert_eq!(later.0.next_wanted_peer(), Some(Rank(0)));
    introduce(&mut one, &mut later, [0, 1]);
    assert!(
        later.0.is_away(Rank(0)),
        "each has to say first what it misses"
    );
    let mut room = [0; 3];
    let receives = receive(&mut one.0, &mut room);
    until(receives, &mut one.0, &mut later.0);
    assert_eq!(&room, b"abc");
    assert!(later.0.is_live(Rank(0)) && silent(&later.0));
}

/// To a peer that an earlier life has met, messages go into the log at once: the peer says what it misses.
// REC-3
#[test]
fn a_peer_that_was_met_before_is_waited_for() {
    let (engine, _) = rank(1, 1, 8, true);
    let engine = engine.with_introductions(&[Rank(0)], &[]);
    assert!(engine.is_away(Rank(0)) && !engine.is_live(Rank(0)));
    assert!(engine.is_live(Rank(2)));
}
