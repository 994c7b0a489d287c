//! Requests by handle, in a job of one rank that sends to itself.

#![allow(
    unsafe_code,
    reason = "lends memory to requests, and counts allocations"
)]

use refrain::{
    Ended, Error, Layout, ReceiveBuffer, Request, SendBuffer, Status, World, from, from_any, to,
};
use std::alloc::{GlobalAlloc, Layout as Allocation, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes all calls on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn alloc(&self, layout: Allocation) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Allocation) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Lends memory that the test does not touch until its request has ended.
fn room(memory: &mut [u8]) -> ReceiveBuffer {
    // SAFETY: as described above.
    unsafe { ReceiveBuffer::bytes(memory.as_mut_ptr(), memory.len()) }
}

fn data(memory: &[u8]) -> SendBuffer {
    // SAFETY: as above.
    unsafe { SendBuffer::bytes(memory.as_ptr(), memory.len()) }
}

static ONE_WORLD: Mutex<()> = Mutex::new(());

/// A process has one world at a time.
fn alone() -> MutexGuard<'static, ()> {
    ONE_WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn world() -> World {
    World::init().expect("a job of one rank")
}

fn received(ended: &Ended) -> (usize, i32, u64, Option<u64>) {
    (
        ended.index,
        ended.status.tag,
        ended.status.bytes,
        ended.truncated_to,
    )
}

/// Posts receives with tags 0 to 3; those of tags 0 and 2 get too many bytes.
fn post_short(world: &mut World, rooms: &mut [[u8; 4]; 4]) -> Vec<Request> {
    let mut tag = -1;
    let post = |memory: &mut [u8; 4]| {
        tag += 1;
        world
            .start_receive(room(memory), from(0).tag(tag))
            .expect("rank 0")
    };
    let requests = rooms.iter_mut().map(post).collect();
    for (tag, bytes) in [(0, 8), (1, 4), (2, 6), (3, 1)] {
        world
            .send(&vec![tag as u8 + 1; bytes], to(0).tag(tag))
            .expect("to itself");
    }
    requests
}

const SHORT: [(usize, i32, u64, Option<u64>); 4] = [
    (0, 0, 8, Some(4)),
    (1, 1, 4, None),
    (2, 2, 6, Some(4)),
    (3, 3, 1, None),
];

#[test]
fn messages_that_are_too_long_lose_no_status() {
    let _alone = alone();
    let mut world = world();
    let mut ended = [Ended::default(); 4];
    for call in 0..4 {
        let mut rooms = [[0; 4]; 4];
        let mut requests = post_short(&mut world, &mut rooms);
        match call {
            0 => world.wait_all(&mut requests, &mut ended).expect("all end"),
            1 => assert!(world.test_all(&mut requests, &mut ended).expect("all end")),
            2 => assert_eq!(
                world
                    .wait_some(&mut requests, &mut ended)
                    .expect("some end"),
                4
            ),
            _ => assert_eq!(
                world
                    .test_some(&mut requests, &mut ended)
                    .expect("some end"),
                4
            ),
        }
        assert_eq!(ended.map(|ended| received(&ended)), SHORT);
        assert!(requests.iter().all(Request::is_null));
        assert_eq!(rooms, [[1; 4], [2; 4], [3; 4], [4, 0, 0, 0]]);
        let error = ended[2].status().expect_err("too long").to_string();
        assert!(error.contains("6 bytes from rank 0 (tag 2)"), "{error}");
    }
    assert_eq!(world.request_count(), 0);
}

