//! Messages that leave before they are in the log.

use crate::networks::{self, STAGED_BYTES};
use crate::recorder::found;
use crate::rig::{Rig, Setup, from, payload, to};
use refrain_ring::{Rank, Ssn};
use refrain_transport::fabric::sim::{Event, LaneKind};

fn staged(rig: &Rig) -> usize {
    let is_staged = |(_, event): &(u64, Event)| matches!(event, Event::Staged(..));
    rig.network
        .events()
        .iter()
        .filter(|event| is_staged(event))
        .count()
}

/// A kept message leaves first if the fabric takes its length; a message that is not kept never
/// does. Both arrive. (The network compares the bytes that left with those in the log afterwards:
/// LOG-1.)
// LOG-1
#[test]
fn kept_messages_of_the_right_length_leave_before_they_are_logged() {
    for network in networks::staging() {
        let fragment_bytes = network.attributes.fragment_bytes;
        let is_calm = network.faults.busy_per_mille == 0;
        let lengths = [
            (STAGED_BYTES.start - 1, 0),
            (STAGED_BYTES.start, 1),
            (STAGED_BYTES.end - 1, 1),
            (STAGED_BYTES.end, 0),
            // The fragments are too long, the rest is not.
            (3 * fragment_bytes + STAGED_BYTES.start, 1),
        ];
        for (bytes, expected) in lengths {
            for keeps in [false, true] {
                let setup = Setup::new(network.clone());
                let setup = if keeps { setup.keeping(4 << 20) } else { setup };
                let mut rig = setup.build();
                let data = payload(7, bytes);
                let receipt = rig.receive(1, from(0, 1), bytes);
                let sent = rig.send(0, to(1, 1), &data);
                rig.finish_send(&sent);
                let (_, found) = rig.finish_receive(&receipt);
                assert!(found == data, "{bytes} bytes, kept: {keeps}");
                if !keeps {
                    assert_eq!(staged(&rig), 0, "{bytes} bytes that are not kept");
                } else if is_calm {
                    assert_eq!(staged(&rig), expected, "{bytes} bytes");
                } else {
                    // Frames that are refused by chance are posted after they are in the log.
                    assert!(staged(&rig) <= expected, "{bytes} bytes");
                }
                rig.end();
            }
        }
    }
}

/// Messages that leave first and messages that do not stay in order.
#[test]
fn they_do_not_overtake_others() {
    for network in networks::staging() {
        let mut rig = Setup::new(network).keeping(8 << 20).build();
        let lengths: Vec<usize> = (0..60).map(|n| (n * 2_357) % 20_000).collect();
        let sends: Vec<_> = (0_u64..)
            .zip(&lengths)
            .map(|(message, bytes)| rig.send(0, to(1, 1), &payload(message, *bytes)))
            .collect();
        for (message, bytes) in (0_u64..).zip(&lengths) {
            rig.expect(1, from(0, 1), &payload(message, *bytes));
        }
        for sent in &sends {
            rig.finish_send(sent);
        }
        assert!(staged(&rig) > 0, "none left first");
        rig.end();
    }
}

/// While an event is not stable, nothing is staged: neither a message of one frame nor the
/// fragments of a longer one. Afterwards all arrive, in order.
// GATE-1
#[test]
fn nothing_is_staged_while_an_event_is_not_stable() {
    for network in networks::staging() {
        let mut rig = Setup::new(network).keeping(8 << 20).build();
        rig.protocols[0].hold_commits();
        let clock = rig.engines[0].tick();
        rig.engines[0].note_probe(clock, &found(Rank(1)), Ssn(0));
        let lengths = [500, 30_000, 5];
        let sends = lengths.map(|bytes| rig.send(0, to(1, 1), &payload(bytes as u64, bytes)));
        rig.settle();
        assert_eq!(rig.posted(0, LaneKind::Data), 0);
        assert_eq!(staged(&rig), 0);
        rig.protocols[0].commit();
        for bytes in lengths {
            rig.expect(1, from(0, 1), &payload(bytes as u64, bytes));
        }
        for sent in &sends {
            rig.finish_send(sent);
        }
        rig.end();
    }
}
