//! Receives that are cancelled.

use crate::networks;
use crate::recorder::Noted;
use crate::rig::{Setup, UNTOUCHED, from, from_any, payload, to};

/// A receive that is cancelled before its match takes no message: the next receive that suits gets
/// the message, and the room of the first stays as it was. A cancel in time is an event.
#[test]
fn a_cancelled_receive_takes_no_message() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        let mut cancels = Vec::new();
        for bytes in [0, 100, 20_000, 100_000] {
            let patterns = [from(0, 1), from_any(1)];
            let cancelled = patterns.map(|pattern| rig.receive(1, pattern, bytes));
            let receipt = rig.receive(1, from(0, 1), bytes);
            for receipt in &cancelled {
                let posted = rig.engines[1].posted_at(receipt.id).expect("it is there");
                rig.engines[1].cancel(receipt.id);
                cancels.push(Noted::Cancelled(rig.engines[1].now(), posted));
                let outcome = rig.engines[1].outcome(receipt.id).expect("it is over");
                assert!(outcome.status.cancelled);
                assert_eq!((outcome.status.bytes, outcome.truncated_to), (0, None));
            }
            let sent = rig.send(0, to(1, 1), &payload(1, bytes));
            assert!(rig.finish_receive(&receipt).1 == payload(1, bytes));
            rig.finish_send(&sent);
            for receipt in &cancelled {
                let (_, found) = rig.finish_receive(receipt);
                assert!(found == vec![UNTOUCHED; bytes]);
            }
        }
        assert_eq!(rig.protocols[1].events(), cancels);
        rig.end();
    }
}

/// A cancel of a receive that has matched has no effect: neither when its message has arrived, nor
/// while the rest of it is still to arrive; nor has the cancel of a send. A cancel that came too
/// late is an event, like a test that finds nothing.
#[test]
fn a_matched_receive_is_not_cancelled() {
    for network in networks::all() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            let mut rig = setup.build();
            let mut cancels = Vec::new();
            for bytes in [100, 300_000] {
                let receipt = rig.receive(1, from(0, 1), bytes);
                let sent = rig.send(0, to(1, 1), &payload(2, bytes));
                rig.until_touched(&receipt);
                assert_eq!(rig.is_received(&receipt), bytes == 100);
                rig.engines[1].cancel(receipt.id);
                cancels.push(Noted::Nothing(rig.engines[1].now()));
                if let crate::rig::Sent {
                    started: refrain_transport::engine::Started::Pending(id),
                    ..
                } = sent
                {
                    rig.engines[0].cancel(id);
                }
                let (outcome, found) = rig.finish_receive(&receipt);
                assert!(!outcome.status.cancelled);
                assert!(found == payload(2, bytes));
                assert!(!rig.finish_send(&sent).status.cancelled);
            }
            assert_eq!(rig.protocols[1].events(), cancels);
            assert_eq!(rig.protocols[0].events(), [], "sends are not taken back");
            rig.end();
        }
    }
}
