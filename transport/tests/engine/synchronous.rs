//! Synchronous sends: they end when their receive has begun, not before.

use crate::networks;
use crate::rig::{Rig, Setup, from, from_any, payload, synchronous, to};
use refrain_transport::fabric::sim::Options;

/// In one frame, in fragments, by rendezvous, in several bursts.
const SIZES: [usize; 6] = [0, 100, 8192, 20_000, 100_000, 400_000];

fn setups(network: Options) -> [Setup; 2] {
    let reused = Setup::new(network);
    [reused.clone(), reused.keeping(8 << 20)]
}

/// A synchronous send does not end, however much time passes, until a receive takes its message;
/// then it ends.
#[test]
fn a_synchronous_send_waits_for_its_match() {
    for network in networks::all() {
        for setup in setups(network) {
            let mut rig = setup.build();
            for bytes in SIZES {
                for receiver in [1, 0] {
                    let data = payload(1, bytes);
                    let sent = rig.send(0, synchronous(receiver, 1), &data);
                    rig.settle();
                    assert!(!rig.is_sent(&sent), "{bytes} bytes to {receiver}");
                    // Neither a probe nor another message's receive is a match.
                    let found = rig.engines[receiver as usize].find(&from(0, 1));
                    assert_eq!(found.expect("it is there").0.bytes, bytes as u64);
                    let other = rig.send(0, to(receiver, 2), &[2; 2]);
                    rig.expect(receiver as usize, from(0, 2), &[2; 2]);
                    rig.finish_send(&other);
                    rig.settle();
                    assert!(!rig.is_sent(&sent), "{bytes} bytes to {receiver}");
                    rig.expect(receiver as usize, from(0, 1), &data);
                    let outcome = rig.finish_send(&sent);
                    assert_eq!(outcome.status.bytes, bytes as u64);
                }
            }
            rig.end();
        }
    }
}

/// A synchronous send whose receive already waits ends, too, also when the answer arrives before
/// the last part is packed.
#[test]
fn a_synchronous_send_to_a_posted_receive_ends() {
    for network in networks::all() {
        for setup in setups(network) {
            let mut rig = setup.build();
            for bytes in SIZES {
                let data = payload(2, bytes);
                let receipt = rig.receive(1, from(0, 1), bytes);
                let sent = rig.send(0, synchronous(1, 1), &data);
                // The receiver answers before the sender makes progress.
                rig.settle_only(&[1]);
                rig.finish_send(&sent);
                assert!(rig.finish_receive(&receipt).1 == data);
            }
            rig.end();
        }
    }
}

/// The same, when the receive is posted while the message is in flight.
#[test]
fn a_receive_posted_half_way_ends_the_send() {
    for network in networks::all() {
        let mut rig = Setup::new(network).keeping(8 << 20).build();
        let data = payload(3, 400_000);
        let sent = rig.send(0, synchronous(1, 1), &data);
        rig.settle_only(&[1]);
        let receipt = rig.receive(1, from(0, 1), data.len());
        rig.settle_only(&[1]);
        assert!(!rig.is_sent(&sent), "not all of it is packed");
        rig.finish_send(&sent);
        assert!(rig.finish_receive(&receipt).1 == data);
        rig.end();
    }
}

/// Answers find their own send, in whatever order the receives are posted.
#[test]
fn answers_find_their_own_send() {
    for network in networks::all() {
        let mut rig: Rig = Setup::new(network).build();
        let sizes = [100, 100_000, 0, 20_000];
        let sends: Vec<_> = (0..4)
            .map(|tag| {
                rig.send(
                    0,
                    synchronous(1, tag),
                    &payload(tag as u64, sizes[tag as usize]),
                )
            })
            .collect();
        rig.settle();
        for tag in [2, 0, 3, 1] {
            let data = payload(tag as u64, sizes[tag]);
            rig.expect(1, from(0, tag as i32), &data);
            rig.settle();
            assert!(rig.is_sent(&sends[tag]));
            rig.finish_send(&sends[tag]);
            let over = sends.iter().filter(|sent| rig.is_sent(sent)).count();
            assert_eq!(over, 0, "only the one that was matched");
        }
        rig.end();
    }
}

/// A receive that finds its message waiting answers at once: its rank may compute
/// from then on, and make no progress.
#[test]
fn the_answer_to_a_message_that_waited_leaves_with_its_receive() {
    for setup in setups(networks::calm()) {
        let mut rig = setup.build();
        // A longer message takes more than the window, and a receiver that consumes.
        for bytes in SIZES.into_iter().filter(|bytes| *bytes <= 100_000) {
            let data = payload(4, bytes);
            let sent = rig.send(0, synchronous(1, 1), &data);
            rig.settle();
            assert!(!rig.is_sent(&sent));
            let receipt = rig.receive(1, from(0, 1), bytes);
            rig.settle_only(&[0]);
            assert!(rig.is_sent(&sent), "{bytes} bytes");
            rig.finish_send(&sent);
            assert!(rig.finish_receive(&receipt).1 == data);
        }
        rig.end();
    }
}

/// The answer does not leave before the events that precede the match are stable.
// GATE-1
#[test]
fn the_answer_to_a_message_that_waited_passes_the_gate() {
    let mut rig = Setup::new(networks::calm()).build();
    rig.protocols[1].hold_commits();
    let sent = rig.send(0, synchronous(1, 1), &[1; 8]);
    rig.settle();
    let receipt = rig.receive(1, from_any(1), 8);
    assert!(rig.is_received(&receipt));
    rig.settle_only(&[0]);
    assert!(!rig.is_sent(&sent), "an answer has left");
    rig.protocols[1].commit();
    rig.finish_send(&sent);
    rig.finish_receive(&receipt);
    rig.end();
}
