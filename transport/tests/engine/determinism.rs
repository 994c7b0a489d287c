//! The engine makes no random decisions.

use crate::networks::{DISTANT, in_both_modes, seeds};
use crate::recorder::Noted;
use crate::rig::{Setup, from_any, payload, synchronous, to};
use refrain_transport::engine::{Outcome, Statistics};
use refrain_transport::fabric::sim::Options;

#[derive(Debug, PartialEq)]
struct Trace {
    digest: u64,
    outcomes: Vec<Outcome>,
    events: Vec<Vec<Noted>>,
    statistics: Vec<Statistics>,
}

/// All ranks send messages of many sizes to all ranks, received from any source.
fn run(setup: &Setup) -> Trace {
    let mut rig = setup.clone().build();
    let sizes = [10, 100_000, 0, 20_000, 8192, 300_000];
    let (mut sends, mut receipts, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for (number, bytes) in sizes.into_iter().enumerate() {
        for from in 0..3 {
            for receiver in 0..3 {
                let data = payload(number as u64, bytes);
                let address = if number % 2 == 0 { to } else { synchronous };
                sends.push(rig.send(from, address(receiver, 1), &data));
                receipts.push(rig.receive(receiver as usize, from_any(1), 300_000));
            }
        }
        rig.round();
    }
    for receipt in &receipts {
        outcomes.push(rig.finish_receive(receipt).0);
    }
    for sent in &sends {
        outcomes.push(rig.finish_send(sent));
    }
    rig.end();
    Trace {
        digest: rig.network.digest(),
        outcomes,
        events: rig.protocols.iter().map(|told| told.events()).collect(),
        statistics: rig
            .engines
            .iter()
            .map(|engine| engine.statistics())
            .collect(),
    }
}

/// The same calls over the same network give the same outcomes, events,
/// counters, and every frame at the same moment; another seed gives others.
#[test]
fn the_same_seed_gives_the_same_run() {
    let mut digests = std::collections::BTreeSet::new();
    let seeds = seeds(1..=3);
    for seed in &seeds {
        let networks = in_both_modes(&Options::rough(*seed)).into_iter();
        let networks = networks.flat_map(|network| {
            DISTANT.map(|distant_bytes_min| Options {
                distant_bytes_min,
                ..network.clone()
            })
        });
        for network in networks {
            let reused = Setup::new(network).ranks(3);
            for setup in [reused.clone(), reused.keeping(8 << 20)] {
                let first = run(&setup);
                assert_eq!(first, run(&setup));
                digests.insert(first.digest);
            }
        }
    }
    assert_eq!(digests.len(), 12 * seeds.len(), "the seed has no effect");
}
