//! Emissions that wait for determinants, and those that do not.

use crate::networks;
use crate::recorder::found;
use crate::rig::{Receipt, Rig, Sent, Setup, all_from, from, from_any, payload, synchronous, to};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::engine::Started;
use refrain_transport::fabric::sim::{LaneKind, Options};

/// Longer than messages that are sent eagerly.
const LONG: usize = 100_000;

/// How the event that closes the gate is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutter {
    MatchOfPosted,
    MatchOfUnexpected,
    MatchOfOwn,
    Probe,
    Completion,
}

/// Makes an event of rank 1 that is not stable.
fn shut(rig: &mut Rig, by: Shutter) {
    rig.protocols[1].hold_commits();
    match by {
        Shutter::MatchOfPosted => {
            let receipt = rig.receive(1, from_any(99), 4);
            rig.send(2, to(1, 99), &[1, 2, 3, 4]);
            rig.finish_receive(&receipt);
        }
        Shutter::MatchOfUnexpected => {
            rig.send(2, to(1, 99), &[1, 2, 3, 4]);
            rig.settle();
            rig.expect(1, from_any(99), &[1, 2, 3, 4]);
        }
        Shutter::MatchOfOwn => {
            let receipt = rig.receive(1, from_any(99), 4);
            rig.send(1, to(1, 99), &[1, 2, 3, 4]);
            assert!(rig.is_received(&receipt));
            rig.engines[1].retire(receipt.id);
        }
        Shutter::Probe => {
            let clock = rig.engines[1].tick();
            rig.engines[1].note_probe(clock, &found(Rank(2)), Ssn(0));
        }
        Shutter::Completion => {
            let clock = rig.engines[1].tick();
            rig.engines[1].note_completion(clock, &[Clock(1)]);
        }
    }
    assert_eq!(rig.protocols[1].events().len(), 1);
}

const SHUTTERS: [Shutter; 5] = [
    Shutter::MatchOfPosted,
    Shutter::MatchOfUnexpected,
    Shutter::MatchOfOwn,
    Shutter::Probe,
    Shutter::Completion,
];

/// All emissions of rank 1 that rank 0 can see: four sends, and the answers to a rendezvous and to
/// a synchronous send.
struct Effects {
    long: Sent,
    acknowledged: Sent,
    answers: [Receipt; 2],
    sends: Vec<Sent>,
}

impl Effects {
    fn prepare(rig: &mut Rig) -> (Sent, Sent) {
        let long = rig.send(0, to(1, 7), &payload(7, LONG));
        let acknowledged = rig.send(0, synchronous(1, 8), &payload(8, 10));
        rig.settle();
        (long, acknowledged)
    }

    fn begin(rig: &mut Rig, (long, acknowledged): (Sent, Sent)) -> Self {
        let mut sends = vec![
            rig.send(1, to(0, 1), &payload(1, 100)),
            rig.send(1, to(0, 2), &payload(2, LONG)),
            rig.send(1, to(0, 3), &payload(3, 20_000)),
        ];
        // A persistent send that is started again.
        let buffer = crate::memory::send_buffer(&sends[0].room);
        sends.push(Sent {
            from: 1,
            room: sends[0].room.clone(),
            started: rig.start_send(1, buffer, to(0, 4)),
        });
        let answers = [(7, LONG), (8, 10)].map(|(tag, bytes)| rig.receive(1, from(0, tag), bytes));
        Self {
            long,
            acknowledged,
            answers,
            sends,
        }
    }

    fn assert_unseen(&self, rig: &Rig) {
        assert_eq!(rig.engines[0].find(&all_from(1)), None);
        assert!(!rig.is_sent(&self.long), "a clear-to-send has left");
        assert!(!rig.is_sent(&self.acknowledged), "an answer has left");
    }

    fn assert_all_come_in_order(&self, rig: &mut Rig) {
        for (tag, message, bytes) in [(1, 1, 100), (2, 2, LONG), (3, 3, 20_000), (4, 1, 100)] {
            let receipt = rig.receive(0, all_from(1), bytes);
            let (outcome, found) = rig.finish_receive(&receipt);
            assert_eq!(outcome.status.tag, tag);
            assert!(found == payload(message, bytes));
        }
        for sent in self.sends.iter().chain([&self.long, &self.acknowledged]) {
            rig.finish_send(sent);
        }
        let [long, short] = &self.answers;
        assert!(rig.finish_receive(long).1 == payload(7, LONG));
        assert!(rig.finish_receive(short).1 == payload(8, 10));
    }
}

