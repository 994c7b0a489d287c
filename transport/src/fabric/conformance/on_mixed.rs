//! The suite on two fabrics behind one: every pair near, and every pair far. The
//! other side is idle; that both get their turn is shown in `mixed/tests.rs`.

use super::on_sim::SimHarness;
use super::*;
use crate::control::Control;
use crate::fabric::mixed::{Mixed, Side};
use crate::fabric::shm::{Shm, ShmOptions};
use crate::fabric::sim::{LaneKind, Network, Options, SimFabric, TICK_NS};
use crate::fabric::{Address, Attributes, FabricError, Landing, Place, Refusal, Sink};
use crate::gate::Pass;
use core::time::Duration;
use refrain_ring::{Frame, Position};
use std::time::Instant;

/// A side without peers. Time passes while a rank sleeps on it.
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

impl Harness for FarHarness {
    type F = Mixed<Idle, SimFabric>;

    fn make(&mut self, ranks: u32) -> Vec<Endpoint<Self::F>> {
        self.ranks = ranks;
        self.sim.clear();
        let mut endpoints: Vec<_> = (0..ranks)
            .map(|rank| self.restart(Rank(rank), Incarnation(0)))
            .collect();
        connect_all(&mut endpoints);
        endpoints
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Self::F> {
        let endpoint = self.sim.restart(rank, incarnation);
        let network = self.sim.network().clone();
        let sides = vec![Side::Far; self.ranks as usize];
        on_side(endpoint, |far| {
            Mixed::new(Idle::beside(far.attributes(), Some(network)), far, sides)
        })
    }

    fn kill(&mut self, endpoint: Endpoint<Self::F>) {
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

impl Harness for NearHarness {
    type F = Mixed<Shm, Idle>;

    fn make(&mut self, ranks: u32) -> Vec<Endpoint<Self::F>> {
        self.ranks = ranks;
        let mut endpoints: Vec<_> = (0..ranks)
            .map(|rank| self.restart(Rank(rank), Incarnation(0)))
            .collect();
        connect_all(&mut endpoints);
        endpoints
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Self::F> {
        let window_bytes = 512 << 10;
        let (shm, arena) = Shm::create(ShmOptions {
            job: 43,
            rank,
            incarnation,
            size: self.ranks,
            log_bytes: 8 * window_bytes,
            window_bytes,
        })
        .expect("shared memory can be made");
        let far = Idle::beside(shm.attributes(), None);
        Endpoint {
            rank,
            incarnation,
            fabric: Mixed::new(shm, far, vec![Side::Near; self.ranks as usize]),
            arena,
            window_bytes,
        }
    }

    fn kill(&mut self, endpoint: Endpoint<Self::F>) {
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
