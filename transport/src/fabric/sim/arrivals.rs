//! Arrivals that a receiver takes out of the network, and the checks on them.

use super::LaneKind;
use super::lane::{Bytes, Packet};
use super::state::NetworkState;
use super::trace::{Event, Life, Route};
use crate::control::Control;
use crate::fabric::{FabricError, Landed, check_sender, decode_record};
use refrain_ring::{
    HeaderError, Incarnation, Position, Rank, ReadError, RecordHeader, record_bytes,
};

/// Maximum number of calls that one poll makes to its sink.
pub const POLL_CALLS_MAX: usize = 32;

/// A frame of the data lane for the sink.
pub(super) struct ArrivedFrame {
    pub(super) route: Route,
    pub(super) position: Position,
    pub(super) header: RecordHeader,
    pub(super) bytes: Bytes,
    pub(super) distant: bool,
    pub(super) pressed: bool,
}

/// One call to the sink.
pub(super) enum Arrived {
    Frame(ArrivedFrame),
    Landed(u64, Landed),
    Control(Rank, Control),
    Lost(Rank),
}

impl NetworkState {
    /// Begins a poll; returns how many calls to the sink it may make.
    pub(super) fn begin_poll(&mut self, life: Life) -> usize {
        self.port(life).woken = false;
        1 + self.random.index(POLL_CALLS_MAX)
    }

    pub(super) fn has_arrivals(&self, life: Life) -> bool {
        let port = &self.ports[&life];
        let mut losses = port.losses.iter();
        !port.landings.ended.is_empty()
            || !self.readable(life).is_empty()
            || losses.any(|(due, _)| *due <= self.now())
    }

    /// The lanes to `life` on which something has arrived.
    fn readable(&self, life: Life) -> Vec<(Route, LaneKind)> {
        let fence_off = self.options.faults.fence_off;
        let port = &self.ports[&life];
        if port.closed {
            return Vec::new();
        }
        let [first, last] = [0, u32::MAX]
            .map(|number| Route::new(Life::new(Rank(number), Incarnation(number)), life));
        let mut readable = Vec::new();
        for (route, link) in self.links.range(first..=last) {
            let connected = port.connected(route.from.rank) == Some(route.from.incarnation);
            for (kind, lane) in [
                (LaneKind::Data, &link.data),
                (LaneKind::Control, &link.control),
            ] {
                if (fence_off || connected) && !lane.arrived.is_empty() {
                    readable.push((*route, kind));
                }
            }
        }
        readable
    }

    /// Takes the next arrival for `life`, from a lane chosen at random.
    pub(super) fn take_arrival(&mut self, life: Life) -> Result<Option<Arrived>, FabricError> {
        if !self.is_alive(life) {
            return Ok(None);
        }
        if let Some(lost) = self.take_loss(life) {
            return Ok(Some(Arrived::Lost(lost)));
        }
        let readable = self.readable(life);
        // Landings are one more lane.
        let lanes = readable.len() + usize::from(!self.ports[&life].landings.ended.is_empty());
        if lanes == 0 {
            return Ok(None);
        }
        let Some((route, lane)) = readable.get(self.random.index(lanes)).copied() else {
            let ended = self.port(life).landings.ended.pop_front();
            return Ok(ended.map(|(token, how)| Arrived::Landed(token, how)));
        };
        let link = self.link(route);
        let was_full = link.lane(lane).is_full();
        let packet = link.lane(lane).arrived.pop_front().expect("readable");
        let taken = match lane {
            LaneKind::Data => self.open_frame(route, packet),
            LaneKind::Control => self.open_control(route, packet),
        };
        if taken.is_ok() {
            self.port(route.from).woken |= was_full;
            self.add_event(Event::Handed(route, lane));
        } else {
            // A lane that broke the rules is not read again; other lanes are.
            self.link(route).lane(lane).stop();
            self.add_event(Event::Stopped(route, lane));
        }
        taken.map(Some)
    }

    fn take_loss(&mut self, life: Life) -> Option<Rank> {
        let now = self.now();
        let port = self.port(life);
        let due = port.losses.iter().position(|(due, _)| *due <= now)?;
        let (_, from) = port.losses.remove(due);
        if port.closed || port.connected(from.rank) != Some(from.incarnation) {
            return None;
        }
        self.add_event(Event::NoticedLoss(Route::new(from, life)));
        Some(from.rank)
    }

    fn open_frame(&mut self, route: Route, packet: Packet) -> Result<Arrived, FabricError> {
        let source = route.from.rank;
        let log_error = |error| FabricError::of_log(source, error);
        let bytes = packet.bytes.map_err(log_error)?;
        let header = decode_record(source, &bytes)?;
        if bytes.len() != RecordHeader::BYTES + header.payload_bytes as usize {
            let short = ReadError::Header(HeaderError::Short(bytes.len()));
            return Err(log_error(short));
        }
        self.check(route, header.source, header.incarnation)?;
        let in_place = self.options.attributes.reads_in_place;
        let any_distant = self.options.distant_bytes_min.is_some();
        let window_bytes = self.options.window_bytes;
        let link = self.link(route);
        let position = packet.position.unwrap_or(Position(u64::MAX));
        let record = record_bytes(header.payload_bytes as usize) as u64;
        let end = Position(position.0.saturating_add(record));
        // A window of two chunks stalls when little more than one is pinned.
        let log_holds = in_place || any_distant && packet.position.is_some();
        let log_pressed = log_holds && link.ledger.pinned_bytes(end) * 4 > window_bytes;
        let pressed = log_pressed || !in_place && link.data.is_pressed();
        Ok(Arrived::Frame(ArrivedFrame {
            route,
            position,
            header,
            distant: self.is_distant(&bytes),
            bytes,
            pressed,
        }))
    }

    fn open_control(&mut self, route: Route, packet: Packet) -> Result<Arrived, FabricError> {
        let source_rank = route.from.rank;
        let bytes = packet.bytes.expect("no control frame is read from a log");
        let (control, source, incarnation) = Control::decode_bytes(&bytes)
            .map_err(|error| FabricError::BadControl { source_rank, error })?;
        self.check(route, source, incarnation)?;
        Ok(Arrived::Control(source_rank, control))
    }

    /// FENCE-1: a frame must name the sender of its lane.
    fn check(
        &self,
        route: Route,
        source: Rank,
        incarnation: Incarnation,
    ) -> Result<(), FabricError> {
        let connected = (route.from.rank, route.from.incarnation);
        if self.options.faults.fence_off {
            return check_sender(connected, (source, connected.1));
        }
        check_sender(connected, (source, incarnation))
    }

    /// Whether a frame is released when the receiver has let go of it, not on arrival.
    fn is_held(&self, distant: bool) -> bool {
        distant || self.options.attributes.reads_in_place
    }

    /// Notes that the sink has kept a frame.
    pub(super) fn keep(&mut self, route: Route, distant: bool) {
        if !self.is_held(distant)
            && let Some(link) = self.links.get_mut(&route)
        {
            link.data.held += 1;
        }
    }

    /// Notes that a kept frame was let go.
    pub(super) fn let_go(&mut self, route: Route, position: Position, distant: bool) {
        if self.is_held(distant) {
            self.release(route, position);
        } else if let Some(link) = self.links.get_mut(&route) {
            let was_full = link.data.is_full();
            link.data.held = link.data.held.saturating_sub(1);
            self.port(route.from).woken |= was_full;
        }
    }

    /// Notes that the sink has consumed a frame.
    pub(super) fn consume(&mut self, route: Route, position: Position, distant: bool) {
        if self.is_held(distant) {
            self.release(route, position);
        }
    }
}
