//! The suite on verbs: several endpoints of this process on one device, real or soft-RoCE. Without
//! a device the suite is skipped, and prints why; the guest of `ci/softroce` has one
//! (docs/design/testing.md).

use super::on_network::{NetworkHarness, NetworkTiming};
use super::rig::Rig;
use super::*;
use refrain_ring::{Rank, Region};
use refrain_transport::fabric::network::NetworkOptions;
use refrain_transport::fabric::verbs::{Overrides, PortChoice, Verbs, VerbsOptions, choose};
use refrain_verbs::Counters;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn harness(port: PortChoice, overrides: Overrides) -> impl Harness {
    let timing = NetworkTiming {
        // The threads of soft-RoCE wait for a processor that other threads use.
        silence: Duration::from_millis(50),
        busy_rounds: 2000,
        cannot_begin_again: None,
    };
    NetworkHarness::new(
        0,
        timing,
        move |network: NetworkOptions, region: &Region| {
            let options = VerbsOptions {
                network,
                library: None,
                port: port.clone(),
                overrides,
            };
            Verbs::create(options, region).expect("the device works here")
        },
    )
}

/// A harness, alone on the device as long as the guard lives, if there is a device.
fn on_device(name: &str, overrides: Overrides) -> Option<(MutexGuard<'static, ()>, impl Harness)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let device = std::env::var("REFRAIN_VERBS_DEVICE").ok();
    let port = PortChoice {
        device: device.filter(|name| !name.is_empty()),
        ..PortChoice::default()
    };
    match choose(None, &port) {
        Ok(chosen) => println!("{name}: {chosen}"),
        Err(why) => {
            println!("skipped {name}: {why}");
            return None;
        }
    }
    Some((alone, harness(port, overrides)))
}

fn keeps_the_contract(name: &str, overrides: Overrides) {
    if let Some((_alone, mut harness)) = on_device(name, overrides) {
        run_all(&mut harness);
    }
}

/// The counters of the first rank's endpoint.
fn counters(rig: &Rig<'_>) -> Counters {
    let fabric: &dyn Any = &*rig.seats[0].endpoint.fabric;
    let verbs: &Verbs = fabric.downcast_ref().expect("the harness is of verbs");
    *verbs.counters()
}

/// A small message costs its sender one request that carries it, one doorbell, and every sixteenth
/// time a completion. Each message has an answer here, so that acknowledgements travel with the
/// answers. A rank that receives nothing for long asks, which some ranks may do here.
#[test]
fn a_small_message_is_one_doorbell() {
    const ROUNDS: u64 = 800;
    const SPARE: u64 = ROUNDS / 20;
    let Some((_alone, mut harness)) = on_device("doorbells", Overrides::default()) else {
        return;
    };
    let mut rig = Rig::new(&mut harness, 2);
    rig.settle();
    let begin = counters(&rig);
    for round in 1..=ROUNDS {
        for (from, to) in [(0, 1), (1, 0)] {
            rig.send(from, to as u32, 8);
            rig.until("a message comes", |rig| {
                rig.drive();
                rig.seats[to].inbox.frames(Rank(from as u32), 0) == round
            });
        }
    }
    let end = counters(&rig);
    println!("  before {ROUNDS} messages and answers: {begin:?}\n  behind: {end:?}");
    let doorbells = end.doorbells - begin.doorbells;
    assert!(
        (ROUNDS..=ROUNDS + SPARE).contains(&doorbells),
        "{doorbells}"
    );
    assert_eq!(end.work_requests - begin.work_requests, doorbells);
    assert!(end.inline - begin.inline >= ROUNDS, "all are inline");
    let signalled = end.signalled - begin.signalled;
    assert!(signalled <= doorbells / 16 + SPARE, "{signalled}");
    let completions = end.completions - begin.completions;
    assert!(
        completions <= ROUNDS + signalled + SPARE,
        "{completions} completions"
    );
    rig.finish();
}

#[test]
fn verbs_keeps_the_contract() {
    keeps_the_contract("verbs", Overrides::default());
}

/// Every payload is read out of the sender's log.
#[test]
fn verbs_with_reads_keeps_the_contract() {
    let overrides = Overrides {
        distant_bytes_min: Some(1),
        ..Overrides::default()
    };
    keeps_the_contract("verbs with reads", overrides);
}

/// No payload is read.
#[test]
fn verbs_without_reads_keeps_the_contract() {
    let overrides = Overrides {
        distant_bytes_min: Some(0),
        ..Overrides::default()
    };
    keeps_the_contract("verbs without reads", overrides);
}
