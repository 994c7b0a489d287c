//! [`SimFabric`]: one rank's end of a simulated network.

use super::Network;
use super::arrivals::Arrived;
use super::ledger::Bytes;
use super::lives::address_of;
use super::trace::{Life, Route};
use crate::control::Control;
use crate::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landing, Payload, Place,
    Refusal, Sink,
};
use crate::gate::Pass;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader};
use std::collections::BTreeMap;

/// Names a kept frame: also its incarnation, so that an old place never means a
/// new frame.
type KeptKey = (Rank, u64, Position);

/// One rank's end of a simulated [`Network`].
#[derive(Debug)]
pub struct SimFabric {
    network: Network,
    life: Life,
    attributes: Attributes,
    kept: BTreeMap<KeptKey, Bytes>,
}

impl SimFabric {
    pub(super) fn new(network: Network, life: Life) -> Self {
        let attributes = network.state.borrow().options.attributes.clone();
        Self {
            network,
            life,
            attributes,
            kept: BTreeMap::new(),
        }
    }

    /// The network that it belongs to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn hand_frame(
        &mut self,
        route: Route,
        header: RecordHeader,
        position: Position,
        bytes: Bytes,
        pressed: bool,
        sink: &mut dyn Sink,
    ) {
        let place = Place {
            source: route.from.rank,
            position,
            locator: u64::from(route.from.incarnation.0),
        };
        let disposition = sink.frame(Arrival {
            header: &header,
            payload: Payload::Here(&bytes[RecordHeader::BYTES..]),
            place,
            pressed,
        });
        let mut network = self.network.state.borrow_mut();
        match disposition {
            Disposition::Consumed => network.consume(route, position),
            Disposition::Keep => {
                network.keep(route);
                self.kept.insert(key(place), bytes);
            }
            Disposition::Fetch(_) => todo!("STUB: distant frames"),
        }
    }
}

fn key(place: Place) -> KeptKey {
    (place.source, place.locator, place.position)
}

impl Fabric for SimFabric {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        address_of(self.life)
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let rank = peer;
        let peer = Life { rank, incarnation };
        let mut network = self.network.state.borrow_mut();
        network.connect(self.life, peer, address)?;
        self.kept.retain(|(source, ..), _| *source != rank);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        self.network.state.borrow_mut().disconnect(self.life, peer);
        self.kept.retain(|(source, ..), _| *source != peer);
    }

    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let mut network = self.network.state.borrow_mut();
        network.post(self.life, peer, frame)
    }

    fn post_control(&mut self, _pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let words = control.encode(self.life.rank, self.life.incarnation);
        let mut network = self.network.state.borrow_mut();
        network.post_control(self.life, peer, words)
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.network.state.borrow().released(self.life, peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let calls_max = self.network.state.borrow_mut().begin_poll(self.life);
        let mut calls = 0;
        while calls < calls_max {
            let arrived = self.network.state.borrow_mut().take_arrival(self.life)?;
            match arrived {
                None => break,
                Some(Arrived::Frame {
                    route,
                    position,
                    header,
                    bytes,
                    pressed,
                }) => self.hand_frame(route, header, position, bytes, pressed, sink),
                Some(Arrived::Control(source, control)) => sink.control(source, control),
                Some(Arrived::Lost(peer)) => sink.peer_lost(peer),
            }
            calls += 1;
        }
        Ok(calls)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        let bytes = self
            .kept
            .get(&key(place))
            .expect("the frame is kept: it was neither let go nor its peer disconnected");
        &bytes[RecordHeader::BYTES..][..payload_bytes]
    }

    fn let_go(&mut self, place: Place) {
        if self.kept.remove(&key(place)).is_none() {
            return;
        }
        let from = Life {
            rank: place.source,
            incarnation: Incarnation(u32::try_from(place.locator).expect("made from a u32")),
        };
        let route = Route {
            to: self.life,
            from,
        };
        let mut network = self.network.state.borrow_mut();
        network.let_go(route, place.position);
    }

    /// The network delivers what was posted whether or not its sender lives on.
    fn is_drained(&mut self) -> bool {
        true
    }

    fn fetch(&mut self, _place: Place, _landing: Landing) {
        todo!("STUB: distant frames")
    }

    fn close(&mut self) {
        todo!("STUB: distant frames")
    }

    fn wait(&mut self, timeout: Duration) {
        self.network.state.borrow_mut().wait(self.life, timeout);
    }
}
