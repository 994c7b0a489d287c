//! The suite on two fabrics behind one: every pair near, every pair far (the other side is idle),
//! and both, on shared memory and libfabric's tcp.

use super::greeting::{alone_on_libfabric, greet_all};
use super::on_sim::SimHarness;
use super::*;
use core::time::Duration;
use refrain_ring::{Frame, Position};
use refrain_transport::control::Control;
use refrain_transport::fabric::mixed::{Mixed, Side};
use refrain_transport::fabric::network::NetworkOptions;
use refrain_transport::fabric::ofi::{Ofi, OfiOptions, Overrides};
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use refrain_transport::fabric::sim::{LaneKind, Network, Options, SimFabric, TICK_NS};
use refrain_transport::fabric::{Address, Attributes, FabricError, Landing, Place, Refusal, Sink};
use refrain_transport::gate::Pass;
use std::path::PathBuf;
use std::time::Instant;

const WINDOW_BYTES: u64 = 512 << 10;

/// The shared memory of a rank, in a job of these tests.
fn shm(job: u64, size: u32, rank: Rank, incarnation: Incarnation) -> (Shm, Arena) {
    Shm::create(ShmOptions {
        job,
        rank,
        incarnation,
        size,
        log_bytes: 8 * WINDOW_BYTES,
        window_bytes: WINDOW_BYTES,
    })
    .expect("shared memory can be made")
}

/// A side without peers. Time passes while a rank sleeps on it.
#[derive(Debug)]
struct Idle {
    attributes: Attributes,
    network: Option<Network>,
}

impl Idle {
    fn beside(other: &Attributes, network: Option<Network>) -> Self {
        Self {
            attributes: Attributes {
                name: "idle".into(),
                ..other.clone()
            },
            network,
        }
    }
}

impl Fabric for Idle {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
    fn address(&self) -> Address {
        Address {
            bytes: Vec::new(),
            memory: None,
        }
    }
    fn connect(&mut self, peer: Rank, _: Incarnation, _: &Address) -> Result<(), FabricError> {
        panic!("rank {peer} is on the other side")
    }
    fn disconnect(&mut self, _: Rank) {}
    fn post(&mut self, _: Pass, peer: Rank, _: &Frame) -> Result<(), Refusal> {
        Err(Refusal::NotConnected(peer))
    }
    fn post_control(&mut self, _: Pass, peer: Rank, _: Control) -> Result<(), Refusal> {
        Err(Refusal::NotConnected(peer))
    }
    fn released(&mut self, _: Rank) -> Position {
        Position(0)
    }
    fn poll(&mut self, _: &mut dyn Sink) -> Result<usize, FabricError> {
        Ok(0)
    }
    fn kept(&self, _: Place, _: usize) -> &[u8] {
        unreachable!("no frame came from here")
    }
    fn is_drained(&mut self) -> bool {
        true
    }
    fn let_go(&mut self, _: Place) {
        unreachable!("no frame came from here")
    }
    fn fetch(&mut self, _: Place, _: Landing) {
        unreachable!("no frame came from here")
    }
    fn close(&mut self) {}
    fn wait(&mut self, timeout: Duration) {
        match &self.network {
            Some(network) => network.advance(timeout.as_nanos() as u64 / TICK_NS),
            None => std::thread::sleep(timeout),
        }
    }
}

fn on_side<F, G>(endpoint: Endpoint<F>, mixed: impl FnOnce(F) -> G) -> Endpoint<G> {
    Endpoint {
        rank: endpoint.rank,
        incarnation: endpoint.incarnation,
        fabric: mixed(endpoint.fabric),
        arena: endpoint.arena,
        window_bytes: endpoint.window_bytes,
    }
}

/// All peers are on other hosts.
struct FarHarness {
    sim: SimHarness,
    ranks: u32,
}

impl FarHarness {
    fn start(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Mixed<Idle, SimFabric>> {
        let endpoint = self.sim.start(rank, incarnation);
        let network = self.sim.network().clone();
        let sides = vec![Side::Far; self.ranks as usize];
        on_side(endpoint, |far| {
            Mixed::new(Idle::beside(far.attributes(), Some(network)), far, sides)
        })
    }
}

impl Harness for FarHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.ranks = ranks;
        self.sim.clear();
        to_check(start_all(ranks, |rank| self.start(rank, Incarnation(0))))
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        let network = self.sim.network();
        network.kill_life(endpoint.rank, endpoint.incarnation);
    }

    fn progress(&mut self) -> bool {
        self.sim.progress()
    }

    fn now(&self) -> Duration {
        self.sim.now()
    }

    fn poll_calls_max(&self) -> usize {
        self.sim.poll_calls_max()
    }

    fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        self.sim.inject(from, to, lane, bytes)
    }
}

