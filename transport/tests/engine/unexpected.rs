//! Messages that arrive before their receive, and the memory that they hold.

use crate::networks;
use crate::rig::{Rig, Setup, from, payload, to};

/// A message without a receive stays in its sender's log. When that may stall the sender, the
/// message is copied out, and still arrives intact.
#[test]
fn unexpected_messages_stay_in_place_until_pressed() {
    for network in networks::all() {
        let in_place = network.attributes.reads_in_place;
        let is_distant = network.distant_bytes_min.is_some_and(|min| min <= 1000);
        let window_bytes = network.window_bytes as usize;
        let mut rig = Setup::new(network).build();
        for message in 0..10 {
            rig.send(0, to(1, 1), &payload(message, 1000));
        }
        rig.settle();
        // Distant payload is fetched at once: the log's memory is reused.
        assert_eq!(rig.has_released(0), !in_place || is_distant);
        let flood = window_bytes as u64 / 8000 + 1;
        let sends: Vec<_> = (10..10 + flood)
            .map(|message| rig.send(0, to(1, 1), &payload(message, 8000)))
            .collect();
        rig.settle();
        assert!(rig.has_released(0), "the flood presses");
        for sent in &sends {
            assert!(rig.is_sent(sent));
            rig.finish_send(sent);
        }
        for message in 0..10 + flood {
            let bytes = if message < 10 { 1000 } else { 8000 };
            rig.expect(1, from(0, 1), &payload(message, bytes));
        }
        rig.end();
    }
}

/// However many messages are unexpected, a window that is reused does not stall for ever: the sends
/// complete without any receive.
#[test]
fn a_reused_window_takes_any_number_of_unexpected_messages() {
    for network in networks::all() {
        for sizes in [
            &[100_usize, 0, 0, 0, 0, 0, 0, 0][..],
            &[8192],
            &[60_000, 1, 17],
        ] {
            let mut rig = Setup::new(network.clone()).build();
            let total = 3 * network.window_bytes as usize;
            // A record takes two cache lines at least, or one if it is empty.
            let lines: usize = sizes.iter().map(|bytes| bytes.max(&64)).sum();
            let count = total / lines * sizes.len();
            let bytes_of = |message: usize| sizes[message % sizes.len()];
            let sends: Vec<_> = (0..count)
                .map(|message| {
                    let data = payload(message as u64, bytes_of(message));
                    let sent = rig.send(0, to(1, 1), &data);
                    if message % 64 == 0 {
                        rig.round();
                    }
                    sent
                })
                .collect();
            rig.until("all are sent", |rig| {
                sends.iter().all(|sent| rig.is_sent(sent))
            });
            rig.settle();
            for sent in &sends {
                rig.finish_send(sent);
            }
            for message in 0..count {
                let data = payload(message as u64, bytes_of(message));
                rig.expect(1, from(0, 1), &data);
            }
            rig.end();
        }
    }
}

/// Exchanges expected messages, of which none stays.
fn exchange_expected(rig: &mut Rig, count: u64, bytes: usize) {
    for message in 0..count {
        let receipt = rig.receive(1, from(0, 2), bytes);
        let sent = rig.send(0, to(1, 2), &payload(message, bytes));
        assert!(rig.finish_receive(&receipt).1 == payload(message, bytes));
        rig.finish_send(&sent);
    }
}

/// A message that is received last of all does not stop later messages, though it lies at the
/// beginning of the window that they pass through.
#[test]
fn a_message_that_waits_does_not_hold_up_expected_ones() {
    for network in networks::all() {
        for bytes in [8192, 60_000, 100_000, 0] {
            let mut rig = Setup::new(network.clone()).build();
            let waiting = rig.send(0, to(1, 1), &payload(1, 100));
            let record_bytes = bytes.max(64) as u64;
            let count = 2 * network.window_bytes / record_bytes + 1;
            exchange_expected(&mut rig, count.min(9000), bytes);
            rig.finish_send(&waiting);
            rig.expect(1, from(0, 1), &payload(1, 100));
            rig.end();
        }
    }
}

/// An unexpected message whose later fragments are still to come is copied out
/// and completed like any other.
#[test]
fn half_arrived_messages_are_copied_out_too() {
    for network in networks::all() {
        let mut rig = Setup::new(network).keeping(4 << 20).build();
        // Only its first burst leaves before rank 0 makes progress again.
        let long = rig.send(0, to(1, 1), &payload(1, 300_000));
        rig.until_found(1, from(0, 1));
        let sends: Vec<_> = (0..100)
            .map(|message| rig.send(0, to(1, 2), &payload(message, 8000)))
            .collect();
        rig.settle();
        rig.finish_send(&long);
        for sent in &sends {
            rig.finish_send(sent);
        }
        for message in 0..100 {
            rig.expect(1, from(0, 2), &payload(message, 8000));
        }
        rig.expect(1, from(0, 1), &payload(1, 300_000));
        rig.end();
    }
}
