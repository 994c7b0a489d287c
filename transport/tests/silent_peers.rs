//! Ranks that are introduced when something is to be sent: what waits until then, and what a peer costs
//! that never communicates.

#![allow(
    unsafe_code,
    reason = "lends buffers to the engine for the test, and counts memory"
)]

use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{
    Engine, EngineOptions, ReceiveBuffer, RequestId, SendBuffer, SendTo, Started,
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
