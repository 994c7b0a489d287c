//! The suite on verbs: several endpoints of this process on one device, real or
//! soft-RoCE. Where there is none it is skipped, and says why; the guest of
//! `ci/softroce` has one (docs/testing.md).

use super::greeting::greet_all;
use super::rig::Rig;
use super::*;
use crate::fabric::network::NetworkOptions;
use crate::fabric::verbs::{Overrides, PortChoice, Verbs, VerbsOptions, choose};
use core::time::Duration;
use refrain_ring::{Arena, Incarnation, Rank};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Each job has a number of its own: frames of another job are dropped.
static JOBS: AtomicU64 = AtomicU64::new(1);

struct VerbsHarness {
    begin: Instant,
    port: PortChoice,
    overrides: Overrides,
    job: u64,
    ranks: u32,
    window_bytes: u64,
    graves: Vec<Arena>,
}

impl Harness for VerbsHarness {
    type F = Verbs;

    fn make(&mut self, ranks: u32) -> Vec<Endpoint<Verbs>> {
        self.ranks = ranks;
        self.graves.clear();
        self.job = JOBS.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
        let mut endpoints: Vec<_> = (0..ranks)
            .map(|rank| self.restart(Rank(rank), Incarnation(0)))
            .collect();
        connect_all(&mut endpoints);
        greet_all(
            &mut endpoints,
            |one, other| one != other,
            |verbs| verbs,
            self.patience(),
        );
        endpoints
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Verbs> {
        let window_bytes = self.window_bytes;
        let arena = Arena::heap(8 * window_bytes as usize);
        let options = VerbsOptions {
            network: NetworkOptions {
                job: self.job,
                rank,
                incarnation,
                size: self.ranks,
                window_bytes,
                lost_after: Duration::from_secs(600),
                suspect_after: None,
            },
            library: None,
            port: self.port.clone(),
            overrides: self.overrides,
        };
        let fabric = Verbs::create(options, arena.region()).expect("the device works here");
        Endpoint {
            rank,
            incarnation,
            fabric,
            arena,
            window_bytes,
        }
    }

    /// The memory of a process that is gone is not read any more. This process
    /// is not gone: its memory could be, with other bytes in it, and is kept.
    fn kill(&mut self, endpoint: Endpoint<Verbs>) {
        drop(endpoint.fabric);
        self.graves.push(endpoint.arena);
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Greetings need both sides, and acknowledgements do.
    fn drives_all(&self) -> bool {
        true
    }

    /// Longer than anything is on its way inside one machine, also by soft-RoCE, whose
    /// threads wait for a processor where others use them.
    fn silence(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn busy_rounds(&self) -> u32 {
        2000
    }

    fn poll_calls_max(&self) -> usize {
        600
    }
}

/// Calls `check` with a harness, alone on the device, if there is one.
fn on_device(name: &str, overrides: Overrides, check: impl FnOnce(&mut VerbsHarness)) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let device = std::env::var("REFRAIN_VERBS_DEVICE").ok();
    let port = PortChoice {
        device: device.filter(|name| !name.is_empty()),
        ..PortChoice::default()
    };
    match choose(None, &port) {
        Ok(chosen) => println!("{name}: {chosen}"),
        Err(why) => {
            println!("skipped {name}: {why}");
            return;
        }
    }
    check(&mut VerbsHarness {
        begin: Instant::now(),
        port,
        overrides,
        job: 0,
        ranks: 0,
        window_bytes: 512 << 10,
        graves: Vec::new(),
    });
}

fn keeps_the_contract(name: &str, overrides: Overrides) {
    on_device(name, overrides, |harness| {
        run_all(harness);
    });
}

/// A small message costs its sender one request that carries it, and one doorbell,
/// and every sixteenth a completion: with an answer to each message, so that
/// acknowledgements travel with those. A rank that hears nothing for long asks, which
/// some may do here.
#[test]
fn a_small_message_is_one_doorbell() {
    const ROUNDS: u64 = 800;
    const SPARE: u64 = ROUNDS / 20;
    on_device("doorbells", Overrides::default(), |harness| {
        let mut rig = Rig::new(harness, 2);
        rig.settle();
        let begin = *rig.seats[0].endpoint.fabric.counters();
        for round in 1..=ROUNDS {
            for (from, to) in [(0, 1), (1, 0)] {
                rig.send(from, to as u32, 8);
                rig.until("a message comes", |rig| {
                    rig.drive();
                    rig.seats[to].inbox.frames(Rank(from as u32), 0) == round
                });
            }
        }
        let end = *rig.seats[0].endpoint.fabric.counters();
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
        let told = end.completions - begin.completions;
        assert!(told <= ROUNDS + signalled + SPARE, "{told} completions");
        rig.finish();
    });
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

/// Nothing is read.
#[test]
fn verbs_without_reads_keeps_the_contract() {
    let overrides = Overrides {
        distant_bytes_min: Some(0),
        ..Overrides::default()
    };
    keeps_the_contract("verbs without reads", overrides);
}
