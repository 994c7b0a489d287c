//! Arrivals in an order that somebody else chooses: instead of time.

use super::state::DataFrame;
use super::trace::Route;
use super::{LaneKind, Network};
use std::rc::Rc;

/// A frame that was posted and has not arrived.
#[derive(Clone, Debug)]
pub struct OnItsWay {
    /// From whom, and to whom.
    pub route: Route,
    /// On which lane.
    pub lane: LaneKind,
    /// What was posted; of data, header and payload. Empty if the log was broken.
    pub bytes: Rc<[u8]>,
}

impl Network {
    /// What is on its way to somebody who has not fenced its sender; of each lane
    /// in its order.
    pub fn on_their_way(&self) -> Vec<OnItsWay> {
        let state = self.state.borrow();
        let mut found = Vec::new();
        let links = state.links.iter();
        for (route, link) in links.filter(|(route, _)| state.is_open(**route)) {
            let mut add = |lane, bytes| {
                found.push(OnItsWay {
                    route: *route,
                    lane,
                    bytes,
                });
            };
            for frame in link.data.in_flight() {
                let bytes = match frame {
                    DataFrame::Bytes(_, bytes) => Rc::clone(bytes),
                    DataFrame::Broken(_) => Rc::default(),
                };
                add(LaneKind::Data, bytes);
            }
            for bytes in link.control.in_flight() {
                add(LaneKind::Control, Rc::clone(bytes));
            }
        }
        found
    }

    /// Lets the first frame of a lane arrive, whenever it is due, and word of all
    /// that was released. False when there is no frame.
    pub fn deliver_first(&self, route: Route, lane: LaneKind) -> bool {
        let mut state = self.state.borrow_mut();
        if !state.links.contains_key(&route) {
            return false;
        }
        let is_there = match lane {
            LaneKind::Data => {
                let frame = state.link(route).data.take_first();
                let frame = frame.map(|frame| state.deliver_frame(route, frame));
                frame.is_some()
            }
            LaneKind::Control => {
                let frame = state.link(route).control.take_first();
                let frame = frame.map(|frame| state.deliver_control_frame(route, frame));
                frame.is_some()
            }
        };
        state.deliver_releases(route);
        is_there
    }
}
