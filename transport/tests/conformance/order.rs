//! Lanes: FIFO, whole, bit-identical.

use super::rig::Rig;
use super::{Harness, Outcome};
use refrain_ring::{CHUNK_BYTES, ChannelLog, Rank};

/// *Lanes*: a data lane is FIFO, loses nothing and duplicates nothing.
pub fn check_data_lane_is_fifo(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for number in 0..500 {
        rig.send(0, 1, number % 40);
    }
    rig.flush();
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), 500);
    rig.finish();
    Outcome::Holds
}

/// *Lanes*: a control lane is FIFO, loses nothing and duplicates nothing.
pub fn check_control_lane_is_fifo(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for _ in 0..500 {
        rig.control(0, 1);
    }
    rig.flush();
    assert_eq!(rig.seats[1].inbox.controls(Rank(0), 0), 500);
    rig.finish();
    Outcome::Holds
}

/// *Progress*: a refused post has no effect. A receiver that polls seldom makes both lanes refuse;
/// no frame is lost or doubled.
pub fn check_nothing_is_lost_when_busy(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for round in 0..rig.harness.busy_rounds() {
        rig.seats[0].try_send(Rank(1), 700);
        rig.seats[0].try_control(Rank(1));
        rig.drive_one(0);
        if round % 100 == 99 {
            rig.drive_one(1);
        }
    }
    rig.flush();
    let sent = rig.sent(0, 1);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), sent);
    rig.control(0, 1);
    rig.finish();
    Outcome::Holds
}

/// *Sending*: frames of every length arrive bit-identical, around every limit:
/// none, one byte, the length that shares the header's line, lines, fragments
/// and the longest that a chunk or the fabric takes.
pub fn check_payload_sizes(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let attributes = rig.seats[0].endpoint.fabric.attributes();
    let longest = attributes
        .frame_payload_bytes_max
        .min(ChannelLog::PAYLOAD_BYTES_MAX);
    let limits = [0, 1, 16, 48, 64, 128, 4096, 65536];
    let sizes: Vec<usize> = limits
        .into_iter()
        .chain([attributes.fragment_bytes, CHUNK_BYTES / 2, longest])
        .flat_map(|limit| [limit.saturating_sub(1), limit, limit + 1])
        .filter(|bytes| *bytes <= longest)
        .collect();
    for &bytes in &sizes {
        rig.send(0, 1, bytes);
        rig.send(1, 0, bytes);
        rig.drive();
    }
    rig.flush();
    assert_eq!(rig.seats[0].inbox.frames(Rank(1), 0), sizes.len() as u64);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), sizes.len() as u64);
    rig.finish();
    Outcome::Holds
}

/// *Sending*: released memory may be written again. The length of many windows passes through one,
/// in frames that end chunks at every kind of position.
pub fn check_log_memory_is_reused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let window_bytes = rig.seats[0].endpoint.window_bytes;
    let attributes = rig.seats[0].endpoint.fabric.attributes();
    let longest = attributes.frame_payload_bytes_max.min(50_000);
    let mut sent_bytes = 0;
    let mut bytes = 1;
    while sent_bytes < 6 * window_bytes {
        rig.send(0, 1, bytes);
        sent_bytes += bytes as u64;
        bytes = (bytes * 5 + 13) % longest;
    }
    rig.flush();
    let sent = rig.sent(0, 1);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), sent);
    let seat = &mut rig.seats[0];
    assert!(
        seat.outbox(Rank(1)).log.trimmed().0 >= 4 * window_bytes,
        "the log was not trimmed"
    );
    rig.finish();
    Outcome::Holds
}

/// *Leaving a chunk*: memory of a lane on which all is released is free before its chunk is full, any
/// number of times, and what is posted afterwards arrives.
pub fn check_chunks_are_left(h: &mut dyn Harness) -> Outcome {
    const ROUNDS: u64 = 5;
    let mut rig = Rig::new(h, 2);
    for round in 1..=ROUNDS {
        rig.send(0, 1, 100);
        rig.send(0, 1, 1000);
        rig.flush();
        assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), 2 * round);
        rig.until("the chunk is left", |rig| rig.seats[0].leave_chunk(Rank(1)));
    }
    rig.send(0, 1, 10);
    rig.flush();
    let tail = rig.seats[0].outbox(Rank(1)).log.tail();
    assert_eq!(tail.0 / CHUNK_BYTES as u64, ROUNDS);
    rig.finish();
    Outcome::Holds
}

/// *Lanes*: pairs do not disturb each other. All ranks send to all, on both
/// lanes, interleaved.
pub fn check_peers_interleaved(h: &mut dyn Harness) -> Outcome {
    const RANKS: u32 = 4;
    const ROUNDS: u64 = 60;
    let mut rig = Rig::new(h, RANKS);
    let pairs = || (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to)));
    for round in 0..ROUNDS {
        for (from, to) in pairs().filter(|(from, to)| from != to) {
            rig.send(from as usize, to, (round * 37 % 3000) as usize);
            rig.control(from as usize, to);
        }
        rig.drive_one((round % u64::from(RANKS)) as usize);
    }
    rig.flush();
    for (from, to) in pairs().filter(|(from, to)| from != to) {
        let inbox = &rig.seats[to as usize].inbox;
        assert_eq!(inbox.frames(Rank(from), 0), ROUNDS);
        assert_eq!(inbox.controls(Rank(from), 0), ROUNDS);
    }
    rig.finish();
    Outcome::Holds
}