/// All peers are on this host.
struct NearHarness {
    begin: Instant,
    ranks: u32,
}

impl NearHarness {
    fn start(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Mixed<Shm, Idle>> {
        let (shm, arena) = shm(43, self.ranks, rank, incarnation);
        let far = Idle::beside(shm.attributes(), None);
        Endpoint {
            rank,
            incarnation,
            fabric: Mixed::new(shm, far, vec![Side::Near; self.ranks as usize]),
            arena,
            window_bytes: WINDOW_BYTES,
        }
    }
}

impl Harness for NearHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.ranks = ranks;
        to_check(start_all(ranks, |rank| self.start(rank, Incarnation(0))))
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        drop(endpoint);
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn poll_calls_max(&self) -> usize {
        256
    }
}

/// Ranks with even numbers on one host, those with odd ones on another.
struct TwoHosts {
    begin: Instant,
    library: Option<PathBuf>,
    job: u64,
    ranks: u32,
}

impl TwoHosts {
    fn start(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Mixed<Shm, Ofi>> {
        let (shm, arena) = shm(self.job, self.ranks, rank, incarnation);
        let options = OfiOptions {
            network: NetworkOptions {
                job: self.job,
                rank,
                incarnation,
                size: self.ranks,
                window_bytes: WINDOW_BYTES,
                lost_after: Duration::from_secs(600),
                suspect_after: None,
            },
            provider: "tcp".into(),
            library: self.library.clone(),
            overrides: Overrides::default(),
        };
        let ofi = Ofi::create(options, arena.region()).expect("the provider works here");
        let side = |other: u32| match (rank.0 + other) % 2 {
            0 => Side::Near,
            _ => Side::Far,
        };
        Endpoint {
            rank,
            incarnation,
            fabric: Mixed::new(shm, ofi, (0..self.ranks).map(side).collect()),
            arena,
            window_bytes: WINDOW_BYTES,
        }
    }
}

impl Harness for TwoHosts {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.ranks = ranks;
        self.job += 1;
        let mut endpoints = start_all(ranks, |rank| self.start(rank, Incarnation(0)));
        let is_far = |one: Rank, other: Rank| (one.0 + other.0) % 2 == 1;
        greet_all(&mut endpoints, is_far, Mixed::far_mut, self.patience());
        to_check(endpoints)
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        drop(endpoint);
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn drives_all(&self) -> bool {
        true
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(3)
    }

    fn poll_calls_max(&self) -> usize {
        900
    }
}

fn two_hosts_keep_the_contract(library: Option<PathBuf>) {
    let _alone = alone_on_libfabric();
    run_all(&mut TwoHosts {
        begin: Instant::now(),
        library,
        // Frames of other tests' jobs are dropped.
        job: u64::from(std::process::id()) << 32 | 7 << 24,
        ranks: 0,
    });
}

#[test]
fn near_and_far_peers_together_are_served_by_the_contract() {
    two_hosts_keep_the_contract(None);
}

#[test]
fn near_and_far_peers_are_served_with_the_second_library() {
    match std::env::var_os("REFRAIN_LIBFABRIC_SECOND") {
        Some(library) => two_hosts_keep_the_contract(Some(library.into())),
        None => {
            eprintln!("skipped mixed on a second libfabric: REFRAIN_LIBFABRIC_SECOND names none")
        }
    }
}

#[test]
fn far_peers_are_served_by_the_contract() {
    for options in [Options::calm(3), Options::rough(3), Options::rough(4)] {
        for in_place in [false, true] {
            run_all(&mut FarHarness {
                sim: SimHarness::new(options.clone().reading_in_place(in_place)),
                ranks: 0,
            });
        }
    }
}

#[test]
fn near_peers_are_served_by_the_contract() {
    run_all(&mut NearHarness {
        begin: Instant::now(),
        ranks: 0,
    });
}
