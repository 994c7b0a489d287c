//! How long a waiting rank may sleep: the time-out of each call to its fabric.

use crate::rig::{Rig, Setup, from, from_any, payload, to};
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, Region, Ssn};
use refrain_transport::control::Control;
use refrain_transport::engine::Progress;
use refrain_transport::fabric::sim::{Options, SimFabric};
use refrain_transport::fabric::{
    Address, Attributes, Fabric, FabricError, Landing, Place, Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::cell::RefCell;

/// The time-out of a rank that waits for its peers.
const LONG: Duration = Duration::from_millis(100);

thread_local! {
    /// The time-outs that the fabrics of this test got, in the order of the calls.
    static TOLD: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
}

fn told() -> Vec<Duration> {
    TOLD.take()
}

/// Records the time-out of each wait, and does not wait.
struct Sleepless(SimFabric);

fn sleepless(sim: SimFabric) -> Box<dyn Fabric> {
    Box::new(Sleepless(sim))
}

impl Fabric for Sleepless {
    fn attributes(&self) -> &Attributes {
        self.0.attributes()
    }

    fn address(&self) -> Address {
        self.0.address()
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.0.connect(peer, incarnation, address)
    }

    fn disconnect(&mut self, peer: Rank) {
        self.0.disconnect(peer);
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        self.0.post(pass, peer, frame)
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        self.0.leave_chunk(region, peer, link)
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        self.0.post_control(pass, peer, control)
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.0.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.0.poll(sink)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.0.kept(place, payload_bytes)
    }

    fn is_drained(&mut self) -> bool {
        self.0.is_drained()
    }

    fn let_go(&mut self, place: Place) {
        self.0.let_go(place);
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.0.fetch(place, landing);
    }

    fn close(&mut self) {
        self.0.close();
    }

    fn wait(&mut self, timeout: Duration) {
        TOLD.with_borrow_mut(|told| told.push(timeout));
    }
}

fn rig(log_bytes: usize) -> Rig {
    let setup = Setup::new(Options::calm(1)).keeping(log_bytes);
    setup.over(sleepless).build()
}

fn wait(rig: &mut Rig, rank: usize) -> Option<Duration> {
    told();
    rig.engines[rank].wait(LONG);
    match *told() {
        [] => None,
        [timeout] => Some(timeout),
        ref more => panic!("waits in one call: {more:?}"),
    }
}

/// A call that asks whether all events are stable waits for a commit as an emission does: the end
/// of that commit does not wake a rank.
// GATE-4
#[test]
fn to_settle_is_to_wait_for_a_commit() {
    let mut rig = rig(4 << 20);
    rig.protocols[1].hold_commits();
    rig.send(0, to(1, 1), &[1; 4]);
    rig.settle();
    rig.expect(1, from_any(1), &[1; 4]);
    // No emission leaves that would have to wait.
    assert!(!rig.engines[1].awaits_commit());
    assert_eq!(wait(&mut rig, 1), Some(LONG));
    for _ in 0..3 {
        assert!(!rig.engines[1].is_settled());
        rig.progress(1);
        assert!(rig.engines[1].awaits_commit());
        let timeout = wait(&mut rig, 1).expect("there is nothing to do");
        assert!(timeout < LONG / 100, "{timeout:?}");
    }
    rig.protocols[1].commit();
    assert!(rig.engines[1].is_settled());
    assert!(!rig.engines[1].awaits_commit());
    assert_eq!(wait(&mut rig, 1), Some(LONG));
    rig.end();
}

/// A rank that has more to pack than one burst, and room for it, does not sleep. Neither does a
/// rank that reads its log and asks for more.
#[test]
fn who_has_something_to_do_does_not_sleep() {
    const BYTES: usize = 16 << 20;
    let mut rig = rig(2 * BYTES);
    let data = payload(1, BYTES);
    let receipt = rig.receive(1, from(0, 1), BYTES);
    let sent = rig.send(0, to(1, 1), &data);
    let mut bursts = 0;
    while !rig.is_sent(&sent) {
        assert_eq!(wait(&mut rig, 0), None, "after {bursts} bursts");
        rig.progress(0);
        bursts += 1;
    }
    assert!(bursts > 1);
    assert_eq!(wait(&mut rig, 0), Some(LONG), "all of it is packed");
    rig.finish_send(&sent);
    assert!(rig.finish_receive(&receipt).1 == data);
    let mut reader = rig.engines[0].read_back(Rank(1), Ssn(0));
    let mut parts = 0;
    while let Ok(Progress::Records(_)) = rig.engines[0].read_on(&mut reader, &mut |_, _| {}) {
        rig.progress(0);
        assert_eq!(wait(&mut rig, 0), None, "after {parts} parts");
        parts += 1;
    }
    assert!(parts > 1);
    assert_eq!(wait(&mut rig, 0), Some(LONG), "all of it is read");
    rig.end();
}
