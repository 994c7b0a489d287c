//! Clocks, request ids and the events of matches.

use crate::memory::{receive_buffer, send_buffer};
use crate::networks;
use crate::recorder::Noted;
use crate::rig::{Setup, from, from_any, payload, to};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;

/// A receive from any source makes exactly one match event. It names the receive by the clock at
/// its post, the source, and the message's SSN; a receive from a named source makes none.
#[test]
fn any_source_receives_make_one_event_and_named_ones_none() {
    for network in networks::all() {
        let mut rig = Setup::new(network).ranks(3).build();
        let sizes = [0, 100, 20_000, 100_000];
        let mut expected = Vec::new();
        // Of posted receives first, then of unexpected messages.
        for posted_first in [true, false] {
            for bytes in sizes {
                let ssn = Ssn(expected.len() as u64 * 2);
                let data = payload(ssn.0, bytes);
                let send = |rig: &mut crate::rig::Rig| {
                    [0, 2].map(|from| {
                        let named = rig.send(from, to(1, 1), &data);
                        (named, rig.send(from, to(1, 2), &data))
                    })
                };
                let receive = |rig: &mut crate::rig::Rig| {
                    let named = [0, 2].map(|source| rig.receive(1, from(source, 1), bytes));
                    let any = [0, 0].map(|_| {
                        let receipt = rig.receive(1, from_any(2), bytes);
                        (rig.engines[1].now(), receipt)
                    });
                    (named, any)
                };
                let (sent, (named, any)) = if posted_first {
                    let receipts = receive(&mut rig);
                    (send(&mut rig), receipts)
                } else {
                    let sent = send(&mut rig);
                    rig.settle();
                    (sent, receive(&mut rig))
                };
                for receipt in &named {
                    assert!(rig.finish_receive(receipt).1 == data);
                }
                for (clock, receipt) in &any {
                    assert_eq!(rig.engines[1].posted_at(receipt.id), Some(*clock));
                    let (outcome, found) = rig.finish_receive(receipt);
                    assert!(found == data);
                    let number = Ssn(ssn.0 / 2 + 1);
                    expected.push((*clock, outcome.status.source, number));
                }
                for (named, any) in &sent {
                    rig.finish_send(named);
                    rig.finish_send(any);
                }
            }
        }
        let mut found = rig.protocols[1].matches();
        assert_eq!(found.len(), rig.protocols[1].events().len());
        assert_eq!(rig.engines[1].statistics().events, found.len() as u64);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        rig.end();
    }
}

/// A clock continues where an earlier life ended, also past 32 bits: posts, matches and checkpoints
/// carry it.
#[test]
fn a_clock_goes_on_past_32_bits() {
    let begin = Clock(u64::from(u32::MAX) - 1);
    let setup = Setup::new(networks::calm()).keeping(1 << 20).after(begin);
    let mut rig = setup.build();
    assert_eq!(rig.engines[1].horizon().clock(), begin);
    for message in 1..=4 {
        let posted_at = Clock(begin.0 + message);
        let receipt = rig.receive(1, from_any(1), 8);
        assert_eq!(rig.engines[1].posted_at(receipt.id), Some(posted_at));
        rig.send(0, to(1, 1), &[1; 8]);
        rig.finish_receive(&receipt);
        let noted = rig.protocols[1].events().pop();
        let expected = Noted::Match {
            at: posted_at,
            request: posted_at,
            source: Rank(0),
            ssn: Ssn(message - 1),
        };
        assert_eq!(noted, Some(expected));
    }
    assert_eq!(rig.engines[1].horizon().clock(), Clock(begin.0 + 4));
    rig.end();
}

/// The clock counts every operation once; ids of requests are clocks, so that
/// no two requests share one, though their places in memory are used again.
#[test]
fn ids_are_clocks_and_never_come_again() {
    let mut rig = Setup::new(networks::calm()).ranks(2).build();
    let room = rig.room(&[7; 8]);
    let mut ids = BTreeSet::new();
    let mut clock = 0;
    for round in 0..50 {
        let sent = rig.start_send(0, send_buffer(&room), to(1, 1));
        assert!(matches!(sent, refrain_transport::engine::Started::Done(_)));
        clock += 1;
        assert_eq!(rig.engines[0].now(), Clock(clock), "a send is counted");
        // Of the three requests of each round, two are in progress at once.
        let cancelled = rig.receive(0, from(1, 3), 8);
        let receipt = rig.receive(0, from(1, 2), 8);
        clock += 2;
        for (receipt, posted) in [(&cancelled, clock - 1), (&receipt, clock)] {
            let id = rig.engines[0].posted_at(receipt.id);
            assert_eq!(id, Some(Clock(posted)));
            assert!(ids.insert(posted), "id {posted} came again");
        }
        rig.engines[0].cancel(cancelled.id);
        clock += 1;
        rig.engines[0].retire(cancelled.id);
        assert_eq!(rig.engines[0].outcome(cancelled.id), None);
        assert_eq!(rig.engines[0].posted_at(cancelled.id), None);
        rig.send(1, to(0, 2), &[round; 8]);
        assert_eq!(rig.finish_receive(&receipt).1, [round; 8]);
        assert_eq!(rig.engines[0].tick(), Clock(clock + 1));
        clock += 1;
        assert_eq!(rig.engines[0].now(), Clock(clock), "nothing else counts");
        rig.expect(1, from(0, 1), &[7; 8]);
    }
    rig.end();
}

