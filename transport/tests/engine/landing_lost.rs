//! Payload that never arrives, and buffers that are given back while payload is in flight.

use crate::networks::seeds;
use crate::rig::{Receipt, Rig, Setup, UNTOUCHED, from, payload, to};
use refrain_ring::Rank;
use refrain_transport::engine::EngineError;
use refrain_transport::fabric::sim::{LaneKind, Options};

const BYTES: usize = 8000;
const GONE: u8 = 0x11;

/// All payload is distant, and takes some time. No rank notices a death unless the options say so.
fn slow(seed: u64) -> Options {
    let mut options = Options::calm(seed).distant_from(1);
    options.faults.delay_ticks_max = 50;
    options.keeps_trace = true;
    options
}

fn noticing(seed: u64) -> Options {
    let mut options = slow(seed);
    options.faults.loss_notice_ticks_max = Some(100);
    options
}

/// Rank 1 receives from rank 0, whose payload is in flight: into the buffer (`direct`), or into
/// staging memory.
fn fetching(options: Options, direct: bool) -> (Rig, Receipt) {
    let mut rig = Setup::new(options).ranks(3).build();
    let post = |rig: &mut Rig| rig.receive(1, from(0, 1), BYTES);
    let early = direct.then(|| post(&mut rig));
    rig.send(0, to(1, 1), &payload(1, BYTES));
    rig.until("the frame is handed over", |rig| rig.handed(1) == 1);
    assert_eq!(rig.landed(), 0, "choose another seed");
    let receipt = early.unwrap_or_else(|| post(&mut rig));
    (rig, receipt)
}

/// Ranks 1 and 2 continue: in both directions, with distant frames and with others.
fn go_on(rig: &mut Rig) {
    for (from_rank, at) in [(1, 2), (2, 1)] {
        for bytes in [0, 100, 20_000, 100_000] {
            let data = payload(7, bytes);
            let sent = rig.send(from_rank, to(at, 5), &data);
            let receipt = rig.receive(at as usize, from(from_rank as u32, 5), bytes);
            for _ in 0..1000 {
                rig.network.step();
                rig.progress(1);
                rig.progress(2);
                if rig.is_received(&receipt) {
                    break;
                }
            }
            assert!(rig.is_received(&receipt), "it does not go on");
            assert!(receipt.room.read() == data);
            rig.engines[at as usize].retire(receipt.id);
            if let refrain_transport::engine::Started::Pending(id) = sent.started {
                rig.engines[from_rank].retire(id);
            }
        }
    }
}

/// A buffer is given back when nothing lands there any more; its content stays from then on.
#[test]
fn a_buffer_is_given_back_when_its_landing_has_ended() {
    for seed in seeds(1..=5) {
        for direct in [true, false] {
            let (mut rig, receipt) = fetching(slow(seed), direct);
            rig.engines[1].detach(receipt.id);
            receipt.room.fill(GONE);
            // Payload for staging memory may land after that.
            assert_eq!(rig.landed(), usize::from(direct));
            rig.settle();
            assert_eq!(receipt.room.read(), [GONE; BYTES]);
            assert_eq!(rig.engines[1].request_count(), 0);
            go_on(&mut rig);
            rig.end();
        }
    }
}

/// After a long message is given up, no further fragment of it lands in the buffer; other messages
/// are delivered as usual.
#[test]
fn a_long_message_is_given_up_while_others_arrive() {
    for seed in seeds(1..=5) {
        let mut rig = Setup::new(slow(seed)).ranks(3).keeping(4 << 20).build();
        let receipt = rig.receive(1, from(0, 1), 500_000);
        let other = rig.receive(1, from(2, 1), 20_000);
        let sent = rig.send(0, to(1, 1), &payload(1, 500_000));
        rig.send(2, to(1, 1), &payload(2, 20_000));
        rig.until_touched(&receipt);
        rig.engines[1].detach(receipt.id);
        receipt.room.fill(GONE);
        rig.finish_send(&sent);
        assert!(rig.finish_receive(&other).1 == payload(2, 20_000));
        rig.settle();
        assert!(receipt.room.read() == [GONE; 500_000]);
        rig.end();
    }
}

/// As a last resort the fabric is closed: a dead peer that is not noticed never ends a landing. The
/// buffer is given back, and the rank gets an error.
#[test]
fn a_landing_that_never_ends_closes_the_fabric() {
    let (mut rig, receipt) = fetching(slow(1), true);
    rig.network.kill(Rank(0));
    rig.engines[1].detach(receipt.id);
    receipt.room.fill(GONE);
    let posted = rig.posted(1, LaneKind::Data);
    let mut errors = (0..100).filter_map(|_| rig.engines[1].progress().err());
    let lost = errors.next().expect("what was landing is lost");
    assert!(matches!(lost, EngineError::PeerLost { peer: Rank(0), .. }));
    let after: Vec<_> = errors.collect();
    let closed = |error: &EngineError| matches!(error, EngineError::Closed { peer: Rank(0) });
    assert!(after.len() > 1 && after.iter().all(closed), "{after:?}");
    rig.send(1, to(2, 1), &[1; 8]);
    rig.network.advance(10_000);
    assert_eq!(rig.posted(1, LaneKind::Data), posted);
    assert_eq!(receipt.room.read(), [GONE; BYTES]);
}

