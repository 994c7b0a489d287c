//! A message that is longer than 32 bits can count arrives whole.

#![allow(unsafe_code, reason = "lends buffers to the engine for the test")]

use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{
    Engine, EngineOptions, ReceiveBuffer, SendBuffer, SendTo, Started,
};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use refrain_transport::layout::Layout;
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::{Event, Protocol};
use std::sync::Arc;

/// One block, sent many times: its length divides no power of two, so that an offset that wraps is
/// noticed.
const BLOCK_BYTES: usize = (1 << 20) + 1;
const BLOCKS: usize = 4096 + 8;
const WINDOW_BYTES: u64 = 1 << 20;
/// For the received message, with a margin.
const MEMORY_BYTES_MIN: u64 = 7 << 30;

struct KeepsNothing;

impl Protocol for KeepsNothing {
    fn name(&self) -> &'static str {
        "none"
    }
    fn keeps_payload(&self) -> bool {
        false
    }
    fn event(&mut self, _: Event<'_>) -> bool {
        false
    }
    fn advance(&mut self, _wanted: u64) -> u64 {
        u64::MAX
    }
}

fn engines() -> [Engine<KeepsNothing>; 2] {
    let ends = [0, 1].map(|rank| {
        Shm::create(ShmOptions {
            job: 4,
            rank: Rank(rank),
            incarnation: Incarnation(0),
            size: 2,
            log_bytes: 2 * WINDOW_BYTES,
            window_bytes: WINDOW_BYTES,
        })
        .expect("there is memory for two windows")
    });
    let addresses = [ends[0].0.address(), ends[1].0.address()];
    let mut rank = 0;
    ends.map(|(mut fabric, arena)| {
        let options = EngineOptions {
            rank: Rank(rank),
            incarnation: Incarnation(0),
            size: 2,
            window_bytes: WINDOW_BYTES,
        };
        let peer = 1 - rank;
        fabric
            .connect(Rank(peer), Incarnation(0), &addresses[peer as usize])
            .expect("the peer is in this process");
        rank += 1;
        Engine::new(options, arena, Box::new(fabric), KeepsNothing)
    })
}

fn available_memory_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[test]
fn a_message_beyond_4_gib_arrives_whole() {
    if available_memory_bytes() < MEMORY_BYTES_MIN {
        println!("skipped a message beyond 4 GiB: less than 7 GiB of memory are available");
        return;
    }
    let [mut sender, mut receiver] = engines();
    let block: Vec<u8> = (0..BLOCK_BYTES as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let layout = Layout::vector(BLOCKS, BLOCK_BYTES, 0).expect("a send may name bytes twice");
    let layout = Arc::new(layout);
    let message_bytes = (BLOCKS * BLOCK_BYTES) as u64;
    assert!(message_bytes > 1 << 32);
    let mut room = vec![0u8; message_bytes as usize];

    let pattern = Pattern {
        context: 0,
        source: Some(Rank(0)),
        tag: Some(1),
    };
    // SAFETY: `room` lives and is left alone until the receive is complete.
    let buffer = unsafe { ReceiveBuffer::bytes(room.as_mut_ptr(), room.len()) };
    let receive = receiver.start_receive(buffer, pattern);
    // SAFETY: block and layout live unchanged until the send is complete.
    let buffer = unsafe { SendBuffer::laid_out(block.as_ptr(), 1, layout) };
    let buffer = buffer.expect("fewer than 2^64 bytes");
    let to = SendTo {
        rank: Rank(1),
        context: 0,
        tag: 1,
        synchronous: false,
    };
    let Ok(Started::Pending(send)) = sender.start_send(buffer, to) else {
        panic!("it cannot be sent at once");
    };
    while receiver.outcome(receive).is_none() || sender.outcome(send).is_none() {
        sender.progress().expect("the fabric works");
        receiver.progress().expect("the fabric works");
    }

    let outcome = receiver.outcome(receive).expect("it is complete");
    assert_eq!(
        (outcome.status.bytes, outcome.truncated_to),
        (message_bytes, None)
    );
    let wrong = room
        .chunks(BLOCK_BYTES)
        .position(|received| received != block);
    assert_eq!(wrong, None, "a block is not what was sent");
}
