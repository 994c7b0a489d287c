//! Messages of every size arrive as they were sent.

use crate::networks;
use crate::rig::{Rig, Setup, from, payload, to};
use refrain_ring::{CHUNK_BYTES, ChannelLog};
use refrain_transport::fabric::sim::Options;

/// Lengths around every limit at which the engine, the record format or the log behaves
/// differently.
fn sizes(network: &Options) -> Vec<usize> {
    let fragment = network.attributes.fragment_bytes;
    let eager_max = network.attributes.eager_bytes_max as usize;
    let record_max = ChannelLog::PAYLOAD_BYTES_MAX;
    let limits = [16, 64, fragment, eager_max, record_max, CHUNK_BYTES];
    let around = limits
        .into_iter()
        .flat_map(|limit| [limit - 1, limit, limit + 1]);
    [0, 1]
        .into_iter()
        .chain(around)
        .chain([3 * fragment, 2 * CHUNK_BYTES + 12_345])
        .collect()
}

fn exchange(rig: &mut Rig, message: u64, bytes: usize, expected: bool) {
    let data = payload(message, bytes);
    let begin = |rig: &mut Rig| rig.receive(1, from(0, 1), bytes);
    let (receipt, sent) = if expected {
        let receipt = begin(rig);
        (receipt, rig.send(0, to(1, 1), &data))
    } else {
        let sent = rig.send(0, to(1, 1), &data);
        rig.settle();
        (begin(rig), sent)
    };
    rig.finish_send(&sent);
    sent.room.fill(0);
    let (outcome, found) = rig.finish_receive(&receipt);
    assert_eq!(outcome.status.bytes, bytes as u64);
    assert_eq!(outcome.truncated_to, None);
    assert!(found == data, "{bytes} bytes, expected {expected}");
}

/// Every size arrives bit-identical: expected and unexpected, with a log that
/// is reused and one that is kept, over calm and rough networks.
// LOG-1
#[test]
fn every_size_arrives_as_it_was_sent() {
    for network in networks::all() {
        let sizes = sizes(&network);
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            let mut rig = setup.build();
            for expected in [true, false] {
                for (message, bytes) in sizes.iter().enumerate() {
                    exchange(&mut rig, message as u64, *bytes, expected);
                    rig.engines[1].publish_horizon();
                }
            }
            rig.end();
        }
    }
}

/// Many messages of mixed sizes that are in flight at once do not mix: each arrives in its own
/// receive.
#[test]
fn many_messages_under_way_at_once_do_not_mix() {
    for network in networks::all() {
        let sizes = sizes(&network);
        let mut rig = Setup::new(network).ranks(3).build();
        let receive = |rig: &mut Rig, tag: usize| {
            [0, 2].map(|source| rig.receive(1, from(source, tag as i32), sizes[tag]))
        };
        let (early, late) = (0..sizes.len()).partition::<Vec<_>, _>(|tag| tag % 2 == 0);
        let mut receipts: Vec<_> = early
            .iter()
            .map(|tag| (*tag, receive(&mut rig, *tag)))
            .collect();
        let mut sends = Vec::new();
        for (tag, bytes) in sizes.iter().enumerate() {
            for source in [0, 2] {
                let data = payload((tag * 3 + source) as u64, *bytes);
                sends.push(rig.send(source, to(1, tag as i32), &data));
            }
            rig.round();
        }
        receipts.extend(late.iter().rev().map(|tag| (*tag, receive(&mut rig, *tag))));
        for (tag, pair) in &receipts {
            for (source, receipt) in [0, 2].into_iter().zip(pair) {
                let (_, found) = rig.finish_receive(receipt);
                let data = payload((tag * 3 + source) as u64, sizes[*tag]);
                assert!(found == data, "tag {tag} of rank {source}");
            }
        }
        for sent in &sends {
            rig.finish_send(sent);
        }
        rig.end();
    }
}
