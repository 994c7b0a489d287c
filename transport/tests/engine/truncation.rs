//! Messages that are longer than their receive.

use crate::memory::receive_buffer;
use crate::networks;
use crate::rig::{Rig, Setup, UNTOUCHED, from, payload, to};

const GUARD_BYTES: usize = 64;

fn truncated(rig: &mut Rig, message_bytes: usize, room_bytes: usize, expected: bool) {
    let data = payload(message_bytes as u64, message_bytes);
    let post = |rig: &mut Rig| {
        let room = rig.room(&vec![UNTOUCHED; room_bytes + GUARD_BYTES]);
        let buffer = receive_buffer(&room, room_bytes);
        rig.receive_into(1, from(0, 1), room, buffer)
    };
    let early = expected.then(|| post(rig));
    let sent = rig.send(0, to(1, 1), &data);
    let after = rig.send(0, to(1, 1), &[7; 77]);
    let receipt = early.unwrap_or_else(|| {
        rig.settle();
        post(rig)
    });
    let (outcome, found) = rig.finish_receive(&receipt);
    assert_eq!(outcome.status.bytes, message_bytes as u64);
    assert_eq!(outcome.truncated_to, Some(room_bytes as u64));
    assert!(found[..room_bytes] == data[..room_bytes]);
    assert_eq!(found[room_bytes..], [UNTOUCHED; GUARD_BYTES]);
    rig.finish_send(&sent);
    rig.expect(1, from(0, 1), &[7; 77]);
    rig.finish_send(&after);
}

/// A receive with too little room reports it. It holds the beginning of the message, and the bytes
/// behind its room are untouched. Its sender and all later messages are not affected.
#[test]
fn a_truncated_receive_holds_the_beginning_and_nothing_more() {
    // In one frame, in fragments, by rendezvous; cut in the first fragment, at
    // its end, and in a later one.
    let cases = [
        (1, 0),
        (100, 99),
        (8192, 0),
        (20_000, 0),
        (20_000, 5000),
        (20_000, 8192),
        (20_000, 19_999),
        (100_000, 0),
        (100_000, 50_000),
        (300_000, 262_144),
    ];
    for network in networks::all() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            let mut rig = setup.build();
            for (message_bytes, room_bytes) in cases {
                for expected in [true, false] {
                    truncated(&mut rig, message_bytes, room_bytes, expected);
                }
            }
            rig.end();
        }
    }
}

/// A receive with more room than the message is not truncated, and the rest of the room stays as it
/// was.
#[test]
fn a_receive_with_room_to_spare_is_whole() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        for bytes in [0, 100, 20_000, 100_000] {
            let data = payload(1, bytes);
            let receipt = rig.receive(1, from(0, 1), bytes + 10);
            let sent = rig.send(0, to(1, 1), &data);
            let (outcome, found) = rig.finish_receive(&receipt);
            assert_eq!(outcome.truncated_to, None);
            assert_eq!(outcome.status.bytes, bytes as u64);
            assert!(found[..bytes] == data && found[bytes..] == [UNTOUCHED; 10]);
            rig.finish_send(&sent);
        }
        rig.end();
    }
}
