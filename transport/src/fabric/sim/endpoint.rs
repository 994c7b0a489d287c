//! [`SimFabric`]: one rank's end of a simulated network.

use super::LaneKind;
use super::Network;
use super::arrivals::{Arrived, ArrivedFrame};
use super::lane::Bytes;
use super::lives::address_of;
use super::trace::{Event, Life, Route};
use crate::control::Control;
use crate::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landing, Payload, Place,
    Refusal, Sink,
};
use crate::gate::Pass;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, Region};
use std::collections::BTreeMap;

#[derive(Debug)]
struct Kept {
    bytes: Bytes,
    distant: bool,
}

/// One rank's end of a simulated [`Network`].
#[derive(Debug)]
pub struct SimFabric {
    network: Network,
    life: Life,
    attributes: Attributes,
    /// The memory of its log.
    region: Region,
    /// The locator is the incarnation of the sender.
    kept: BTreeMap<Place, Kept>,
    /// The staged frame that is not in the log yet, if there is one.
    staged: Option<(Route, Vec<u8>)>,
}

impl SimFabric {
    pub(super) fn new(network: Network, life: Life, region: Region) -> Self {
        let attributes = network.state().options.attributes.clone();
        Self {
            network,
            life,
            attributes,
            region,
            kept: BTreeMap::new(),
            staged: None,
        }
    }

    /// The network that this endpoint belongs to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn hand_frame(&mut self, frame: ArrivedFrame, sink: &mut dyn Sink) {
        let (route, position) = (frame.route, frame.position);
        let place = Place {
            source: route.from.rank,
            position,
            locator: u64::from(route.from.incarnation.0),
        };
        let payload = &frame.bytes[RecordHeader::BYTES..];
        let disposition = sink.frame(Arrival {
            header: &frame.header,
            payload: if frame.distant {
                Payload::Distant(payload.len())
            } else {
                Payload::Here(payload)
            },
            place,
            pressed: frame.pressed,
        });
        let mut network = self.network.state();
        match disposition {
            Disposition::Consumed => network.consume(route, position, frame.distant),
            Disposition::Keep => {
                network.keep(route, frame.distant);
                let (bytes, distant) = (frame.bytes, frame.distant);
                self.kept.insert(place, Kept { bytes, distant });
            }
            Disposition::Fetch(landing) => {
                assert!(frame.distant, "{route:?}: the payload was here");
                network.fetch(route, position, frame.bytes, landing);
            }
        }
    }

    /// The route of a frame.
    fn route_of(&self, place: Place) -> Route {
        let incarnation = Incarnation(place.locator as u32);
        Route::new(Life::new(place.source, incarnation), self.life)
    }
}

/// Memory that was lent to the network returns to its owners.
impl Drop for SimFabric {
    fn drop(&mut self) {
        self.network.state().port(self.life).landings.forget();
    }
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
        let (life, region) = (Life::new(peer, incarnation), self.region.clone());
        let mut network = self.network.state();
        network.connect(self.life, life, address, region)?;
        self.kept.retain(|place, _| place.source != peer);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        self.network.state().disconnect(self.life, peer);
        self.kept.retain(|place, _| place.source != peer);
    }

    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let mut network = self.network.state();
        let route = network.admit(self.life, peer, LaneKind::Data)?;
        network.post_admitted(route, frame);
        Ok(())
    }

    /// The frame is sent later, by `staged`, when it is in the log: nothing happens in between, and
    /// the log must hold the staged bytes.
    fn stage(
        &mut self,
        _pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        let payload_bytes = header.payload_bytes as usize;
        assert!(
            self.attributes.staged_bytes.contains(&payload_bytes),
            "frames of {payload_bytes} bytes of payload are not staged"
        );
        assert!(self.staged.is_none(), "one frame is staged at a time");
        let mut network = self.network.state();
        let route = network.admit(self.life, peer, LaneKind::Data)?;
        let mut bytes = header.encode().to_vec();
        bytes.resize(RecordHeader::BYTES + payload_bytes, 0);
        fill(&mut bytes[RecordHeader::BYTES..]);
        self.staged = Some((route, bytes));
        Ok(())
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        let (route, bytes) = self.staged.take().expect("a frame was staged");
        assert_eq!(route.to.rank, peer, "the frame was staged for another rank");
        let mut network = self.network.state();
        network.add_event(Event::Staged(route, frame.position));
        if let Some(posted) = network.post_admitted(route, frame) {
            assert!(*posted == *bytes, "the log differs from what was staged");
        }
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        region.publish(link);
        self.network.state().leave_chunk(self.life, peer);
        true
    }

    fn post_control(&mut self, _pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let words = control.encode(self.life.rank, self.life.incarnation);
        self.network.state().post_control(self.life, peer, words)
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.network.state().released(self.life, peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let calls_max = self.network.state().begin_poll(self.life);
        let mut calls = 0;
        while calls < calls_max {
            let arrived = self.network.state().take_arrival(self.life)?;
            match arrived {
                None => break,
                Some(Arrived::Frame(frame)) => self.hand_frame(frame, sink),
                Some(Arrived::Landed(token, how)) => sink.landed(token, how),
                Some(Arrived::Control(source, control)) => sink.control(source, control),
                Some(Arrived::Lost(peer)) => sink.peer_lost(peer),
            }
            calls += 1;
        }
        Ok(calls)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        let kept = self.kept.get(&place);
        let kept = kept.expect("the frame is not released, and its peer is still connected");
        assert!(!kept.distant, "{place:?}: the payload is not here");
        &kept.bytes[RecordHeader::BYTES..][..payload_bytes]
    }

    fn let_go(&mut self, place: Place) {
        let Some(kept) = self.kept.remove(&place) else {
            return;
        };
        let route = self.route_of(place);
        let mut network = self.network.state();
        network.let_go(route, place.position, kept.distant);
    }

    fn is_drained(&mut self) -> bool {
        self.network.state().is_drained(self.life)
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        let kept = self.kept.remove(&place);
        let route = self.route_of(place);
        let mut network = self.network.state();
        match kept {
            Some(kept) => {
                assert!(kept.distant, "{place:?}: the payload is here");
                network.fetch(route, place.position, kept.bytes, landing);
            }
            // The peer was disconnected meanwhile.
            None => network.lose(self.life, &landing),
        }
    }

    fn close(&mut self) {
        self.network.state().close(self.life);
        self.kept.clear();
    }

    fn wait(&mut self, timeout: Duration) {
        self.network.state().wait(self.life, timeout);
    }
}
