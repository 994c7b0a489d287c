//! Probes, and messages that a matched probe has taken.

use crate::memory::receive_buffer;
use crate::networks;
use crate::rig::{Receipt, Rig, Setup, all_from, from, from_any, payload, to};
use refrain_ring::Ssn;
use refrain_transport::engine::Matched;
use refrain_transport::matching::Pattern;

fn take(rig: &mut Rig, pattern: Pattern) -> (Matched, Ssn) {
    rig.until_found(1, pattern);
    let found = rig.engines[1].find(&pattern).expect("just seen");
    let (matched, ssn) = rig.engines[1].take_matched(&pattern).expect("just seen");
    assert_eq!((matched.status, ssn), found);
    (matched, ssn)
}

fn receive(rig: &mut Rig, matched: Matched, bytes: usize) -> Receipt {
    let room = rig.room(&vec![0; bytes]);
    let buffer = receive_buffer(&room, bytes);
    let id = rig.engines[1].start_matched_receive(buffer, matched);
    Receipt { at: 1, id, room }
}

/// A message that a matched probe took is not received by any other operation: receives and probes
/// see the other messages, in order.
#[test]
fn a_probed_message_goes_to_nobody_else() {
    for network in networks::all() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            for bytes in [0, 100, 20_000, 100_000] {
                let mut rig = setup.clone().build();
                let sends: Vec<_> = (0..4)
                    .map(|message| rig.send(0, to(1, 1), &payload(message, bytes)))
                    .collect();
                rig.settle();
                let (matched, ssn) = take(&mut rig, from_any(1));
                assert_eq!(ssn, Ssn(0));
                assert_eq!(rig.first_waiting(1, all_from(0)), Some((1, Ssn(1))));
                rig.expect(1, from(0, 1), &payload(1, bytes));
                let (second, ssn) = take(&mut rig, from(0, 1));
                assert_eq!(ssn, Ssn(2));
                rig.expect(1, from_any(1), &payload(3, bytes));
                assert_eq!(rig.first_waiting(1, all_from(0)), None);
                // The later message is received first.
                let receipt = receive(&mut rig, second, bytes);
                assert!(rig.finish_receive(&receipt).1 == payload(2, bytes));
                let receipt = receive(&mut rig, matched, bytes);
                assert!(rig.finish_receive(&receipt).1 == payload(0, bytes));
                for sent in &sends {
                    rig.finish_send(sent);
                }
                rig.end();
            }
        }
    }
}

/// A message may be taken before it has completely arrived. The rest finds it, before or after its
/// receive, whatever is copied out meanwhile.
#[test]
fn a_half_arrived_message_can_be_taken() {
    for network in networks::all() {
        for wait_for_rest in [false, true] {
            let mut rig = Setup::new(network.clone()).keeping(4 << 20).build();
            let data = payload(1, 400_000);
            let sent = rig.send(0, to(1, 1), &data);
            let (matched, _) = take(&mut rig, from_any(1));
            let next = rig.send(0, to(1, 1), &payload(2, 30_000));
            if wait_for_rest {
                rig.settle();
            }
            let receipt = receive(&mut rig, matched, data.len());
            // Distant payload arrives only now.
            let at_once = wait_for_rest && network.distant_bytes_min.is_none();
            assert_eq!(rig.is_received(&receipt), at_once);
            rig.expect(1, from(0, 1), &payload(2, 30_000));
            assert!(rig.finish_receive(&receipt).1 == data);
            rig.finish_send(&sent);
            rig.finish_send(&next);
            rig.end();
        }
    }
}

/// A probe takes nothing and changes nothing, however often it is made; it does not see messages of
/// another context or tag.
#[test]
fn a_probe_takes_nothing() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        rig.send(0, to(1, 1), &payload(1, 50));
        rig.settle();
        let clock = rig.engines[1].now();
        for _ in 0..3 {
            assert_eq!(rig.first_waiting(1, from_any(1)), Some((1, Ssn(0))));
        }
        let other = Pattern {
            context: 1,
            source: None,
            tag: None,
        };
        assert_eq!(rig.first_waiting(1, other), None);
        assert_eq!(rig.first_waiting(1, from(0, 2)), None);
        assert_eq!(rig.engines[1].now(), clock);
        rig.expect(1, from(0, 1), &payload(1, 50));
        assert_eq!(rig.first_waiting(1, from_any(1)), None);
        rig.end();
    }
}

/// A receive of a probed message with too little room is truncated like others.
#[test]
fn a_probed_message_can_be_truncated() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        for bytes in [100, 20_000, 100_000] {
            let sent = rig.send(0, to(1, 1), &payload(1, bytes));
            let (matched, _) = take(&mut rig, from(0, 1));
            let receipt = receive(&mut rig, matched, bytes - 50);
            let (outcome, found) = rig.finish_receive(&receipt);
            assert_eq!(outcome.truncated_to, Some(bytes as u64 - 50));
            assert!(found == payload(1, bytes)[..bytes - 50]);
            rig.finish_send(&sent);
        }
        rig.end();
    }
}