#[test]
fn a_scope_names_requests_whose_messages_are_too_long() {
    let _alone = alone();
    let mut world = world();
    let (mut first, mut second) = ([0; 4], [0; 4]);
    let result = world.scope(|scope| {
        let mut requests = [
            scope.irecv(&mut first, from(0).tag(7))?,
            Request::NULL,
            scope.irecv(&mut second, from(0).tag(8))?,
        ];
        scope.world().send(b"too long", to(0).tag(8))?;
        scope.world().send(b"fits", to(0).tag(7))?;
        scope.wait_all(&mut requests)
    });
    let Err(Error::TooLong(ended)) = result else {
        panic!("{result:?}");
    };
    let of_two = [received(&ended[0]), received(&ended[2])];
    assert_eq!(of_two, [(0, 7, 4, None), (2, 8, 8, Some(4))]);
    let text = Error::TooLong(ended).to_string();
    assert!(
        text.starts_with("request 2 of the call: truncated"),
        "{text}"
    );
    assert_eq!((&first, &second), (b"fits", b"too "));
}

#[test]
fn a_persistent_request_starts_many_times() {
    let _alone = alone();
    let mut world = world();
    let (mut out, mut into) = ([0_u8; 100], [0_u8; 100]);
    let (from_here, to_here) = (out.as_mut_ptr(), into.as_mut_ptr());
    // SAFETY: touched only while both requests are inactive.
    let (data, room) = unsafe {
        (
            SendBuffer::bytes(from_here, 100),
            ReceiveBuffer::bytes(to_here, 100),
        )
    };
    let mut requests = [
        world
            .prepare_receive(room, from_any().any_tag())
            .expect("any"),
        world.prepare_send(data, to(0).tag(3)).expect("rank 0"),
    ];
    let [receive, send] = requests;
    let mut ended = [Ended::default(); 2];
    for round in 0..1000_u64 {
        assert!(!world.is_active(receive) && !world.is_active(send));
        // SAFETY: both are inactive.
        unsafe { from_here.write_bytes(round as u8, 100) };
        world.start(receive).expect("it is inactive");
        world.start(receive).expect_err("it is active");
        world.start(send).expect("it is inactive");
        assert!(world.is_active(receive) && world.is_active(send));
        match round % 4 {
            0 => world.wait_all(&mut requests, &mut ended).expect("both end"),
            1 => assert_eq!(
                world
                    .wait_some(&mut requests, &mut ended)
                    .expect("both end"),
                2
            ),
            2 => {
                for _ in 0..2 {
                    assert!(world.wait_any(&mut requests).expect("one ends").is_some());
                }
            }
            _ => {
                for request in &mut requests {
                    world.wait(request).expect("it ends");
                }
            }
        }
        assert_eq!(requests, [receive, send], "persistent requests stay");
        // A wait for inactive requests returns at once.
        assert_eq!(world.wait_any(&mut requests).expect("none is active"), None);
        assert_eq!(
            world
                .wait_some(&mut requests, &mut ended)
                .expect("likewise"),
            0
        );
        let empty = world.wait(&mut requests[0]).expect("likewise");
        assert_eq!(empty.status, Status::default());
        // SAFETY: both are inactive.
        assert_eq!(unsafe { to_here.add(99).read() }, round as u8);
    }
    world.start(receive).expect("it is inactive");
    for request in &mut requests {
        world.free(request).expect("it exists");
        assert!(request.is_null());
    }
    world.start(send).expect_err("it was freed");
    assert_eq!(world.request_count(), 0);
}

