//! Arrivals in an order that an explorer chooses, instead of time.

use super::trace::Route;
use super::{LaneKind, Network};
use std::rc::Rc;

/// A frame that was posted and has not arrived.
#[derive(Clone, Debug)]
pub struct OnItsWay {
    /// Its sender and receiver.
    pub route: Route,
    /// Its lane.
    pub lane: LaneKind,
    /// The posted bytes: header and payload, or a control frame. Empty if the log is broken.
    pub bytes: Rc<[u8]>,
}

impl Network {
    /// The frames in flight to receivers that have not fenced their senders; those of each lane in
    /// order.
    pub fn on_their_way(&self) -> Vec<OnItsWay> {
        let state = self.state();
        let mut found = Vec::new();
        let links = state.links.iter();
        for (route, link) in links.filter(|(route, _)| state.is_open(**route)) {
            for (lane, kind) in [
                (&link.data, LaneKind::Data),
                (&link.control, LaneKind::Control),
            ] {
                found.extend(lane.in_flight.iter().map(|(_, packet)| OnItsWay {
                    route: *route,
                    lane: kind,
                    bytes: packet.bytes.as_ref().map(Rc::clone).unwrap_or_default(),
                }));
            }
        }
        found
    }

    /// Delivers the first frame of a lane, due or not, and the due releases of the route. Returns
    /// false if there is no frame.
    pub fn deliver_first(&self, route: Route, lane: LaneKind) -> bool {
        let mut state = self.state();
        if !state.links.contains_key(&route) {
            return false;
        }
        let first = state.link(route).lane(lane).take_first();
        let is_there = first.is_some();
        if let Some(packet) = first {
            state.deliver_packet(route, lane, packet);
        }
        state.deliver_releases(route);
        is_there
    }
}
