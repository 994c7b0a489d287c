//! Messages, both ways.

#![allow(unsafe_code, reason = "memory that a device has given back is looked at")]

use crate::pair::{Pair, Side, ground};
use refrain_verbs::Kind;

fn fill(side: &Side, offset: usize, bytes: usize, seed: u8) {
    for index in 0..bytes {
        // SAFETY: within the region, and no operation uses it now.
        unsafe { *side.region.at(offset + index) = seed.wrapping_add(index as u8) };
    }
}

fn is_filled(side: &Side, offset: usize, bytes: usize, seed: u8) -> bool {
    // SAFETY: within the region, and no operation uses it now.
    (0..bytes).all(|index| unsafe { *side.region.at(offset + index) } == seed.wrapping_add(index as u8))
}

#[test]
fn a_message_arrives_both_ways() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    for _ in 0..2 {
        fill(&pair.a, 0, 100, 7);
        let part = pair.b.part(4096, 200);
        pair.start(|pair| pair.b.endpoint.receive(part, 1));
        let part = pair.a.part(0, 100);
        pair.start(|pair| pair.a.endpoint.send(pair.a.peer(), &[part], 2));
        let received = pair.until(|pair| pair.b.completion(1));
        assert_eq!(received.outcome, Ok(()));
        assert_eq!((received.kind, received.bytes), (Kind::Receive, 100));
        assert_eq!(received.peer, Some(pair.b.peer()));
        assert!(is_filled(&pair.b, 4096, 100, 7));
        let sent = pair.until(|pair| pair.a.completion(2));
        assert_eq!(sent.outcome, Ok(()));
        core::mem::swap(&mut pair.a, &mut pair.b);
    }
    println!("{:?}", pair.a.endpoint.counters());
    pair.a.endpoint.close().unwrap();
    pair.b.endpoint.close().unwrap();
}