#[test]
fn stale_and_doubled_handles_are_refused() {
    let _alone = alone();
    let mut world = world();
    let mut memory = [0; 8];
    let mut request = world
        .start_receive(room(&mut memory), from(0))
        .expect("rank 0");
    let mut copy = request;
    let mut ended = [Ended::default(); 2];
    let index = |error: Error| match error {
        Error::Request { index } => index,
        other => panic!("{other}"),
    };
    let mut twice = [copy, copy];
    let error = world
        .wait_all(&mut twice, &mut ended)
        .expect_err("named twice");
    assert_eq!(index(error), 1);
    assert_eq!(
        world.test_any(&mut twice[..1]).expect("it was not ended"),
        None
    );
    world
        .wait_all(&mut twice, &mut ended[..1])
        .expect_err("no place for the second");
    world.send(b"8 bytes.", to(0)).expect("to itself");
    world.wait(&mut request).expect("it ends");
    assert!(request.is_null());
    assert_eq!(index(world.wait(&mut copy).expect_err("over")), 0);
    assert_eq!(index(world.test(&mut copy).expect_err("over")), 0);
    assert_eq!(index(world.cancel(copy).expect_err("over")), 0);
    assert_eq!(index(world.free(&mut copy).expect_err("over")), 0);
    let mut with_stale = [Request::NULL, copy];
    let calls = [
        world.wait_some(&mut with_stale, &mut ended).map(drop),
        world.test_some(&mut with_stale, &mut ended).map(drop),
        world.wait_any(&mut with_stale).map(drop),
        world.test_any(&mut with_stale).map(drop),
    ];
    for call in calls {
        assert_eq!(index(call.expect_err("over")), 1);
    }
    // The slot is reused: the old handle does not name the new request.
    let mut memory = [0; 8];
    let mut next = world
        .start_receive(room(&mut memory), from(0))
        .expect("rank 0");
    assert_eq!(index(world.wait(&mut copy).expect_err("over")), 0);
    world.free(&mut next).expect("it exists");
}

#[test]
fn a_request_that_outlives_its_scope_is_refused() {
    let _alone = alone();
    let mut world = world();
    let mut memory = [0; 8];
    let mut kept = Request::NULL;
    let given_up: Result<(), Error> = world.scope(|scope| {
        kept = scope.irecv(&mut memory, from(0))?;
        Err(Error::Argument("the program gives up".into()))
    });
    given_up.expect_err("it gave up");
    let late = world.scope(|scope| scope.wait(&mut kept));
    assert!(matches!(late, Err(Error::Request { index: 0 })), "{late:?}");
    assert_eq!(world.request_count(), 0);
}

/// Bytes that a layout picks with offsets below the buffer's address and a negative stride; and,
/// with a buffer at address 0, from several buffers.
#[test]
fn offsets_may_be_negative_or_addresses() {
    let _alone = alone();
    let mut world = world();
    let grid: Vec<u8> = (0..64).collect();
    let middle = grid[32..].as_ptr();
    let back = Layout::signed(&[(-2, 2), (1, 1)], -8, 3).expect("small");
    let back = Arc::new(back.with_extent(4));
    // Two elements: the second begins 4 bytes later.
    let expected: Vec<u8> = [32_u8, 24, 16, 36, 28, 20]
        .iter()
        .flat_map(|at| [at - 2, at - 1, at + 1])
        .collect();
    let mut into = vec![0; expected.len()];
    // SAFETY: all bytes lie in the grid, which stays valid.
    let picked = unsafe { SendBuffer::laid_out(middle, 2, back) }.expect("18 bytes");
    let mut request = world
        .start_receive(room(&mut into), from(0))
        .expect("rank 0");
    world.send(picked, to(0)).expect("to itself");
    let ended = world.wait(&mut request).expect("it ends");
    assert_eq!(ended.status.bytes, 18);
    assert_eq!(into, expected);

    let (mut first, mut second) = (vec![0_u8; 9], vec![0_u8; 9]);
    let address = |memory: &mut Vec<u8>, at| memory.as_mut_ptr().expose_provenance() as i64 + at;
    let blocks = [(address(&mut second, 4), 5), (address(&mut first, 1), 8)];
    let absolute = Arc::new(Layout::signed(&blocks, 0, 1).expect("they are addresses"));
    // SAFETY: all bytes lie in the two vectors, which stay valid.
    let room = unsafe { ReceiveBuffer::laid_out(core::ptr::null_mut(), 1, Arc::clone(&absolute)) };
    let room = room.expect("no byte twice");
    let mut request = world.start_receive(room, from(0)).expect("rank 0");
    world.send(b"firstthen the", to(0)).expect("to itself");
    world.wait(&mut request).expect("it ends");
    assert_eq!(
        (&first[..], &second[..]),
        (&b"\0then the"[..], &b"\0\0\0\0first"[..])
    );
    // SAFETY: as above.
    let data = unsafe { SendBuffer::laid_out(core::ptr::null(), 1, absolute) };
    let mut back = [0; 13];
    world
        .send(data.expect("13 bytes"), to(0))
        .expect("to itself");
    world.recv(&mut back, from(0)).expect("it is there");
    assert_eq!(&back, b"firstthen the");
}