/// While an event of a rank is not stable, nothing that a program can see
/// leaves it: no send, no announcement, no clear-to-send, no answer to a
/// synchronous send. Everything leaves in order once it is stable.
// GATE-1
#[test]
fn nothing_visible_leaves_before_events_are_stable() {
    for network in networks::all() {
        for shutter in SHUTTERS {
            println!("{shutter:?}");
            let mut rig = Setup::new(network.clone()).ranks(3).build();
            let prepared = Effects::prepare(&mut rig);
            shut(&mut rig, shutter);
            let lanes = [LaneKind::Data, LaneKind::Control];
            let before = lanes.map(|lane| rig.posted(1, lane));
            let effects = Effects::begin(&mut rig, prepared);
            rig.settle();
            assert_eq!(lanes.map(|lane| rig.posted(1, lane)), before);
            effects.assert_unseen(&rig);
            rig.protocols[1].commit();
            effects.assert_all_come_in_order(&mut rig);
            rig.end();
        }
    }
}

/// A message waits for the events before it was sent, and for no later event. A frame that the
/// fabric refused before the event leaves; a frame that was sent after the event does not; and a
/// later event does not hold it when the first one is stable.
// GATE-1
/// If no emission waits for commits, the program gets what has arrived before commits are polled;
/// but commits are polled at some time, though more messages arrive and none leaves.
// GATE-4
#[test]
fn commits_are_looked_after_while_messages_arrive_and_none_leaves() {
    const MESSAGES: u32 = 200;
    let mut rig = Setup::new(networks::calm()).build();
    rig.protocols[1].hold_commits();
    let receipts: Vec<Receipt> = (0..MESSAGES)
        .map(|tag| rig.receive(1, from_any(tag as i32), 8))
        .collect();
    for message in 0..MESSAGES {
        rig.send(0, to(1, message as i32), &[0; 8]);
        rig.settle_only(&[0]);
        assert!(rig.progress(1), "it has arrived");
        assert_eq!(rig.protocols[1].events().len() as u32, message + 1);
        if message == 0 {
            assert_eq!(rig.protocols[1].looks(), 0, "its program is told first");
        }
    }
    let looks = rig.protocols[1].looks();
    assert!((MESSAGES / 2..MESSAGES).contains(&looks), "{looks} looks");
    assert!(!rig.progress(1), "nothing has arrived");
    assert_eq!(rig.protocols[1].looks(), looks + 1);
    rig.protocols[1].commit();
    for receipt in &receipts {
        rig.finish_receive(receipt);
    }
}

#[test]
fn messages_wait_for_what_was_before_them_alone() {
    let mut network = networks::calm();
    network.data_lane_frames = 1;
    let mut rig = Setup::new(network).ranks(3).build();
    for tag in 0..3 {
        rig.send(1, to(0, tag), &[0; 8]);
    }
    let clock = rig.engines[1].tick();
    rig.protocols[1].hold_commits();
    rig.engines[1].note_probe(clock, &found(Rank(0)), Ssn(0));
    rig.send(1, to(2, 3), &[0; 8]);
    let clock = rig.engines[1].tick();
    rig.engines[1].note_probe(clock, &found(Rank(0)), Ssn(0));
    for tag in 0..3 {
        rig.expect(0, from(1, tag), &[0; 8]);
    }
    rig.settle();
    assert_eq!(rig.posted(1, LaneKind::Data), 3);
    rig.protocols[1].commit_first(1);
    rig.expect(2, from(1, 3), &[0; 8]);
    rig.send(1, to(2, 4), &[0; 8]);
    rig.settle();
    assert_eq!(rig.posted(1, LaneKind::Data), 4, "the second is not stable");
    rig.protocols[1].commit();
    rig.expect(2, from(1, 4), &[0; 8]);
    rig.end();
}

