//! Several fabrics behind one: the limits towards one peer, and from it, need not hold for another.

use crate::networks;
use crate::publishing::{Published, sharing};
use crate::rig::{Rig, Setup, from, payload, to};
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, Region};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::{Event, LaneKind, SimFabric};
use refrain_transport::fabric::{
    Address, Attributes, Fabric, FabricError, Landing, Place, Refusal, Sink,
};
use refrain_transport::gate::Pass;

/// The limits to rank 2 are different, and frames from it are not read in place.
struct Mixed {
    sim: SimFabric,
    to_two: Attributes,
}

fn mixed(sim: SimFabric) -> Box<dyn Fabric> {
    let to_two = Attributes {
        reads_in_place: false,
        follows_references: false,
        fragment_bytes: 1000,
        eager_bytes_max: 500,
        ..sim.attributes().clone()
    };
    Box::new(Mixed { sim, to_two })
}

impl Fabric for Mixed {
    fn attributes(&self) -> &Attributes {
        self.sim.attributes()
    }

    fn attributes_to(&self, peer: Rank) -> &Attributes {
        match peer {
            Rank(2) => &self.to_two,
            _ => self.sim.attributes(),
        }
    }

    fn address(&self) -> Address {
        self.sim.address()
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.sim.connect(peer, incarnation, address)
    }

    fn disconnect(&mut self, peer: Rank) {
        self.sim.disconnect(peer);
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        self.sim.post(pass, peer, frame)
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        self.sim.leave_chunk(region, peer, link)
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        self.sim.post_control(pass, peer, control)
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.sim.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.sim.poll(sink)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.sim.kept(place, payload_bytes)
    }

    fn is_drained(&mut self) -> bool {
        self.sim.is_drained()
    }

    fn let_go(&mut self, place: Place) {
        self.sim.let_go(place);
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.sim.fetch(place, landing);
    }

    fn close(&mut self) {
        self.sim.close();
    }

    fn wait(&mut self, timeout: Duration) {
        self.sim.wait(timeout);
    }
}

/// What goes to all is written once for ranks that find it, and once more for rank 2.
// LOG-6
#[test]
fn payload_is_shared_with_those_who_find_it() {
    let setup = Setup::new(networks::calm()).ranks(4).over(mixed);
    let mut rig = sharing(setup.keeping(16 << 20), 8 << 20);
    let mut published = Published::begin(&mut rig);
    published.pass(&mut rig, 400_000);
    let logged = rig.engines[0].log_bytes_appended();
    assert!((820_000..1_000_000).contains(&logged), "{logged}");
    published.end(&mut rig);
    rig.end();
}

fn rig(keeping: bool) -> Rig {
    let mut setup = Setup::new(networks::calm()).ranks(3).over(mixed);
    if keeping {
        setup = setup.keeping(4 << 20);
    }
    setup.build()
}

fn frames(rig: &Rig, sender: u32, receiver: u32) -> usize {
    let events = rig.network.events();
    let on_way = |event: &Event| match event {
        Event::Posted(route, LaneKind::Data, _) => {
            (route.from.rank, route.to.rank) == (Rank(sender), Rank(receiver))
        }
        _ => false,
    };
    events.iter().filter(|(_, event)| on_way(event)).count()
}

/// Messages are cut, and announced, by the limits of the fabric to their receiver.
#[test]
fn limits_are_those_towards_the_receiver() {
    // With the announcement, if there is one.
    for (keeping, to_two) in [(false, 21), (true, 20)] {
        let mut rig = rig(keeping);
        for receiver in [1, 2] {
            let sent = rig.send(0, to(receiver, 1), &payload(1, 20_000));
            rig.expect(receiver as usize, from(0, 1), &payload(1, 20_000));
            rig.finish_send(&sent);
        }
        assert_eq!((frames(&rig, 0, 1), frames(&rig, 0, 2)), (3, to_two));
        let announced = rig.engines[0].statistics().rendezvous;
        assert_eq!(announced, u64::from(!keeping));
        rig.end();
    }
}

/// Unexpected messages stay in the logs that can be read in place, and in no other.
#[test]
fn frames_are_kept_where_their_sender_s_log_is_read() {
    for (sender, stays) in [(1, true), (2, false)] {
        let mut rig = rig(false);
        rig.send(sender, to(0, 1), &payload(1, 400));
        rig.settle();
        assert_eq!(rig.has_released(sender), !stays);
        rig.expect(0, from(sender as u32, 1), &payload(1, 400));
        rig.settle();
        assert!(rig.has_released(sender));
        rig.end();
    }
}