/// Messages of 0 to 4 layouts, from one memory into another of the same shape.
#[test]
fn several_layouts_make_up_a_message() {
    const MIDDLE: usize = 200;
    let _alone = alone();
    let mut world = world();
    let layouts = [
        Layout::contiguous(7),
        Layout::contiguous(7).with_extent(9),
        Layout::contiguous(7).with_extent(-7),
        Layout::vector(3, 4, 6).expect("small"),
        Layout::indexed(&[(5, 2), (0, 3)]).expect("small"),
        Layout::signed(&[(-3, 2), (1, 1)], 0, 1)
            .expect("small")
            .with_extent(11),
        Layout::signed(&[(-3, 2), (1, 1)], -8, 3)
            .expect("small")
            .with_extent(-24),
        Layout::signed(&[(2, 8)], -8, 3).expect("small"),
    ];
    for layout in layouts.map(Arc::new) {
        for count in 0..=4 {
            let out: Vec<u8> = (0..2 * MIDDLE).map(|at| at as u8 | 1).collect();
            let mut into = vec![0; out.len()];
            let mut expected = into.clone();
            for item in 0..count as isize {
                for piece in layout.pieces(0, usize::MAX) {
                    let begin = item * layout.extent_bytes() + piece.buffer_offset;
                    let begin = MIDDLE.checked_add_signed(begin).expect("inside");
                    let place = begin..begin + piece.bytes;
                    expected[place.clone()].copy_from_slice(&out[place]);
                }
            }
            // SAFETY: all bytes lie in the two vectors, which are not touched.
            let (data, room) = unsafe {
                let data = SendBuffer::laid_out(out[MIDDLE..].as_ptr(), count, Arc::clone(&layout));
                let middle = into.as_mut_ptr().add(MIDDLE);
                (
                    data,
                    ReceiveBuffer::laid_out(middle, count, Arc::clone(&layout)),
                )
            };
            let room = room.expect("no byte twice");
            let mut request = world.start_receive(room, from(0)).expect("rank 0");
            world.send(data.expect("small"), to(0)).expect("to itself");
            let ended = world.wait(&mut request).expect("it ends");
            assert_eq!(ended.status.bytes, count * layout.message_bytes());
            assert_eq!(into, expected, "{count} of {layout:?}");
        }
    }
}

#[test]
fn calls_on_requests_do_not_allocate() {
    let _alone = alone();
    let mut world = world();
    let mut ended = [Ended::default(); 8];
    let mut rooms = [[0; 8]; 8];
    let mut round = |world: &mut World| {
        for call in 0..5 {
            let mut requests = [Request::NULL; 8];
            for (request, memory) in requests.iter_mut().zip(&mut rooms) {
                *request = world.start_receive(room(memory), from(0)).expect("rank 0");
            }
            let sends = [(); 8].map(|()| world.start_send(data(&[]), to(0)).expect("to itself"));
            for mut send in sends {
                world.wait(&mut send).expect("it ends");
            }
            match call {
                0 => world.wait_all(&mut requests, &mut ended).expect("all end"),
                1 => assert!(world.test_all(&mut requests, &mut ended).expect("all end")),
                2 => assert_eq!(world.wait_some(&mut requests, &mut ended).expect("all"), 8),
                3 => assert_eq!(world.test_some(&mut requests, &mut ended).expect("all"), 8),
                _ => while world.wait_any(&mut requests).expect("one ends").is_some() {},
            }
        }
    };
    round(&mut world);
    let before = ALLOCATIONS.get();
    round(&mut world);
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