/// A match that is made in the same poll in which a peer's fault is found is not forgotten: a
/// program that continues sends nothing before the match is stable.
// GATE-1
#[test]
fn a_fault_does_not_open_the_gate() {
    let mut together = 0;
    // About every second seed has both in one poll.
    for seed in 1..=40 {
        let network = Options {
            keeps_trace: true,
            ..Options::calm(seed)
        };
        let mut rig = Setup::new(network).ranks(3).build();
        rig.protocols[1].hold_commits();
        rig.receive(1, from_any(1), 4);
        rig.send(2, to(1, 1), &[4; 4]);
        rig.network
            .inject(Rank(0), Rank(1), LaneKind::Control, &[9; 32]);
        rig.network.step();
        for _ in 0..8 {
            let before = rig.protocols[1].events().len();
            let failed = rig.engines[1].progress().is_err();
            together += usize::from(failed && rig.protocols[1].events().len() > before);
        }
        assert_eq!(rig.protocols[1].events().len(), 1);
        rig.send(1, to(2, 2), &[5; 4]);
        rig.settle();
        assert_eq!(rig.posted(1, LaneKind::Data), 0, "seed {seed}");
    }
    assert!(together > 0, "no seed finds both in one poll");
}

/// A match with a named source is deterministic: it makes no event, and no emission waits.
// GATE-1
#[test]
fn named_matches_do_not_shut_the_gate() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        rig.protocols[1].hold_commits();
        let prepared = Effects::prepare(&mut rig);
        let effects = Effects::begin(&mut rig, prepared);
        effects.assert_all_come_in_order(&mut rig);
        assert_eq!(rig.protocols[1].events(), []);
        rig.end();
    }
}

/// Horizons pass a closed gate, and receives continue behind it.
// GATE-4
#[test]
fn horizons_and_receives_pass_a_shut_gate() {
    for network in networks::all() {
        let mut rig = Setup::new(network).ranks(3).keeping(4 << 20).build();
        shut(&mut rig, Shutter::MatchOfPosted);
        for message in 0..60 {
            let receipt = rig.receive(1, from(0, 5), 20_000);
            let sent = rig.send(0, to(1, 5), &payload(message, 20_000));
            rig.finish_send(&sent);
            assert!(rig.finish_receive(&receipt).1 == payload(message, 20_000));
        }
        let blocked = rig.send(1, to(0, 6), &[6; 6]);
        assert!(rig.is_sent(&blocked));
        rig.settle();
        let (full, _) = rig.engines[0].log_bytes();
        rig.engines[1].publish_horizon();
        rig.settle();
        rig.engines[0].trim();
        assert!(rig.engines[0].log_bytes().0 < full, "no horizon came");
        assert_eq!(rig.posted(1, LaneKind::Data), 0, "the send has left");
        rig.protocols[1].commit();
        rig.expect(0, from(1, 6), &[6; 6]);
        rig.end();
    }
}

/// A send is complete when it is packed, however long the gate stays closed: its buffer may be used
/// again at once, and the bytes that arrive later are those that were sent.
// LOG-1
#[test]
fn a_send_is_packed_now_and_published_when_stable() {
    let sizes = [0, 16, 100, 8192, 60_000, 300_000];
    for network in networks::all() {
        let mut rig = Setup::new(network).ranks(3).keeping(4 << 20).build();
        shut(&mut rig, Shutter::MatchOfPosted);
        for (tag, bytes) in sizes.into_iter().enumerate() {
            let sent = rig.send(1, to(0, tag as i32), &payload(tag as u64, bytes));
            if bytes <= 60_000 {
                assert!(
                    matches!(sent.started, Started::Done(_)),
                    "{bytes} bytes are packed by the call"
                );
            }
            let outcome = rig.finish_send(&sent);
            assert_eq!(outcome.status.bytes, bytes as u64);
            sent.room.fill(0xee);
        }
        assert_eq!(rig.posted(1, LaneKind::Data), 0);
        rig.protocols[1].commit();
        for (tag, bytes) in sizes.into_iter().enumerate() {
            rig.expect(0, from(1, tag as i32), &payload(tag as u64, bytes));
        }
        rig.end();
    }
}