/// A stale name of a request never finds another request in the same place.
#[test]
fn stale_request_names_find_nothing() {
    let mut rig = Setup::new(networks::calm()).build();
    let old = rig.receive(0, from(1, 1), 8);
    rig.send(1, to(0, 1), &[1; 8]);
    rig.finish_receive(&old);
    let new = rig.receive(0, from(1, 1), 8);
    rig.engines[0].cancel(old.id);
    rig.engines[0].detach(old.id);
    rig.engines[0].retire(old.id);
    rig.send(1, to(0, 1), &[2; 8]);
    assert_eq!(rig.finish_receive(&new).1, [2; 8]);
    rig.end();
}

/// A matched probe was the event: the receive of its message makes none. Events that the layer
/// above notes are reported unchanged, in order.
#[test]
fn noted_events_are_told_and_matched_receives_make_none() {
    let mut rig = Setup::new(networks::calm()).build();
    let clock = rig.engines[1].tick();
    rig.engines[1].note_nothing(clock);
    rig.send(0, to(1, 1), &[3; 8]);
    rig.settle();
    let probed = rig.engines[1].tick();
    let (matched, ssn) = rig.engines[1].take_matched(&from_any(1)).expect("it came");
    rig.engines[1].note_probe(probed, &matched.status, ssn);
    assert_eq!((matched.status.source, ssn), (Rank(0), Ssn(0)));
    let room = rig.room(&[0; 8]);
    let id = rig.engines[1].start_matched_receive(receive_buffer(&room, 8), matched);
    let posted = rig.engines[1].posted_at(id).expect("it is there");
    assert_eq!(posted, Clock(probed.0 + 1));
    rig.engines[1].retire(id);
    let completed = rig.engines[1].tick();
    rig.engines[1].note_completion(completed, &[posted, Clock(1)]);
    let expected = [
        Noted::Nothing(clock),
        Noted::Probe(probed),
        Noted::Completion(completed, vec![posted, Clock(1)]),
    ];
    assert_eq!(rig.protocols[1].events(), expected);
    assert_eq!(rig.engines[1].statistics().events, 3);
    assert_eq!(room.read(), [3; 8]);
    rig.end();
}

/// A match is reported with the clock of the latest operation, also if a message of the rank to
/// itself meets its own receive and nothing is polled.
#[test]
fn matches_are_told_with_the_latest_clock() {
    let mut rig = Setup::new(networks::calm()).build();
    let receipt = rig.receive(1, from_any(5), 1);
    let posted = rig.engines[1].posted_at(receipt.id).expect("it is there");
    for _ in 0..3 {
        rig.engines[1].tick();
    }
    rig.send(1, to(1, 5), &[9]);
    let sent = rig.engines[1].now();
    let expected = Noted::Match {
        at: sent,
        request: posted,
        source: Rank(1),
        ssn: Ssn(0),
    };
    assert_eq!(rig.protocols[1].events(), [expected]);
    assert_eq!(rig.finish_receive(&receipt).1, [9]);
}

/// A checkpoint does not cover the match of a receive that the program has not completed: its
/// message is kept, and so is the record of the match.
// GC-1, LOG-4
#[test]
fn a_checkpoint_leaves_the_matches_of_open_receives() {
    let mut rig = Setup::new(networks::calm()).build();
    let receipt = rig.receive(1, from_any(5), 1);
    let posted = rig.engines[1].posted_at(receipt.id).expect("it is there");
    rig.send(0, to(1, 5), &[9]);
    rig.settle();
    assert!(rig.is_received(&receipt), "matched, and not asked for");
    let now = rig.engines[1].tick();
    rig.engines[1].publish_horizon();
    assert_eq!(rig.protocols[1].published(), [Clock(posted.0 - 1)]);
    rig.finish_receive(&receipt);
    rig.engines[1].publish_horizon();
    assert_eq!(rig.protocols[1].published()[1..], [now]);
    rig.end();
}
