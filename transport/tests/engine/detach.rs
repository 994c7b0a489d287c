//! Requests whose buffers are given back before the requests have ended.

use crate::memory::Room;
use crate::networks;
use crate::rig::{Receipt, Rig, Sent, Setup, from, from_any, payload, synchronous, to};
use refrain_transport::engine::Started;

/// The byte in a room that was given back.
const GONE: u8 = 0x11;

fn detach_send(rig: &mut Rig, sent: &Sent) {
    let Started::Pending(id) = sent.started else {
        panic!("the send is over");
    };
    rig.engines[sent.from].detach(id);
    sent.room.fill(GONE);
}

fn detach_receive(rig: &mut Rig, receipt: &Receipt) -> Room {
    rig.engines[receipt.at].detach(receipt.id);
    receipt.room.fill(GONE);
    receipt.room.clone()
}

fn assert_gone(room: &Room) {
    assert!(room.read().iter().all(|byte| *byte == GONE));
}

/// A rendezvous that is detached before or after clear-to-send continues from a copy: its buffer
/// may be used again, and the receiver gets the bytes that were sent.
#[test]
fn a_detached_rendezvous_goes_on_from_a_copy() {
    for network in networks::all() {
        for matched in [false, true] {
            let mut rig = Setup::new(network.clone()).build();
            let data = payload(1, 700_000);
            let sent = rig.send(0, to(1, 1), &data);
            let receipt = if matched {
                let receipt = rig.receive(1, from(0, 1), data.len());
                // Rank 0 has begun to send when its buffer is taken.
                rig.until_touched(&receipt);
                assert!(!rig.is_sent(&sent));
                receipt
            } else {
                rig.settle();
                rig.receive(1, from(0, 1), data.len())
            };
            detach_send(&mut rig, &sent);
            assert!(rig.finish_receive(&receipt).1 == data);
            rig.end();
        }
    }
}

/// An eager send that waits for room in the window continues from a copy; so do those behind it,
/// and their order stays.
#[test]
fn detached_eager_sends_in_the_queue_go_on_from_copies() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        let mut queued = 0;
        for message in 0..60 {
            let sent = rig.send(0, to(1, 1), &payload(message, 30_000));
            if matches!(sent.started, Started::Pending(_)) {
                detach_send(&mut rig, &sent);
                queued += 1;
            }
        }
        assert!(queued > 10, "the window is full");
        for message in 0..60 {
            rig.expect(1, from(0, 1), &payload(message, 30_000));
        }
        rig.end();
    }
}

/// A long message into a kept log is packed burst by burst; detached in the middle, it arrives
/// whole.
#[test]
fn a_half_packed_send_can_be_detached() {
    for network in networks::all() {
        let mut rig = Setup::new(network).keeping(4 << 20).build();
        let data = payload(3, 500_000);
        let sent = rig.send(0, to(1, 1), &data);
        detach_send(&mut rig, &sent);
        rig.expect(1, from(0, 1), &data);
        rig.end();
    }
}

/// A synchronous send that is not matched yet is removed when it is matched.
#[test]
fn a_detached_synchronous_send_is_forgotten_when_it_is_matched() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        for bytes in [0, 100, 20_000, 100_000] {
            for receiver in [0, 1] {
                let sent = rig.send(0, synchronous(receiver, 1), &payload(4, bytes));
                rig.settle();
                detach_send(&mut rig, &sent);
                assert_eq!(rig.engines[0].request_count(), 1);
                rig.expect(receiver as usize, from(0, 1), &payload(4, bytes));
                rig.settle();
                assert_eq!(rig.engines[0].request_count(), 0);
            }
        }
        rig.end();
    }
}

/// A receive that is detached before its match is cancelled: the message goes
/// to the next one.
#[test]
fn a_detached_pending_receive_takes_no_message() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        for bytes in [100, 20_000, 100_000] {
            let receipts = [from(0, 1), from_any(1)].map(|p| rig.receive(1, p, bytes));
            let rooms = receipts.map(|receipt| detach_receive(&mut rig, &receipt));
            assert_eq!(rig.engines[1].request_count(), 0);
            let sent = rig.send(0, to(1, 1), &payload(5, bytes));
            rig.settle();
            rig.expect(1, from(0, 1), &payload(5, bytes));
            rig.finish_send(&sent);
            rooms.iter().for_each(assert_gone);
        }
        rig.end();
    }
}

/// A receive that is detached while its message arrives has taken the message:
/// the rest is dropped, the buffer is not touched, the sender completes.
#[test]
fn a_half_arrived_receive_drops_the_rest() {
    for network in networks::all() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            for unexpected in [false, true] {
                let mut rig = setup.clone().build();
                let data = payload(6, 500_000);
                let early = (!unexpected).then(|| rig.receive(1, from(0, 1), data.len()));
                let sent = rig.send(0, synchronous(1, 1), &data);
                rig.settle_only(&[1]);
                let receipt = early.unwrap_or_else(|| rig.receive(1, from(0, 1), data.len()));
                rig.until_touched(&receipt);
                assert!(!rig.is_received(&receipt));
                let room = detach_receive(&mut rig, &receipt);
                rig.finish_send(&sent);
                let after = rig.send(0, to(1, 1), &[8; 8]);
                rig.expect(1, from(0, 1), &[8; 8]);
                rig.finish_send(&after);
                assert_gone(&room);
                rig.end();
            }
        }
    }
}

/// A request that has ended is removed at once when it is detached.
#[test]
fn a_finished_request_is_forgotten_at_once() {
    let mut rig = Setup::new(networks::calm()).build();
    let receipt = rig.receive(1, from(0, 1), 8);
    rig.send(0, to(1, 1), &[1; 8]);
    rig.settle();
    assert!(rig.is_received(&receipt));
    rig.engines[1].detach(receipt.id);
    assert_eq!(rig.engines[1].request_count(), 0);
    assert_eq!(receipt.room.read(), [1; 8]);
    rig.end();
}
