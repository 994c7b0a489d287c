//! Released positions and kept frames.

use super::rig::Rig;
use super::{Harness, Outcome};
use refrain_ring::{ChannelLog, Position, Rank};

/// *Sending*: `released` reaches the end of the log when everything is consumed. (Every check
/// verifies that it never goes back.)
pub fn check_released_reaches_the_tail(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    assert_eq!(
        rig.seats[0].endpoint.fabric.released(Rank(1)),
        Position(0),
        "a lane begins at 0"
    );
    for number in 0..300 {
        rig.send(0, 1, number * 7);
        if number % 50 == 0 {
            rig.flush();
            rig.until_released(0, 1);
        }
    }
    rig.finish();
    Outcome::Holds
}

/// *Sending*, *Receiving*: where the receiver reads in place, or the frame is
/// distant, `released` does not pass a kept frame; elsewhere a kept frame does not hold the log.
pub fn check_released_stops_at_kept(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let in_place = rig.seats[0].endpoint.fabric.attributes().reads_in_place;
    rig.send(0, 1, 10);
    rig.flush();
    rig.seats[1].inbox.keeps = true;
    rig.send(0, 1, 1000);
    rig.flush();
    rig.seats[1].inbox.keeps = false;
    let kept = rig.seats[1].inbox.kept[0];
    let kept_at = rig.last_begins_at(0, 1, 1000);
    for _ in 0..100 {
        rig.send(0, 1, 1000);
    }
    rig.flush();
    if in_place || kept.distant {
        let released = rig.seats[0].endpoint.fabric.released(Rank(1));
        assert!(
            released <= kept_at,
            "released {released} passed the frame kept at {kept_at}"
        );
    } else {
        rig.until_released(0, 1);
    }
    rig.seats[1].let_go(0);
    rig.until_released(0, 1);
    rig.finish();
    Outcome::Holds
}

/// *Receiving*: kept frames stay readable whatever arrives later, and are let go in any order.
pub fn check_keep_and_let_go_in_any_order(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for round in 0..40_usize {
        for number in 0..8 {
            // Every third frame is consumed: gaps between kept frames.
            rig.seats[1].inbox.keeps = number % 3 != 2;
            rig.send(0, 1, (round * 97 + number * 13) % 2000);
            rig.flush();
        }
        rig.seats[1].verify_kept();
        while rig.seats[1].inbox.kept.len() > round % 3 {
            let count = rig.seats[1].inbox.kept.len();
            rig.seats[1].let_go((round * 7 + count * 5) % count);
            rig.seats[1].verify_kept();
        }
    }
    rig.seats[1].inbox.keeps = false;
    while !rig.seats[1].inbox.kept.is_empty() {
        rig.seats[1].let_go(0);
    }
    rig.until_released(0, 1);
    rig.finish();
    Outcome::Holds
}

/// *Receiving*: before kept frames make the sender stall, an arrival is
/// pressed; the sender continues when frames are let go.
pub fn check_pressed_before_a_stall(h: &mut dyn Harness) -> Outcome {
    let mut stalled = false;
    for bytes in [64, 4096, 50_000, ChannelLog::PAYLOAD_BYTES_MAX] {
        stalled |= stall(h, bytes, 0);
        // The oldest kept frame lies at the end of its chunk.
        stalled |= stall(h, bytes, 200_000);
    }
    if stalled {
        Outcome::Holds
    } else {
        Outcome::Skipped("kept frames never make its senders stall")
    }
}

/// Keeps frames of `bytes` bytes, behind `consumed_bytes` that were consumed, until the sender
/// stalls. Returns whether it did.
fn stall(h: &mut dyn Harness, bytes: usize, consumed_bytes: usize) -> bool {
    let mut rig = Rig::new(h, 2);
    let window_bytes = rig.seats[0].endpoint.window_bytes;
    let longest = rig.seats[0]
        .endpoint
        .fabric
        .attributes()
        .frame_payload_bytes_max;
    let bytes = bytes.min(longest);
    for _ in 0..consumed_bytes / 1000 {
        rig.send(0, 1, 1000 - 64);
    }
    rig.flush();
    rig.seats[1].inbox.keeps = true;
    let frames_max = 3 * window_bytes / bytes as u64 + 10;
    let mut stalled = false;
    let mut refused;
    for _ in 0..frames_max {
        let since = rig.harness.now();
        refused = 0;
        // Waits longer than any frame is in flight.
        while !rig.seats[0].try_send(Rank(1), bytes) {
            refused += 1;
            if refused >= 100 && rig.harness.now() - since >= 2 * rig.harness.silence() {
                stalled = true;
                break;
            }
            rig.settle();
        }
        if stalled {
            break;
        }
        rig.drive();
    }
    assert!(
        !stalled || rig.seats[1].inbox.pressed,
        "kept frames of {bytes} bytes made the sender stall, and no arrival was pressed"
    );
    rig.seats[1].verify_kept();
    rig.seats[1].inbox.keeps = false;
    while !rig.seats[1].inbox.kept.is_empty() {
        rig.seats[1].let_go(0);
    }
    rig.send(0, 1, bytes);
    rig.finish();
    stalled
}