/// Messages that had arrived by then can still be received; for others there is no panic.
#[test]
fn a_closed_fabric_leaves_what_has_arrived() {
    let options = slow(1).distant_from(1000).reading_in_place(true);
    let mut rig = Setup::new(options).ranks(3).keeping(4 << 20).build();
    let here = payload(5, 100);
    rig.send(2, to(1, 5), &here);
    rig.send(2, to(1, 6), &payload(6, 20_000));
    rig.settle();
    let (handed, landed) = (rig.handed(1), rig.landed());
    let receipt = rig.receive(1, from(0, 1), BYTES);
    rig.send(0, to(1, 1), &payload(1, BYTES));
    rig.until("the frame is handed over", |rig| rig.handed(1) > handed);
    assert_eq!(rig.landed(), landed, "choose another seed");
    rig.network.kill(Rank(0));
    rig.engines[1].detach(receipt.id);
    let near = rig.receive(1, from(2, 5), here.len());
    assert!(rig.is_received(&near) && near.room.read() == here);
    let far = rig.receive(1, from(2, 6), 20_000);
    let mut errors = (0..100).filter_map(|_| rig.engines[1].progress().err());
    let closed = |error: &EngineError| matches!(error, EngineError::Closed { peer: Rank(0) });
    assert!(errors.any(|error| closed(&error)));
    assert!(!rig.is_received(&far), "it was not here");
}

/// A landing that is lost with its peer is an error that names the peer. No part of a message is
/// delivered; the receive keeps its match.
#[test]
fn a_lost_landing_is_an_error() {
    for seed in seeds(1..=5) {
        for direct in [true, false] {
            let (mut rig, receipt) = fetching(noticing(seed), direct);
            rig.network.kill(Rank(0));
            let error = (0..1000).find_map(|_| {
                rig.network.step();
                rig.engines[1].progress().err()
            });
            assert!(
                matches!(error, Some(EngineError::PeerLost { peer: Rank(0), .. })),
                "{error:?}"
            );
            while rig.network.step() {
                drop(rig.engines[1].progress());
            }
            assert!(!rig.is_received(&receipt));
            rig.engines[1].cancel(receipt.id);
            assert_eq!(
                rig.engines[1].outcome(receipt.id),
                None,
                "its match is gone"
            );
            rig.engines[1].detach(receipt.id);
        }
    }
}

/// After a fence the loss of payload is no error: in the receive's buffer, in staging memory, or in
/// the peer's log. Its message stays void, no horizon passes it, and the other ranks continue.
// FENCE-1
// LOG-4
#[test]
fn a_fenced_peer_voids_what_has_not_landed() {
    for seed in seeds(1..=5) {
        for keeping in [false, true] {
            for matched in [Matched::Before, Matched::Late, Matched::AfterTheFence] {
                println!("keeping {keeping}, matched {matched:?}");
                let mut setup = Setup::new(slow(seed)).ranks(3);
                if keeping {
                    setup = setup.keeping(4 << 20);
                }
                let mut rig = setup.build();
                fence(&mut rig, matched);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matched {
    Before,
    Late,
    AfterTheFence,
}

fn fence(rig: &mut Rig, matched: Matched) {
    let post = |rig: &mut Rig| rig.receive(1, from(0, 1), BYTES);
    let before = (matched == Matched::Before).then(|| post(rig));
    rig.send(0, to(1, 1), &payload(1, BYTES));
    rig.until("the frame is handed over", |rig| rig.handed(1) == 1);
    let late = (matched == Matched::Late).then(|| post(rig));
    rig.engines[1].fence(Rank(0));
    let then = before.or(late).unwrap_or_else(|| post(rig));
    let room = then.room.read();
    for _ in 0..100 {
        rig.network.step();
        rig.progress(1);
        rig.progress(2);
    }
    assert_eq!(rig.landed(), 0);
    assert!(!rig.is_received(&then));
    assert!(then.room.read() == room, "written to after the fence");
    rig.engines[1].publish_horizon();
    let controls = rig.posted(1, LaneKind::Control);
    rig.progress(1);
    assert_eq!(rig.posted(1, LaneKind::Control), controls);
    rig.engines[1].detach(then.id);
    go_on(rig);
}

/// No payload lands after its engine is dropped.
#[test]
fn nothing_lands_when_the_engine_is_gone() {
    for direct in [true, false] {
        let (mut rig, receipt) = fetching(slow(1), direct);
        drop(rig.engines.remove(1));
        let room = receipt.room.read();
        rig.network.advance(10_000);
        assert!(receipt.room.read() == room);
        assert_eq!(rig.landed(), 0);
        assert!(direct || room == [UNTOUCHED; BYTES]);
    }
}
